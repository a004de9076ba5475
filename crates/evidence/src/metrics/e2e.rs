//! End-to-end latency.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use crate::sample::Sample;
use acb_types::{Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("p50_e2e_ms", "Median time from due to last token, over answered requests."),
        info("p95_e2e_ms", "95th percentile of the time from due to last token, over answered requests."),
        info("p99_e2e_ms", "99th percentile of the time from due to last token, over answered requests."),
    ],
    start: |_| Box::new(E2e::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// One sample per answered request.
#[derive(Default)]
struct E2e {
    times: Sample,
}

impl Fold for E2e {
    fn record(&mut self, record: &Record<'_>) {
        if record.outcome == Outcome::Ok {
            record.e2e().into_iter().for_each(|e2e| self.times.push(e2e));
        }
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let sorted = self.times.sorted();
        [0.5, 0.95, 0.99].map(|q| sorted.quantile(q)).into()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{ms, record};
    use acb_types::Record;

    #[test]
    fn it_counts_from_due_to_the_last_token() {
        // 100 + 1, ..., 100 + 60 ms after due: p50 is rank 30, p95 rank 57.
        let records: Vec<_> = (1..=60)
            .map(|id| Record { last_token_ns: Some(record(id).due_ns + ms(100 + id)), ..record(id) })
            .collect();
        check(&records, "p50_e2e_ms", 130.0);
        check(&records, "p95_e2e_ms", 157.0);
        check_absent(&records, "p99_e2e_ms", "needs 299");
    }
}
