//! Time in the server's queue.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use crate::sample::Sample;
use acb_types::Record;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "mean_queue_time_ms",
            "Mean time from sent to first scheduled, over requests that were scheduled.",
        ),
        info("p95_queue_time_ms", "95th percentile of the time from sent to first scheduled."),
        info("p99_queue_time_ms", "99th percentile of the time from sent to first scheduled."),
    ],
    start: |_| Box::new(QueueTime::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// One sample per scheduled request, answered or not: leaving out those that timed out would flatter the queue.
#[derive(Default)]
struct QueueTime {
    waits: Sample,
    total_ns: u128,
}

impl Fold for QueueTime {
    fn record(&mut self, record: &Record<'_>) {
        if let Some(admitted) = record.admitted_ns {
            let waited = admitted.since(record.sent_ns);
            self.total_ns += u128::from(waited.0);
            self.waits.push(waited);
        }
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let sorted = self.waits.sorted();
        let none = "no request has a time of admission";
        let mean = Value::ratio(self.total_ns as f64 * 1e-6, sorted.len() as u64, none);
        vec![mean, sorted.quantile(0.95), sorted.quantile(0.99)]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, ms, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn it_runs_from_sent_to_scheduled() {
        // Sent at 1 ms; scheduled at 11 ms and at 31 ms.
        let late = Record { admitted_ns: Some(record(1).due_ns + ms(31)), ..record(1) };
        check(&[record(0), late], "mean_queue_time_ms", 20.0);
        check_absent(
            &[failure(0, Outcome::Shed)],
            "mean_queue_time_ms",
            "no request has a time of admission",
        );
        let many: Vec<_> = (0..59).map(record).collect();
        check(&many, "p95_queue_time_ms", 10.0);
    }
}
