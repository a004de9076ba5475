//! `--compat`: the original harness's definitions computed from a run's rows, beside what it published and beside ours.
//!
//! Its percentile is `sorted[round((n - 1) p)]` with halves to even, its rates leave failed requests out of every share,
//! and its latencies count from the send. Ours below count from the send, too: the rows hold no due times.

use super::files::OldSummary;
use super::qag::{Qag, agree};
use super::rows::Rows;
use super::{CompatRow, Duration};
use crate::metrics::{Value, quantile, sort};
use acb_types::Source;

/// What the metrics of a run are made of.
pub(super) struct Inputs<'a> {
    pub rows: &'a Rows,
    pub summary: &'a OldSummary,
    pub slo_ttft_ms: Option<f64>,
    pub duration: Option<&'a Duration>,
    /// Simulated for a mock, the client's for a server.
    pub source: Source,
}

/// One old metric: its name, definition and unit, its value from the rows, and ours.
struct Pair {
    metric: &'static str,
    definition: &'static str,
    unit: &'static str,
    old: Option<f64>,
    ours: Option<(&'static str, Value)>,
}

/// Every metric of the old summary that follows from rows.
pub(super) fn compat(inputs: &Inputs<'_>) -> Vec<CompatRow> {
    let pairs = latencies(inputs.rows).into_iter().chain(rates(inputs)).chain(quality(inputs));
    pairs.map(|pair| row(inputs, pair)).collect()
}

fn row(inputs: &Inputs<'_>, pair: Pair) -> CompatRow {
    let published = inputs.summary.number(pair.metric);
    let (our_metric, ours, reason) = match pair.ours {
        None => (None, None, None),
        Some((name, value)) => {
            (Some(name.to_owned()), value.number.as_ref().ok().copied(), value.number.err())
        }
    };
    CompatRow {
        metric: pair.metric.to_owned(),
        definition: pair.definition.to_owned(),
        unit: pair.unit.to_owned(),
        source: inputs.source,
        published,
        recomputed: pair.old,
        agrees: published.zip(pair.old).map(|(published, old)| agree(published, old)),
        our_metric,
        ours,
        reason,
    }
}

fn latencies(rows: &Rows) -> Vec<Pair> {
    let ascending = |sample: &[f64]| {
        let mut sorted = sample.to_vec();
        sort(&mut sorted);
        sorted
    };
    let (ttft, e2e) = (ascending(&rows.ttft_ms), ascending(&rows.e2e_ms));
    let tail = |metric, sorted: &[f64], p| Pair {
        metric,
        definition: "sorted[round((n - 1) p)]",
        unit: "ms",
        old: old_percentile(sorted, p),
        ours: Some((metric, quantile(sorted, p))),
    };
    let average = |metric, sample: &[f64], ours| Pair {
        metric,
        definition: "mean over answers",
        unit: "ms",
        old: mean(sample),
        ours,
    };
    vec![
        average("mean_ttft_ms", &rows.ttft_ms, None),
        tail("p50_ttft_ms", &ttft, 0.5),
        tail("p95_ttft_ms", &ttft, 0.95),
        tail("p99_ttft_ms", &ttft, 0.99),
        average("mean_e2e_ms", &rows.e2e_ms, None),
        tail("p50_e2e_ms", &e2e, 0.5),
        tail("p95_e2e_ms", &e2e, 0.95),
        tail("p99_e2e_ms", &e2e, 0.99),
        average("mean_itl_ms", &rows.itl_ms, None),
        average("mean_tpot_ms", &rows.tpot_ms, None),
    ]
}

fn rates(inputs: &Inputs<'_>) -> Vec<Pair> {
    let (rows, answers) = (inputs.rows, inputs.rows.answers());
    let all = answers + rows.failures;
    let seconds = inputs.duration.map(|duration| duration.seconds).filter(|seconds| *seconds > 0.0);
    let good =
        inputs.slo_ttft_ms.map(|bound| rows.ttft_ms.iter().filter(|ttft| **ttft <= bound).count() as f64);
    let per_second = |amount: Option<f64>| Some(amount? / seconds?);
    let rate =
        |amount, why| per_second(amount).map_or_else(|| Value::absent(why, all), |rate| Value::of(rate, all));
    let no_bound = "the bound on TTFT or the duration is not known";
    let (requests, tokens) = (Some(answers as f64), Some(rows.output_tokens));
    let met = good
        .map_or_else(|| Value::absent(no_bound, all), |good| Value::ratio(good, all, "there are no rows"));
    let no_time = "the duration is not known";
    let share = good.filter(|_| answers > 0).map(|good| good / answers as f64);
    let rows = [
        ("request_throughput", "answers over duration", "requests/s"),
        ("token_throughput", "output tokens over duration", "tokens/s"),
        ("goodput_under_slo", "answers with TTFT in bound over duration", "requests/s"),
        ("slo_attainment_rate", "share of answers, failures left out; ours counts them as misses", "share"),
    ];
    let values = [
        (per_second(requests), ("request_throughput", rate(requests, no_time))),
        (per_second(tokens), ("output_token_throughput", rate(tokens, no_time))),
        (per_second(good), ("ttft_goodput", rate(good, no_bound))),
        (share, ("slo_attainment", met)),
    ];
    let pair =
        |((metric, definition, unit), (old, ours))| Pair { metric, definition, unit, old, ours: Some(ours) };
    rows.into_iter().zip(values).map(pair).collect()
}

fn quality(inputs: &Inputs<'_>) -> Vec<Pair> {
    let (rows, all) = (inputs.rows, inputs.rows.answers() + inputs.rows.failures);
    let scores: Option<Vec<f64>> = rows.quality.iter().copied().collect();
    let unscored = "not every answer was scored";
    let of_all = scores.as_ref().map_or_else(
        || Value::absent(unscored, all),
        |scores| Value::ratio(scores.iter().sum(), all, "there are no rows"),
    );
    let qag = Qag::of(rows, inputs.slo_ttft_ms, inputs.duration.map(|duration| duration.seconds));
    let why = "the bound, the duration or a score is missing";
    let ours = || {
        let value = qag.map_or_else(|| Value::absent(why, all), |qag| Value::of(qag.on_time, all));
        Some(("quality_adjusted_slo_goodput", value))
    };
    let adjusted = |definition, old| Pair {
        metric: "quality_adjusted_goodput",
        definition,
        unit: "quality/s",
        old,
        ours: ours(),
    };
    vec![
        Pair {
            metric: "mean_quality",
            definition: "mean over answers, failures left out; ours counts them as 0",
            unit: "quality",
            old: scores.as_deref().and_then(mean),
            ours: Some(("mean_quality_all", of_all)),
        },
        adjusted("until June 2026: goodput times mean quality", qag.map(|qag| qag.product)),
        adjusted("from July 2026: sum over on-time answers", qag.map(|qag| qag.on_time)),
    ]
}

fn mean(sample: &[f64]) -> Option<f64> {
    (!sample.is_empty()).then(|| sample.iter().sum::<f64>() / sample.len() as f64)
}

/// The old percentile: Python's `round` takes halves to the even neighbour.
fn old_percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * p).round_ties_even() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_percentile_takes_halves_to_even() {
        let sample: Vec<f64> = (0..120).map(f64::from).collect();
        // 119 x 0.99 = 117.81; 1 x 0.5 and 3 x 0.5 lie half way.
        assert_eq!(old_percentile(&sample, 0.99), Some(118.0));
        assert_eq!(old_percentile(&sample[..2], 0.5), Some(0.0));
        assert_eq!(old_percentile(&sample[..4], 0.5), Some(2.0));
        assert_eq!(old_percentile(&[], 0.5), None);
    }
}
