//! One arm against another on one metric, paired by block.

use super::cells::Arm;
use super::{ComparisonRule, Pair};
use crate::{Better, Metric, metric};
use acb_stats::{
    Draws, Interval, Sides, StatsError, hodges_lehmann, hodges_lehmann_interval, rank_tost, sign_flip,
};
use acb_types::Seed;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sign patterns drawn where there are too many blocks to count all.
const DRAWS: u64 = 100_000;

/// Level and margin of a contrast's tests.
#[derive(Clone, Copy)]
pub(super) struct Test {
    /// Level of the tests; intervals have confidence `1 - alpha`.
    pub(super) alpha: f64,
    /// Ratio of the better to the worse within which arms count as equal; 1: there is no such margin.
    pub(super) margin_ratio: f64,
}

/// The comparison of two arms on one metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Contrast {
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its good direction.
    pub better: Better,
    /// The two arms.
    #[serde(flatten)]
    pub pair: Pair,
    /// Blocks that both arms have.
    pub blocks: usize,
    /// How large the difference is.
    pub effect: Effect,
    /// Standard deviation over blocks of the log ratio; `None` where there is no ratio.
    pub log_ratio_sd: Option<f64>,
    /// Two-sided p of the exact sign-flip test (of logs for a ratio, of values for a difference).
    pub p: Option<f64>,
    /// The same after Holm's adjustment; only in the primary family.
    pub p_adjusted: Option<f64>,
    /// p of "the ratio is not within the margin": two one-sided exact signed-rank tests; `None` where there is no margin
    /// or no ratio.
    pub p_equivalence: Option<f64>,
    /// The same after Holm's adjustment; only in the primary family.
    pub p_equivalence_adjusted: Option<f64>,
    /// What follows under the family's level; only in the primary family.
    pub verdict: Option<Verdict>,
    /// Blocks in which the arm is better than the other. Against a bound there should be none.
    pub better_in: Vec<u64>,
}

/// How large a difference is: Hodges-Lehmann over blocks, interval by inverting the exact signed-rank test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Arm over the other, from log ratios.
    Ratio(Range),
    /// Arm minus the other, because a ratio does not exist.
    Difference {
        /// The difference.
        #[serde(flatten)]
        range: Range,
        /// Why there is no ratio.
        why: String,
    },
    /// No number.
    NotEstimable {
        /// Why.
        why: String,
    },
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The level that the interval really has.
    pub level: f64,
}

/// What a test of the primary family says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The arm is better at the family's level.
    Better,
    /// The arm is worse at the family's level.
    Worse,
    /// Within the margin at the family's level: as good as equal, whether or not a difference is shown.
    Equivalent,
    /// A difference at the family's level whose estimate is smaller than what matters, and not shown to be within it.
    TooSmall,
    /// The blocks are so few that no outcome of the family's tests could have shown a difference.
    TooFewBlocks,
    /// Neither is shown. This is not a proof of equality.
    Unclear,
    /// There was nothing to test.
    NotEstimable,
}

