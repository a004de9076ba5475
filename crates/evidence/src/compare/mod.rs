//! Arms compared on the same blocks, level by level.
//!
//! The unit of analysis is the run: one number per arm and block. Requests within a run are not independent and are
//! never counted as if they were. An arm of role `bound` is no competitor: what is shown of it is how much of it the
//! others reach.

mod cells;
mod contrast;
mod gatekeeping;
mod overall;
mod rung;

pub use contrast::{Contrast, Effect, Range, Verdict};
pub use rung::{Rung, Step};

use crate::{ArmRole, Better, Levels, Loaded, Multiplicity, PlannedRun, ProfileRef, Run, SweepPlan, metric};
use acb_stats::{blocks_needed, holm, quantile_linear};
use acb_types::{Digest, Source};
use cells::{Arm, Level};
use contrast::{Adjusted, Test};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metrics beside the primary one that reports show, all of them exploratory.
const SECONDARY: [&str; 16] = [
    "quality_adjusted_slo_goodput",
    "ttft_goodput",
    "goodput",
    "slo_attainment",
    "mean_quality_on_time",
    "mean_quality_all",
    "p50_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "p95_e2e_ms",
    "output_token_throughput",
    "simulated_prefix_hit_ratio",
    "server_prefix_hit_ratio",
    "adapter_stall_ms",
    "adapters_meeting_slo_share",
    "failure_share",
];

/// What runs without a preregistration lack.
pub(crate) const NOT_REGISTERED: &str = "a preregistration locked before the first run";

/// What is compared with what, and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRule {
    /// Name of the metric that the verdict is about.
    pub metric: String,
    /// Level of the family-wise test; intervals have confidence `1 - alpha`, each for itself.
    pub alpha: f64,
    /// Smallest ratio of the better to the worse that matters; 1 for any.
    pub min_effect_ratio: f64,
    /// The primary family; `None`: every treatment against every baseline.
    pub contrasts: Option<Vec<Pair>>,
    /// Names of exploratory metrics.
    pub secondary: Vec<String>,
    /// Those of them that the plan asked for by name.
    pub named: Vec<String>,
    /// Whether the named metrics are tested after the primary one.
    pub multiplicity: Multiplicity,
    /// Every run that should be there, so that missing ones are named; empty when nobody knows.
    pub planned: Vec<PlannedRun>,
    /// What keeps the runs from being preregistered; empty when they are.
    pub registration_gaps: Vec<String>,
}

/// One arm against another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The arm in question: above the fraction bar.
    pub arm: String,
    /// What it is compared with: below the fraction bar.
    pub against: String,
}

impl ComparisonRule {
    /// The rule that a sweep's plan wrote down before its runs.
    #[must_use]
    pub fn of_plan(plan: &SweepPlan) -> Self {
        let on = Self::on(&plan.primary_metric);
        let named = plan.secondary_metrics.iter().filter(|name| !on.secondary.contains(name));
        Self {
            alpha: plan.alpha,
            min_effect_ratio: plan.min_effect_ratio,
            contrasts: Some(plan.contrasts.clone()),
            planned: plan.runs.clone(),
            secondary: on.secondary.iter().chain(named).cloned().collect(),
            named: plan.secondary_metrics.clone(),
            multiplicity: plan.multiplicity,
            ..on
        }
    }

    /// The rule of the first sweep's plan, and how all of these runs stand to its preregistration; [`Self::of_runs`] where
    /// there is no sweep.
    #[must_use]
    pub fn of_loaded(loaded: &Loaded) -> Self {
        let Some(first) = loaded.sweeps.first() else { return Self::of_runs(&loaded.runs) };
        let mut gaps: Vec<String> = Vec::new();
        for gap in loaded.sweeps.iter().flat_map(|sweep| &sweep.registration.gaps) {
            if !gaps.contains(gap) {
                gaps.push(gap.clone());
            }
        }
        let under = |run: &&Run| {
            run.manifest.preregistration.as_ref().map(|registered| registered.sha256.as_str())
                == first.registration.sha256()
        };
        let others = loaded.runs.iter().filter(|run| !under(run)).count();
        if gaps.is_empty() && others > 0 {
            gaps.push(format!("every run made under the lock ({others} carry another hash or none)"));
        }
        Self { registration_gaps: gaps, ..Self::of_plan(&first.plan) }
    }

    /// The rule for runs without a plan: the primary metric of the first, level 0.05.
    #[must_use]
    pub fn of_runs(runs: &[Run]) -> Self {
        Self::on(runs.first().map_or(SECONDARY[0], |run| &run.manifest.primary_metric))
    }

