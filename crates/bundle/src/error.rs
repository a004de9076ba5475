//! What can be wrong with a bundle, its key or its archive.

use std::io;
use std::path::PathBuf;

/// A fault of something that was given to us: it names the file, the place and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An entry of an archive or a folder that must not be there.
    #[error("{}: entry \"{entry}\" {what}; nothing of it was used", path.display())]
    Entry {
        /// The archive or folder.
        path: PathBuf,
        /// Name of the entry, with what can't be shown escaped.
        entry: String,
        /// What is wrong with it.
        what: String,
    },
    /// More than may be unpacked.
    #[error("{}: unpacks to more than {limit} {what}; raise the limit if you trust where it comes from", path.display())]
    TooMuch {
        /// The archive or file.
        path: PathBuf,
        /// The limit.
        limit: u64,
        /// What is limited, such as `bytes`.
        what: &'static str,
    },
    /// A file is not in its form.
    #[error("{}: {what}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place.
        what: String,
    },
}

impl BundleError {
    /// The system's fault with a file, as a function for `map_err`.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    /// A file that is not in its form.
    pub(crate) fn form(path: &std::path::Path, what: impl Into<String>) -> Self {
        Self::Form { path: path.to_path_buf(), what: what.into() }
    }
}
