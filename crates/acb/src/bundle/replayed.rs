//! Check of the routing: every decision of a run's log is made again.

use super::rebuilt::Rebuilt;
use crate::plan::Cell;
use crate::watched::Watched;
use acb_evidence::{EvidenceError, LineFault, Lines, Manifest, Records, Versioned};
use acb_routing::{RoutingRow, replay};
use acb_workload::RequestSource;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::path::Path;

/// The log, in the run's folder.
const LOG: &str = "routing.jsonl";

/// Decides everything in a run's `routing.jsonl` again. Returns the number of decisions, which is that of the records. The
/// requests asked on the way are those whose structure the manifest has.
///
/// # Errors
/// With the place and what does not hold there.
pub fn replayed(rebuilt: &Rebuilt, cell: &Cell, folder: &Path) -> Result<u64, (String, String)> {
    let whole = |error: String| (LOG.to_owned(), error);
    let level = &rebuilt.experiment.levels[cell.level];
    let arm = &level.arms[cell.arm];
    let source = level.workload(cell.block).map_err(|error| whole(error.to_string()))?;
    let source = RefCell::new(Watched::new(source));
    let mut requests = std::iter::from_fn(|| source.borrow_mut().take().map(|arrival| arrival.request));
    let (mut lines, mut fault) = (Lines::open(&folder.join(LOG)).map_err(unreadable)?, None);
    let mut rows = std::iter::from_fn(|| {
        let row = next_row(&mut lines).unwrap_or_else(|error| {
            fault = Some(error);
            None
        })?;
        // A closed loop and later turns wait for the end of what was before.
        if let RoutingRow::Finished { at, request } = row {
            source.borrow_mut().ended(request, at);
        }
        Some(row)
    });
    let context = level.router_context(arm, cell.block);
    let checked = replay(&arm.policy, context, &mut requests, &mut rows);
    if let Some(fault) = fault {
        return Err(unreadable(fault));
    }
    let checked = checked.map_err(|error| (format!("line {}", lines.number()), error.to_string()))?;
    let records = count(folder).map_err(whole)?;
    if checked != records {
        return Err(whole(format!("{checked} decisions for {records} records")));
    }
    let structure = source.borrow().structure();
    match same_structure(folder, &structure) {
        true => Ok(checked),
        false => Err(("beside its manifest's /workload".to_owned(), "other requests".to_owned())),
    }
}

/// Whether the manifest has this structure. Both sides are read from text, which may move a number by its last bit.
fn same_structure(folder: &Path, structure: &Json) -> bool {
    let read = |text: &str| serde_json::from_str::<Json>(text).ok();
    let manifest = std::fs::read_to_string(folder.join(Manifest::FILE)).ok();
    let stated = manifest.and_then(|text| read(&text)).map(|manifest| manifest["workload"].clone());
    stated.is_some() && stated == read(&structure.to_string())
}

/// The next row of a log.
fn next_row(lines: &mut Lines) -> Result<Option<RoutingRow>, EvidenceError> {
    if !lines.advance()? {
        return Ok(None);
    }
    let row = serde_json::from_slice(lines.bytes());
    row.map(Some).map_err(|error| lines.fault(LineFault::Malformed { message: error.to_string() }))
}

/// Where a log can't be read, and why, without its path.
fn unreadable(error: EvidenceError) -> (String, String) {
    match error {
        EvidenceError::Line { line, fault, .. } => (format!("line {line}"), fault.to_string()),
        EvidenceError::Io { source, .. } => (LOG.to_owned(), source.to_string()),
        other => (LOG.to_owned(), other.to_string()),
    }
}

fn count(folder: &Path) -> Result<u64, String> {
    let mut records = Records::open(&folder.join("requests.jsonl")).map_err(|error| error.to_string())?;
    let mut count = 0;
    while records.read().map_err(|error| error.to_string())?.is_some() {
        count += 1;
    }
    Ok(count)
}
