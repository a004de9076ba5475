use super::*;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits { bytes: 1 << 20, files: 10 };

/// A folder with a plain file, a file below and one with a long name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("runs/{}", "x".repeat(150));
    for (name, text) in [("a", "one"), ("runs/b", "two"), (&long, "three")] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = files_below(root, 100).unwrap();
    files.into_keys().map(|name| (name.clone(), fs::read(root.join(name)).unwrap())).collect()
}

/// One entry by hand: kind, name as raw bytes, content.
type Raw<'a> = (EntryType, &'a [u8], &'a [u8]);

fn header(kind: EntryType, name: &[u8], size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    if matches!(kind, EntryType::Symlink | EntryType::Link) {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    header
}

/// Unpacks an archive of these entries in a folder of its own; its error, and that nothing lies outside.
fn refused(entries: &[Raw<'_>]) -> String {
    let outer = tempfile::tempdir().unwrap();
    let archive = outer.path().join("x.tar.zst");
    let mut builder = tar::Builder::new(encoder(File::create(&archive).unwrap()).unwrap());
    for (kind, name, content) in entries {
        builder.append(&header(*kind, name, content.len() as u64), *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap();
    let into = outer.path().join("in");
    fs::create_dir(&into).unwrap();
    let error = unpack(&archive, &into, LIMITS).unwrap_err().to_string();
    let mut beside: Vec<_> =
        fs::read_dir(outer.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["in", "x.tar.zst"], "{error}");
    error
}

#[test]
fn a_folder_comes_back_whole_and_packs_to_the_same_bytes() {
    let (source, work) = (folder(), tempfile::tempdir().unwrap());
    let at = |name: &str| work.path().join(name);
    pack(source.path(), "small", &at("one")).unwrap();
    pack(source.path(), "small", &at("two")).unwrap();
    assert_eq!(fs::read(at("one")).unwrap(), fs::read(at("two")).unwrap());
    fs::create_dir(at("in")).unwrap();
    unpack(&at("one"), &at("in"), LIMITS).unwrap();
    assert_eq!(contents(&at("in")), contents(source.path()));
    assert!(pack(source.path(), "small", &at("one")).is_err(), "an archive is never overwritten");
}

#[test]
fn hostile_entries_are_refused_by_name() {
    let file = EntryType::Regular;
    let cases: [(&[Raw<'_>], &str); 12] = [
        (&[(file, b"t/../../out", b"x")], "\"t/../../out\" leads out of its folder"),
        (&[(file, b"/t/x", b"x")], "\"/t/x\" has an absolute path"),
        (&[(file, b"../x", b"x")], "leads out of its folder"),
        (&[(file, b"t\\x", b"x")], "a backslash"),
        (&[(file, b"t/\xff", b"x")], "not UTF-8"),
        (&[(file, b"x", b"x")], "not below the bundle's folder"),
        (&[(file, b"t/x", b"x"), (file, b"u/x", b"x")], "below another folder"),
        (&[(file, b"t/x", b"x"), (file, b"t/x", b"y")], "\"t/x\" is there twice"),
        (&[(EntryType::Symlink, b"t/x", b"")], "\"t/x\" is a symbolic link"),
        (&[(EntryType::Link, b"t/x", b"")], "\"t/x\" is a hard link"),
        (&[(EntryType::Char, b"t/x", b"")], "\"t/x\" is a device"),
        (&[(EntryType::XHeader, b"t/x", b"12 path=../y\n")], "of a kind"),
    ];
    for (entries, words) in cases {
        let error = refused(entries);
        assert!(error.contains(words), "{error} does not say {words}");
    }
    let long = [(EntryType::GNULongName, &b"././@LongLink"[..], &b"t/../../out\0"[..]), (file, b"t/x", b"x")];
    assert!(refused(&long).contains("leads out of its folder"));
}

#[test]
fn a_file_below_a_file_is_an_error_and_not_a_panic() {
    let error = refused(&[(EntryType::Regular, b"t/x", b"x"), (EntryType::Regular, b"t/x/y", b"x")]);
    assert!(error.contains("in/x"), "{error}");
}

#[test]
fn more_than_the_limits_is_never_written() {
    let big = vec![0; 1 << 20];
    let entries = [(EntryType::Regular, &b"t/a"[..], &big[..]), (EntryType::Regular, b"t/b", b"x")];
    assert!(refused(&entries).contains("more than 1048576 bytes"));
    let names: Vec<String> = (0..11).map(|n| format!("t/{n}")).collect();
    let many: Vec<Raw<'_>> =
        names.iter().map(|name| (EntryType::Regular, name.as_bytes(), &b""[..])).collect();
    assert!(refused(&many).contains("more than 10 files"));
}

#[test]
fn no_changed_byte_of_an_archive_goes_unnoticed() {
    let (source, work) = (folder(), tempfile::tempdir().unwrap());
    let at = |name: &str| work.path().join(name);
    pack(source.path(), "t", &at("one")).unwrap();
    let (packed, whole) = (fs::read(at("one")).unwrap(), contents(source.path()));
    for place in 0..packed.len() {
        let mut bytes = packed.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(at("bad"), bytes).unwrap();
        let _ = fs::remove_dir_all(at("in"));
        fs::create_dir(at("in")).unwrap();
        // A frame may say the same in another way: then what comes out is the same.
        if unpack(&at("bad"), &at("in"), LIMITS).is_ok() {
            assert_eq!(contents(&at("in")), whole, "byte {place}");
        }
    }
}

#[test]
fn a_header_that_says_the_same_in_another_way_is_refused() {
    let file = (EntryType::Regular, &b"t/b"[..], &b"x"[..]);
    assert!(
        refused(&[file, (EntryType::Regular, b"t/a", b"x")]).contains("not in the form"),
        "another order"
    );
}
