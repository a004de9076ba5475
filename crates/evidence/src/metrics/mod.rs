//! The metrics of a run: one file each, one line each in [`FAMILIES`].
//!
//! A family sees every record and every server row once. It keeps single numbers where it can and one `f64` per
//! record only where a quantile needs the sample: about ten per record over all families. Sums are of integers
//! (nanoseconds, tokens, fixed-point quality) or over sorted samples, so no result depends on the order of records.

mod adapter_fairness;
mod adapter_loads;
mod e2e;
mod evictions;
mod failures;
mod goodput;
mod itl;
mod memory;
mod prefix_hits;
mod quality;
mod quality_goodput;
mod queue_time;
mod send_lag;
mod server_counter;
mod slo_attainment;
mod starvation;
mod throughput;
mod tpot;
mod ttft;
mod value;

pub(crate) use value::{QualitySum, Value, quantile, quantile_by, sort};

use crate::Wall;
use acb_types::{Nanos, Outcome, Record, ServerRow, Slo};
use std::fmt;
use std::sync::LazyLock;

/// What a metric is: drives the report, `acb list metrics` and the generated reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// Its name in `summary.json` and in experiment files.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whose numbers it is made of.
    pub source_rule: SourceRule,
    /// Which direction is good.
    pub better: Better,
    /// One sentence: what it is, over which requests.
    pub summary: &'static str,
}

/// Whose numbers a metric is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceRule {
    /// Times and outcomes in the records: the source of the run.
    Records,
    /// Server rows: simulated for a simulated run, server-reported for a live one.
    ServerRows,
}

impl fmt::Display for SourceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Records => "records",
            Self::ServerRows => "server rows",
        })
    }
}

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        })
    }
}

/// Metrics that share an accumulator.
pub(crate) struct Family {
    /// What it computes.
    pub metrics: &'static [MetricInfo],
    /// A fresh accumulator for a run under these bounds.
    pub start: fn(&Slo) -> Box<dyn Fold>,
}

/// An accumulator: sees everything once, then gives one value per metric of its family, in the family's order.
pub(crate) trait Fold {
    /// Takes in a record.
    fn record(&mut self, _record: &Record<'_>) {}
    /// Takes in a server row.
    fn server(&mut self, _row: &ServerRow) {}
    /// The values; `wall` is `None` when there was no record.
    fn finish(self: Box<Self>, wall: Option<Wall>) -> Vec<Value>;
}

/// The absences whose reason a metric asks for. Readers may leave the others out: one that is asked for must be here.
pub(crate) const REASONS_ASKED: &[&str] = &[starvation::ADMISSION];

/// Every metric, in the order of the reference.
pub(crate) const FAMILIES: &[Family] = &[
    quality_goodput::FAMILY,
    goodput::FAMILY,
    slo_attainment::FAMILY,
    quality::FAMILY,
    ttft::FAMILY,
    itl::FAMILY,
    tpot::FAMILY,
    e2e::FAMILY,
    queue_time::FAMILY,
    send_lag::FAMILY,
    throughput::FAMILY,
    prefix_hits::FAMILY,
    adapter_loads::FAMILY,
    evictions::FAMILY,
    memory::FAMILY,
    adapter_fairness::FAMILY,
    starvation::FAMILY,
    failures::FAMILY,
];

static INFOS: LazyLock<Vec<MetricInfo>> =
    LazyLock::new(|| FAMILIES.iter().flat_map(|family| family.metrics).copied().collect());

/// Every metric that a summary holds.
#[must_use]
pub fn metrics() -> &'static [MetricInfo] {
    &INFOS
}

/// The metric of this name.
#[must_use]
pub fn metric(name: &str) -> Option<&'static MetricInfo> {
    metrics().iter().find(|info| info.name == name)
}

/// The reference page of all metrics, in Markdown.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut page = String::from(REFERENCE_HEAD);
    for info in metrics() {
        let MetricInfo { name, unit, source_rule, better, summary } = info;
        page += &format!("| `{name}` | {unit} | {source_rule} | {better} | {summary} |\n");
    }
    page
}

const REFERENCE_HEAD: &str = "\
# Metrics

What `summary.json` holds for each run. A value that does not exist is `null` with a reason, never zero: a quantile of
too small a sample, the quality of answers that nobody scored, a counter that the server does not report.

- **Latency** counts from the time that a request was *due*, so a late generator shows up in it, over answered requests.
- **Wall time** runs from the first due time to the last end, for open and closed loops alike.
- **Failures** (rejected, shed, timed out, failed, unfinished) are SLO misses of quality 0.
- **Quantiles** are observations (inverted distribution function). They are given only when some observation bounds
  them from above with 95 % confidence: from 5 answers for the median, 59 for p95, 299 for p99.
