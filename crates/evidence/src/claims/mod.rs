//! Claims: what the runs of an experiment allow to be said, each with its scope, its evidence, its rung and its verdict.
//!
//! All of it follows from the folder of results. Nobody declares a rung or a verdict.

mod rules;

pub use rules::{Finding, Judged};

use crate::preregistration::PreregistrationSection;
use crate::{
    Comparisons, Contrast, Deviation, Effect, LevelComparison, Levels, Loaded, Pair, Range, Registration,
    Rung, Verdict,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Version of `claims.json`.
const VERSION: u32 = 1;

/// `claims.json`: one entry per experiment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClaimsDocument {
    /// Version of this document.
    pub v: u32,
    /// What each experiment allows to be said.
    pub experiments: Vec<Claims>,
}

/// What one experiment allows to be said.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claims {
    /// Name of the experiment.
    pub experiment: String,
    /// Its sweeps among the folders read.
    pub sweeps: Vec<String>,
    /// SHA-256 of the preregistration, hex; null where there is none.
    pub preregistration: Option<String>,
    /// Every change since the first lock.
    pub deviations: Vec<Deviation>,
    /// What a reader should know of the registration besides.
    pub remarks: Vec<String>,
    /// The rung that all of it stands on, and what the others lack.
    pub rung: Rung,
    /// The claims of the primary family, then of those behind its gate.
    pub claims: Vec<Claim>,
    /// The registered conditions of the hypothesis, judged; empty without a preregistration.
    pub promotion: Vec<Judged>,
    /// What was registered to refute the hypothesis, judged.
    pub falsification: Vec<Judged>,
    /// What follows from both: `null` without a preregistration.
    pub outcome: Option<String>,
}

/// One sentence about two arms, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claim {
    /// The sentence, in the words that the rung allows.
    pub statement: String,
    /// Name of the metric.
    pub metric: String,
    /// The two arms.
    pub contrast: Pair,
    /// Where it holds.
    pub scope: Scope,
    /// What it rests on.
    pub evidence: Vec<EvidenceRef>,
    /// The rung, 0 to 5.
    pub rung: u8,
    /// What the tests of the family say.
    pub verdict: FourWay,
    /// Why there is no verdict; absent where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_inconclusive: Option<&'static str>,
    /// The effect as a ratio, or as a difference where there is none.
    pub effect: Effect,
    /// Ratio within which arms count as equal.
    pub margin_ratio: f64,
    /// p of the difference, adjusted over the family.
    pub p_adjusted: Option<f64>,
    /// p of "not within the margin", adjusted over the family.
    pub p_equivalence_adjusted: Option<f64>,
}

/// The four outcomes of a comparison that has a margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FourWay {
    /// Better at the family's level, by an estimate that matters.
    Superior,
    /// Within the margin at the family's level.
    Equivalent,
    /// Worse at the family's level, by an estimate that matters.
    Inferior,
    /// Neither is shown.
    Inconclusive,
}

/// Where a claim holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Scope {
    /// Factor levels that it is about.
    pub levels: Vec<Levels>,
    /// Runtimes and versions.
    pub engines: Vec<String>,
    /// Latency profiles of simulated engines.
    pub latency_profiles: Vec<String>,
    /// Blocks that both arms have.
    pub blocks: usize,
}

/// A run that a claim rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EvidenceRef {
    /// Name of the run; its folder is beside `_sweeps`.
    pub run_id: String,
    /// Hash of what was run.
    pub cell_digest: String,
}

/// Everything that these runs allow to be said.
#[must_use]
pub fn claims(loaded: &Loaded, comparisons: &Comparisons) -> Claims {
    let registration = loaded.sweeps.first().map(|sweep| sweep.registration.clone()).unwrap_or_default();
    let section = registration.lock.as_ref().map(|lock| lock.preregistration.section());
    let judged = section.as_ref().map(|section| judge(section, loaded, comparisons));
    let (promotion, falsification) = judged.unwrap_or_default();
    let outcome = section.map(|_| rules::outcome(&promotion, &falsification).to_owned());
    let experiment = loaded.runs.first().map(|run| run.manifest.experiment.clone());
    let Registration { lock, .. } = &registration;
    Claims {
        experiment: experiment.unwrap_or_default(),
        sweeps: loaded.sweeps.iter().map(|sweep| sweep.plan.sweep.clone()).collect(),
        preregistration: lock.as_ref().map(|lock| lock.sha256.clone()),
        deviations: registration.deviations().to_vec(),
        remarks: remarks(loaded, &registration),
        rung: comparisons.rung.clone(),
        claims: family(comparisons)
            .chain(gatekept(comparisons))
            .map(|(levels, contrast)| claim(loaded, comparisons, &levels, contrast))
            .collect(),
        promotion,
        falsification,
        outcome,
    }
}

/// What the registration says of its runs, and whether the program that locked it also made them.
fn remarks(loaded: &Loaded, registration: &Registration) -> Vec<String> {
    let mut remarks = registration.remarks.clone();
    if let Some(lock) = &registration.lock {
        let program = &lock.preregistration.program;
        let registered = loaded.runs.iter().filter_map(|run| run.manifest.preregistration.as_ref());
        let others = registered.filter(|registered| registered.program_sha256 != program.sha256).count();
        if others > 0 {
            remarks.push(format!(
                "{others} runs were made by another executable than the one that locked (acb {}, sha256 {})",
                program.version,
                &program.sha256.get(..16).unwrap_or(&program.sha256)
            ));
        }
    }
    remarks
}

/// The document of several experiments.
#[must_use]
pub fn claims_document(experiments: Vec<Claims>) -> ClaimsDocument {
    ClaimsDocument { v: VERSION, experiments }
}