    /// Every treatment against every baseline on this metric, level 0.05.
    #[must_use]
    pub fn on(metric: &str) -> Self {
        let secondary = SECONDARY.iter().filter(|name| **name != metric);
        Self {
            metric: metric.to_owned(),
            alpha: 0.05,
            min_effect_ratio: 1.0,
            contrasts: None,
            secondary: secondary.map(|name| (*name).to_owned()).collect(),
            named: Vec::new(),
            multiplicity: Multiplicity::Holm,
            planned: Vec::new(),
            registration_gaps: vec![NOT_REGISTERED.to_owned()],
        }
    }

    fn test(&self) -> Test {
        Test { alpha: self.alpha, margin_ratio: self.min_effect_ratio }
    }
}

/// Everything that runs say about their arms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparisons {
    /// Name of the primary metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its good direction.
    pub better: Better,
    /// Names of the secondary metrics that the plan asked for.
    pub secondary_metrics: Vec<String>,
    /// Level of the family-wise test.
    pub alpha: f64,
    /// Ratio of the better to the worse within which arms count as equal; 1: there is no such margin.
    pub margin_ratio: f64,
    /// Tests in the primary family; Holm's adjustment is over all of them.
    pub family: usize,
    /// Where there are several levels, the primary family: each pair's mean log ratio over levels, block by block.
    /// The levels' own contrasts are then a second family, adjusted among themselves. Empty where there is one level.
    pub overall: Vec<Contrast>,
    /// The families that come after the primary one under gatekeeping, a metric each, over all levels.
    pub gatekept: Vec<Contrast>,
    /// Blocks with which a test of this family could at best reach `alpha`.
    pub blocks_needed: usize,
    /// The rung of evidence, computed from what the runs are.
    pub rung: Rung,
    /// One comparison per level and kind of server, ascending.
    pub levels: Vec<LevelComparison>,
}

impl Comparisons {
    /// The metrics that the plan named: the primary one, then the secondary ones.
    pub fn named_metrics(&self) -> impl Iterator<Item = &str> {
        let secondary = self.secondary_metrics.iter().filter(|name| **name != self.metric);
        std::iter::once(&self.metric).chain(secondary).map(String::as_str)
    }
}

/// The arms at one level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LevelComparison {
    /// Factor levels.
    pub levels: Levels,
    /// Hash of the experiment that these runs are of.
    pub experiment_digest: Digest,
    /// Who saw the times.
    pub source: Source,
    /// Runtime and version.
    pub engine: String,
    /// Latency profile of a simulated engine.
    pub latency_profile: Option<ProfileRef>,
    /// Blocks of which at least one run is there or was planned.
    pub blocks: Vec<u64>,
    /// Runs that should be there and can't be used.
    pub missing: Vec<Missing>,
    /// The arms: treatments, baselines, controls, replicates, bounds.
    pub arms: Vec<ArmRow>,
    /// The primary pairs at this level, with p adjusted over the pairs of all levels.
    pub primary: Vec<Contrast>,
    /// Treatments against controls on the primary metric. Exploratory.
    pub controls: Vec<Contrast>,
    /// The primary pairs on other metrics. Exploratory.
    pub secondary: Vec<Contrast>,
    /// An arm against its own repetition: expected to contain 1.
    pub replicates: Vec<Contrast>,
    /// How much of each bound an arm reaches, as a ratio with the better direction up.
    pub bounds: Vec<Contrast>,
}

/// A run that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Missing {
    /// Its arm.
    pub arm: String,
    /// Its block.
    pub block: u64,
    /// Why.
    pub why: String,
}

/// An arm and the medians of its metrics over blocks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ArmRow {
    /// Its name.
    pub arm: String,
    /// What it is in the comparison.
    pub role: ArmRole,
    /// Name of its policy.
    pub policy: String,
    /// What the policy may see.
    pub information: String,
    /// Blocks that it has.
    pub blocks: usize,
    /// Median over blocks by metric; `null` when a block has no value.
    pub medians: BTreeMap<String, Option<f64>>,
}

