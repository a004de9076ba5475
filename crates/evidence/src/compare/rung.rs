//! The claim ladder: what runs are decides how strong a sentence they carry.

use super::{ComparisonRule, Contrast, Effect, LevelComparison, Pair};
use crate::{PlannedRun, Run};
use acb_stats::holm;
use acb_types::Source;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks below which a two-sided exact test can't reach 0.05.
const BLOCK_FLOOR: usize = 6;

/// Level at which an A/A arm fails, over all of its comparisons together.
const AA_ALPHA: f64 = 0.05;

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
    /// Every rung from L1 up, with all that it asks for and that is not there.
    pub steps: Vec<Step>,
}

/// One rung above the ground.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// 1 to 5.
    pub level: u8,
    /// What it is.
    pub what: &'static str,
    /// What these runs lack for it.
    pub missing: Vec<String>,
}

impl Rung {
    /// What these runs lack for a claim on a rung; empty where they carry it.
    #[must_use]
    pub fn missing_for(&self, level: u8) -> &[String] {
        let step = self.steps.iter().find(|step| step.level == level && level > self.level);
        step.map_or(&[], |step| &step.missing)
    }
}

/// The rung that these runs stand on.
pub(super) fn rung(runs: &[Run], levels: &[LevelComparison], rule: &ComparisonRule) -> Rung {
    let steps = steps(runs, levels, rule);
    let level = steps.iter().filter(|step| step.missing.is_empty()).map(|step| step.level).max().unwrap_or(0);
    let verb = match level {
        0 => None,
        1 | 2 => Some("would be"),
        3 => Some("was"),
        _ => Some("is"),
    };
    let label = match level {
        0 => format!("L0: systems check ({})", what_they_are(runs, rule)),
        _ => format!("L{level}: {}", what_they_are(runs, rule)),
    };
    // From a calibrated simulation the way up is to measure.
    let next = if level == 2 { 3 } else { level + 1 };
    let missing = steps.iter().find(|step| step.level == next).map(|step| step.missing.clone());
    Rung { level, label, verb, missing: missing.unwrap_or_default(), steps }
}

/// Every rung with all that it lacks. A measurement needs no calibrated simulation, so L3 stands on L1.
fn steps(runs: &[Run], levels: &[LevelComparison], rule: &ComparisonRule) -> Vec<Step> {
    let beyond =
        |below: &[String], own: Vec<String>| -> Vec<String> { below.iter().cloned().chain(own).collect() };
    let one = |there: bool, what: &str| if there { Vec::new() } else { vec![what.to_owned()] };
    let design = design_gaps(runs, levels);
    let calibrated = beyond(&design, one(calibrated(runs), CALIBRATION));
    let measured = beyond(&design, one(measured(runs), "measurement on a real server"));
    let confirmed = beyond(&measured, confirmation_gaps(runs, levels, rule));
    let replicated = beyond(&confirmed, vec![REPLICATION.to_owned()]);
    let step = |level, what, missing| Step { level, what, missing };
    vec![
        step(1, "simulated, with blocks, paired arms and an A/A arm", design),
        step(2, "simulated, with a latency model that was calibrated", calibrated),
        step(3, "measured on a real server", measured),
        step(4, "measured, preregistered, in blocks of shuffled order, A/A passed", confirmed),
        step(5, "replicated", replicated),
    ]
}

const CALIBRATION: &str = "a latency profile calibrated on a real server, with its error on held-out runs";

const REPLICATION: &str = "the same registered experiment on a second host or runtime, or by a second party";

fn measured(runs: &[Run]) -> bool {
    !runs.is_empty() && runs.iter().all(|run| run.manifest.source != Source::Simulated)
}

fn calibrated(runs: &[Run]) -> bool {
    !runs.is_empty()
        && runs.iter().all(|run| run.manifest.latency_profile.as_ref().is_some_and(|p| p.calibrated))
}

