//! JSONL files that are hashed while they are written and take their final name only when they are whole.

use acb_types::Digest;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A JSONL file in the making: `NAME.partial` until [`RowFile::finish`].
pub struct RowFile {
    path: PathBuf,
    out: BufWriter<Hashed>,
    rows: u64,
}

impl RowFile {
    /// Starts `path` anew; what an interrupted run left of its partial file is discarded.
    ///
    /// # Errors
    /// When the file can't be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let partial = partial(path);
        // Whatever stands there is a leftover of ours, or a link that must not be written through.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = File::create_new(&partial)?;
        let out = BufWriter::with_capacity(1 << 16, Hashed { file, hasher: blake3::Hasher::new() });
        Ok(Self { path: path.to_path_buf(), out, rows: 0 })
    }

    /// Appends one row.
    ///
    /// # Errors
    /// When the disk is full or the file went away.
    pub fn push(&mut self, row: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, row)?;
        self.out.write_all(b"\n")?;
        self.rows += 1;
        Ok(())
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Flushes to disk, gives the file its final name, and returns the hash of its bytes.
    ///
    /// # Errors
    /// When that fails: the partial file stays partial.
    pub fn finish(self) -> io::Result<Digest> {
        let hashed = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        hashed.file.sync_all()?;
        fs::rename(partial(&self.path), &self.path)?;
        Ok(hashed.hasher.finalize().into())
    }
}

/// The name of a row file while it is written.
pub(crate) fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

struct Hashed {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let mut file = RowFile::create(&path).unwrap();
        file.push(&serde_json::json!({"a": 1})).unwrap();
        assert!(!path.exists());
        let digest = file.finish().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes, b"{\"a\":1}\n");
        assert_eq!(digest, Digest::of(&bytes));
    }
}
