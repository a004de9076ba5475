//! A folder as one file: tar (POSIX.1-1988 with GNU long names) in zstd, always the same bytes for the same files.

use crate::rows::{encoder, end_of_frame};
use crate::{BundleError, Hash, check_name, files_below};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use tar::EntryType;

/// How much may be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// Longest name of an entry, bytes.
const LONGEST_NAME: u64 = 2048;

/// Packs all files below `root` under the name of one top folder. Order, owner, mode and times are fixed.
///
/// # Errors
/// When a file can't be read or written; `to` must not exist.
pub fn pack(root: &Path, top: &str, to: &Path) -> Result<(), BundleError> {
    let io = |error| BundleError::io(to)(error);
    let out = File::create_new(to).and_then(encoder).map_err(io)?;
    let out = write_tar(root, top, out)?;
    out.finish().and_then(|file| file.sync_all()).map_err(io)
}

fn write_tar<W: Write>(root: &Path, top: &str, out: W) -> Result<W, BundleError> {
    let mut builder = tar::Builder::new(out);
    for (name, size) in files_below(root, u64::MAX)? {
        let path = root.join(&name);
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(size);
        let file = File::open(&path).map_err(BundleError::io(&path))?;
        let appended = builder.append_data(&mut header, format!("{top}/{name}"), file);
        appended.map_err(BundleError::io(&path))?;
    }
    builder.into_inner().map_err(BundleError::io(root))
}

/// Unpacks what [`pack`] wrote into the empty folder `into`, without its top folder. Only plain files with plain names are
/// taken, each once; nothing is written outside `into`, and no more than the limits allow. An archive that differs from what
/// `pack` would write of the same files by as little as a bit of padding is refused.
///
/// # Errors
/// At the first entry that is refused, when a limit is passed, or when the archive is broken.
pub fn unpack(archive: &Path, into: &Path, limits: Limits) -> Result<(), BundleError> {
    let file = File::open(archive).map_err(BundleError::io(archive))?;
    let broken = |error: io::Error| BundleError::form(archive, format!("can't be unpacked: {error}"));
    let decoder = zstd::Decoder::new(file).map_err(broken)?.single_frame();
    let tar = Measured { reader: decoder, hasher: Sha256::new() };
    let mut unpacking = Unpacking { archive, into, limits, seen: BTreeSet::new(), top: None, bytes: 0 };
    let mut tar = tar::Archive::new(tar);
    unpacking.all(&mut tar)?;
    let mut tar = tar.into_inner();
    // What follows the last entry is two empty blocks; a stream that goes on is cut off.
    io::copy(&mut (&mut tar).take(1 << 16), &mut io::sink()).map_err(broken)?;
    let found = Hash(tar.hasher.finalize().into());
    end_of_frame(tar.reader).map_err(|what| BundleError::form(archive, what))?;
    let top = unpacking.top.unwrap_or_default();
    let again = write_tar(into, &top, Measured { reader: io::empty(), hasher: Sha256::new() })?;
    match found == Hash(again.hasher.finalize().into()) {
        true => Ok(()),
        false => Err(BundleError::form(
            archive,
            "is not in the form in which it was packed (order, padding or header of an entry)",
        )),
    }
}

struct Unpacking<'a> {
    archive: &'a Path,
    into: &'a Path,
    limits: Limits,
    seen: BTreeSet<String>,
    top: Option<String>,
    bytes: u64,
}

impl Unpacking<'_> {
    fn all<R: Read>(&mut self, tar: &mut tar::Archive<R>) -> Result<(), BundleError> {
        let archive = self.archive;
        let broken = |error: io::Error| BundleError::form(archive, format!("can't be unpacked: {error}"));
        let mut long_name = None;
        for entry in tar.entries().map_err(broken)?.raw(true) {
            let mut entry = entry.map_err(broken)?;
            let size = entry.header().entry_size().map_err(broken)?;
            let plain = entry.path_bytes().into_owned();
            let kind = entry.header().entry_type();
            if kind == EntryType::GNULongName && long_name.is_none() && size <= LONGEST_NAME {
                let mut name = Vec::new();
                entry.read_to_end(&mut name).map_err(broken)?;
                name.pop_if(|last| *last == 0);
                long_name = Some(name);
                continue;
            }
            let name = long_name.take().unwrap_or(plain);
            let name = self.name(&name, kind)?;
            self.count(size)?;
            let path = self.into.join(&name);
            let folder = path.parent().unwrap_or(self.into);
            fs::create_dir_all(folder).map_err(BundleError::io(folder))?;
            let mut out = File::create_new(&path).map_err(BundleError::io(&path))?;
            let copied = io::copy(&mut entry.take(size), &mut out).map_err(broken)?;
            if copied != size {
                return Err(self.refuse(&name, "is cut off"));
            }
        }
        Ok(())
    }

    /// The name below the top folder of an entry that may be unpacked.
    fn name(&mut self, bytes: &[u8], kind: EntryType) -> Result<String, BundleError> {
        let shown = String::from_utf8_lossy(bytes);
        let what = match kind {
            EntryType::Regular => None,
            EntryType::Symlink => Some("is a symbolic link"),
            EntryType::Link => Some("is a hard link"),
            EntryType::Char | EntryType::Block | EntryType::Fifo => Some("is a device"),
            EntryType::Directory => Some("is a folder, which a bundle's archive does not list"),
            _ => Some("is of a kind that a bundle's archive does not have"),
        };
        if let Some(what) = what {
            return Err(self.refuse(&shown, what));
        }
        let Ok(whole) = std::str::from_utf8(bytes) else {
            return Err(self.refuse(&shown, "has a name that is not UTF-8"));
        };
        check_name(whole).map_err(|what| self.refuse(whole, &what))?;
        let Some((top, name)) = whole.split_once('/') else {
            return Err(self.refuse(whole, "is not below the bundle's folder"));
        };
        if self.top.get_or_insert_with(|| top.to_owned()) != top {
            return Err(self.refuse(whole, "is below another folder than the entries before"));
        }
        match self.seen.insert(name.to_owned()) {
            true => Ok(name.to_owned()),
            false => Err(self.refuse(whole, "is there twice")),
        }
    }

    fn count(&mut self, size: u64) -> Result<(), BundleError> {
        self.bytes = self.bytes.saturating_add(size);
        let over = |limit, what| BundleError::TooMuch { path: self.archive.to_path_buf(), limit, what };
        if self.bytes > self.limits.bytes {
            return Err(over(self.limits.bytes, "bytes"));
        }
        match self.seen.len() as u64 > self.limits.files {
            true => Err(over(self.limits.files, "files")),
            false => Ok(()),
        }
    }

    fn refuse(&self, entry: &str, what: &str) -> BundleError {
        let (path, entry) = (self.archive.to_path_buf(), entry.escape_debug().to_string());
        BundleError::Entry { path, entry, what: what.to_owned() }
    }
}

/// A stream whose bytes are hashed as they pass.
struct Measured<R> {
    reader: R,
    hasher: Sha256,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

impl Write for Measured<io::Empty> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
