//! One arm against another on one metric, paired by block.

use super::cells::Arm;
use super::{ComparisonRule, Pair};
use crate::{Better, Metric, metric};
use acb_stats::{Draws, Interval, Sides, StatsError, hodges_lehmann, hodges_lehmann_interval, sign_flip};
use acb_types::Seed;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sign patterns drawn where there are too many blocks to count all.
const DRAWS: u64 = 100_000;

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
    /// Two-sided p of the exact sign-flip test (of logs for a ratio, of values for a difference).
    pub p: Option<f64>,
    /// The same after Holm's adjustment; only in the primary family.
    pub p_adjusted: Option<f64>,
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
    /// A difference at the family's level, and the estimate is smaller than what matters.
    TooSmall,
    /// The blocks are so few that no outcome of the family's tests could have shown a difference.
    TooFewBlocks,
    /// Neither is shown. This is not a proof of equality.
    Unclear,
    /// There was nothing to test.
    NotEstimable,
}

impl Contrast {
    pub(super) fn of(name: &str, arms: [Option<&Arm<'_>>; 2], pair: &Pair, alpha: f64) -> Self {
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
                contrast.estimate(&values, alpha);
            }
        }
        contrast
    }

    /// From one log ratio per block.
    pub(super) fn of_log_ratios(name: &str, pair: &Pair, by_block: &BTreeMap<u64, f64>, alpha: f64) -> Self {
        let ratios: Vec<f64> = by_block.values().copied().collect();
        let mut contrast = Self::empty(name, pair);
        contrast.blocks = ratios.len();
        match range(&ratios, 1.0 - alpha) {
            Err(error) => contrast.effect = Effect::NotEstimable { why: in_blocks(&error) },
            Ok(range) => {
                contrast.effect = Effect::Ratio(range.exp());
                contrast.p = Some(contrast.test(&ratios));
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
            p: None,
            p_adjusted: None,
            verdict: None,
            better_in: Vec::new(),
        }
    }

    /// Fills in effect and p, and the blocks in which the arm is ahead.
    fn estimate(&mut self, values: &Values, alpha: f64) {
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
        match (range(&differences, 1.0 - alpha), zero) {
            (Err(error), _) => self.effect = Effect::NotEstimable { why: in_blocks(&error) },
            (Ok(range), None) => self.effect = Effect::Ratio(range.exp()),
            (Ok(range), Some(why)) => self.effect = Effect::Difference { range, why },
        }
        if !matches!(self.effect, Effect::NotEstimable { .. }) {
            self.p = Some(self.test(&differences));
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
    pub(super) fn settle(&mut self, p_adjusted: f64, family: usize, rule: &ComparisonRule) {
        let above = match &self.effect {
            Effect::NotEstimable { .. } => {
                self.verdict = Some(Verdict::NotEstimable);
                return;
            }
            Effect::Ratio(range) => range.estimate > 1.0,
            Effect::Difference { range, .. } => range.estimate > 0.0,
        };
        self.p_adjusted = Some(p_adjusted);
        let small = match &self.effect {
            Effect::Ratio(range) => range.estimate.ln().abs() < rule.min_effect_ratio.ln(),
            Effect::Difference { .. } | Effect::NotEstimable { .. } => false,
        };
        let least_p = 2.0_f64.powi(1 - self.blocks as i32) * family as f64;
        let shown = p_adjusted <= rule.alpha && self.excludes_no_difference() == Some(true);
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
