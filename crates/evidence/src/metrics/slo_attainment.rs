//! Share of requests that met their bounds.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value, meets};
use crate::Wall;
use acb_types::{Record, Slo};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[MetricInfo {
        name: "slo_attainment",
        unit: "share",
        source_rule: SourceRule::Records,
        better: Better::Higher,
        summary: "Requests that met every given bound, over all requests; failures are misses.",
    }],
    start: |slo| Box::new(SloAttainment { slo: *slo, good: 0, all: 0 }),
};

struct SloAttainment {
    slo: Slo,
    good: u64,
    all: u64,
}

impl Fold for SloAttainment {
    fn record(&mut self, record: &Record<'_>) {
        self.good += u64::from(meets(&self.slo, record));
        self.all += 1;
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        vec![Value::ratio(self.good as f64, self.all, "there are no records")]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::check;
    use crate::testing::{failure, ms, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn failures_are_misses() {
        // Bound 60 ms: 50 ms meets it, 61 ms does not.
        let late = Record { first_token_ns: Some(record(1).due_ns + ms(61)), ..record(1) };
        let records = [record(0), late, failure(2, Outcome::TimedOut), failure(3, Outcome::Shed)];
        check(&records, "slo_attainment", 0.25);
    }
}
