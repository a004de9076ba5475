//! What was asked, what was run, how far it carries, and what is missing.

use super::document::Document;
use super::number::percent;
use crate::drift::drift;
use crate::{ArmRole, Comparisons, Divergence, DivergenceLevel, Loaded, SweepPlan, metric};
use acb_types::Source;
use std::cmp::Ordering;
use std::collections::BTreeSet;

pub(super) fn head(document: &mut Document, loaded: &Loaded, comparisons: &Comparisons) {
    let experiments: BTreeSet<&str> =
        loaded.runs.iter().map(|run| run.manifest.experiment.as_str()).collect();
    let names: Vec<&str> = experiments.into_iter().collect();
    let name = if names.is_empty() { "no complete run".to_owned() } else { names.join(", ") };
    let sweeps: BTreeSet<&str> = loaded.sweeps.iter().map(|sweep| sweep.plan.sweep.as_str()).collect();
    let others: Vec<&str> = sweeps.into_iter().filter(|sweep| *sweep != name).collect();
    let sweep = if others.is_empty() { String::new() } else { format!(" (sweep {})", others.join(", ")) };
    document.heading(1, format!("Comparison of arms: {name}{sweep}"));
    for plan in plans(loaded) {
        document.text(format!("Question: {}", plan.question));
        document.text(format!("Hypothesis: {}", plan.hypothesis));
    }
    evidence(document, comparisons);
    document.bullets(labels(loaded));
    document.text(design_line(loaded, comparisons));
    arms(document, comparisons);
}

/// The plans, one per experiment: sweeps of one experiment under several names ask the same question.
fn plans(loaded: &Loaded) -> Vec<&SweepPlan> {
    let mut plans: Vec<&SweepPlan> = Vec::new();
    for sweep in &loaded.sweeps {
        if !plans.iter().any(|plan| plan.experiment_digest == sweep.plan.experiment_digest) {
            plans.push(&sweep.plan);
        }
    }
    plans
}

fn evidence(document: &mut Document, comparisons: &Comparisons) {
    let rung = &comparisons.rung;
    let carries = match rung.verb {
        None => "It carries no claim about arms.".to_owned(),
        Some(verb) => format!("The verb that it carries is \"{verb}\"."),
    };
    document.text(format!(
        "Evidence {}. {carries} The next rung needs: {}.",
        rung.label,
        rung.missing.join("; ")
    ));
}

/// Loud labels: every distinct one, marked by a word and not by colour.
fn labels(loaded: &Loaded) -> Vec<String> {
    let labels: BTreeSet<&str> =
        loaded.runs.iter().flat_map(|run| &run.manifest.labels).map(String::as_str).collect();
    let mut marked: Vec<String> = labels.into_iter().map(|label| format!("ATTENTION: {label}")).collect();
    let sources: BTreeSet<&str> =
        loaded.runs.iter().map(|run| run.manifest.quality_source.as_str()).collect();
    if sources.contains("synthetic_table") {
        marked.push("ATTENTION: quality comes from a synthetic table: it shows how policies react to a quality gap, not how large a real gap is".to_owned());
    }
    marked
}

fn design_line(loaded: &Loaded, comparisons: &Comparisons) -> String {
    let blocks: BTreeSet<u64> = loaded.runs.iter().map(|run| run.manifest.block).collect();
    let arms: BTreeSet<&str> = loaded.runs.iter().map(|run| run.manifest.arm.as_str()).collect();
    let levels = comparisons.levels.len();
    let requests: u64 = loaded.runs.iter().map(|run| run.summary.requests).sum();
    let planned: usize = loaded.sweeps.iter().map(|sweep| sweep.plan.runs.len()).sum();
    let of_planned = if planned == 0 { String::new() } else { format!(" of {planned} planned") };
    let info = metric(&comparisons.metric);
    format!(
        "Design: blocks {}, arms {}, levels {levels}; complete runs {}{of_planned}; requests {requests}. Primary metric: {} \
         ({}, {} is better). {}",
        blocks.len(),
        arms.len(),
        loaded.runs.len(),
        comparisons.metric,
        comparisons.unit,
        comparisons.better,
        info.map_or("", |info| info.summary)
    )
}

fn arms(document: &mut Document, comparisons: &Comparisons) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for arm in comparisons.levels.iter().flat_map(|level| &level.arms) {
        let row = vec![arm.arm.clone(), role(&arm.role), arm.policy.clone(), arm.information.clone()];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    document.table(["arm", "role", "policy", "sees"], rows);
}

fn role(role: &ArmRole) -> String {
    match role {
        ArmRole::Baseline => "baseline".to_owned(),
        ArmRole::Treatment => "treatment".to_owned(),
        ArmRole::Control => "control".to_owned(),
        ArmRole::Placebo => "placebo: adapters that change no answer".to_owned(),
        ArmRole::AaReplicate { of } => format!("A/A replicate of {of}"),
        ArmRole::Bound => "bound, no competitor".to_owned(),
    }
}

/// The divergence matrices of the sweeps.
pub(super) fn divergences(loaded: &Loaded) -> impl Iterator<Item = &Divergence> {
    loaded.sweeps.iter().filter_map(|sweep| sweep.divergence.as_ref())
}