fn judge(
    section: &PreregistrationSection,
    loaded: &Loaded,
    comparisons: &Comparisons,
) -> (Vec<Judged>, Vec<Judged>) {
    let promotion = section.promotion.iter().map(|rule| rules::promotion(rule, comparisons)).collect();
    let falsification =
        section.falsification.iter().map(|rule| rules::falsification(rule, loaded, comparisons));
    (promotion, falsification.collect())
}

/// The primary family, each contrast with the levels that it is about: all of them together, or the only one.
fn family(comparisons: &Comparisons) -> impl Iterator<Item = (Vec<&LevelComparison>, &Contrast)> {
    let all: Vec<&LevelComparison> = comparisons.levels.iter().collect();
    let overall = comparisons.overall.iter().map(move |contrast| (all.clone(), contrast));
    let single = comparisons.levels.iter().filter(|_| comparisons.overall.is_empty());
    overall.chain(single.flat_map(|level| level.primary.iter().map(move |contrast| (vec![level], contrast))))
}

/// The families behind the primary one, over all levels.
fn gatekept(comparisons: &Comparisons) -> impl Iterator<Item = (Vec<&LevelComparison>, &Contrast)> {
    comparisons.gatekept.iter().map(|contrast| (comparisons.levels.iter().collect(), contrast))
}

fn claim(
    loaded: &Loaded,
    comparisons: &Comparisons,
    levels: &[&LevelComparison],
    contrast: &Contrast,
) -> Claim {
    let (verdict, why_inconclusive) = four_way(contrast.verdict);
    let arms = [&contrast.pair.arm, &contrast.pair.against];
    let of_claim = |run: &&crate::Run| {
        arms.contains(&&run.manifest.arm) && levels.iter().any(|level| level.levels == run.manifest.levels)
    };
    let evidence = loaded.runs.iter().filter(of_claim).map(|run| EvidenceRef {
        run_id: run.manifest.run_id.clone(),
        cell_digest: run.manifest.cell_digest.to_string(),
    });
    let engines: BTreeSet<String> = levels.iter().map(|level| level.engine.clone()).collect();
    let profiles = levels.iter().filter_map(|level| level.latency_profile.as_ref());
    let profiles: BTreeSet<String> = profiles.map(|profile| profile.name.clone()).collect();
    Claim {
        statement: statement(comparisons, contrast, verdict, levels.len()),
        metric: contrast.metric.clone(),
        contrast: contrast.pair.clone(),
        scope: Scope {
            levels: levels.iter().map(|level| level.levels.clone()).collect(),
            engines: engines.into_iter().collect(),
            latency_profiles: profiles.into_iter().collect(),
            blocks: contrast.blocks,
        },
        evidence: evidence.collect(),
        rung: comparisons.rung.level,
        verdict,
        why_inconclusive,
        effect: contrast.effect.clone(),
        margin_ratio: comparisons.margin_ratio,
        p_adjusted: contrast.p_adjusted,
        p_equivalence_adjusted: contrast.p_equivalence_adjusted,
    }
}

/// The four-way verdict, and why it is open where it is.
pub(crate) fn four_way(verdict: Option<Verdict>) -> (FourWay, Option<&'static str>) {
    match verdict {
        Some(Verdict::Better) => (FourWay::Superior, None),
        Some(Verdict::Worse) => (FourWay::Inferior, None),
        Some(Verdict::Equivalent) => (FourWay::Equivalent, None),
        Some(Verdict::TooSmall) => (
            FourWay::Inconclusive,
            Some("a difference whose estimate is below the margin, and that may be above it"),
        ),
        Some(Verdict::TooFewBlocks) => {
            (FourWay::Inconclusive, Some("too few blocks for any outcome to decide"))
        }
        Some(Verdict::Unclear) => (FourWay::Inconclusive, Some("neither a difference nor equality is shown")),
        Some(Verdict::NotEstimable) | None => (FourWay::Inconclusive, Some("not estimable")),
    }
}

/// The sentence. Its verb is the rung's; on the ground there is no sentence about arms.
fn statement(comparisons: &Comparisons, contrast: &Contrast, verdict: FourWay, levels: usize) -> String {
    let Pair { arm, against } = &contrast.pair;
    let over = if levels > 1 { format!(" over {levels} levels together") } else { String::new() };
    let scope = format!("in {}{over}", contrast.metric);
    let Some(verb) = comparisons.rung.verb else {
        return format!("no claim about {arm} and {against}: these runs check the system only");
    };
    let place = match comparisons.rung.level {
        1 | 2 => "in this model, ",
        3 => "in these runs, ",
        4 => "on this server, ",
        _ => "",
    };
    let margin = comparisons.margin_ratio;
    match verdict {
        FourWay::Superior => {
            format!("{place}{arm} {verb} better than {against} {scope}{}", by(&contrast.effect))
        }
        FourWay::Inferior => {
            format!("{place}{arm} {verb} worse than {against} {scope}{}", by(&contrast.effect))
        }
        FourWay::Equivalent => {
            format!(
                "{place}{arm} {verb} as good as {against} {scope}, within a ratio of {margin}{}",
                by(&contrast.effect)
            )
        }
        FourWay::Inconclusive => {
            format!("{place}it is open whether {arm} {verb} better than {against} {scope}")
        }
    }
}

/// How much, with its interval.
fn by(effect: &Effect) -> String {
    let shown = |Range { estimate, low, high, .. }: &Range| format!("{estimate:.3} [{low:.3}, {high:.3}]");
    match effect {
        Effect::Ratio(range) => format!(": ratio {}", shown(range)),
        Effect::Difference { range, .. } => format!(": difference {}", shown(range)),
        Effect::NotEstimable { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests;
