//! `acb import legacy`: run folders of the original harness, read, judged and marked.

use super::plan::table;
use super::{Exit, print, print_json, say};
use crate::cli::ImportLegacyArgs;
use crate::spec::parse::parse;
use crate::spec::{Fault, Sources, Span};
use acb_evidence::{
    Compat, CompatRow, EvidenceError, LegacyFolder, LegacyRun, RunReading, Skipped, Versioned,
    legacy_folders, read_legacy_run, write_json,
};
use comfy_table::Table;
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImportDocument {
    /// The runs, by name.
    pub runs: Vec<LegacyRun>,
    /// Folders that were refused: `PATH: reason`.
    pub refused: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When the folder can't be read or holds no run, or `--out` can't be written.
pub fn legacy(args: &ImportLegacyArgs) -> miette::Result<Exit> {
    let (folders, mut refused) = legacy_folders(&args.folder).into_diagnostic()?;
    let compat = if args.compat { Compat::On } else { Compat::Off };
    let mut runs = Vec::new();
    for folder in folders {
        match read(&folder, compat) {
            Ok(run) => runs.push(run),
            Err(error) => {
                refused.push(Skipped { folder: folder.path().to_path_buf(), why: error.to_string() })
            }
        }
    }
    if let Some(out) = &args.out {
        write_all(out, &runs)?;
    }
    let exit = if refused.is_empty() { Exit::Done } else { Exit::Failed };
    match args.json {
        true => {
            let refused = refused.iter().map(|s| format!("{}: {}", s.folder.display(), s.why)).collect();
            print_json(&ImportDocument { runs, refused })?;
        }
        false => {
            print(&text(&runs))?;
            refused.iter().for_each(|s| say(&format!("refused {}: {}", s.folder.display(), s.why)));
        }
    }
    Ok(exit)
}

fn read(folder: &LegacyFolder, compat: Compat) -> Result<LegacyRun, EvidenceError> {
    let slo_ttft_ms = match folder.text(CONFIG)? {
        None => None,
        Some(text) => slo_of(folder, &text)?,
    };
    read_legacy_run(folder, RunReading { slo_ttft_ms, compat })
}

/// The resolved configuration of a run of the original harness.
const CONFIG: &str = "config_resolved.yaml";

/// The bound on TTFT in a resolved configuration.
fn slo_of(folder: &LegacyFolder, text: &str) -> Result<Option<f64>, EvidenceError> {
    let fault = |message| EvidenceError::Document { path: folder.path().join(CONFIG), message };
    let mut sources = Sources::default();
    let id = sources.add(CONFIG, text);
    let tree = parse(&sources, id, 0).map_err(|faults| {
        let said = |first: &Fault| format!("{}: {}", place(&sources, first.span), first.message);
        fault(faults.first().map_or_else(|| "is not YAML".to_owned(), said))
    })?;
    let Some(bound) = tree.get("backend").and_then(|backend| backend.get("ttft_slo_ms")) else {
        return Ok(None);
    };
    match bound.to_json().as_f64().filter(|bound| *bound > 0.0) {
        Some(bound) => Ok(Some(bound)),
        None => {
            Err(fault(format!("{}: backend.ttft_slo_ms is no number above 0", place(&sources, bound.span))))
        }
    }
}

fn place(sources: &Sources, span: Span) -> String {
    let at = sources.position(span);
    format!("line {}, column {}", at.line, at.column)
}

/// Writes a document per run. Every target is looked at before the first is written.
fn write_all(out: &Path, runs: &[LegacyRun]) -> miette::Result<()> {
    for run in runs {
        let folder = out.join(&run.run_id);
        let target = folder.join(LegacyRun::FILE);
        if target.symlink_metadata().is_ok() {
            return Err(miette!(
                "{}: exists already and is not overwritten; choose another --out",
                target.display()
            ));
        }
        if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Err(miette!("{}: is not a folder; choose another --out", folder.display()));
        }
    }
    for run in runs {
        let folder = out.join(&run.run_id);
        fs::create_dir_all(&folder).map_err(|error| miette!("{}: {error}", folder.display()))?;
        write_json(&folder, run).into_diagnostic()?;
    }
    Ok(())
}

fn text(runs: &[LegacyRun]) -> String {
    let mut table =
        table(&["run", "form", "status says", "found", "answers", "failed", "rung", "why no higher"]);
    for run in runs {
        let why: Vec<&str> = run.obstacles.iter().map(|obstacle| obstacle.reason.words()).collect();
        table.add_row([
            run.run_id.clone(),
            word(&run.form),
            run.lifecycle.claimed.clone().unwrap_or_else(|| "nothing".to_owned()),
            word(&run.lifecycle.found),
            run.answers.to_string(),
            run.failures.to_string(),
            format!("L{} (legacy)", run.rung),
            why.join("; "),
        ]);
    }
    let mut out = format!("{table}\n");
    for run in runs {
        if let Some(why) = &run.lifecycle.why {
            // Writing to a String can't fail.
            let _ = writeln!(out, "{}: {why}", run.run_id);
        }
    }
    for run in runs {
        if let Some(rows) = &run.compat {
            let over =
                run.duration.as_ref().map_or("no duration is known", |duration| duration.from.as_str());
            let _ = write!(
                out,
                "\n{}: old definitions beside ours; rates over {over}\n{}\n",
                run.run_id,
                beside(rows)
            );
        }
    }
    out
}

fn beside(rows: &[CompatRow]) -> Table {
    let mut table =
        table(&["metric", "definition", "unit", "published", "recomputed", "agrees", "ours", "our metric"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    for row in rows {
        table.add_row([
            row.metric.clone(),
            row.definition.clone(),
            row.unit.clone(),
            number(row.published),
            number(row.recomputed),
            row.agrees.map_or("-", |agrees| if agrees { "yes" } else { "NO" }).to_owned(),
            row.reason.clone().unwrap_or_else(|| number(row.ours)),
            row.our_metric.clone().unwrap_or_else(|| "none".to_owned()),
        ]);
    }
    table
}

/// A closed set's value as its JSON spells it.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        _ => String::new(),
    }
}
