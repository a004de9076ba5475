//! Checks of the log of runs: the chain, the runs that it speaks of, and locks before data.

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::layout::{RESULTS, is_lock};
use acb_bundle::{Hash, check_name};
use acb_evidence::{
    DisagreementKind, LogEntry, LogEvent, Manifest, RunLog, RunLogError, Versioned, audit, read_json,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const LOG: &str = "results/run_log.jsonl";

/// The log, when its chain holds and it speaks of runs by plain names.
///
/// # Errors
/// With the first line that does not hold.
pub fn chain(evidence: &Evidence) -> Result<Vec<LogEntry>, Finding> {
    let wrong = |found: String| Finding::of(Check::Chain, LOG, "a whole hash chain", found);
    let entries = RunLog::of(&evidence.results).read().map_err(|error| match error {
        RunLogError::Io { source, .. } => wrong(source.to_string()),
        RunLogError::Torn { bytes, .. } => {
            wrong(format!("the last {bytes} bytes are an unfinished line; `acb log mend` sets them aside"))
        }
        RunLogError::Broken { line, what, .. } => wrong(what).at(format!("line {line}")),
    })?;
    if entries.is_empty() {
        return Err(wrong("no line: no run was ever begun here".to_owned()));
    }
    for entry in &entries {
        if let LogEvent::Started { run_id, .. } | LogEvent::Ended { run_id, .. } = &entry.event
            && (check_name(run_id).is_err() || run_id.contains('/'))
        {
            let found = format!("run \"{}\"", run_id.escape_debug());
            let finding = Finding::of(Check::Chain, LOG, "a plain name of a folder", found);
            return Err(finding.at(format!("line {}", entry.n)));
        }
    }
    Ok(entries)
}

/// Holds the log against the run folders.
pub fn runs(evidence: &Evidence, log: &[LogEntry], faults: &mut Vec<Finding>, gaps: &mut Vec<String>) {
    match audit(&evidence.results, log) {
        Err(error) => {
            faults.push(Finding::of(Check::Runs, RESULTS, "folders that can be read", error.to_string()))
        }
        Ok(findings) => {
            for finding in findings {
                if finding.kind == DisagreementKind::NeverEnded {
                    gaps.push(finding.to_string());
                    continue;
                }
                let place = finding.line.map_or("no line".to_owned(), |line| format!("line {line}"));
                let (file, found) = (format!("{RESULTS}/{}", finding.run), finding.to_string());
                let expected = format!("what {LOG} says ({place})");
                faults.push(Finding::of(Check::Runs, file, expected, found));
            }
        }
    }
    let there = evidence.runs();
    let last: BTreeMap<&str, (u64, &LogEvent)> = log
        .iter()
        .filter_map(|entry| match &entry.event {
            event @ (LogEvent::Started { run_id, .. } | LogEvent::Ended { run_id, .. }) => {
                Some((run_id.as_str(), (entry.n, event)))
            }
            _ => None,
        })
        .collect();
    for (run, (line, event)) in last {
        let complete = matches!(event, LogEvent::Ended { record_digest: Some(_), .. });
        if !complete && !there.contains(run) {
            gaps.push(format!(
                "{run}: was begun, did not end complete, and has no folder (line {line} of the log)"
            ));
        }
    }
    identities(evidence, log, faults);
}

/// A run that was begun is the run in its folder: the last begin counts.
fn identities(evidence: &Evidence, log: &[LogEntry], faults: &mut Vec<Finding>) {
    let mut begun = BTreeMap::new();
    for entry in log {
        if let LogEvent::Started { run_id, experiment_digest, cell_digest, .. } = &entry.event {
            begun.insert(run_id, (entry.n, experiment_digest, cell_digest));
        }
    }
    for (run, (line, experiment, cell)) in begun {
        let Ok(manifest) = read_json::<Manifest>(&evidence.results.join(run)) else { continue };
        let file = || format!("{RESULTS}/{run}/{}", Manifest::FILE);
        let fields = [
            ("/run_id", run.as_str(), manifest.run_id.as_str()),
            ("/experiment_digest", experiment.as_str(), manifest.experiment_digest.as_str()),
            ("/cell_digest", cell.as_str(), manifest.cell_digest.as_str()),
        ];
        for (place, logged, found) in fields.into_iter().filter(|(_, logged, found)| logged != found) {
            let expected = format!("{logged}, as line {line} of the log has it");
            faults.push(Finding::of(Check::Runs, file(), expected, found).at(place));
        }
    }
}

/// Every run under a lock was begun after the lock was logged.
pub fn order(evidence: &Evidence, log: &[LogEntry], faults: &mut Vec<Finding>, gaps: &mut Vec<String>) {
    let present = locks(evidence);
    let mut locked: BTreeSet<&str> = BTreeSet::new();
    let (mut free, mut late) = (0u64, BTreeSet::new());
    for entry in log {
        match &entry.event {
            LogEvent::Locked { preregistration, .. } => {
                locked.insert(preregistration);
                if !present.contains(preregistration.as_str()) {
                    let line = entry.n;
                    gaps.push(format!("the lock {preregistration} is not here (line {line} of the log)"));
                }
            }
            LogEvent::Started { preregistration: None, .. } => free += 1,
            LogEvent::Started { preregistration: Some(lock), run_id, .. } => {
                if !locked.contains(lock.as_str()) && late.insert(lock) {
                    let expected = format!("lock {lock} in a line before");
                    let finding =
                        Finding::of(Check::Order, LOG, expected, format!("{run_id} was begun under it"));
                    faults.push(finding.at(format!("line {}", entry.n)));
                }
            }
            LogEvent::Ended { .. } | LogEvent::Mended { .. } => {}
        }
    }
    if free > 0 {
        gaps.push(format!("{free} runs were begun without the lock of a preregistration"));
    }
}

/// SHA-256 of every lock file: the file is the canonical text that the log names.
fn locks(evidence: &Evidence) -> BTreeSet<String> {
    let files = evidence.files.iter().filter(|path| is_lock(path));
    let texts = files.filter_map(|path| fs::read(evidence.results.join(path)).ok());
    texts.map(|text| Hash::of(&text).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::Digest;
    use std::path::Path;

    const LOCK: &str = "preregistration.lock.json";

    /// Evidence of a folder with this log and, where given, a lock.
    fn evidence(folder: &Path, events: &[LogEvent], lock: Option<&str>) -> Evidence {
        for event in events {
            RunLog::of(folder).append(0, event.clone()).unwrap();
        }
        let files = lock.map(|text| {
            fs::write(folder.join(LOCK), text).unwrap();
            LOCK.to_owned()
        });
        Evidence {
            results: folder.to_path_buf(),
            files: files.into_iter().collect(),
            left_out: Vec::new(),
            data: Vec::new(),
            sweeps: BTreeMap::new(),
        }
    }

    fn locked(text: &str) -> LogEvent {
        let preregistration = Hash::of(text.as_bytes()).to_string();
        LogEvent::Locked { experiment: "x".to_owned(), preregistration }
    }

    fn begun(run: &str, lock: Option<&str>) -> LogEvent {
        LogEvent::Started {
            run_id: run.to_owned(),
            experiment_digest: Digest::of(b"x"),
            cell_digest: Digest::of(b"y"),
            preregistration: lock.map(|text| Hash::of(text.as_bytes()).to_string()),
        }
    }

    fn ordered(events: &[LogEvent], lock: Option<&str>) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let evidence = evidence(folder.path(), events, lock);
        let (mut faults, mut gaps) = (Vec::new(), Vec::new());
        order(&evidence, &chain(&evidence).unwrap(), &mut faults, &mut gaps);
        (faults.iter().map(ToString::to_string).collect(), gaps)
    }

    #[test]
    fn a_run_under_a_lock_comes_after_it_and_the_lock_is_here() {
        let whole = ordered(&[locked("{}"), begun("a", Some("{}"))], Some("{}"));
        assert_eq!(whole, (vec![], vec![]));
        let (late, _) = ordered(&[begun("a", Some("{}")), locked("{}")], Some("{}"));
        assert!(late[0].contains("run_log.jsonl line 1: a was begun under it; expected lock"), "{late:?}");
        let (never, _) = ordered(&[begun("a", Some("{}"))], Some("{}"));
        assert_eq!(never.len(), 1);
        let (_, gone) = ordered(&[locked("{}"), begun("a", Some("{}"))], None);
        assert!(gone[0].contains("is not here (line 1 of the log)"), "{gone:?}");
        let (_, changed) = ordered(&[locked("{}"), begun("a", Some("{}"))], Some("{ }"));
        assert_eq!(changed.len(), 1);
        let (_, free) = ordered(&[begun("a", None)], None);
        assert_eq!(free, ["1 runs were begun without the lock of a preregistration"]);
    }

    #[test]
    fn a_run_with_a_name_that_leads_elsewhere_breaks_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let found = chain(&evidence(folder.path(), &[begun("../../etc", None)], None)).unwrap_err();
        assert!(found.to_string().contains("line 1: run \"../../etc\"; expected a plain name"), "{found}");
    }
}
