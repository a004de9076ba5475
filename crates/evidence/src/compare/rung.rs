//! The claim ladder: what runs are decides how strong a sentence they carry.

use super::LevelComparison;
use crate::Run;
use acb_types::Source;
use schemars::JsonSchema;
use serde::Serialize;

/// Blocks below which a two-sided exact test can't reach 0.05.
const BLOCK_FLOOR: usize = 6;

/// A rung of the ladder, computed and never declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rung {
    /// 0 to 5.
    pub level: u8,
    /// The rung in words, such as `L1: simulated, uncalibrated`.
    pub label: String,
    /// The verb that a claim on this rung may use; `None` when it carries no claim.
    pub verb: Option<&'static str>,
    /// What the next rung needs.
    pub missing: Vec<String>,
}

pub(super) fn rung(runs: &[Run], levels: &[LevelComparison]) -> Rung {
    let gaps = design_gaps(runs, levels);
    let what = what_they_are(runs);
    if !gaps.is_empty() {
        return Rung { level: 0, label: format!("L0: systems check ({what})"), verb: None, missing: gaps };
    }
    let measured = runs.iter().all(|run| run.manifest.source != Source::Simulated);
    let calibrated =
        runs.iter().all(|run| run.manifest.latency_profile.as_ref().is_some_and(|p| p.calibrated));
    let (level, verb, next): (u8, _, &[&str]) = match (measured, calibrated) {
        (true, _) => (3, "was", &["a preregistration locked before the first run"]),
        (false, true) => (2, "would be", &["measurement on a real server"]),
        (false, false) => (
            1,
            "would be",
            &["a latency profile calibrated on a real server, with its error on held-out runs"],
        ),
    };
    let missing = next.iter().map(|words| (*words).to_owned()).collect();
    Rung { level, label: format!("L{level}: {what}"), verb: Some(verb), missing }
}

/// What keeps the design below every rung that carries a claim.
fn design_gaps(runs: &[Run], levels: &[LevelComparison]) -> Vec<String> {
    let mut gaps = Vec::new();
    let contrasts = || levels.iter().flat_map(|level| &level.primary);
    match contrasts().map(|contrast| contrast.blocks).min() {
        None => gaps.push("a treatment and a baseline to compare".to_owned()),
        Some(fewest) if fewest < BLOCK_FLOOR => {
            gaps.push(format!("{BLOCK_FLOOR} complete blocks in every comparison (the fewest is {fewest})"));
        }
        Some(_) => {}
    }
    if levels.iter().any(|level| level.replicates.is_empty()) {
        gaps.push("an A/A arm at every level".to_owned());
    }
    let simulated = runs.iter().filter(|run| run.manifest.source == Source::Simulated);
    if simulated.clone().any(|run| run.manifest.latency_profile.is_none()) {
        gaps.push("a named latency profile of the simulated engine".to_owned());
    }
    let simulated = simulated.count();
    if simulated > 0 && simulated < runs.len() {
        gaps.push("runs of one source: simulated and measured ones are mixed".to_owned());
    }
    gaps.extend(invalid_clients(runs));
    gaps
}

/// Runs that the client itself spoiled.
fn invalid_clients(runs: &[Run]) -> Option<String> {
    let faults = |run: &Run| run.manifest.live.as_ref().map(|live| live.client_faults.clone());
    let invalid: Vec<_> = runs.iter().filter_map(faults).filter(|faults| !faults.is_empty()).collect();
    let first = invalid.first()?.first()?;
    let (count, of) = (invalid.len(), runs.len());
    Some(format!(
        "a client that did what was asked of it in every run ({count} of {of} are invalid: {first})"
    ))
}

fn what_they_are(runs: &[Run]) -> &'static str {
    let mut simulated = runs.iter().filter(|run| run.manifest.source == Source::Simulated).peekable();
    if simulated.peek().is_none() {
        return "measured, not preregistered";
    }
    match simulated.all(|run| run.manifest.latency_profile.as_ref().is_some_and(|profile| profile.calibrated))
    {
        true => "simulated, calibrated",
        false => "simulated, uncalibrated",
    }
}
