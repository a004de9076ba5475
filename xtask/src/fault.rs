//! A broken rule: where, what, and what to do about it.

use std::fmt;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// File, relative to the repository, with `/` between the parts.
    pub path: String,
    /// Line, from 1; 0 when the fault is of the whole file.
    pub line: usize,
    /// What is wrong and the remedy.
    pub message: String,
}

impl Fault {
    /// A fault at a line of a file.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// A fault of a whole file.
    pub fn of(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
