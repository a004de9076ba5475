//! Time to first token.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use crate::sample::Sample;
use acb_types::{Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("p50_ttft_ms", "Median time from due to first token, over answered requests."),
        info("p95_ttft_ms", "95th percentile of the time from due to first token, over answered requests."),
        info("p99_ttft_ms", "99th percentile of the time from due to first token, over answered requests."),
    ],
    start: |_| Box::new(Ttft::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// One sample per answered request.
#[derive(Default)]
struct Ttft {
    times: Sample,
}

impl Fold for Ttft {
    fn record(&mut self, record: &Record<'_>) {
        if record.outcome == Outcome::Ok {
            record.ttft().into_iter().for_each(|ttft| self.times.push(ttft));
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
    use crate::testing::{failure, ms, record};
    use acb_types::{Nanos, Outcome, Record};

    fn with_ttft(id: u64, ttft: Nanos) -> Record<'static> {
        let first = record(id).due_ns + ttft;
        Record {
            admitted_ns: None,
            first_token_ns: Some(first),
            last_token_ns: Some(first + ms(4)),
            ..record(id)
        }
    }

    #[test]
    fn quantiles_are_observations_of_the_answered() {
        // TTFT 1, 2, ..., 300 ms; ranks ceil(150), ceil(285), ceil(297). The failure has no TTFT and is not one of them.
        let mut records: Vec<_> = (1..=300).map(|id| with_ttft(id, ms(id))).collect();
        records.push(failure(0, Outcome::TimedOut));
        check(&records, "p50_ttft_ms", 150.0);
        check(&records, "p95_ttft_ms", 285.0);
        check(&records, "p99_ttft_ms", 297.0);
    }

    #[test]
    fn a_tail_of_few_answers_is_not_estimable() {
        let records: Vec<_> = (1..=58).map(record).collect();
        check(&records, "p50_ttft_ms", 50.0);
        check_absent(&records, "p95_ttft_ms", "needs 59");
        check_absent(&records, "p99_ttft_ms", "needs 299");
    }
}
