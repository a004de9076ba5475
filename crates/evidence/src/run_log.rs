//! The log of started runs: every run that was ever begun in an output folder, in a hash chain, so that one that was
//! thrown away shows.
//!
//! One line per event, JSON. Each carries the hash of the line before, and its own hash over everything else in it. Several
//! programs may write one log: each appends under the file's lock. A line that a killed writer left unfinished is named
//! and never repaired in silence: [`RunLog::mend`] sets it aside and says so in the chain.

use crate::files::RunState;
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Version of a line.
const VERSION: u32 = 1;
/// Longest line that an event can make, bytes: far above what names and messages hold.
const LONGEST: u64 = 64 * 1024;
/// What stands between the hashed part of a line and its hash.
const SEAM: &str = ",\"hash\":\"";

/// What can be wrong with a log.
#[derive(Debug, thiserror::Error)]
pub enum RunLogError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends inside a line.
    #[error(
        "{}: the last {bytes} bytes are an unfinished line: a writer was stopped in the middle; `acb log mend` sets them aside and notes it in the log",
        path.display()
    )]
    Torn {
        /// The log.
        path: PathBuf,
        /// Length of the unfinished line.
        bytes: u64,
    },
    /// A line was changed, moved, removed or put in.
    #[error("{}:{line}: {what}; the log was edited, and what follows proves nothing", path.display())]
    Broken {
        /// The log.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What does not agree.
        what: String,
    },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LogEvent {
    /// A preregistration was locked.
    Locked {
        /// Name of the experiment.
        experiment: String,
        /// SHA-256 of its canonical text, hex.
        preregistration: String,
    },
    /// A run was begun.
    Started {
        /// The run.
        run_id: String,
        /// Hash of the resolved experiment.
        experiment_digest: Digest,
        /// Hash of the resolved cell.
        cell_digest: Digest,
        /// SHA-256 of the preregistration that it was run under; null when there was none.
        preregistration: Option<String>,
    },
    /// A run ended.
    Ended {
        /// The run.
        run_id: String,
        /// How.
        state: RunState,
        /// Hash of its records, when it is complete.
        record_digest: Option<Digest>,
        /// Why it failed.
        message: Option<String>,
    },
    /// An unfinished line was set aside.
    Mended {
        /// Its length, bytes.
        bytes: u64,
        /// Its hash.
        dropped: Digest,
    },
}

/// What a line's hash covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// Version of this line.
    pub v: u32,
    /// Number of the line, from 1.
    pub n: u64,
    /// Hash of the line before; of no bytes for the first.
    pub previous: Digest,
    /// When, ms since 1970, by the clock of the machine that wrote it. It proves an order and no date.
    pub unix_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: LogEvent,
}

/// A log file: `run_log.jsonl` in an output folder.
#[derive(Clone, Debug)]
pub struct RunLog {
    path: PathBuf,
}

impl RunLog {
    /// Name of the file.
    pub const FILE: &'static str = "run_log.jsonl";

