//! `acb evidence review`: results of the original harness, at their rung.

use super::plan::table;
use super::{Exit, print, print_json};
use crate::cli::ReviewArgs;
use crate::historical;
use acb_evidence::{Column, HistoricalSet, LegacyRun, Obstacle, Versioned, read_json};
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReviewDocument {
    /// Published tables.
    pub published: Vec<ReviewedSet>,
    /// Imported runs.
    pub imported: Vec<LegacyRun>,
}

/// A published table and where it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReviewedSet {
    /// The table.
    pub set: HistoricalSet,
    /// The rung that it stands on.
    pub rung: u8,
    /// Why it can't stand higher.
    pub obstacles: Vec<Obstacle>,
}

/// Runs the command.
///
/// # Errors
/// When a path can't be read or holds no imported run, or `--show` names no table.
pub fn review(args: &ReviewArgs) -> miette::Result<Exit> {
    let sets = historical::sets().into_diagnostic()?;
    if let Some(id) = &args.show {
        let ids = || sets.iter().map(|set| set.id.as_str()).collect::<Vec<_>>().join(", ");
        let set = sets.iter().find(|set| set.id == *id);
        print(&show(
            set.ok_or_else(|| miette!("no published table is named \"{id}\"; there are: {}", ids()))?,
        ))?;
        return Ok(Exit::Done);
    }
    let mut imported = Vec::new();
    for path in &args.paths {
        imported.extend(imported_below(path)?);
    }
    match args.json {
        true => {
            let reviewed =
                |set: HistoricalSet| ReviewedSet { rung: set.rung(), obstacles: set.obstacles(), set };
            print_json(&ReviewDocument { published: sets.into_iter().map(reviewed).collect(), imported })?;
        }
        false => print(&text(&sets, &imported))?,
    }
    Ok(Exit::Done)
}

/// Imported runs in a folder or directly below it, by name.
fn imported_below(root: &Path) -> miette::Result<Vec<LegacyRun>> {
    let is_run = |folder: &Path| folder.join(LegacyRun::FILE).is_file();
    let mut folders: Vec<PathBuf> = Vec::new();
    if is_run(root) {
        folders.push(root.to_path_buf());
    } else {
        let entries = fs::read_dir(root).map_err(|error| miette!("{}: {error}", root.display()))?;
        for entry in entries {
            folders.push(entry.map_err(|error| miette!("{}: {error}", root.display()))?.path());
        }
        folders.retain(|folder| is_run(folder));
        folders.sort();
    }
    if folders.is_empty() {
        return Err(miette!(
            "{}: holds no imported run; `acb import legacy DIR --out` writes some",
            root.display()
        ));
    }
    folders.iter().map(|folder| read_json::<LegacyRun>(folder).into_diagnostic()).collect()
}

const HEAD: &str = "\
Results of the original harness: context, not evidence of this project. None of them can be promoted; the way up is to
run the question again. L0 may say that the harness ran. docs/legacy_evidence_policy.md says how they are judged.

";

fn text(sets: &[HistoricalSet], imported: &[LegacyRun]) -> String {
    let mut table = table(&["result", "what", "rung", "why it can't be promoted"]);
    for set in sets {
        table.add_row([
            set.id.clone(),
            set.title.clone(),
            format!("L{}", set.rung()),
            words(&set.obstacles()),
        ]);
    }
    for run in imported {
        let workload = run.workload.as_deref().unwrap_or("an unknown workload");
        let on = run.backend.as_deref().unwrap_or("an unknown backend");
        let what = format!("imported run of {workload} on {on}, {} answers", run.answers);
        table.add_row([run.run_id.clone(), what, format!("L{}", run.rung), words(&run.obstacles)]);
    }
    format!("{HEAD}{table}\n\n{}", legend(sets, imported))
}

fn words(obstacles: &[Obstacle]) -> String {
    obstacles.iter().map(|obstacle| obstacle.reason.words()).collect::<Vec<_>>().join("; ")
}

/// What the words of the last column mean, each sentence once.
fn legend(sets: &[HistoricalSet], imported: &[LegacyRun]) -> String {
    let all = sets.iter().flat_map(HistoricalSet::obstacles);
    let all = all.chain(imported.iter().flat_map(|run| run.obstacles.clone()));
    let mut lines: Vec<_> = all.map(|o| (o.reason, o.bars, o.why)).collect();
    lines.sort();
    lines.dedup();
    let mut out = String::new();
    for (reason, bars, why) in lines {
        // Writing to a String can't fail.
        let _ = writeln!(out, "- {} (bars L{bars}): {why}", reason.words());
    }
    out
}

fn show(set: &HistoricalSet) -> String {
    let mut out = format!("{}: {}\n", set.id, set.title);
    let from = &set.provenance;
    let day = from.measured_on.as_ref().map(|day| format!(", measured on {day}")).unwrap_or_default();
    let on = [
        set.system.runtime.clone().into_iter().collect(),
        set.system.models.clone(),
        set.system.hardware.clone(),
    ];
    let on: Vec<String> = on.into_iter().flatten().collect();
    // Writing to a String can't fail.
    let _ = writeln!(out, "published in {}{day}; {}", from.published_in, from.transcribed);
    if !on.is_empty() {
        let _ = writeln!(out, "on {}", on.join(", "));
    }
    let headers: Vec<String> = set.columns.iter().map(heading).collect();
    let mut table = table(&headers.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &set.rows {
        table.add_row(row.iter().map(|cell| match cell {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => "-".to_owned(),
            other => other.to_string(),
        }));
    }
    let _ = writeln!(out, "\n{table}\n");
    for remark in &set.remarks {
        let _ = writeln!(out, "- {remark}");
    }
    let _ = writeln!(out, "\nrung L{}, because:", set.rung());
    for Obstacle { bars, why, .. } in set.obstacles() {
        let _ = writeln!(out, "- {why} (bars L{bars})");
    }
    out
}

/// A column's name, with its unit and who saw it.
fn heading(column: &Column) -> String {
    let source = column.source.map(|source| super::import::word(&source));
    let more: Vec<String> = column.unit.clone().into_iter().chain(source).collect();
    if more.is_empty() { column.name.clone() } else { format!("{} ({})", column.name, more.join(", ")) }
}