impl Contrast {
    pub(super) fn of(name: &str, arms: [Option<&Arm<'_>>; 2], pair: &Pair, test: Test) -> Self {
        let mut contrast = Self::empty(name, pair);
        let [Some(arm), Some(against)] = arms else {
            let lacking = if arms[0].is_none() { &pair.arm } else { &pair.against };
            contrast.effect =
                Effect::NotEstimable { why: format!("arm \"{lacking}\" has no run at this level") };
            return contrast;
        };
        match Values::of(name, arm, against) {
            Err(why) => contrast.effect = Effect::NotEstimable { why },
            Ok(values) => {
                contrast.unit.clone_from(&values.unit);
                contrast.blocks = values.blocks.len();
                contrast.estimate(&values, test);
            }
        }
        contrast
    }

    /// From one log ratio per block.
    pub(super) fn of_log_ratios(name: &str, pair: &Pair, by_block: &BTreeMap<u64, f64>, test: Test) -> Self {
        let ratios: Vec<f64> = by_block.values().copied().collect();
        let mut contrast = Self::empty(name, pair);
        contrast.blocks = ratios.len();
        contrast.log_ratio_sd = deviation(&ratios);
        match range(&ratios, 1.0 - test.alpha) {
            Err(error) => contrast.effect = Effect::NotEstimable { why: in_blocks(&error) },
            Ok(range) => {
                contrast.effect = Effect::Ratio(range.exp());
                contrast.p = Some(contrast.test(&ratios));
                contrast.p_equivalence = equivalence(&ratios, test);
            }
        }
        contrast
    }

    /// A comparison that can't be made.
    pub(super) fn without_number(name: &str, pair: &Pair, why: String) -> Self {
        Self { effect: Effect::NotEstimable { why }, ..Self::empty(name, pair) }
    }

    fn empty(name: &str, pair: &Pair) -> Self {
        let info = metric(name);
        Self {
            metric: name.to_owned(),
            unit: info.map_or_else(String::new, |info| info.unit.to_owned()),
            better: info.map_or(Better::Higher, |info| info.better),
            pair: pair.clone(),
            blocks: 0,
            effect: Effect::NotEstimable { why: String::new() },
            log_ratio_sd: None,
            p: None,
            p_adjusted: None,
            p_equivalence: None,
            p_equivalence_adjusted: None,
            verdict: None,
            better_in: Vec::new(),
        }
    }

    /// Fills in effect and p, and the blocks in which the arm is ahead.
    fn estimate(&mut self, values: &Values, test: Test) {
        let (better, slack) = (self.better, 1e-9);
        let beyond = |(a, b): (f64, f64)| match better {
            Better::Higher => a > b + slack * b.abs(),
            Better::Lower => a < b - slack * b.abs(),
        };
        self.better_in = values
            .blocks
            .iter()
            .zip(values.pairs())
            .filter(|(_, pair)| beyond(*pair))
            .map(|(block, _)| *block)
            .collect();
        let zero = values.zero();
        let differences: Vec<f64> = match zero {
            None => values.pairs().map(|(a, b)| (a / b).ln()).collect(),
            Some(_) => values.pairs().map(|(a, b)| a - b).collect(),
        };
        self.log_ratio_sd = zero.is_none().then(|| deviation(&differences)).flatten();
        match (range(&differences, 1.0 - test.alpha), zero) {
            (Err(error), _) => self.effect = Effect::NotEstimable { why: in_blocks(&error) },
            (Ok(range), None) => self.effect = Effect::Ratio(range.exp()),
            (Ok(range), Some(why)) => self.effect = Effect::Difference { range, why },
        }
        if !matches!(self.effect, Effect::NotEstimable { .. }) {
            self.p = Some(self.test(&differences));
        }
        if matches!(self.effect, Effect::Ratio(_)) {
            self.p_equivalence = equivalence(&differences, test);
        }
    }

    fn test(&self, differences: &[f64]) -> f64 {
        let mut chance =
            Seed(0).stream(&format!("sign_flip {} {} {}", self.metric, self.pair.arm, self.pair.against));
        let draws = Draws { count: DRAWS, bits: &mut || chance.bits() };
        sign_flip(differences, Sides::Two, draws).expect("differences with an interval can be tested").p
    }

    /// Gives the verdict under an adjusted p-value in a family of this many tests. A difference is shown when the
    /// adjusted p and the interval say so: the test is of the mean, the interval of the Hodges-Lehmann estimate.
    /// Equivalence goes first: a difference that is shown and shown not to matter is no advantage.
    pub(super) fn settle(&mut self, adjusted: Adjusted, family: usize, rule: &ComparisonRule) {
        let above = match &self.effect {
            Effect::NotEstimable { .. } => {
                self.verdict = Some(Verdict::NotEstimable);
                return;
            }
            Effect::Ratio(range) => range.estimate > 1.0,
            Effect::Difference { range, .. } => range.estimate > 0.0,
        };
        let Adjusted { p: p_adjusted, p_equivalence } = adjusted;
        self.p_adjusted = Some(p_adjusted);
        self.p_equivalence_adjusted = self.p_equivalence.map(|_| p_equivalence);
        let small = match &self.effect {
            Effect::Ratio(range) => range.estimate.ln().abs() < rule.min_effect_ratio.ln(),
            Effect::Difference { .. } | Effect::NotEstimable { .. } => false,
        };
        let least_p = 2.0_f64.powi(1 - self.blocks as i32) * family as f64;
        let shown = p_adjusted <= rule.alpha && self.excludes_no_difference() == Some(true);
        if self.p_equivalence_adjusted.is_some_and(|p| p <= rule.alpha) {
            self.verdict = Some(Verdict::Equivalent);
            return;
        }
        self.verdict = Some(match (shown, above == (self.better == Better::Higher)) {
            (false, _) if least_p > rule.alpha => Verdict::TooFewBlocks,
            (true, _) if small => Verdict::TooSmall,
            (false, _) => Verdict::Unclear,
            (true, true) => Verdict::Better,
            (true, false) => Verdict::Worse,
        });
    }

    /// The contrast with a bound as the share of it that is reached: turned over where less is better.
    pub(super) fn into_share_of_bound(self) -> Self {
        let effect = match self.effect {
            Effect::Ratio(range) if self.better == Better::Lower => Effect::Ratio(range.inverse()),
            other => other,
        };
        Self { effect, ..self }
    }

    /// Whether the interval leaves out "no difference"; `None` without an interval.
    #[must_use]
    pub fn excludes_no_difference(&self) -> Option<bool> {
        match &self.effect {
            Effect::Ratio(range) => Some(range.low > 1.0 || range.high < 1.0),
            Effect::Difference { range, .. } => Some(range.low > 0.0 || range.high < 0.0),
            Effect::NotEstimable { .. } => None,
        }
    }
}

impl Range {
    fn exp(self) -> Self {
        let Self { estimate, low, high, level } = self;
        Self { estimate: estimate.exp(), low: low.exp(), high: high.exp(), level }
    }

