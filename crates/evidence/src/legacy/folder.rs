//! Run folders of the original harness, looked into without leaving them: links are refused, not followed, and a file
//! larger than any such file is refused before it is read.

use crate::{EvidenceError, Skipped};
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The most bytes that a JSON or YAML document of a run may have.
const MAX_DOCUMENT_BYTES: u64 = 16 << 20;
/// Files of which any one makes a folder a run folder.
const FILES: [&str; 4] = ["summary.json", "requests.jsonl", "manifest.json", "status.json"];

/// A folder of a run, entered only through plain files that lie in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyFolder {
    path: PathBuf,
    name: String,
}

/// The run folders directly below `root`, or `root` itself when it is one, in order of their names; and those that
/// are refused, with the reason. Names that begin with `_` (the harness keeps its sweeps in `_sweeps`) are passed over.
///
/// # Errors
/// When `root` can't be listed, or holds no run folder.
pub fn legacy_folders(root: &Path) -> Result<(Vec<LegacyFolder>, Vec<Skipped>), EvidenceError> {
    let io = |source| EvidenceError::Io { path: root.to_path_buf(), source };
    if is_run(root) {
        let whole = root.canonicalize().map_err(io)?;
        let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((vec![LegacyFolder { path: root.to_path_buf(), name }], Vec::new()));
    }
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    let mut entries = fs::read_dir(root).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(io)?);
        if kind.is_symlink() && path.is_dir() {
            let why = "a symbolic link: only what lies in the folder itself is read; name its target instead";
            refused.push(Skipped { folder: path, why: why.to_owned() });
        } else if kind.is_dir() && is_run(&path) {
            match entry.file_name().into_string() {
                Ok(name) if name.starts_with('_') => {}
                Ok(name) => found.push(LegacyFolder { path, name }),
                Err(_) => {
                    let why = "its name is not UTF-8; rename it".to_owned();
                    refused.push(Skipped { folder: path, why });
                }
            }
        }
    }
    if found.is_empty() && refused.is_empty() {
        let message =
            format!("holds no run of the original harness (a folder with one of {})", FILES.join(", "));
        return Err(EvidenceError::Document { path: root.to_path_buf(), message });
    }
    Ok((found, refused))
}

fn is_run(folder: &Path) -> bool {
    FILES.iter().any(|file| folder.join(file).symlink_metadata().is_ok())
}

impl LegacyFolder {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name: one component of a path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of a file in it, when that is a plain file; `None` when it is not there.
    ///
    /// # Errors
    /// When it is a link, a folder or a device.
    pub(super) fn plain(&self, file: &str) -> Result<Option<PathBuf>, EvidenceError> {
        let path = self.path.join(file);
        let kind = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(EvidenceError::Io { path, source }),
        };
        let message = match (kind.is_file(), kind.is_symlink()) {
            (true, _) => return Ok(Some(path)),
            (_, true) => "is a symbolic link, which is not followed; put the file itself into the run folder",
            _ => "is not a plain file; put the harness's own file there, or take it away",
        };
        Err(EvidenceError::Document { path, message: message.to_owned() })
    }

    /// The text of a document in it; `None` when it is not there.
    ///
    /// # Errors
    /// When it is no plain file, too large, or not UTF-8.
    pub fn text(&self, file: &str) -> Result<Option<String>, EvidenceError> {
        let Some(path) = self.plain(file)? else { return Ok(None) };
        let mut text = String::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_DOCUMENT_BYTES + 1).read_to_string(&mut text));
        if let Err(source) = read {
            return Err(EvidenceError::Io { path, source });
        }
        if text.len() as u64 > MAX_DOCUMENT_BYTES {
            let message = format!(
                "is longer than {MAX_DOCUMENT_BYTES} bytes; no run of the harness writes such a file"
            );
            return Err(EvidenceError::Document { path, message });
        }
        Ok(Some(text))
    }

    /// A JSON document in it; `None` when it is not there.
    ///
    /// # Errors
    /// As [`Self::text`], and when it isn't what it should be.
    pub(super) fn json<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, EvidenceError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| EvidenceError::Document {
            path: self.path.join(file),
            message: not_json(&text, &error),
        })
    }
}

/// What a parser says, with the remedy for the numbers that Python writes and JSON doesn't have.
pub(super) fn not_json(text: &str, error: &serde_json::Error) -> String {
    let python = error.is_syntax() && ["NaN", "Infinity"].iter().any(|word| text.contains(word));
    let remedy = match python {
        true => {
            "; Python writes NaN and Infinity where a number was not computed, and JSON has neither: leave this run out"
        }
        false => "",
    };
    format!("{error}{remedy}")
}
