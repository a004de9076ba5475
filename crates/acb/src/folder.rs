//! One run folder: its life from `planned` to `complete`, so that nothing half-written is ever taken for whole.
//!
//! Row files carry `.partial` until the end; `status.json` says `complete` last of all. A killed run leaves `running`
//! with an old heartbeat.

use crate::clock::unix_ms;
use crate::rows::{RowFile, partial};
use acb_evidence::{EvidenceError, Manifest, RunState, Status, Summary, Versioned, read_json, write_json};
use acb_types::Digest;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Row files of a run folder.
const ROW_FILES: [&str; 5] =
    ["requests.jsonl", "routing.jsonl", "server.jsonl", "observations.jsonl", "scrapes.jsonl"];
/// Written at the end of a run on servers.
const CHECK: &str = "client_check.json";

/// What can be wrong with a run folder that is about to be written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder holds a run of something else.
    #[error(
        "{}: holds a run of another configuration (cell {found}, this plan has {planned}); choose another --sweep-name or --output-dir, or move the folder away",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The cell digest in its manifest.
        found: String,
        /// The cell digest planned.
        planned: String,
    },
    /// The folder holds files but no manifest.
    #[error("{}: is not empty and holds no run; choose another --output-dir, or move the folder away", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds this cell already.
    #[error("{}: this run has been started before; --resume skips what is complete and runs the rest, another --sweep-name starts anew, `acb report` shows what is there", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The records of a complete run are not what they were.
    #[error("{}: {file} is not as the run left it; move the folder away, then --resume runs the cell again", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// A document of the folder is not what it should be.
    #[error("{0}; choose another --sweep-name or --output-dir, or move the folder away")]
    Document(EvidenceError),
    /// A file or folder can't be read or written.
    #[error("{}: {source}; make room there or choose another --output-dir, then --resume", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<EvidenceError> for FolderError {
    fn from(error: EvidenceError) -> Self {
        match error {
            EvidenceError::Io { path, source } => Self::Io { path, source },
            other => Self::Document(other),
        }
    }
}

/// What a planned folder holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or a started run of the same cell that is not complete.
    ToDo {
        /// Whether an attempt was made before.
        started: bool,
    },
    /// The complete run of the same cell.
    Complete,
}

/// Looks at a run folder without touching it.
///
/// # Errors
/// When it holds something that is not this cell.
pub fn inspect(folder: &Path, cell: &Digest) -> Result<Found, FolderError> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::ToDo { started: false }),
        Err(source) => return Err(FolderError::Io { path: folder.to_path_buf(), source }),
        Ok(true) => return Ok(Found::ToDo { started: false }),
        Ok(false) => {}
    }
    let manifest: Manifest = match read_json(folder) {
        Ok(manifest) => manifest,
        Err(EvidenceError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return match only_leftovers(folder)? {
                true => Ok(Found::ToDo { started: true }),
                false => Err(FolderError::NotARun { path: folder.to_path_buf() }),
            };
        }
        Err(error) => return Err(error.into()),
    };
    if &manifest.cell_digest != cell {
        let (found, planned) = (manifest.cell_digest.short().to_owned(), cell.short().to_owned());
        return Err(FolderError::Foreign { path: folder.to_path_buf(), found, planned });
    }
    match read_json::<Status>(folder) {
        Ok(status) if status.state == RunState::Complete => whole(folder, &status),
        _ => Ok(Found::ToDo { started: true }),
    }
}

/// A run that calls itself complete has the records that it wrote.
fn whole(folder: &Path, status: &Status) -> Result<Found, FolderError> {
    let hash = fs::File::open(folder.join("requests.jsonl")).and_then(Digest::of_reader);
    let damaged = |file| Err(FolderError::Damaged { path: folder.to_path_buf(), file });
    if hash.ok() != status.record_digest {
        return damaged("requests.jsonl");
    }
    if read_json::<Summary>(folder).is_err() {
        return damaged("summary.json");
    }
    match ["server.jsonl", "config_resolved.yaml"].into_iter().find(|file| !folder.join(file).is_file()) {
        Some(file) => damaged(file),
        None => Ok(Found::Complete),
    }
}