    fn inverse(self) -> Self {
        let Self { estimate, low, high, level } = self;
        Self { estimate: 1.0 / estimate, low: 1.0 / high, high: 1.0 / low, level }
    }
}

/// Standard deviation of a sample of two or more.
fn deviation(sample: &[f64]) -> Option<f64> {
    acb_stats::variance(sample).ok().map(f64::sqrt)
}

/// p-values of a contrast after the adjustment over its family.
pub(super) struct Adjusted {
    /// Of the difference.
    pub(super) p: f64,
    /// Of "not within the margin".
    pub(super) p_equivalence: f64,
}

/// p of "the ratio is not within the margin"; `None` where there is none, or the blocks are too few or too many for it.
fn equivalence(log_ratios: &[f64], test: Test) -> Option<f64> {
    let margin = test.margin_ratio.ln();
    let found = (margin > 0.0).then(|| rank_tost(log_ratios, margin, test.alpha.min(0.25)))?;
    found.ok().map(|equivalence| equivalence.p())
}

fn range(differences: &[f64], confidence: f64) -> Result<Range, StatsError> {
    let Interval { low, high, level } = hodges_lehmann_interval(differences, confidence)?;
    Ok(Range { estimate: hodges_lehmann(differences)?, low, high, level })
}

/// The reason in the words of the design: an observation is a block here.
fn in_blocks(error: &StatsError) -> String {
    match error {
        StatsError::NotEstimable { have, needed, .. } => {
            format!("{have} blocks, at least {needed} are needed")
        }
        other => other.to_string(),
    }
}

/// The two arms' values of one metric in the blocks that both have.
pub(super) struct Values {
    unit: String,
    pub(super) blocks: Vec<u64>,
    arm: Vec<f64>,
    against: Vec<f64>,
    names: [String; 2],
}

impl Values {
    pub(super) fn of(name: &str, arm: &Arm<'_>, against: &Arm<'_>) -> Result<Self, String> {
        let names = [arm.name.clone(), against.name.clone()];
        let (unit, blocks) = (String::new(), Vec::new());
        let mut values = Self { unit, blocks, arm: Vec::new(), against: Vec::new(), names };
        for (block, run) in &arm.runs {
            let Some(other) = against.runs.get(block) else { continue };
            let a = value(&run.summary.metrics, name, &arm.name, *block)?;
            let b = value(&other.summary.metrics, name, &against.name, *block)?;
            if a.1.source != b.1.source || a.1.unit != b.1.unit {
                return Err(format!("block {block}: the two arms' numbers differ in source or unit"));
            }
            values.unit.clone_from(&a.1.unit);
            values.blocks.push(*block);
            values.arm.push(a.0);
            values.against.push(b.0);
        }
        if values.blocks.is_empty() { Err("the two arms share no block".to_owned()) } else { Ok(values) }
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        self.arm.iter().copied().zip(self.against.iter().copied())
    }

    /// Why there is no ratio, when a value is not positive.
    pub(super) fn zero(&self) -> Option<String> {
        let at = self.pairs().position(|(a, b)| a <= 0.0 || b <= 0.0)?;
        let (name, value) = if self.arm[at] <= 0.0 {
            (&self.names[0], self.arm[at])
        } else {
            (&self.names[1], self.against[at])
        };
        Some(format!("no ratio: \"{name}\" is {value} in block {}", self.blocks[at]))
    }
}

fn value<'a>(
    metrics: &'a BTreeMap<String, Metric>,
    name: &str,
    arm: &str,
    block: u64,
) -> Result<(f64, &'a Metric), String> {
    let Some(metric) = metrics.get(name) else {
        return Err(format!("\"{arm}\", block {block}: the summary does not hold it"));
    };
    match (metric.value, &metric.reason) {
        (Some(value), _) if value.is_finite() => Ok((value, metric)),
        (Some(value), _) => Err(format!("\"{arm}\", block {block}: the value is {value}")),
        (None, reason) => {
            Err(format!("\"{arm}\", block {block}: {}", reason.as_deref().unwrap_or("no value")))
        }
    }
}
