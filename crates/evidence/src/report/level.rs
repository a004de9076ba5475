//! The tables of one level.

use super::document::Document;
use super::number::{effect, number, or_dash, p_value, percent, range};
use crate::{ArmRole, Comparisons, Contrast, Effect, LevelComparison, Levels, Loaded, Rung, Verdict, metric};
use acb_types::{Outcome, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Metrics of the overview table, the primary one first.
const OVERVIEW: [&str; 7] = [
    "slo_attainment",
    "mean_quality_on_time",
    "p50_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "simulated_prefix_hit_ratio",
    "adapter_stall_ms",
];

pub(super) fn level(
    document: &mut Document,
    loaded: &Loaded,
    comparisons: &Comparisons,
    level: &LevelComparison,
) {
    document.heading(2, title(&level.levels));
    let profile = level.latency_profile.as_ref().map(|profile| format!(", latency profile {}", profile.name));
    document.text(format!(
        "All numbers: {}; engine {}{}. Evidence {}.",
        source(level.source),
        level.engine,
        profile.unwrap_or_default(),
        comparisons.rung.label
    ));
    primary(document, comparisons, level);
    overview(document, comparisons, level);
    replicates(document, level);
    bounds(document, level);
    exploratory(document, "Treatment against controls, primary metric (exploratory)", &level.controls);
    secondary(document, level);
    document.bullets(break_even(level));
    failures(document, loaded, level);
    adapters(document, loaded, level);
    document.bullets(not_estimable(level));
    let missing =
        level.missing.iter().map(|m| format!("Missing: arm {}, block {}: {}.", m.arm, m.block, m.why));
    document.bullets(missing.collect());
}

/// A level in words; a factor is named by the last part of its path where that is enough.
pub(super) fn title(levels: &Levels) -> String {
    if levels.is_empty() {
        return "The only level".to_owned();
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let name = |path: &String| {
        let alike = levels.keys().filter(|other| last(other) == last(path)).count();
        if alike > 1 { path.clone() } else { last(path) }
    };
    let words: Vec<String> =
        levels.iter().map(|(path, value)| format!("{} = {}", name(path), plain(value))).collect();
    words.join(", ")
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Simulated => "simulated",
        Source::Client => "measured by the client",
        Source::Server => "reported by servers",
    }
}

pub(super) fn primary(document: &mut Document, comparisons: &Comparisons, level: &LevelComparison) {
    let Comparisons { metric, better, .. } = comparisons;
    let family = if comparisons.overall.is_empty() { "Primary" } else { "By level" };
    document.heading(3, format!("{family}: {metric}, arm over baseline ({better} is better)"));
    family_table(document, &level.primary, &comparisons.rung);
    if level.primary.is_empty() {
        document.text("There is no treatment and baseline to compare.");
    } else if comparisons.overall.is_empty() {
        too_few_blocks(document, comparisons, &level.primary);
    }
}

/// Says aloud that no test of the primary family could pass, where that is so.
pub(super) fn too_few_blocks(document: &mut Document, comparisons: &Comparisons, primary: &[Contrast]) {
    let blocks = primary.iter().map(|contrast| contrast.blocks).max().unwrap_or(0);
    if blocks < comparisons.blocks_needed {
        document.text(format!(
            "ATTENTION: with {blocks} blocks no test of a family of {} can reach {}; {} blocks are needed.",
            comparisons.family, comparisons.alpha, comparisons.blocks_needed
        ));
    }
}

/// A family of tests: effect, interval, p and verdict of each.
pub(super) fn family_table(document: &mut Document, contrasts: &[Contrast], rung: &Rung) {
    let row = |c: &Contrast| {
        vec![
            format!("{} / {}", c.pair.arm, c.pair.against),
            effect(c),
            reached(c),
            c.blocks.to_string(),
            p_value(c.p),
            p_value(c.p_adjusted),
            verdict(c.verdict, rung),
        ]
    };
    let rows = contrasts.iter().map(row).collect();
    document.table(["comparison", "ratio", "interval level", "blocks", "p", "p (Holm)", "verdict"], rows);
}

/// The level that the interval really has.
fn reached(contrast: &Contrast) -> String {
    match &contrast.effect {
        Effect::Ratio(range) | Effect::Difference { range, .. } => percent(range.level),
        Effect::NotEstimable { .. } => "-".to_owned(),
    }
}

fn verdict(verdict: Option<Verdict>, rung: &Rung) -> String {
    let word = match verdict {
        Some(Verdict::Better) => "better",
        Some(Verdict::Worse) => "worse",
        Some(Verdict::Equivalent) => "as good, within the margin",
        Some(Verdict::TooFewBlocks) => return "too few blocks to decide".to_owned(),
        Some(Verdict::TooSmall) => return "a difference too small to matter".to_owned(),
        Some(Verdict::Unclear) => return "no difference shown".to_owned(),
        Some(Verdict::NotEstimable) | None => return "not estimable".to_owned(),
    };
    match rung.verb {
        Some(verb) => format!("{verb} {word}"),
        None => format!("no claim (L{})", rung.level),
    }
}

fn overview(document: &mut Document, comparisons: &Comparisons, level: &LevelComparison) {
    let some = |name: &str| level.arms.iter().any(|arm| arm.medians.get(name).is_some_and(Option::is_some));
    let asked: Vec<&str> = comparisons.named_metrics().collect();
    let names = asked.iter().copied().chain(OVERVIEW.into_iter().filter(|name| !asked.contains(name)));
    let names: Vec<&str> = names.filter(|name| some(name)).collect();
    if names.is_empty() {
        return;
    }
    document.heading(3, "Medians over blocks");
    let columns =
        ["arm", "blocks"].into_iter().map(str::to_owned).chain(names.iter().map(|name| with_unit(name)));
    let row = |arm: &crate::ArmRow| {
        let medians = names.iter().map(|name| or_dash(arm.medians.get(*name).copied().flatten()));
        let name = if arm.role == ArmRole::Bound { format!("{} (bound)", arm.arm) } else { arm.arm.clone() };
        [name, arm.blocks.to_string()].into_iter().chain(medians).collect()
    };
    document.table(columns, level.arms.iter().map(row).collect());
}

pub(super) fn with_unit(name: &str) -> String {
    let unit = metric(name).map_or("", |info| info.unit);
    if name.ends_with(&format!("_{unit}")) || unit == "quality" {
        name.to_owned()
    } else {
        format!("{name} ({unit})")
    }
}

fn replicates(document: &mut Document, level: &LevelComparison) {
    if level.replicates.is_empty() {
        document
            .text("There is no A/A arm at this level, so nothing shows that the comparison itself is sound.");
        return;
    }
    document.heading(3, "A/A: an arm against its repetition, expected to contain 1");
    let row = |c: &Contrast| {
        let pair = format!("{} / {}", c.pair.arm, c.pair.against);
        vec![pair, effect(c), p_value(c.p), replicate_finding(c).to_owned()]
    };
    document.table(["comparison", "ratio", "p", "finding"], level.replicates.iter().map(row).collect());
}

/// What an A/A pair shows. A policy without chance gives the same runs twice.
pub(super) fn replicate_finding(contrast: &Contrast) -> &'static str {
    let identical = |r: &crate::Range| r.low == r.estimate && r.high == r.estimate;
    match (&contrast.effect, contrast.excludes_no_difference()) {
        (_, None) => "not estimable",
        (Effect::Ratio(range), Some(false)) if identical(range) => {
            "identical: nothing in this arm is left to chance, so the pair checks bookkeeping and not noise"
        }
        (_, Some(false)) => "as expected",
        (_, Some(true)) => "ATTENTION: a difference where there should be none (expected in 1 of 20)",
    }
}

