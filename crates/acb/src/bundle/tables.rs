//! The tables: whatever is computed from the runs, each by the one function that makes it.

use super::difference::difference;
use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::layout::{RESULTS, TABLES};
use crate::commands::json_text;
use crate::commands::report::Analysis;
use acb_evidence::{
    EvidenceError, Loaded, Manifest, RunState, Status, Summary, Versioned, document_bytes, load_runs,
    read_json, summarise_folder,
};
use std::fs;

/// A document in each run's folder that follows from its rows: its file, and how it is made again.
type Derived = fn(&std::path::Path, &Manifest) -> Result<Vec<u8>, EvidenceError>;

/// Such documents.
const IN_RUNS: [(&str, Derived); 1] =
    [(Summary::FILE, |folder, manifest| Ok(document_bytes(&summarise_folder(folder, manifest)?)))];

/// What the runs say, with folders by their names.
///
/// # Errors
/// When a folder or a sweep's document can't be read.
pub fn loaded(evidence: &Evidence) -> Result<Loaded, EvidenceError> {
    let mut loaded = load_runs(&evidence.results)?;
    let root = &evidence.results;
    let skipped = loaded.skipped.iter_mut().map(|skipped| &mut skipped.folder);
    let folders = loaded.runs.iter_mut().map(|run| &mut run.folder).chain(skipped);
    for folder in folders.chain(loaded.sweeps.iter_mut().map(|sweep| &mut sweep.folder)) {
        if let Ok(relative) = folder.strip_prefix(root) {
            *folder = relative.to_path_buf();
        }
    }
    let prefix = format!("{}/", root.display());
    loaded.skipped.iter_mut().for_each(|skipped| skipped.why = skipped.why.replace(&prefix, ""));
    Ok(loaded)
}

/// All tables, by their path in the bundle: what `acb report` derives, and its document.
#[must_use]
pub fn tables(loaded: Loaded) -> Vec<(String, Vec<u8>)> {
    let analysis = Analysis::of(loaded);
    let mut all = analysis.derived();
    all.push(("report.json", json_text(&analysis.document())));
    all.into_iter().map(|(name, text)| (format!("{TABLES}/{name}"), text.into_bytes())).collect()
}

/// Makes every derived document of every complete run again. Returns how many numbers agree.
pub fn summaries(evidence: &Evidence, faults: &mut Vec<Finding>) -> u64 {
    let mut numbers = 0;
    for run in evidence.runs() {
        let folder = evidence.results.join(run);
        let complete = read_json::<Status>(&folder).is_ok_and(|status| status.state == RunState::Complete);
        for (name, derived) in IN_RUNS.iter().filter(|_| complete) {
            let file = format!("{RESULTS}/{run}/{name}");
            let found = fs::read(folder.join(name)).unwrap_or_default();
            let made = read_json(&folder).and_then(|manifest| derived(&folder, &manifest));
            match made {
                Err(error) => {
                    let found = error.to_string().replace(&format!("{}/", evidence.results.display()), "");
                    faults.push(Finding::of(Check::Summaries, file, "rows that can be read", found));
                }
                Ok(expected) => match difference(&expected, &found) {
                    Some(d) => {
                        faults.push(Finding::of(Check::Summaries, file, d.expected, d.found).at(d.place));
                    }
                    None => numbers += count(&found),
                },
            }
        }
    }
    numbers
}

/// Numbers in a JSON document.
fn count(bytes: &[u8]) -> u64 {
    fn of(value: &serde_json::Value) -> u64 {
        match value {
            serde_json::Value::Number(_) => 1,
            serde_json::Value::Array(items) => items.iter().map(of).sum(),
            serde_json::Value::Object(fields) => fields.values().map(of).sum(),
            _ => 0,
        }
    }
    serde_json::from_slice(bytes).map_or(0, |value| of(&value))
}
