//! How late the load generator was.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use crate::sample::Sample;
use acb_types::Record;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "p99_send_lag_ms",
            "99th percentile of the time from due to sent: lateness of the generator, over all requests.",
        ),
        info("max_send_lag_ms", "The longest time from due to sent."),
    ],
    start: |_| Box::new(SendLag::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "ms", source_rule: SourceRule::Records, better: Better::Lower, summary }
}

/// One sample per request.
#[derive(Default)]
struct SendLag {
    lags: Sample,
}

impl Fold for SendLag {
    fn record(&mut self, record: &Record<'_>) {
        self.lags.push(record.sent_ns.since(record.due_ns));
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let sorted = self.lags.sorted();
        let n = sorted.len() as u64;
        let longest = match sorted.longest() {
            Some(longest) => Value::of(longest, n),
            None => Value::absent("there are no records", 0),
        };
        vec![sorted.quantile(0.99), longest]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::check;
    use crate::testing::{ms, record};
    use acb_types::Record;

    #[test]
    fn it_runs_from_due_to_sent() {
        let late = Record { sent_ns: record(300).due_ns + ms(7), ..record(300) };
        let mut records: Vec<_> = (0..299).map(record).collect();
        records.push(late);
        check(&records, "p99_send_lag_ms", 1.0);
        check(&records, "max_send_lag_ms", 7.0);
    }
}