fn bounds(document: &mut Document, level: &LevelComparison) {
    if level.bounds.is_empty() {
        return;
    }
    document.heading(3, "Share of the bound reached (a bound is no competitor)");
    let row = |c: &Contrast| {
        let finding = match &c.better_in[..] {
            [] => "never above it".to_owned(),
            blocks => format!("ATTENTION: above the bound in blocks {blocks:?}, so it bounds nothing there"),
        };
        vec![c.pair.arm.clone(), c.pair.against.clone(), share(c), finding]
    };
    document.table(["arm", "bound", "share", "check"], level.bounds.iter().map(row).collect());
}

fn share(contrast: &Contrast) -> String {
    match &contrast.effect {
        Effect::Ratio(r) => format!("{} [{}, {}]", percent(r.estimate), percent(r.low), percent(r.high)),
        _ => effect(contrast),
    }
}

fn exploratory(document: &mut Document, heading: &str, contrasts: &[Contrast]) {
    if contrasts.is_empty() {
        return;
    }
    document.heading(3, heading);
    let row = |c: &Contrast| vec![format!("{} / {}", c.pair.arm, c.pair.against), effect(c), p_value(c.p)];
    document.table(["comparison", "ratio", "p, not adjusted"], contrasts.iter().map(row).collect());
}