/// Compares the arms of complete runs under a rule.
///
/// # Panics
/// When the rule's `alpha` is not between 0 and 1: whoever reads it from a user checks it.
#[must_use]
pub fn compare(runs: &[Run], rule: &ComparisonRule) -> Comparisons {
    let levels = cells::levels(runs, &rule.planned);
    let mut compared: Vec<_> = levels.iter().map(|level| compare_level(level, rule)).collect();
    let pairs = all_pairs(&compared);
    let mut overall = overall::overall(&levels, &rule.metric, &pairs, rule.test());
    let mut by_level: Vec<&mut Contrast> = compared.iter_mut().flat_map(|level| &mut level.primary).collect();
    let at_levels = by_level.len();
    adjust(&mut by_level, rule);
    adjust(&mut overall.iter_mut().collect::<Vec<_>>(), rule);
    let family = if overall.is_empty() { at_levels } else { overall.len() };
    let primary: Vec<&Contrast> = match overall.is_empty() {
        true => compared.iter().flat_map(|level| &level.primary).collect(),
        false => overall.iter().collect(),
    };
    let gatekept = gatekeeping::families(&levels, (&primary, &pairs), rule);
    let info = metric(&rule.metric);
    Comparisons {
        metric: rule.metric.clone(),
        unit: info.map_or_else(String::new, |info| info.unit.to_owned()),
        better: info.map_or(Better::Higher, |info| info.better),
        secondary_metrics: rule.named.clone(),
        alpha: rule.alpha,
        margin_ratio: rule.min_effect_ratio,
        family,
        blocks_needed: blocks_needed(rule.alpha, family).expect("the rule's alpha lies between 0 and 1"),
        rung: rung::rung(runs, &compared, rule),
        overall,
        gatekept,
        levels: compared,
    }
}

fn compare_level(level: &Level<'_>, rule: &ComparisonRule) -> LevelComparison {
    let pairs = rule.contrasts.clone().unwrap_or_else(|| level.pairs(is_treatment, is_baseline));
    let on_primary = |pairs: &[Pair]| level.contrasts(&rule.metric, pairs, rule.test());
    LevelComparison {
        levels: level.levels.clone(),
        experiment_digest: level.experiment_digest.clone(),
        source: level.source,
        engine: level.engine.clone(),
        latency_profile: level.latency_profile.clone(),
        blocks: level.blocks.iter().copied().collect(),
        missing: level.missing.clone(),
        arms: level.arms.iter().map(|arm| arm_row(arm, rule)).collect(),
        primary: on_primary(&pairs),
        controls: on_primary(&level.pairs(is_treatment, is_control)),
        secondary: rule
            .secondary
            .iter()
            .flat_map(|name| level.contrasts(name, &pairs, rule.test()))
            .collect(),
        replicates: on_primary(&level.replicates()),
        bounds: level.bounds(&rule.metric, rule.test()),
    }
}

fn is_treatment(role: &ArmRole) -> bool {
    *role == ArmRole::Treatment
}

fn is_control(role: &ArmRole) -> bool {
    matches!(role, ArmRole::Control | ArmRole::Placebo)
}

fn is_baseline(role: &ArmRole) -> bool {
    *role == ArmRole::Baseline
}

fn arm_row(arm: &Arm<'_>, rule: &ComparisonRule) -> ArmRow {
    let names = rule.secondary.iter().chain([&rule.metric]);
    ArmRow {
        arm: arm.name.clone(),
        role: arm.role.clone(),
        policy: arm.policy.clone(),
        information: arm.information.clone(),
        blocks: arm.runs.len(),
        medians: names.map(|name| (name.clone(), median(arm, name))).collect(),
    }
}

fn median(arm: &Arm<'_>, name: &str) -> Option<f64> {
    let values = arm.runs.values().map(|run| run.summary.metrics.get(name).and_then(|metric| metric.value));
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    quantile_linear(&values, 0.5)
}

/// The pairs of all levels, each once, in order of appearance.
pub(crate) fn all_pairs(levels: &[LevelComparison]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for contrast in levels.iter().flat_map(|level| &level.primary) {
        if !pairs.contains(&contrast.pair) {
            pairs.push(contrast.pair.clone());
        }
    }
    pairs
}

/// Holm's adjustment over a family; a contrast without a p-value counts as p = 1, so that a run that went missing
/// never makes the others look better.
fn adjust(family: &mut [&mut Contrast], rule: &ComparisonRule) {
    let of = |p: fn(&Contrast) -> Option<f64>| -> Vec<f64> {
        let p: Vec<f64> = family.iter().map(|contrast| p(contrast).unwrap_or(1.0)).collect();
        holm(&p).expect("the tests give p-values between 0 and 1")
    };
    let (p, p_equivalence) = (of(|contrast| contrast.p), of(|contrast| contrast.p_equivalence));
    let size = family.len();
    for (contrast, (p, p_equivalence)) in family.iter_mut().zip(p.into_iter().zip(p_equivalence)) {
        contrast.settle(Adjusted { p, p_equivalence }, size, rule);
    }
}

#[cfg(test)]
pub(crate) mod tests;
