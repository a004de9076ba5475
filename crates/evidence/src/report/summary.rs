//! The answer first: effects over all levels, and one line per level.

use super::document::Document;
use super::level::{family_table, primary, replicate_finding, title, too_few_blocks, with_unit};
use super::number::{effect, or_dash, percent};
use crate::compare::all_pairs;
use crate::{ArmRow, Comparisons, Effect, LevelComparison, Pair, Verdict};
use std::collections::BTreeMap;

/// The primary family where there are several levels.
pub(super) fn overall(document: &mut Document, comparisons: &Comparisons) {
    if comparisons.overall.is_empty() {
        return;
    }
    let Comparisons { metric, better, .. } = comparisons;
    document.heading(2, format!("Primary: {metric} over all levels, arm over baseline ({better} is better)"));
    family_table(document, &comparisons.overall, &comparisons.rung);
    too_few_blocks(document, comparisons, &comparisons.overall);
    document.text("Ratio: geometric mean over levels within a block, then over blocks.");
}

/// The families behind the primary one, where the rule has gates.
pub(super) fn gatekept(document: &mut Document, comparisons: &Comparisons) {
    if comparisons.gatekept.is_empty() {
        return;
    }
    document.heading(
        2,
        "Behind the primary family, in order: a metric is tested once all before it is significant",
    );
    let metrics = comparisons.secondary_metrics.iter();
    for metric in metrics {
        let family: Vec<_> = comparisons.gatekept.iter().filter(|c| c.metric == *metric).cloned().collect();
        if let Some(first) = family.first() {
            document.text(format!("{metric} ({} is better):", first.better));
        }
        family_table(document, &family, &comparisons.rung);
    }
}

/// The primary pairs by level: one line per level, one column per pair. A single level has its table in full.
pub(super) fn levels(document: &mut Document, comparisons: &Comparisons) {
    let pairs = all_pairs(&comparisons.levels);
    if pairs.is_empty() {
        return;
    }
    if let [level] = &comparisons.levels[..] {
        primary(document, comparisons, level);
        return;
    }
    let cell = |level: &LevelComparison, pair: &Pair| {
        let Some(contrast) = level.primary.iter().find(|c| c.pair == *pair) else { return "-".to_owned() };
        let mark = match contrast.verdict {
            Some(Verdict::Better | Verdict::Worse) => " *",
            _ => "",
        };
        format!("{}{mark}", effect(contrast))
    };
    let row = |level: &LevelComparison| {
        [title(&level.levels)].into_iter().chain(pairs.iter().map(|pair| cell(level, pair))).collect()
    };
    let one_arm = pairs.iter().all(|pair| pair.arm == pairs[0].arm);
    let names = pairs.iter().map(|pair| match one_arm {
        true => format!("/ {}", pair.against),
        false => format!("{} / {}", pair.arm, pair.against),
    });
    let over = if one_arm { format!("{} over each", pairs[0].arm) } else { "ratio".to_owned() };
    document.heading(2, format!("By level: {}, {over}, with interval", comparisons.metric));
    document
        .table(["level".to_owned()].into_iter().chain(names), comparisons.levels.iter().map(row).collect());
    let undecided = comparisons.levels.iter().flat_map(|level| &level.primary);
    let note = match undecided.filter(|c| c.verdict == Some(Verdict::TooFewBlocks)).count() {
        0 => format!(
            "* a difference at this level of its own: p (Holm, over all of this table) at most {} and an interval \
             without 1.",
            comparisons.alpha
        ),
        few => format!(
            "With so few blocks, {few} of these comparisons can't be decided level by level, whatever their ratio."
        ),
    };
    document.text(note);
    for missing in comparisons.levels.iter().flat_map(|level| &level.missing) {
        document.text(format!("Missing: arm {}, block {}: {}.", missing.arm, missing.block, missing.why));
    }
}

/// Rows up to which a terminal shows what each arm has at each level.
const MOST_ROWS: usize = 60;

/// What the arms have at each level in the metrics that the plan named.
pub(super) fn values(document: &mut Document, comparisons: &Comparisons) {
    document.heading(2, "By level: medians over blocks");
    if comparisons.levels.iter().map(|level| level.arms.len()).sum::<usize>() > MOST_ROWS {
        document.text("There are too many arms and levels for a terminal: the Markdown report has them.");
        return;
    }
    let names: Vec<&str> = comparisons.named_metrics().collect();
    let columns =
        ["level", "arm"].into_iter().map(str::to_owned).chain(names.iter().map(|name| with_unit(name)));
    let row = |level: &LevelComparison, arm: &ArmRow| {
        let medians = names.iter().map(|name| or_dash(arm.medians.get(*name).copied().flatten()));
        [title(&level.levels), arm.arm.clone()].into_iter().chain(medians).collect()
    };
    let rows = comparisons.levels.iter().flat_map(|level| level.arms.iter().map(move |arm| row(level, arm)));
    let rows: Vec<Vec<String>> = rows.collect();
    let dashed = rows.iter().flatten().any(|cell| cell == "-");
    document.table(columns, rows);
    if dashed {
        document.text("A dash is a value that some run lacks: the `summary.json` of each run says why.");
    }
}

/// Every A/A pair at every level.
pub(super) fn replicates(document: &mut Document, comparisons: &Comparisons) {
    document.heading(2, "A/A: an arm against its repetition, expected to contain 1");
    let rows = comparisons.levels.iter().flat_map(|level| {
        level.replicates.iter().map(|c| {
            let pair = format!("{} / {}", c.pair.arm, c.pair.against);
            vec![title(&level.levels), pair, effect(c), replicate_finding(c).to_owned()]
        })
    });
    let rows: Vec<_> = rows.collect();
    match rows.is_empty() {
        true => document.text("There is no A/A arm, so nothing shows that the comparison itself is sound."),
        false => document.table(["level", "comparison", "ratio", "finding"], rows),
    }
}

/// The share of each bound that an arm reaches, from the worst level to the best.
pub(super) fn bounds(document: &mut Document, comparisons: &Comparisons) {
    let mut reached: BTreeMap<(&str, &str), (Vec<f64>, usize)> = BTreeMap::new();
    for contrast in comparisons.levels.iter().flat_map(|level| &level.bounds) {
        let entry = reached.entry((&contrast.pair.against, &contrast.pair.arm)).or_default();
        if let Effect::Ratio(range) = &contrast.effect {
            entry.0.push(range.estimate);
        }
        entry.1 += contrast.better_in.len();
    }
    if reached.is_empty() {
        return;
    }
    document.heading(2, "Share of the bound reached (a bound is no competitor)");
    let row = |((bound, arm), (shares, above)): ((&str, &str), (Vec<f64>, usize))| {
        let least = shares.iter().copied().reduce(f64::min);
        let most = shares.iter().copied().reduce(f64::max);
        let shares = match (least, most) {
            (Some(least), Some(most)) => format!("{} to {}", percent(least), percent(most)),
            _ => "not estimable".to_owned(),
        };
        let check = match above {
            0 => "never above it".to_owned(),
            runs => format!("ATTENTION: above the bound in {runs} runs, so it bounds nothing there"),
        };
        vec![arm.to_owned(), bound.to_owned(), shares, check]
    };
    document.table(
        ["arm", "bound", "share, worst to best level", "check"],
        reached.into_iter().map(row).collect(),
    );
}
