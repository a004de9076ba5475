//! The registered rules of a hypothesis, judged from the comparisons alone.

use super::{FourWay, four_way};
use crate::preregistration::{FalsificationRule, PromotionRule};
use crate::{Better, Comparisons, Contrast, Effect, LevelComparison, Loaded};
use acb_types::Source;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What the runs say of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// These runs can't tell.
    Open,
}

/// A rule and what the runs say of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Judged {
    /// The rule in words.
    pub rule: String,
    /// Whether it holds.
    pub finding: Finding,
    /// Why.
    pub because: String,
}

fn judged(rule: String, finding: Finding, because: impl Into<String>) -> Judged {
    Judged { rule, finding, because: because.into() }
}

/// What follows for the hypothesis.
pub(super) fn outcome(promotion: &[Judged], falsification: &[Judged]) -> &'static str {
    let any = |rules: &[Judged], finding| rules.iter().any(|rule| rule.finding == finding);
    let all_hold = promotion.iter().all(|rule| rule.finding == Finding::Holds);
    match () {
        () if any(falsification, Finding::Holds) => "falsified: a registered refutation holds",
        () if any(promotion, Finding::Fails) => "not promoted: a registered condition fails",
        () if all_hold && !any(falsification, Finding::Open) => {
            "promoted: every condition holds and no refutation is open"
        }
        () => "undecided: no refutation holds, and not every rule can be judged from these runs",
    }
}

/// Judges a condition of the hypothesis.
pub(super) fn promotion(rule: &PromotionRule, comparisons: &Comparisons) -> Judged {
    match rule {
        PromotionRule::Superior => superior(comparisons),
        PromotionRule::SuperiorAtLevels { at_least } => superior_at_levels(comparisons, *at_least as usize),
        PromotionRule::NotWorse { metric, margin_ratio } => not_worse(comparisons, metric, *margin_ratio),
    }
}

/// Judges something that refutes the hypothesis.
pub(super) fn falsification(rule: &FalsificationRule, loaded: &Loaded, comparisons: &Comparisons) -> Judged {
    match rule {
        FalsificationRule::OnlySimulated => only_simulated(comparisons),
        FalsificationRule::VanishesAt { factor, value } => vanishes_at(comparisons, factor, value),
        FalsificationRule::QualityNotMeasured => quality_not_measured(loaded),
        FalsificationRule::CountersContradict { metric } => counters_contradict(comparisons, metric),
    }
}

