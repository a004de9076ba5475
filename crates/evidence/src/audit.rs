//! The log of runs held against the run folders: what was begun and is not there, and what is there and was never begun.

use crate::load::folders_in;
use crate::run_log::{LogEntry, LogEvent};
use crate::{EvidenceError, RunState, Status, read_json};
use acb_types::Digest;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Last thing that the log says of a run.
enum Last<'a> {
    Started,
    Ended(RunState, Option<&'a Digest>),
}

/// A disagreement between a log and the run folders beside it; its text is a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The run.
    pub run: String,
    /// Line of the log that says otherwise; `None` when no line speaks of the run.
    pub line: Option<u64>,
    /// What disagrees.
    pub kind: DisagreementKind,
}

/// What can disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisagreementKind {
    /// Begun, and neither ended nor begun again.
    NeverEnded,
    /// Ended complete, and there is no folder.
    Gone,
    /// Ended complete, and the status in the folder is another.
    OtherStatus,
    /// The records have another hash than the log has.
    OtherRecords,
    /// A complete folder of which the log has no line.
    NeverBegun,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DisagreementKind::NeverEnded => "was begun and never ended: killed, or still going on",
            DisagreementKind::Gone => "ended complete, and its folder is gone",
            DisagreementKind::OtherStatus => "ended complete, and its folder says otherwise",
            DisagreementKind::OtherRecords => "its records are not those that the log has the hash of",
            DisagreementKind::NeverBegun => "is a complete run that the log never saw begin",
        };
        write!(f, "{}: {what}", self.run)?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line} of the log)"))
    }
}

/// Every disagreement between a log and the run folders beside it. Hashes the records of every complete run.
///
/// # Errors
/// When a folder can't be read.
pub fn audit(output_dir: &Path, entries: &[LogEntry]) -> Result<Vec<Disagreement>, EvidenceError> {
    let mut last: BTreeMap<&str, (u64, Last<'_>)> = BTreeMap::new();
    for entry in entries {
        match &entry.event {
            LogEvent::Started { run_id, .. } => last.insert(run_id, (entry.n, Last::Started)),
            LogEvent::Ended { run_id, state, record_digest, .. } => {
                last.insert(run_id, (entry.n, Last::Ended(*state, record_digest.as_ref())))
            }
            LogEvent::Locked { .. } | LogEvent::Mended { .. } => None,
        };
    }
    let mut findings = Vec::new();
    for (run, (line, said)) in &last {
        let kind = match said {
            Last::Started => Some(DisagreementKind::NeverEnded),
            Last::Ended(RunState::Complete, digest) => of_complete(&output_dir.join(run), *digest)?,
            Last::Ended(..) => None,
        };
        let run = (*run).to_owned();
        findings.extend(kind.map(|kind| Disagreement { run, line: Some(*line), kind }));
    }
    for run in complete_folders(output_dir)? {
        if !last.contains_key(run.as_str()) {
            findings.push(Disagreement { run, line: None, kind: DisagreementKind::NeverBegun });
        }
    }
    Ok(findings)
}

/// What is wrong with the folder of a run that ended complete.
fn of_complete(folder: &Path, logged: Option<&Digest>) -> Result<Option<DisagreementKind>, EvidenceError> {
    if !folder.is_dir() {
        return Ok(Some(DisagreementKind::Gone));
    }
    let status: Status = read_json(folder)?;
    if status.state != RunState::Complete {
        return Ok(Some(DisagreementKind::OtherStatus));
    }
    let path = folder.join("requests.jsonl");
    let hashed = File::open(&path).and_then(Digest::of_reader);
    let found = hashed.map_err(|source| EvidenceError::Io { path, source })?;
    let agrees = logged == Some(&found);
    Ok((!agrees).then_some(DisagreementKind::OtherRecords))
}

/// Names of the run folders that say they are complete.
fn complete_folders(output_dir: &Path) -> Result<Vec<String>, EvidenceError> {
    let complete =
        |folder: &PathBuf| read_json::<Status>(folder).is_ok_and(|status| status.state == RunState::Complete);
    let name = |folder: PathBuf| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(folders_in(output_dir)?.into_iter().filter(complete).filter_map(name).collect())
}
