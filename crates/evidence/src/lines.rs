//! Lines of a JSONL file: read in blocks, given one at a time without a copy, none longer than a limit, every fault with
//! its place; hashed on the way where that is asked for.

use crate::error::{EvidenceError, LineFault};
use acb_types::Digest;
use memchr::memchr;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes that a row may have.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Bytes that are asked for at once.
const BLOCK_BYTES: usize = 1 << 18;

/// Lines of a file through one reused buffer.
pub struct Lines {
    path: PathBuf,
    file: File,
    hasher: Option<Box<blake3::Hasher>>,
    buffer: Vec<u8>,
    /// What of the buffer is read and not yet given out.
    unread: Range<usize>,
    line: Range<usize>,
    number: u64,
    ended: bool,
}

impl Lines {
    /// Opens a file.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(path: &Path) -> Result<Self, EvidenceError> {
        Self::with(path, None)
    }

    /// The same, of which [`Self::digest`] gives the hash.
    pub(crate) fn hashed(path: &Path) -> Result<Self, EvidenceError> {
        Self::with(path, Some(Box::new(blake3::Hasher::new())))
    }

    fn with(path: &Path, hasher: Option<Box<blake3::Hasher>>) -> Result<Self, EvidenceError> {
        let path = path.to_path_buf();
        let buffer = vec![0; BLOCK_BYTES];
        match File::open(&path) {
            Ok(file) => {
                Ok(Self { path, file, hasher, buffer, unread: 0..0, line: 0..0, number: 0, ended: false })
            }
            Err(source) => Err(EvidenceError::Io { path, source }),
        }
    }

    /// Goes to the next line; false at the end of the file.
    ///
    /// # Errors
    /// When the file can't be read, or the line is too long or has no end.
    pub fn advance(&mut self) -> Result<bool, EvidenceError> {
        // How much of what is unread has no line end.
        let mut searched = 0;
        loop {
            let found = memchr(b'\n', &self.buffer[self.unread.start + searched..self.unread.end]);
            if let Some(at) = found {
                return self.take(searched + at);
            }
            searched = self.unread.len();
            if searched > MAX_LINE_BYTES || (self.ended && searched > 0) {
                self.number += 1;
                let too_long = searched > MAX_LINE_BYTES;
                return Err(self.fault(if too_long { TOO_LONG } else { LineFault::Truncated }));
            }
            if self.ended {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    /// Makes the next `length` bytes the line.
    fn take(&mut self, length: usize) -> Result<bool, EvidenceError> {
        self.number += 1;
        let start = self.unread.start;
        self.unread.start += length + 1;
        if length > MAX_LINE_BYTES {
            return Err(self.fault(TOO_LONG));
        }
        let end = start + length;
        let has_return = length > 0 && self.buffer[end - 1] == b'\r';
        self.line = start..end - usize::from(has_return);
        Ok(true)
    }

    /// Reads more behind what is unread.
    fn fill(&mut self) -> Result<(), EvidenceError> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.buffer.len() < self.unread.end + BLOCK_BYTES {
            self.buffer.resize(self.unread.end + BLOCK_BYTES, 0);
        }
        let free = self.unread.end..self.unread.end + BLOCK_BYTES;
        let count = loop {
            match self.file.read(&mut self.buffer[free.clone()]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(EvidenceError::Io { path: self.path.clone(), source }),
                Ok(count) => break count,
            }
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.buffer[free.start..free.start + count]);
        }
        self.unread.end += count;
        self.ended = count == 0;
        Ok(())
    }

    /// The number of the line last read, from 1; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The line last read, without its end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// The error that names the line last read.
    #[must_use]
    pub fn fault(&self, fault: LineFault) -> EvidenceError {
        EvidenceError::Line { path: self.path.clone(), line: self.number, fault }
    }

    /// The hash of the whole file, also of what was not given out; `None` when it is not hashed.
    pub(crate) fn digest(mut self) -> Result<Option<Digest>, EvidenceError> {
        let Some(mut hasher) = self.hasher.take() else { return Ok(None) };
        match hasher.update_reader(&mut self.file) {
            Ok(hasher) => Ok(Some(hasher.finalize().into())),
            Err(source) => Err(EvidenceError::Io { path: self.path, source }),
        }
    }
}

const TOO_LONG: LineFault = LineFault::TooLong { limit: MAX_LINE_BYTES };

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of these bytes, and how it ended.
    fn lines(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let (mut lines, mut found) = (Lines::hashed(&path).unwrap(), Vec::new());
        let fault = loop {
            match lines.advance() {
                Ok(true) => found.push(lines.bytes().to_vec()),
                Ok(false) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        assert_eq!(lines.digest().unwrap(), Some(Digest::of(bytes)), "the hash is of the whole file");
        (found, fault)
    }

    #[test]
    fn lines_that_lie_across_blocks_are_whole() {
        let words: Vec<Vec<u8>> = (0..9).map(|n| vec![b'a' + n; BLOCK_BYTES / 3 + usize::from(n)]).collect();
        let bytes = words.join(&b'\n');
        assert_eq!(lines(&[&bytes[..], b"\n"].concat()), (words.clone(), None));
        let (found, fault) = lines(&bytes);
        assert_eq!(found, words[..8]);
        assert!(fault.unwrap().contains("rows.jsonl:9: the last line is cut off"));
    }

    #[test]
    fn the_longest_line_is_taken_and_one_byte_more_is_not() {
        let line = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
        assert_eq!(lines(&line(MAX_LINE_BYTES)).0.len(), 1);
        let (found, fault) = lines(&line(MAX_LINE_BYTES + 1));
        assert!(found.is_empty() && fault.unwrap().contains("longer than"), "one byte too many");
        assert!(
            lines(&vec![b'x'; 3 * MAX_LINE_BYTES]).1.unwrap().contains("rows.jsonl:1: the line is longer")
        );
        assert_eq!(lines(b"\r\n\n").0, [b"", b""]);
    }
}
