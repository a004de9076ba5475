//! Lines of a file, bounded in length, with their numbers.

use crate::WorkloadError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes of the longest line that is read: far above any real row, far below what would hurt.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Reads a file line by line: without line ends (LF or CRLF), without a byte order mark, blank lines passed over.
pub(crate) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    buffer: Vec<u8>,
    line: u64,
}

impl Lines {
    pub fn open(path: &Path) -> Result<Self, WorkloadError> {
        let opened = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(std::io::Error::other("is a folder, not a file")),
            false => Ok(file),
        });
        let file = opened.map_err(|source| WorkloadError::Read { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), buffer: Vec::new(), line: 0 })
    }

    /// The next line that is not blank, and its number.
    pub fn next(&mut self) -> Result<Option<(u64, &str)>, WorkloadError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let mut bounded = (&mut self.file).take(MAX_LINE_BYTES);
            let read = bounded.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|source| WorkloadError::Read { path: self.path.clone(), source })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == MAX_LINE_BYTES && self.buffer.last() != Some(&b'\n') {
                return Err(self.fault(format!(
                    "the line is longer than {} MiB; is this the right file?",
                    MAX_LINE_BYTES >> 20
                )));
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.line;
        let start = if line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        match std::str::from_utf8(&self.buffer[start..]) {
            Ok(text) => Ok(Some((line, text.trim_end_matches(['\n', '\r'])))),
            Err(error) => Err(self.fault(format!(
                "is not UTF-8 from byte {} of the line; convert the file to UTF-8",
                error.valid_up_to() + 1
            ))),
        }
    }

    /// An error about the current line.
    pub fn fault(&self, message: String) -> WorkloadError {
        WorkloadError::Line { path: self.path.clone(), line: self.line, message }
    }

    /// An error about a line.
    pub fn fault_at(&self, line: u64, message: String) -> WorkloadError {
        WorkloadError::Line { path: self.path.clone(), line, message }
    }
}