- **Source** says whose numbers a metric is made of. Records of a simulated run are simulated, those of a live run are
  the client's; server rows are simulated or reported by a server. Different sources never share a column.

| metric | unit | source | better | what it is |
|---|---|---|---|---|
";

/// Whether a request was answered within every bound that is given. A one-token answer has no time per output token
/// and so can't miss that bound.
pub(crate) fn meets(slo: &Slo, record: &Record<'_>) -> bool {
    let within = |seen: Option<Nanos>, bound: Option<Nanos>| match (seen, bound) {
        (_, None) => true,
        (Some(seen), Some(bound)) => seen <= bound,
        (None, Some(_)) => false,
    };
    let tpot = match (record.tpot_ns(), slo.tpot_ns) {
        (Some(seen), Some(bound)) => seen <= bound.0 as f64,
        _ => true,
    };
    record.outcome == Outcome::Ok
        && within(record.ttft(), slo.ttft_ns)
        && tpot
        && within(record.e2e(), slo.e2e_ns)
}

/// Whether a request was answered and its first token came within the bound on TTFT.
pub(crate) fn on_time(bound: Nanos, record: &Record<'_>) -> bool {
    record.outcome == Outcome::Ok && record.ttft().is_some_and(|ttft| ttft <= bound)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{manifest, ms, record};
    use crate::{ArmRole, Metric, Summariser, Summary};
    use std::collections::BTreeSet;

    /// Summary of these records and rows under the toy manifest (TTFT bound 60 ms).
    pub(crate) fn summary(records: &[Record<'_>], rows: &[ServerRow]) -> Summary {
        let mut summariser = Summariser::new(&manifest("a", ArmRole::Treatment, 0));
        records.iter().for_each(|record| summariser.record(record));
        rows.iter().for_each(|row| summariser.server(row));
        summariser.finish()
    }

    /// One metric of these records.
    pub(crate) fn of(records: &[Record<'_>], name: &str) -> Metric {
        summary(records, &[]).metrics[name].clone()
    }

    /// Asserts a value.
    pub(crate) fn check(records: &[Record<'_>], name: &str, expected: f64) {
        let seen = of(records, name).value.unwrap_or_else(|| panic!("{name} is null"));
        assert!((seen - expected).abs() < 1e-9, "{name} is {seen}, not {expected}");
    }

    /// Asserts that there is no value, and why.
    pub(crate) fn check_absent(records: &[Record<'_>], name: &str, reason: &str) {
        let seen = of(records, name);
        assert!(
            seen.value.is_none() && seen.reason.as_ref().is_some_and(|r| r.contains(reason)),
            "{name}: {seen:?}"
        );
    }

    #[test]
    fn names_are_unique_and_every_family_gives_what_it_declares() {
        let names: BTreeSet<_> = metrics().iter().map(|info| info.name).collect();
        assert_eq!(names.len(), metrics().len());
        for family in FAMILIES {
            let values = (family.start)(&manifest("a", ArmRole::Treatment, 0).slo).finish(None);
            assert_eq!(values.len(), family.metrics.len(), "{}", family.metrics[0].name);
            for (value, info) in values.iter().zip(family.metrics) {
                assert!(value.number.is_err(), "{} of no records must be null", info.name);
            }
        }
    }

    #[test]
    fn the_reference_names_every_metric() {
        let page = metrics_markdown();
        for info in metrics() {
            assert!(page.contains(&format!("| `{}` | {} |", info.name, info.unit)));
        }
    }

    #[test]
    fn every_given_bound_is_checked_and_none_other() {
        // TTFT 50 ms, E2E 90 ms, 4 gaps of 10 ms.
        let r = record(0);
        let slo = |ttft, tpot, e2e| Slo { ttft_ns: ttft, tpot_ns: tpot, e2e_ns: e2e };
        assert!(meets(&slo(Some(ms(50)), Some(ms(10)), Some(ms(90))), &r));
        assert!(meets(&slo(None, None, None), &r));
        assert!(!meets(&slo(Some(ms(49)), None, None), &r));
        assert!(!meets(&slo(None, Some(ms(9)), None), &r));
        assert!(!meets(&slo(None, None, Some(ms(89))), &r));
        let one_token = Record { output_tokens: 1, last_token_ns: r.first_token_ns, ..record(0) };
        assert!(meets(&slo(None, Some(ms(9)), None), &one_token));
        assert!(!meets(&slo(None, None, None), &Record { outcome: Outcome::TimedOut, ..record(0) }));
    }
}