/// One matrix over all levels for adapters, and one for replicas; nothing when there is one arm.
pub(super) fn divergence(document: &mut Document, divergence: &Divergence) {
    if divergence.arms.len() < 2 {
        return;
    }
    let replayed: u64 = divergence.levels.iter().map(|level| level.requests).sum();
    document.heading(2, "How often arms decide differently");
    document.text(format!(
        "Percent of {replayed} planned requests, all levels together. By level: divergence.json."
    ));
    choices(document, divergence, "adapter", |level| &level.adapter);
    choices(document, divergence, "replica", |level| &level.replica);
}

type Shares = Vec<Vec<Option<f64>>>;

/// The matrix of one choice, or a sentence when all arms always choose alike.
fn choices(
    document: &mut Document,
    divergence: &Divergence,
    what: &str,
    of: fn(&DivergenceLevel) -> &Shares,
) {
    let alike = |shares: &Shares| shares.iter().flatten().all(|share| *share == Some(0.0));
    if divergence.levels.iter().all(|level| alike(of(level))) {
        document.text(format!("No arm ever chooses another {what} than another arm."));
        return;
    }
    let numbers = (1..=divergence.arms.len()).map(|number| number.to_string());
    let columns = [String::new(), format!("another {what} than")].into_iter().chain(numbers);
    document.table(columns, matrix(divergence, of));
}

fn matrix(divergence: &Divergence, of: fn(&DivergenceLevel) -> &Shares) -> Vec<Vec<String>> {
    let n = divergence.arms.len();
    let cell = |i: usize, j: usize| match i.cmp(&j) {
        Ordering::Equal => "=".to_owned(),
        Ordering::Less => String::new(),
        Ordering::Greater => pooled(divergence, of, i, j),
    };
    let row = |(i, arm): (usize, &String)| {
        [(i + 1).to_string(), arm.clone()].into_iter().chain((0..n).map(|j| cell(i, j))).collect()
    };
    divergence.arms.iter().enumerate().map(row).collect()
}

/// Share over all levels, each weighted by its requests; `-` when a level has none.
fn pooled(divergence: &Divergence, of: fn(&DivergenceLevel) -> &Shares, i: usize, j: usize) -> String {
    let (mut differing, mut all) = (0.0, 0.0);
    for level in &divergence.levels {
        let Some(share) = of(level).get(i).and_then(|row| *row.get(j)?) else { return "-".to_owned() };
        differing += share * level.requests as f64;
        all += level.requests as f64;
    }
    if all > 0.0 { tenths(100.0 * differing / all) } else { "-".to_owned() }
}

/// Two digits, but never down to zero or up to 100: an arm that differs once differs, and one that agrees once agrees.
fn tenths(percent: f64) -> String {
    match percent {
        0.0 => "0".to_owned(),
        percent if percent < 0.1 => "<0.1".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1}"),
        percent if percent < 100.0 => format!("{:.0}", percent.min(99.0)),
        _ => "100".to_owned(),
    }
}

pub(super) fn notes(document: &mut Document, loaded: &Loaded, comparisons: &Comparisons) {
    document.heading(2, "Notes");
    document.bullets(method(loaded, comparisons));
}

/// Folders that are no evidence.
pub(super) fn left_out(document: &mut Document, loaded: &Loaded) {
    if !loaded.skipped.is_empty() {
        document.heading(2, "Runs left out");
        document.text(format!(
            "Folders without a complete run, no part of any number here: {}.",
            loaded.skipped.len()
        ));
        let name =
            |folder: &std::path::Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        document.bullets(loaded.skipped.iter().map(|s| format!("{}: {}", name(&s.folder), s.why)).collect());
    }
}

fn method(loaded: &Loaded, comparisons: &Comparisons) -> Vec<String> {
    let Comparisons { alpha, family, blocks_needed, .. } = comparisons;
    let confidence = percent(1.0 - alpha);
    let mut notes = vec![
        "The unit of analysis is the run: one number per arm and block. Arms of a block share arrivals, prompts and difficulties.".to_owned(),
        format!("Effects are Hodges-Lehmann estimates over blocks of the log ratio, shown as a ratio with an interval of at least {confidence} that inverts the exact signed-rank test; each interval stands for itself. p is of the exact two-sided sign-flip test."),
        format!("Holm's adjustment is over the {family} tests of the primary family; at level {alpha} at least {blocks_needed} blocks are needed for any of them to pass."),
        "With several levels the primary family is each pair's mean log ratio over levels, block by block; the comparisons at single levels are a second family, adjusted among themselves.".to_owned(),
        "\"No difference shown\" is no proof of equality. Exploratory tables have no verdicts.".to_owned(),
        "Wall time runs from the first due time to the last end. Failures are SLO misses of quality 0. Quantiles are given only where the sample can bound them: p99 from 299 answers.".to_owned(),
    ];
    let sources: BTreeSet<Source> = comparisons.levels.iter().map(|level| level.source).collect();
    if sources.len() > 1 {
        notes.push(
            "Simulated and measured runs are shown at levels of their own and never compared.".to_owned(),
        );
    }
    notes.push(drift(loaded, comparisons));
    let versions: BTreeSet<&str> =
        loaded.runs.iter().map(|run| run.manifest.program_version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        notes
            .push(format!("ATTENTION: runs were made by several program versions: {}.", versions.join(", ")));
    }
    notes
}
