//! Files that are either whole or not there.

use crate::EvidenceError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path` so that a reader, or a crash at any moment, sees the old file or the new one and never
/// a part: a temporary file in the same folder, flushed to disk, then renamed over the target.
///
/// One writer per path at a time: the temporary name (`.NAME.partial`) depends on the path alone.
///
/// # Errors
/// When the folder is missing or not writable, or the disk is full; the old file is then untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), EvidenceError> {
    let partial = partial_path(path);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    });
    if let Err(source) = written {
        // The partial file is of no use to anyone; that it can't be removed changes nothing about the fault.
        let _ = fs::remove_file(&partial);
        return Err(EvidenceError::Io { path: path.to_path_buf(), source });
    }
    sync_folder(path)
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

/// A rename is durable once its folder is flushed. Only Unix can open a folder to flush it.
fn sync_folder(path: &Path) -> Result<(), EvidenceError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if cfg!(unix) {
        let flushed = File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(|source| EvidenceError::Io { path: folder.to_path_buf(), source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_partial_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("status.json");
        let error = write_atomically(&path, b"x").unwrap_err().to_string();
        assert!(error.contains("status.json"), "{error}");
        // A target that is a folder can't be renamed over: it stays, and so does everything in it.
        let target = folder.path().join("taken");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("inside"), b"kept").unwrap();
        write_atomically(&target, b"x").unwrap_err();
        assert_eq!(fs::read(target.join("inside")).unwrap(), b"kept");
        assert!(!folder.path().join(".taken.partial").exists());
    }
}