/// Whether the arm is superior in all of these contrasts: it fails where one is shown to be something else.
fn all_superior<'a>(contrasts: impl Iterator<Item = &'a Contrast>) -> (Finding, String) {
    let verdicts: Vec<(FourWay, &Contrast)> = contrasts.map(|c| (four_way(c.verdict).0, c)).collect();
    let named = |wanted: &dyn Fn(FourWay) -> bool| {
        let names =
            verdicts.iter().filter(|(verdict, _)| wanted(*verdict)).map(|(_, c)| c.pair.against.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let other = named(&|verdict| matches!(verdict, FourWay::Inferior | FourWay::Equivalent));
    let open = named(&|verdict| verdict == FourWay::Inconclusive);
    match () {
        () if verdicts.is_empty() => (Finding::Open, "nothing is compared".to_owned()),
        () if !other.is_empty() => (Finding::Fails, format!("equal or worse against {other}")),
        () if !open.is_empty() => (Finding::Open, format!("open against {open}")),
        () => (Finding::Holds, "superior in every contrast".to_owned()),
    }
}

fn superior(comparisons: &Comparisons) -> Judged {
    let (finding, because) = all_superior(super::family(comparisons).map(|(_, contrast)| contrast));
    judged(format!("superior in {} in every contrast, over all levels", comparisons.metric), finding, because)
}

fn superior_at_levels(comparisons: &Comparisons, at_least: usize) -> Judged {
    let findings = comparisons.levels.iter().map(|level| all_superior(level.primary.iter()).0);
    let findings: Vec<Finding> = findings.collect();
    let count = |wanted: Finding| findings.iter().filter(|finding| **finding == wanted).count();
    let (holds, open) = (count(Finding::Holds), count(Finding::Open));
    let finding = match () {
        () if holds >= at_least => Finding::Holds,
        () if holds + open >= at_least => Finding::Open,
        () => Finding::Fails,
    };
    let because =
        format!("superior in every contrast at {holds} of {} levels, open at {open}", findings.len());
    judged(format!("superior in {} at {at_least} levels or more", comparisons.metric), finding, because)
}

/// The primary pairs on another metric, at all levels.
fn on<'a>(comparisons: &'a Comparisons, metric: &'a str) -> impl Iterator<Item = &'a Contrast> {
    let of = move |level: &'a LevelComparison| level.primary.iter().chain(&level.secondary);
    comparisons.levels.iter().flat_map(of).filter(move |contrast| contrast.metric == metric)
}

/// Non-inferiority by the interval of each contrast: within the margin it holds, beyond it it fails.
fn not_worse(comparisons: &Comparisons, metric: &str, margin_ratio: f64) -> Judged {
    let rule =
        format!("not worse in {metric} by more than a ratio of {margin_ratio}, in any contrast at any level");
    let (mut worse, mut open, mut all) = (Vec::new(), Vec::new(), 0usize);
    for contrast in on(comparisons, metric) {
        all += 1;
        match loss(contrast, margin_ratio) {
            Finding::Holds => {}
            Finding::Fails => worse.push(contrast.pair.against.as_str()),
            Finding::Open => open.push(contrast.pair.against.as_str()),
        }
    }
    let once = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    match (all, worse.is_empty(), open.is_empty()) {
        (0, ..) => judged(rule, Finding::Open, "the metric is not compared"),
        (_, false, _) => judged(rule, Finding::Fails, format!("worse than {}", once(worse))),
        (_, true, false) => {
            let because = format!("open in {} of {all} comparisons, with {}", open.len(), once(open));
            judged(rule, Finding::Open, because)
        }
        (_, true, true) => judged(rule, Finding::Holds, format!("shown in all {all} comparisons")),
    }
}

/// Whether a loss stays within a margin.
fn loss(contrast: &Contrast, margin_ratio: f64) -> Finding {
    let Effect::Ratio(range) = &contrast.effect else { return Finding::Open };
    // As a ratio with the better direction up: from the worst that the interval allows to the best.
    let (worst, best) = match contrast.better {
        Better::Higher => (range.low, range.high),
        Better::Lower => (1.0 / range.high, 1.0 / range.low),
    };
    match () {
        () if worst > 1.0 / margin_ratio => Finding::Holds,
        () if best < 1.0 / margin_ratio => Finding::Fails,
        () => Finding::Open,
    }
}

fn only_simulated(comparisons: &Comparisons) -> Judged {
    let rule = "the effect exists only in the simulator".to_owned();
    if comparisons.levels.iter().any(|level| level.source == Source::Simulated) {
        return judged(
            rule,
            Finding::Open,
            "these runs are simulated; no measured run could show it elsewhere",
        );
    }
    match all_superior(super::family(comparisons).map(|(_, contrast)| contrast)) {
        (Finding::Holds, _) => judged(rule, Finding::Fails, "it is there in measured runs"),
        (Finding::Fails, why) => judged(rule, Finding::Holds, format!("measured runs don't have it: {why}")),
        (Finding::Open, why) => judged(rule, Finding::Open, why),
    }
}

fn vanishes_at(comparisons: &Comparisons, factor: &str, value: &Value) -> Judged {
    let rule = format!("the effect vanishes where {factor} is {value}");
    let there: Vec<&LevelComparison> =
        comparisons.levels.iter().filter(|level| level.levels.get(factor) == Some(value)).collect();
    if there.is_empty() {
        return judged(rule, Finding::Open, "no run has that value");
    }
    match all_superior(there.iter().flat_map(|level| &level.primary)) {
        (Finding::Holds, _) => judged(rule, Finding::Fails, "it is there in every contrast"),
        (Finding::Fails, why) => judged(rule, Finding::Holds, why),
        (Finding::Open, why) => judged(rule, Finding::Open, why),
    }
}

fn quality_not_measured(loaded: &Loaded) -> Judged {
    let rule = "the effect rests on quality that nobody measured".to_owned();
    let from_table = |run: &crate::Run| run.manifest.quality_source == "synthetic_table";
    let count = loaded.runs.iter().filter(|run| from_table(run)).count();
    match count {
        0 => judged(rule, Finding::Fails, "quality was scored or comes from a frozen table of outcomes"),
        _ => {
            let because =
                format!("{count} runs draw quality from a synthetic table: what a real gap is stays open");
            judged(rule, Finding::Open, because)
        }
    }
}

fn counters_contradict(comparisons: &Comparisons, metric: &str) -> Judged {
    let rule = format!("the servers' own counters contradict it: worse in {metric}");
    let findings: Vec<Finding> = on(comparisons, metric).map(|contrast| loss(contrast, 1.0)).collect();
    let estimable = on(comparisons, metric).any(|c| !matches!(c.effect, Effect::NotEstimable { .. }));
    match () {
        () if !estimable => judged(rule, Finding::Open, "no run has that counter"),
        () if findings.contains(&Finding::Fails) => judged(rule, Finding::Holds, "worse in some contrast"),
        () => judged(rule, Finding::Fails, "not worse in any contrast"),
    }
}
