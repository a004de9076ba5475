//! Requests that were not answered, by how they ended.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::{Outcome, Record};
use std::collections::BTreeMap;

/// The outcomes in the order of [`FAMILY`], after the share of all.
const KINDS: [Outcome; 5] =
    [Outcome::Rejected, Outcome::Shed, Outcome::TimedOut, Outcome::Failed, Outcome::Unfinished];

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("failure_share", "share", "Requests that were not answered in full, over all requests."),
        info(
            "rejected_requests",
            "requests",
            "Refused at once: longer than the context, or never fitting the memory.",
        ),
        info("shed_requests", "requests", "Dropped by an explicit limit."),
        info("timed_out_requests", "requests", "Not answered within the time limit."),
        info("failed_requests", "requests", "The server or the connection failed."),
        info("unfinished_requests", "requests", "Still running when the run ended."),
    ],
    start: |_| Box::new(Failures::default()),
};

const fn info(name: &'static str, unit: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit, source_rule: SourceRule::Records, better: Better::Lower, summary }
}

#[derive(Default)]
struct Failures {
    by_outcome: BTreeMap<Outcome, u64>,
    all: u64,
}

impl Fold for Failures {
    fn record(&mut self, record: &Record<'_>) {
        *self.by_outcome.entry(record.outcome).or_default() += 1;
        self.all += 1;
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let count = |outcome: Outcome| self.by_outcome.get(&outcome).copied().unwrap_or(0);
        let share = Value::ratio((self.all - count(Outcome::Ok)) as f64, self.all, "there are no records");
        let counts = KINDS.map(|kind| match self.all {
            0 => Value::absent("there are no records", 0),
            all => Value::of(count(kind) as f64, all),
        });
        [share].into_iter().chain(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::{check, check_absent};
    use crate::testing::{failure, record};
    use acb_types::Outcome;

    #[test]
    fn every_way_to_fail_is_counted_under_its_name() {
        let records = [
            record(0),
            failure(1, Outcome::Rejected),
            failure(2, Outcome::Shed),
            failure(3, Outcome::Shed),
            failure(4, Outcome::TimedOut),
            failure(5, Outcome::Failed),
            failure(6, Outcome::Unfinished),
            record(7),
        ];
        check(&records, "failure_share", 0.75);
        check(&records, "rejected_requests", 1.0);
        check(&records, "shed_requests", 2.0);
        check(&records, "timed_out_requests", 1.0);
        check(&records, "failed_requests", 1.0);
        check(&records, "unfinished_requests", 1.0);
        check_absent(&[], "shed_requests", "no records");
    }
}