/// One row per metric, one column per pair; metrics that no pair has are left to the notes.
fn secondary(document: &mut Document, level: &LevelComparison) {
    let mut pairs: Vec<String> = Vec::new();
    let mut rows: Vec<(&str, Vec<&Contrast>)> = Vec::new();
    for contrast in &level.secondary {
        let pair = format!("{} / {}", contrast.pair.arm, contrast.pair.against);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
        match rows.last_mut() {
            Some((name, contrasts)) if *name == contrast.metric => contrasts.push(contrast),
            _ => rows.push((&contrast.metric, vec![contrast])),
        }
    }
    rows.retain(|(_, contrasts)| contrasts.iter().any(|c| !matches!(c.effect, Effect::NotEstimable { .. })));
    if rows.is_empty() {
        return;
    }
    document.heading(3, "Other metrics (exploratory: not adjusted, no verdicts)");
    let row = |(name, contrasts): &(&str, Vec<&Contrast>)| {
        let better = metric(name).map_or_else(String::new, |info| info.better.to_string());
        [(*name).to_owned(), better].into_iter().chain(contrasts.iter().map(|c| effect(c))).collect()
    };
    let columns = ["metric".to_owned(), "better".to_owned()].into_iter().chain(pairs.iter().cloned());
    document.table(columns, rows.iter().map(row).collect());
}

/// What quality must gain to pay for goodput lost, per pair: the decomposition of quality-adjusted goodput.
fn break_even(level: &LevelComparison) -> Vec<String> {
    let ratio = |name: &str, pair: &crate::Pair| {
        let found = level.secondary.iter().find(|c| c.metric == name && c.pair == *pair);
        match found.map(|c| &c.effect) {
            Some(Effect::Ratio(range)) => Some(*range),
            _ => None,
        }
    };
    let line = |c: &Contrast| {
        let (goodput, quality) = (ratio("ttft_goodput", &c.pair)?, ratio("mean_quality_on_time", &c.pair)?);
        Some(format!(
            "Break-even of {} against {}: on-time goodput ratio {}, so quality must be at least {} times; it is {} times.",
            c.pair.arm,
            c.pair.against,
            range(&goodput),
            number(1.0 / goodput.estimate),
            range(&quality)
        ))
    };
    level.primary.iter().filter_map(line).collect()
}

/// Requests that were not answered, summed over blocks; nothing when there were none.
fn failures(document: &mut Document, loaded: &Loaded, level: &LevelComparison) {
    let mut arms: BTreeMap<&str, BTreeMap<Outcome, u64>> = BTreeMap::new();
    for run in runs_of(loaded, level) {
        let outcomes = arms.entry(&run.manifest.arm).or_default();
        run.summary.outcomes.iter().for_each(|(kind, count)| *outcomes.entry(*kind).or_default() += count);
    }
    let kinds: BTreeSet<Outcome> = arms.values().flat_map(BTreeMap::keys).copied().collect();
    if kinds.iter().all(|kind| *kind == Outcome::Ok) {
        return;
    }
    document.heading(3, "How requests ended, all blocks together");
    let word =
        |kind: &Outcome| serde_json::to_value(kind).map_or_else(|_| String::new(), |word| plain(&word));
    let columns = ["arm".to_owned()].into_iter().chain(kinds.iter().map(word));
    let row = |(arm, counts): (&&str, &BTreeMap<Outcome, u64>)| {
        let counts = kinds.iter().map(|kind| counts.get(kind).copied().unwrap_or(0).to_string());
        [(*arm).to_owned()].into_iter().chain(counts).collect()
    };
    document.table(columns, arms.iter().map(row).collect());
}

