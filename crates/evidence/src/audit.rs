//! The log of runs held against the run folders: what was begun and is not there, and what is there and was never begun.

use crate::load::folders_in;
use crate::run_log::{LogEntry, LogEvent};
use crate::{EvidenceError, RunState, Status, read_json};
use acb_types::Digest;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Last thing that the log says of a run.
enum Last<'a> {
    Started,
    Ended(RunState, Option<&'a Digest>),
}

/// Every disagreement between a log and the run folders beside it, a sentence each. Hashes the records of every complete run.
///
/// # Errors
/// When a folder can't be read.
pub fn audit(output_dir: &Path, entries: &[LogEntry]) -> Result<Vec<String>, EvidenceError> {
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
        let finding = match said {
            Last::Started => Some("was begun and never ended: killed, or still going on".to_owned()),
            Last::Ended(RunState::Complete, digest) => of_complete(&output_dir.join(run), *digest)?,
            Last::Ended(..) => None,
        };
        findings.extend(finding.map(|what| format!("{run}: {what} (line {line} of the log)")));
    }
    for run in complete_folders(output_dir)? {
        if !last.contains_key(run.as_str()) {
            findings.push(format!("{run}: is a complete run that the log never saw begin"));
        }
    }
    Ok(findings)
}

/// What is wrong with the folder of a run that ended complete.
fn of_complete(folder: &Path, logged: Option<&Digest>) -> Result<Option<String>, EvidenceError> {
    if !folder.is_dir() {
        return Ok(Some("ended complete, and its folder is gone".to_owned()));
    }
    let status: Status = read_json(folder)?;
    if status.state != RunState::Complete {
        return Ok(Some("ended complete, and its folder says otherwise".to_owned()));
    }
    let path = folder.join("requests.jsonl");
    let hashed = File::open(&path).and_then(Digest::of_reader);
    let found = hashed.map_err(|source| EvidenceError::Io { path, source })?;
    let agrees = logged == Some(&found);
    Ok((!agrees).then(|| "its records are not those that the log has the hash of".to_owned()))
}

/// Names of the run folders that say they are complete.
fn complete_folders(output_dir: &Path) -> Result<Vec<String>, EvidenceError> {
    let complete =
        |folder: &PathBuf| read_json::<Status>(folder).is_ok_and(|status| status.state == RunState::Complete);
    let name = |folder: PathBuf| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(folders_in(output_dir)?.into_iter().filter(complete).filter_map(name).collect())
}