/// Whether a folder holds nothing but temporary files of a run that was killed before it had a manifest.
fn only_leftovers(folder: &Path) -> Result<bool, FolderError> {
    let io = |source| FolderError::Io { path: folder.to_path_buf(), source };
    let mut only = true;
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        only &= name.to_string_lossy().ends_with(".partial") || name == "config_resolved.yaml";
    }
    Ok(only)
}

/// A run folder that is being written.
pub struct RunFolder {
    path: PathBuf,
    status: Status,
}

impl RunFolder {
    /// Makes the folder (or takes over an unfinished one of the same cell) and writes what is known before the start.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn start(
        path: &Path,
        manifest: &Manifest,
        config: &str,
        planned_requests: u64,
    ) -> Result<Self, FolderError> {
        let io = |source| FolderError::Io { path: path.to_path_buf(), source };
        fs::create_dir_all(path).map_err(io)?;
        for stale in ROW_FILES.into_iter().chain([Summary::FILE, Status::FILE, CHECK]) {
            match fs::remove_file(path.join(stale)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
                _ => {}
            }
        }
        acb_evidence::write_atomically(&path.join("config_resolved.yaml"), config.as_bytes())?;
        write_json(path, manifest)?;
        let mut status = Status::planned(&manifest.run_id, planned_requests, unix_ms());
        status.started_unix_ms = Some(unix_ms());
        status.state = RunState::Running;
        status.preregistration =
            manifest.preregistration.as_ref().map(|registered| registered.sha256.clone());
        write_json(path, &status)?;
        Ok(Self { path: path.to_path_buf(), status })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a row file of the folder.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn rows(&self, name: &str) -> Result<RowFile, FolderError> {
        let path = self.path.join(name);
        RowFile::create(&path).map_err(|source| FolderError::Io { path, source })
    }

    /// Tells that the writer is alive, at most once a second.
    ///
    /// # Errors
    /// When the status can't be written.
    pub fn heartbeat(&mut self, recorded: u64) -> Result<(), FolderError> {
        let now = unix_ms();
        if now.saturating_sub(self.status.heartbeat_unix_ms) >= 1000 {
            self.status.heartbeat_unix_ms = now;
            self.status.recorded_requests = recorded;
            write_json(&self.path, &self.status)?;
        }
        Ok(())
    }

    /// The run is whole: every row file has its final name and the summary is written.
    ///
    /// # Errors
    /// When the status can't be written.
    pub fn complete(mut self, recorded: u64, digest: Digest) -> Result<(), FolderError> {
        self.status.record_digest = Some(digest);
        self.end(RunState::Complete, recorded, None)
    }

    /// The run ended early. Its partial rows are removed: they are of no use to anyone, and on a full disk the status
    /// needs their room.
    ///
    /// # Errors
    /// When the status can't be written.
    pub fn stop(mut self, state: RunState, recorded: u64, message: String) -> Result<(), FolderError> {
        for name in ROW_FILES {
            // What is not there, or can't be removed, changes nothing about how the run ended.
            let _ = fs::remove_file(partial(&self.path.join(name)));
        }
        self.end(state, recorded, Some(message))
    }

    /// The run ended early and its rows are whole files: what servers answered is kept.
    ///
    /// # Errors
    /// When the status can't be written.
    pub fn keep(mut self, state: RunState, recorded: u64, message: String) -> Result<(), FolderError> {
        self.end(state, recorded, Some(message))
    }

    fn end(&mut self, state: RunState, recorded: u64, message: Option<String>) -> Result<(), FolderError> {
        self.status.state = state;
        self.status.recorded_requests = recorded;
        self.status.heartbeat_unix_ms = unix_ms();
        self.status.message = message;
        Ok(write_json(&self.path, &self.status)?)
    }
}
