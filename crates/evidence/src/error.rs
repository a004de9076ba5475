//! What can be wrong with a run folder.

use std::path::PathBuf;

/// A fault of a file that was given to us: it names the file, the line where there is one, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A JSON document can't be read as what it should be.
    #[error("{}: {message}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
    /// A file of a version that this program does not know.
    #[error("{}: version {found} is not known here (this program reads version {known}); use the program that wrote it or run the cell again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The version that can be read.
        known: u32,
    },
    /// A line of a JSONL file is bad.
    #[error("{}:{line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
}

/// What can be wrong with one line of `requests.jsonl` or `server.jsonl`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Longer than any row can be.
    #[error("the line is longer than {limit} bytes; this is not a row file")]
    TooLong {
        /// The most bytes that a row may have.
        limit: usize,
    },
    /// The file ends inside the line.
    #[error("the last line is cut off (no line end); the run was interrupted, run the cell again")]
    Truncated,
    /// Not UTF-8.
    #[error("not UTF-8 from byte {byte} of the line on")]
    NotUtf8 {
        /// The first bad byte, from 0.
        byte: usize,
    },
    /// Nothing on the line.
    #[error("the line is empty")]
    Empty,
    /// Not JSON, or not this row's fields.
    #[error("{message}")]
    Malformed {
        /// What the parser said.
        message: String,
    },
    /// A row of another version.
    #[error("row version {found} is not known here (this program reads version {known})")]
    Version {
        /// The version in the row.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// Two rows for one request.
    #[error("request {request} has a second row; ids are unique within a run")]
    Duplicate {
        /// The request.
        request: u64,
    },
    /// The row contradicts itself.
    #[error("{rule}")]
    Inconsistent {
        /// The rule that it breaks.
        rule: String,
    },
}
