//! The files of a folder that may come from somebody else.

use crate::{BundleError, check_name};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Most folders within folders.
const DEEPEST: usize = 16;

/// Sizes of all files below a folder in bytes, by their path from there. Links are never followed: a link, a device or
/// anything else that is neither file nor folder is refused, and so is more than `most` files.
///
/// # Errors
/// When an entry is refused or a folder can't be read.
pub fn files_below(root: &Path, most: u64) -> Result<BTreeMap<String, u64>, BundleError> {
    let mut found = BTreeMap::new();
    collect(root, "", &mut found, most)?;
    Ok(found)
}

fn collect(
    root: &Path,
    below: &str,
    found: &mut BTreeMap<String, u64>,
    most: u64,
) -> Result<(), BundleError> {
    let folder = root.join(below);
    let io = |error| BundleError::io(&folder)(error);
    for entry in fs::read_dir(&folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let refuse = |what: String| {
            let (path, entry) = (root.to_path_buf(), path.escape_debug().to_string());
            Err(BundleError::Entry { path, entry, what })
        };
        if let Err(what) = check_name(&path) {
            return refuse(what);
        }
        let metadata = entry.path().symlink_metadata().map_err(BundleError::io(&entry.path()))?;
        if metadata.is_dir() {
            if path.split('/').count() > DEEPEST {
                return refuse(format!("is a folder more than {DEEPEST} deep"));
            }
            collect(root, &path, found, most)?;
        } else if metadata.is_file() {
            found.insert(path, metadata.len());
        } else {
            return refuse(kind(&metadata).to_owned());
        }
        if found.len() as u64 > most {
            return Err(BundleError::TooMuch { path: root.to_path_buf(), limit: most, what: "files" });
        }
    }
    Ok(())
}

fn kind(metadata: &fs::Metadata) -> &'static str {
    match metadata.is_symlink() {
        true => "is a symbolic link",
        false => "is neither a file nor a folder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_order_and_no_more_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        fs::write(folder.path().join("b/c"), "12").unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let found = files_below(folder.path(), 2).unwrap();
        assert_eq!(found, BTreeMap::from([("a".to_owned(), 1), ("b/c".to_owned(), 2)]));
        let error = files_below(folder.path(), 1).unwrap_err().to_string();
        assert!(error.contains("more than 1 files"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_or_a_socket_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("out")).unwrap();
        let error = files_below(folder.path(), 9).unwrap_err().to_string();
        assert!(error.contains("entry \"out\" is a symbolic link"), "{error}");
        fs::remove_file(folder.path().join("out")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let error = files_below(folder.path(), 9).unwrap_err().to_string();
        assert!(error.contains("entry \"s\" is neither a file nor a folder"), "{error}");
    }
}