/// Per arm, the adapter that its requests were served worst by, so that a pooled tail hides nobody.
/// Requests of one adapter over all blocks of an arm, and how many of them met every bound.
#[derive(Clone, Copy, Default)]
struct Served {
    requests: u64,
    met: f64,
}

/// Requests below which an adapter's own attainment is not worth naming.
const WORST_FROM: u64 = 30;
/// Adapters up to which each has a column of its own.
const MOST_COLUMNS: usize = 8;

fn adapters(document: &mut Document, loaded: &Loaded, level: &LevelComparison) {
    let mut arms: BTreeMap<&str, BTreeMap<&str, Served>> = BTreeMap::new();
    for run in runs_of(loaded, level) {
        let served = arms.entry(&run.manifest.arm).or_default();
        for row in &run.summary.per_adapter {
            let entry = served.entry(&row.name).or_default();
            entry.requests += row.requests;
            entry.met += row.slo_attainment * row.requests as f64;
        }
    }
    mix(document, &arms);
    worst(document, &arms);
}

/// What served the requests of each arm.
fn mix(document: &mut Document, arms: &BTreeMap<&str, BTreeMap<&str, Served>>) {
    let names: BTreeSet<&str> = arms.values().flat_map(|served| served.keys().copied()).collect();
    if names.is_empty() || names.len() > MOST_COLUMNS {
        return;
    }
    document.heading(3, "What served (share of requests, all blocks)");
    let row = |(arm, served): (&&str, &BTreeMap<&str, Served>)| {
        let all: u64 = served.values().map(|s| s.requests).sum();
        let share = |name: &&str| match served.get(name) {
            Some(s) => percent(s.requests as f64 / all as f64),
            None => "-".to_owned(),
        };
        [(*arm).to_owned()].into_iter().chain(names.iter().map(share)).collect()
    };
    document.table(["arm"].into_iter().chain(names.iter().copied()), arms.iter().map(row).collect());
}

/// The adapter with the lowest attainment of each arm, among those with requests enough.
fn worst(document: &mut Document, arms: &BTreeMap<&str, BTreeMap<&str, Served>>) {
    let attainment = |s: &Served| s.met / s.requests as f64;
    let row = |(arm, served): (&&str, &BTreeMap<&str, Served>)| {
        let many = served.iter().filter(|(_, s)| s.requests >= WORST_FROM && s.met < s.requests as f64);
        let (name, least) = many.min_by(|a, b| attainment(a.1).total_cmp(&attainment(b.1)))?;
        Some(vec![
            (*arm).to_owned(),
            (*name).to_owned(),
            percent(attainment(least)),
            least.requests.to_string(),
        ])
    };
    let rows: Vec<_> = arms.iter().filter_map(row).collect();
    if rows.is_empty() {
        return;
    }
    document
        .heading(3, format!("The adapter served worst (all blocks together, from {WORST_FROM} requests up)"));
    document.table(["arm", "adapter", "SLO attainment", "requests"], rows);
}

fn runs_of<'a>(loaded: &'a Loaded, level: &'a LevelComparison) -> impl Iterator<Item = &'a crate::Run> {
    loaded.runs.iter().filter(|run| {
        let manifest = &run.manifest;
        manifest.levels == level.levels
            && manifest.experiment_digest == level.experiment_digest
            && manifest.source == level.source
            && manifest.engine == level.engine
            && manifest.latency_profile == level.latency_profile
    })
}

/// Why numbers are missing or are differences: one line per reason, the metrics together.
fn not_estimable(level: &LevelComparison) -> Vec<String> {
    let mut reasons: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let all = [&level.primary, &level.controls, &level.replicates, &level.bounds, &level.secondary];
    for contrast in all.into_iter().flatten() {
        let reason = match &contrast.effect {
            Effect::Ratio(_) => continue,
            Effect::Difference { why, .. } => format!("shown as a difference ({why})"),
            Effect::NotEstimable { why } => format!("not estimable ({why})"),
        };
        reasons.entry(reason).or_default().insert(&contrast.metric);
    }
    let line = |(reason, metrics): (String, BTreeSet<&str>)| {
        let metrics: Vec<&str> = metrics.into_iter().collect();
        format!("{}: {reason}.", metrics.join(", "))
    };
    reasons.into_iter().map(line).collect()
}