    /// The log of an output folder, whether it exists or not.
    #[must_use]
    pub fn of(output_dir: &Path) -> Self {
        Self { path: output_dir.join(Self::FILE) }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an event and returns the line's hash. Other writers wait meanwhile. On return it is on the disk.
    ///
    /// # Errors
    /// When the file can't be written, or its last line is unfinished or does not agree with its own hash.
    pub fn append(&self, unix_ms: u64, event: LogEvent) -> Result<Digest, RunLogError> {
        let mut file = self.open()?;
        let (n, previous) = self.last(&mut file)?;
        let line = line_of(&LogEntry { v: VERSION, n: n + 1, previous, unix_ms, event });
        let end = file.seek(SeekFrom::End(0)).map_err(|e| self.io(e))?;
        let written = file.write_all(line.text.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // A full disk may have taken a part of the line: it was never written, and is no event.
            let _ = file.set_len(end);
            return Err(self.io(error));
        }
        Ok(line.hash)
    }

    /// Every line from the first to the last, each checked against the one before.
    ///
    /// # Errors
    /// At the first line that does not agree, or when the file can't be read. No file is an empty log.
    pub fn read(&self) -> Result<Vec<LogEntry>, RunLogError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io(error)),
        };
        let (mut entries, mut previous) = (Vec::new(), beginning());
        let mut reader = BufReader::new(file);
        loop {
            let mut line = Vec::new();
            let read = (&mut reader).take(LONGEST).read_until(b'\n', &mut line).map_err(|e| self.io(e))?;
            if read == 0 {
                return Ok(entries);
            }
            let n = entries.len() as u64 + 1;
            if read as u64 == LONGEST {
                return Err(self.broken(n, format!("the line is longer than {LONGEST} bytes")));
            }
            let (entry, hash) = self.parse(n, &line)?;
            if (entry.n, &entry.previous) != (n, &previous) {
                return Err(self.broken(n, "it does not follow from the line before"));
            }
            previous = hash;
            entries.push(entry);
        }
    }

    /// Sets an unfinished last line aside and says so in the log. Returns its length; `None` when there was none.
    ///
    /// # Errors
    /// When the file can't be written, or is broken elsewhere.
    pub fn mend(&self, unix_ms: u64) -> Result<Option<u64>, RunLogError> {
        let mut file = self.open()?;
        let torn = match self.last(&mut file) {
            Ok(_) => return Ok(None),
            Err(RunLogError::Torn { bytes, .. }) => bytes,
            Err(error) => return Err(error),
        };
        let mut dropped = Vec::new();
        let end = file.seek(SeekFrom::End(0)).map_err(|e| self.io(e))?;
        file.seek(SeekFrom::Start(end - torn)).map_err(|e| self.io(e))?;
        file.read_to_end(&mut dropped).map_err(|e| self.io(e))?;
        file.set_len(end - torn).map_err(|e| self.io(e))?;
        drop(file);
        self.append(unix_ms, LogEvent::Mended { bytes: torn, dropped: Digest::of(&dropped) })?;
        Ok(Some(torn))
    }

    fn broken(&self, line: u64, what: impl Into<String>) -> RunLogError {
        RunLogError::Broken { path: self.path.clone(), line, what: what.into() }
    }

    fn io(&self, source: io::Error) -> RunLogError {
        RunLogError::Io { path: self.path.clone(), source }
    }

    /// The file, under its lock, which is given back when it is closed.
    fn open(&self) -> Result<File, RunLogError> {
        let opened = OpenOptions::new().create(true).read(true).append(true).open(&self.path);
        opened.and_then(|file| file.lock().map(|()| file)).map_err(|e| self.io(e))
    }

    /// Number and hash of the last line.
    fn last(&self, file: &mut File) -> Result<(u64, Digest), RunLogError> {
        let end = file.seek(SeekFrom::End(0)).map_err(|e| self.io(e))?;
        if end == 0 {
            return Ok((0, beginning()));
        }
        file.seek(SeekFrom::Start(end.saturating_sub(LONGEST))).map_err(|e| self.io(e))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).map_err(|e| self.io(e))?;
        let whole = tail.strip_suffix(b"\n").unwrap_or(&tail);
        let begins = whole.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (entry, hash) = self.parse(0, &tail[begins..])?;
        Ok((entry.n, hash))
    }

    /// A line that agrees with its own hash. `n` is its number, 0 for the last one.
    fn parse(&self, n: u64, line: &[u8]) -> Result<(LogEntry, Digest), RunLogError> {
        let broken = |what: &str| self.broken(n, what);
        let Some(text) = line.strip_suffix(b"\n") else {
            return Err(RunLogError::Torn { path: self.path.clone(), bytes: line.len() as u64 });
        };
        let text = std::str::from_utf8(text).map_err(|_| broken("the line is not UTF-8"))?;
        let seam = text.rfind(SEAM).ok_or_else(|| broken("the line has no hash"))?;
        let (body, hash) = (format!("{}}}", &text[..seam]), &text[seam + SEAM.len()..]);
        let told = hash.strip_suffix("\"}").unwrap_or(hash);
        if Digest::of(body.as_bytes()).as_str() != told {
            return Err(broken("the line does not agree with its hash"));
        }
        let entry: LogEntry =
            serde_json::from_str(&body).map_err(|error| broken(&format!("the line is no event: {error}")))?;
        if entry.v != VERSION {
            return Err(broken(&format!("version {} of a line is not known here", entry.v)));
        }
        Ok((entry, Digest::of(body.as_bytes())))
    }
}

/// What the first line follows.
fn beginning() -> Digest {
    Digest::of(b"")
}

struct Line {
    text: String,
    hash: Digest,
}

/// The hash is put into the text of the rest as its last field, so that it covers exactly the bytes before it.
fn line_of(entry: &LogEntry) -> Line {
    let body = serde_json::to_string(entry).expect("an entry has only text keys");
    let hash = Digest::of(body.as_bytes());
    let open = body.strip_suffix('}').expect("an entry is a map");
    Line { text: format!("{open}{SEAM}{hash}\"}}\n"), hash }
}

/// What a log says about its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCounts {
    /// Runs begun, repeats included.
    pub started: u64,
    /// Of these, how many ended complete.
    pub complete: u64,
    /// How many failed.
    pub failed: u64,
    /// How many the user stopped.
    pub interrupted: u64,
    /// Begun, and neither ended nor begun again: killed, or still going on.
    pub never_ended: u64,
}

/// Counts the runs of a log.
#[must_use]
pub fn run_counts(entries: &[LogEntry]) -> RunCounts {
    let mut counts = RunCounts::default();
    for entry in entries {
        match &entry.event {
            LogEvent::Started { .. } => counts.started += 1,
            LogEvent::Ended { state, .. } => match state {
                RunState::Complete => counts.complete += 1,
                RunState::Failed => counts.failed += 1,
                _ => counts.interrupted += 1,
            },
            LogEvent::Locked { .. } | LogEvent::Mended { .. } => {}
        }
    }
    counts.never_ended = counts.started.saturating_sub(counts.complete + counts.failed + counts.interrupted);
    counts
}

#[cfg(test)]
#[path = "run_log_tests.rs"]
mod tests;
