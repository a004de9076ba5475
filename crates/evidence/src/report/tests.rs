use super::*;
use crate::compare::tests::toy_runs;
use crate::testing::sweep_plan;
use crate::{
    ComparisonRule, Divergence, DivergenceLevel, FILE_VERSION, Registration, Skipped, Sweep, compare,
};
use std::collections::BTreeMap;

fn loaded(blocks: u64) -> Loaded {
    let mut runs = toy_runs(blocks);
    runs[0].manifest.labels.push("arms \"a\" and \"b\" never differ".into());
    let manifests: Vec<_> = runs.iter().map(|run| run.manifest.clone()).collect();
    let level = DivergenceLevel {
        levels: manifests[0].levels.clone(),
        requests: 400,
        adapter: vec![vec![Some(0.0), Some(0.25)], vec![Some(0.25), Some(0.0)]],
        replica: vec![vec![Some(0.0), Some(0.0002)], vec![Some(0.0002), Some(0.0)]],
    };
    let divergence =
        Divergence { v: FILE_VERSION, arms: vec!["smart".into(), "plain".into()], levels: vec![level] };
    let sweep = Sweep {
        folder: "_sweeps/toy".into(),
        plan: sweep_plan(&manifests),
        divergence: Some(divergence),
        registration: Registration::default(),
    };
    let skipped = Skipped { folder: "runs/toy-smart-block9".into(), why: "interrupted".into() };
    Loaded { runs, skipped: vec![skipped], sweeps: vec![sweep] }
}

fn compared(loaded: &Loaded) -> Comparisons {
    compare(&loaded.runs, &ComparisonRule::of_plan(&loaded.sweeps[0].plan))
}

fn check_golden(seen: &str, path: &str, expected: &str) {
    assert!(seen == expected, "{path} differs; it is now:\n{seen}");
}

#[test]
fn the_markdown_report_is_the_golden_one() {
    let loaded = loaded(8);
    let seen = render_markdown(&loaded, &compared(&loaded));
    check_golden(&seen, "report/golden.md", include_str!("golden.md"));
}

#[test]
fn the_terminal_report_says_the_same_within_its_width() {
    let loaded = loaded(8);
    for columns in [60, 80, 140] {
        let seen = render_terminal(&loaded, &compared(&loaded), columns);
        for line in seen.lines() {
            assert!(line.chars().count() <= columns.into(), "{columns}: {line}");
        }
        assert!(seen.contains("L1: simulated, uncalibrated") && seen.contains("ATTENTION"), "{seen}");
        assert!(!seen.contains('\u{1b}'), "no colour, no control sequences");
    }
}

#[test]
fn too_few_blocks_are_said_aloud_and_carry_no_verdict() {
    let loaded = loaded(6);
    let seen = render_markdown(&loaded, &compared(&loaded));
    assert!(
        seen.contains(
            "ATTENTION: with 6 blocks no test of a family of 2 can reach 0.05; 7 blocks are needed."
        )
    );
    let few = Loaded { runs: toy_runs(3), ..Loaded::default() };
    let seen = render_markdown(&few, &compare(&few.runs, &ComparisonRule::of_runs(&few.runs)));
    assert!(seen.contains("L0: systems check") && seen.contains("3 blocks, at least 6 are needed"), "{seen}");
    assert!(!seen.contains("would be better"));
}

#[test]
fn nothing_to_report_is_said() {
    let none = Loaded::default();
    let seen = render_markdown(&none, &compare(&[], &ComparisonRule::of_runs(&[])));
    assert!(seen.starts_with("# Comparison of arms: no complete run"), "{seen}");
}

#[test]
fn where_nothing_is_compared_the_metrics_that_the_plan_named_are_shown_by_level() {
    let loaded = loaded(6);
    let named = vec!["p50_ttft_ms".to_owned()];
    let rule = ComparisonRule { contrasts: Some(Vec::new()), named, ..ComparisonRule::of_runs(&loaded.runs) };
    let seen = render_terminal(&loaded, &compare(&loaded.runs, &rule), 120);
    assert!(seen.contains("By level: medians over blocks") && seen.contains("p50_ttft_ms"), "{seen}");
    assert!(!seen.contains("There is no treatment and baseline to compare."), "{seen}");
}

#[test]
fn names_from_files_can_not_break_the_page() {
    let mut loaded = loaded(6);
    for run in &mut loaded.runs {
        run.manifest.levels = BTreeMap::from([("a|b\n\u{1b}[31m".into(), serde_json::json!("x|y"))]);
        run.manifest.engine = "\u{1b}[2J".into();
    }
    let comparisons = compare(&loaded.runs, &ComparisonRule::of_runs(&loaded.runs));
    assert!(!render_markdown(&loaded, &comparisons).contains('\u{1b}'));
    assert!(!render_terminal(&loaded, &comparisons, 80).contains('\u{1b}'));
}
