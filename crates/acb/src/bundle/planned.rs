//! Check of the plan: what lies in the folders of sweeps and runs follows from the configuration.

use super::difference::difference;
use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::layout::{CONFIG, RESULTS};
use super::rebuilt::{NotRebuilt, Rebuilt};
use crate::execute::{Job, manifest};
use crate::gates::GateStatus;
use crate::interrupt::Interrupt;
use crate::plan::{Cell, cell_config, program_version, sweep_plan};
use acb_evidence::{Divergence, Manifest, SweepPlan, Versioned, document_bytes, read_json};
use acb_types::Source;
use std::collections::BTreeSet;
use std::fs;

/// What does not follow, and what is missing.
pub fn planned(evidence: &Evidence, faults: &mut Vec<Finding>, gaps: &mut Vec<String>) {
    let there = evidence.runs();
    let mut planned = BTreeSet::new();
    for (sweep, rebuilt) in &evidence.sweeps {
        match rebuilt {
            Err(NotRebuilt::Missing(why)) => {
                gaps.push(format!("sweep {sweep}: can't be set up again: {why}"))
            }
            Err(NotRebuilt::Foreign { expected, found }) => {
                let file = format!("{RESULTS}/_sweeps/{sweep}/{CONFIG}");
                faults.push(Finding::of(Check::Plan, file, expected, found));
            }
            Ok(rebuilt) => {
                of_sweep(evidence, sweep, rebuilt, faults);
                of_gates(evidence, sweep, rebuilt, faults, gaps);
                for cell in &rebuilt.cells {
                    planned.insert(cell.run_id.as_str());
                    match there.contains(cell.run_id.as_str()) {
                        true => of_run(evidence, rebuilt, cell, faults),
                        false => gaps.push(format!("{}: is planned and has no folder", cell.run_id)),
                    }
                }
            }
        }
    }
    let strays = there.into_iter().filter(|run| !planned.contains(run));
    gaps.extend(strays.map(|run| format!("{run}: is in the plan of no sweep that is here")));
}

fn of_sweep(evidence: &Evidence, sweep: &str, rebuilt: &Rebuilt, faults: &mut Vec<Finding>) {
    let file = |name: &str| format!("_sweeps/{sweep}/{name}");
    let found = |name: &str| fs::read(evidence.results.join(file(name))).unwrap_or_default();
    let plan = sweep_plan(&rebuilt.experiment, sweep, &rebuilt.cells);
    // Another version plans under other hashes, which say nothing about the runs.
    let same_version = versions(evidence, rebuilt).all(|version| version == program_version());
    if same_version && let Some(d) = difference(&document_bytes(&plan), &found(SweepPlan::FILE)) {
        let file = format!("{RESULTS}/{}", file(SweepPlan::FILE));
        faults.push(Finding::of(Check::Plan, file, d.expected, d.found).at(d.place));
    }
    let Ok((replay, _)) = &rebuilt.gated else { return };
    if let Some(d) = difference(&document_bytes(&replay.divergence), &found(Divergence::FILE)) {
        let file = format!("{RESULTS}/{}", file(Divergence::FILE));
        faults.push(Finding::of(Check::Plan, file, d.expected, d.found).at(d.place));
    }
}

fn versions(evidence: &Evidence, rebuilt: &Rebuilt) -> impl Iterator<Item = String> {
    let of = |cell: &Cell| read_json::<Manifest>(&evidence.results.join(&cell.run_id)).ok();
    rebuilt.cells.iter().filter_map(of).map(|manifest| manifest.program_version)
}

/// A gate that refuses was overruled by the user, and every run says so.
fn of_gates(
    evidence: &Evidence,
    sweep: &str,
    rebuilt: &Rebuilt,
    faults: &mut Vec<Finding>,
    gaps: &mut Vec<String>,
) {
    let verdicts = match &rebuilt.gated {
        Ok((_, verdicts)) => verdicts,
        Err(why) => return gaps.push(format!("sweep {sweep}: its gates can't be asked: {why}")),
    };
    for verdict in verdicts.iter().filter(|verdict| verdict.status == GateStatus::Refuse) {
        gaps.push(format!("sweep {sweep}: gate {} was overruled: {}", verdict.gate, verdict.finding));
        let label = format!("gate {} overruled", verdict.gate);
        let silent = rebuilt.cells.iter().filter_map(|cell| {
            let manifest: Manifest = read_json(&evidence.results.join(&cell.run_id)).ok()?;
            (!manifest.labels.iter().any(|said| said.starts_with(&label))).then_some(&cell.run_id)
        });
        faults.extend(silent.map(|run| {
            let file = format!("{RESULTS}/{run}/{}", Manifest::FILE);
            Finding::of(Check::Plan, file, format!("a label \"{label} ...\""), "none").at("/labels")
        }));
    }
}

/// A run folder's documents; one without a manifest that can be read is no complete run, and is named as such elsewhere.
fn of_run(evidence: &Evidence, rebuilt: &Rebuilt, cell: &Cell, faults: &mut Vec<Finding>) {
    let run = &cell.run_id;
    let folder = evidence.results.join(run);
    let Ok(found) = read_json::<Manifest>(&folder) else { return };
    let expected = said_before(&document_bytes(&expected_manifest(rebuilt, cell, &found)));
    let stated = said_before(&fs::read(folder.join(Manifest::FILE)).unwrap_or_default());
    if let Some(d) = difference(&expected, &stated) {
        let file = format!("{RESULTS}/{run}/{}", Manifest::FILE);
        faults.push(Finding::of(Check::Plan, file, d.expected, d.found).at(d.place));
    }
    let config = fs::read(folder.join(CONFIG)).unwrap_or_default();
    if let Some(d) = difference(cell_config(&rebuilt.experiment, cell).as_bytes(), &config) {
        let file = format!("{RESULTS}/{run}/{}", CONFIG);
        faults.push(Finding::of(Check::Plan, file, d.expected, d.found).at(d.place));
    }
}

/// A manifest without what only the run itself could know. Both sides are read from text: that may move a number by its last
/// bit, and must move both alike.
fn said_before(manifest: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(manifest) else {
        return manifest.to_vec();
    };
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "workload" && name != "live");
    }
    value.to_string().into_bytes()
}

/// What the manifest must say.
fn expected_manifest(rebuilt: &Rebuilt, cell: &Cell, found: &Manifest) -> Manifest {
    let (experiment, labels, interrupt) = (&rebuilt.experiment, &found.labels[..], &Interrupt::default());
    // Whether it is the hash of the lock in the results is asked where the lock is read.
    let registered = found.preregistration.as_ref();
    let plan = manifest(&Job { experiment, labels, registered, servers: None, interrupt }, cell);
    let expected = Manifest {
        created_unix_ms: found.created_unix_ms,
        program_version: found.program_version.clone(),
        ..plan
    };
    let expected = match found.program_version == program_version() {
        true => expected,
        false => Manifest { cell_digest: found.cell_digest.clone(), ..expected },
    };
    let on_servers = rebuilt.experiment.spec.runtime.live().is_some();
    match on_servers && found.source != Source::Simulated {
        false => expected,
        true => Manifest {
            source: found.source,
            engine: found.engine.clone(),
            latency_profile: found.latency_profile.clone(),
            ..expected
        },
    }
}