/// What keeps the design below every rung that carries a claim.
fn design_gaps(runs: &[Run], levels: &[LevelComparison]) -> Vec<String> {
    let mut gaps = Vec::new();
    let contrasts = || levels.iter().flat_map(|level| &level.primary);
    match contrasts().map(|contrast| contrast.blocks).min() {
        None => gaps.push("a treatment and a baseline to compare".to_owned()),
        Some(fewest) if fewest < BLOCK_FLOOR => {
            let more = BLOCK_FLOOR - fewest;
            let plural = if more == 1 { "" } else { "s" };
            gaps.push(format!(
                "{more} more block{plural} ({BLOCK_FLOOR} complete blocks in every comparison; the fewest is {fewest})"
            ));
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
    gaps.extend(above_the_bound(levels));
    gaps.extend(invalid_clients(runs));
    gaps
}

/// An arm that beats its bound beyond error: the bound bounds nothing, or the arm saw what it must not.
fn above_the_bound(levels: &[LevelComparison]) -> Option<String> {
    let above = |contrast: &&Contrast| matches!(&contrast.effect, Effect::Ratio(share) if share.low > 1.0);
    let found = levels.iter().flat_map(|level| &level.bounds).find(above)?;
    let Pair { arm, against } = &found.pair;
    Some(format!("a bound that bounds every arm ({arm} is above {against})"))
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

/// What keeps runs from confirming anything, whoever measured them.
fn confirmation_gaps(runs: &[Run], levels: &[LevelComparison], rule: &ComparisonRule) -> Vec<String> {
    let mut gaps = rule.registration_gaps.clone();
    let lacking: usize = levels.iter().map(|level| level.missing.len()).sum();
    if lacking > 0 {
        gaps.push(format!("every planned run ({lacking} are missing)"));
    }
    gaps.extend(failed_replicates(levels));
    gaps.extend(unverified_resets(runs));
    gaps.extend(fixed_order(&rule.planned));
    gaps
}

/// An A/A arm that differs from the arm that it repeats: the comparison finds what is not there.
fn failed_replicates(levels: &[LevelComparison]) -> Option<String> {
    let replicates: Vec<&Contrast> = levels.iter().flat_map(|level| &level.replicates).collect();
    let p: Vec<f64> = replicates.iter().map(|contrast| contrast.p.unwrap_or(1.0)).collect();
    let adjusted = holm(&p).expect("the sign-flip test gives p-values between 0 and 1");
    let failed = adjusted.iter().position(|p| *p <= AA_ALPHA)?;
    let pair = &replicates[failed].pair;
    Some(format!("an A/A arm that passes ({} differs from {})", pair.arm, pair.against))
}

/// Runs on servers that could find what another run left in the prefix cache. The simulator starts every run with a
/// fresh engine.
fn unverified_resets(runs: &[Run]) -> Option<String> {
    let live: Vec<_> = runs.iter().filter_map(|run| run.manifest.live.as_ref()).collect();
    let verified = |server: &crate::ServerFacts| server.reset.is_some_and(|reset| reset.after < reset.before);
    let proved = |facts: &&&crate::LiveFacts| {
        facts.own_prompts || (!facts.servers.is_empty() && facts.servers.iter().all(verified))
    };
    let open = live.len() - live.iter().filter(proved).count();
    (open > 0).then(|| format!("a prefix reset that is verified ({open} of {} runs are not)", live.len()))
}

/// Arms that run in one order in every block: what comes later could gain by it.
fn fixed_order(planned: &[PlannedRun]) -> Option<String> {
    let mut by_level: BTreeMap<String, BTreeMap<u64, Vec<&str>>> = BTreeMap::new();
    for run in planned {
        let level = serde_json::to_string(&run.levels).unwrap_or_default();
        by_level.entry(level).or_default().entry(run.block).or_default().push(&run.arm);
    }
    let orders: BTreeSet<Vec<&str>> = by_level.values().flat_map(|blocks| blocks.values().cloned()).collect();
    let blocks: usize = by_level.values().map(BTreeMap::len).sum();
    (blocks > 1 && orders.len() < 2).then(|| "arms in shuffled order within blocks".to_owned())
}

fn what_they_are(runs: &[Run], rule: &ComparisonRule) -> &'static str {
    let mut simulated = runs.iter().filter(|run| run.manifest.source == Source::Simulated).peekable();
    let registered = rule.registration_gaps.is_empty();
    if simulated.peek().is_none() {
        return if registered { "measured, preregistered" } else { "measured, not preregistered" };
    }
    let calibrated = simulated.all(|run| run.manifest.latency_profile.as_ref().is_some_and(|p| p.calibrated));
    if calibrated { "simulated, calibrated" } else { "simulated, uncalibrated" }
}
