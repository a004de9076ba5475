//! Check of the routing: every decision of a run's log is made again.

use super::rebuilt::Rebuilt;
use crate::plan::Cell;
use crate::watched::Watched;
use acb_evidence::{MAX_LINE_BYTES, Manifest, Records, Versioned};
use acb_routing::{RoutingRow, replay};
use acb_workload::RequestSource;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Decides everything in a run's `routing.jsonl` again. Returns the number of decisions, which is that of the records. The
/// requests asked on the way are those whose structure the manifest has.
///
/// # Errors
/// With the place and what does not hold there.
pub fn replayed(rebuilt: &Rebuilt, cell: &Cell, folder: &Path) -> Result<u64, (String, String)> {
    let whole = |error: String| ("routing.jsonl".to_owned(), error);
    let level = &rebuilt.experiment.levels[cell.level];
    let arm = &level.arms[cell.arm];
    let source = level.workload(cell.block).map_err(|error| whole(error.to_string()))?;
    let source = RefCell::new(Watched::new(source));
    let mut requests = std::iter::from_fn(|| source.borrow_mut().take().map(|arrival| arrival.request));
    let file = File::open(folder.join("routing.jsonl")).map_err(|error| whole(error.to_string()))?;
    let mut lines = Lines { reader: BufReader::new(file), number: 0, fault: None };
    let mut rows = std::iter::from_fn(|| {
        let row = lines.next()?;
        // A closed loop and later turns wait for the end of what was before.
        if let RoutingRow::Finished { at, request } = row {
            source.borrow_mut().ended(request, at);
        }
        Some(row)
    });
    let context = level.router_context(arm, cell.block);
    let checked = replay(&arm.policy, context, &mut requests, &mut rows);
    if let Some(fault) = lines.fault {
        return Err((format!("line {}", lines.number), fault));
    }
    let checked = checked.map_err(|error| (format!("line {}", lines.number), error.to_string()))?;
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

/// Rows of a log; stops at the first that can't be read and keeps why.
struct Lines {
    reader: BufReader<File>,
    number: u64,
    fault: Option<String>,
}

impl Iterator for Lines {
    type Item = RoutingRow;

    fn next(&mut self) -> Option<RoutingRow> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line);
        let row = match read {
            Ok(0) => return None,
            Err(error) => Err(error.to_string()),
            Ok(read) if read > MAX_LINE_BYTES => Err(format!("longer than {MAX_LINE_BYTES} bytes")),
            Ok(_) if line.last() != Some(&b'\n') => Err("cut off".to_owned()),
            Ok(_) => serde_json::from_slice(&line).map_err(|error| error.to_string()),
        };
        self.number += 1;
        match row {
            Ok(row) => Some(row),
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
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
