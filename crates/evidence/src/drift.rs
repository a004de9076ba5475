//! Whether blocks drift: measured runs share a machine and its temperature, its neighbours and its age with all runs before.

use crate::{Comparisons, Loaded, Run};
use acb_stats::{Sides, mann_kendall};
use acb_types::Source;
use std::collections::BTreeMap;

/// Level of the trend test.
const ALPHA: f64 = 0.05;

/// What can be said about drift over the blocks, in one sentence.
pub(crate) fn drift(loaded: &Loaded, comparisons: &Comparisons) -> String {
    if loaded.runs.iter().any(|run| run.manifest.source == Source::Simulated) {
        return "Drift over blocks: not applicable, since every simulated run starts a fresh engine on a clock of its own."
            .to_owned();
    }
    let series = series(&loaded.runs, &comparisons.metric);
    match mann_kendall(&series, Sides::Two) {
        Err(error) => format!("Drift over blocks: {error}."),
        Ok(trend) => {
            let found = if trend.p <= ALPHA { "ATTENTION: a trend" } else { "none shown" };
            format!(
                "Drift over blocks, in the order of their runs, of the mean log {} of all arms: {found} (Mann-Kendall, {} \
                 blocks, p {:.3}, {:+.2} % a block). It falls on all arms of a block alike.",
                comparisons.metric,
                series.len(),
                trend.p,
                100.0 * trend.slope
            )
        }
    }
}

/// Mean logarithm over the runs of a block, blocks in the order in which they were begun. A block with a value that has no
/// logarithm is left out.
fn series(runs: &[Run], metric: &str) -> Vec<f64> {
    let mut blocks: BTreeMap<u64, (u64, Vec<f64>)> = BTreeMap::new();
    for run in runs {
        let value = run.summary.metrics.get(metric).and_then(|metric| metric.value).unwrap_or(0.0);
        let block = blocks.entry(run.manifest.block).or_insert((u64::MAX, Vec::new()));
        block.0 = block.0.min(run.manifest.created_unix_ms);
        block.1.push(value.ln());
    }
    let mut blocks: Vec<(u64, f64)> =
        blocks.into_values().map(|(at, logs)| (at, logs.iter().sum::<f64>() / logs.len() as f64)).collect();
    blocks.sort_by_key(|(at, _)| *at);
    blocks.into_iter().map(|(_, mean)| mean).filter(|mean| mean.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::toy_runs;
    use crate::{ComparisonRule, compare};

    fn said(mut runs: Vec<Run>, factor: f64) -> String {
        for run in &mut runs {
            run.manifest.source = Source::Client;
            // Blocks run in the opposite order of their numbers.
            run.manifest.created_unix_ms = 100 - run.manifest.block;
            let metric = run.summary.metrics.get_mut("quality_adjusted_slo_goodput").unwrap();
            let wobble = if run.manifest.block.is_multiple_of(2) { 1.1 } else { 1.0 };
            metric.value = Some(wobble * factor.powi(run.manifest.block as i32));
        }
        let comparisons = compare(&runs, &ComparisonRule::of_runs(&runs));
        drift(&Loaded { runs, ..Loaded::default() }, &comparisons)
    }

    #[test]
    fn a_trend_in_the_order_of_the_runs_is_noticed() {
        let seen = said(toy_runs(8), 1.2);
        assert!(
            seen.contains("ATTENTION: a trend") && seen.contains("-18.") || seen.contains("-17."),
            "{seen}"
        );
        assert!(said(toy_runs(8), 1.0).contains("none shown"));
        assert!(said(toy_runs(3), 1.0).contains("at least 4"));
    }

    #[test]
    fn simulated_runs_have_none() {
        let runs = toy_runs(6);
        let comparisons = compare(&runs, &ComparisonRule::of_runs(&runs));
        assert!(drift(&Loaded { runs, ..Loaded::default() }, &comparisons).contains("not applicable"));
    }
}
