//! Requests and tokens per second.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::{Outcome, Record};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("request_throughput", "requests/s", "Answered requests over wall time."),
        info("output_token_throughput", "tokens/s", "Output tokens of answered requests over wall time."),
    ],
    start: |_| Box::new(Throughput::default()),
};

const fn info(name: &'static str, unit: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit, source_rule: SourceRule::Records, better: Better::Higher, summary }
}

#[derive(Default)]
struct Throughput {
    answers: u64,
    tokens: u64,
}

impl Fold for Throughput {
    fn record(&mut self, record: &Record<'_>) {
        if record.outcome == Outcome::Ok {
            self.answers += 1;
            self.tokens += u64::from(record.output_tokens);
        }
    }

    fn finish(self: Box<Self>, wall: Option<Wall>) -> Vec<Value> {
        [self.answers, self.tokens].map(|amount| Value::rate(amount as f64, self.answers, wall)).into()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, ms, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn answered_work_counts_over_the_wall_time() {
        // Due at 0 ms, last end at 1000 ms: one second, the failure's due time within it.
        let last = Record { last_token_ns: Some(ms(1000)), ended_ns: ms(1000), ..record(1) };
        let records = [record(0), last, failure(2, Outcome::Failed)];
        check(&records, "request_throughput", 2.0);
        check(&records, "output_token_throughput", 10.0);
    }

    #[test]
    fn no_wall_time_means_no_rate() {
        check_absent(&[], "request_throughput", "no records");
        let instant = Record { sent_ns: ms(0), ended_ns: ms(0), ..failure(0, Outcome::Rejected) };
        check_absent(&[instant], "request_throughput", "wall time is zero");
    }
}
