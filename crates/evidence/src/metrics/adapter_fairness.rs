//! Whether each adapter is served well, not only the popular ones.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value, meets};
use crate::Wall;
use acb_types::{Record, Slo};
use std::collections::BTreeMap;

/// An adapter counts as served well when this share of its own requests met every bound (InfiniLoRA counts alike).
const ATTAINMENT: f64 = 0.9;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[MetricInfo {
        name: "adapters_meeting_slo_share",
        unit: "share of adapters",
        source_rule: SourceRule::Records,
        better: Better::Higher,
        summary: "Adapters (base included) of which at least 90 % of the requests met every given bound, over adapters \
                  that served; each adapter weighs the same.",
    }],
    start: |slo| Box::new(AdapterFairness { slo: *slo, adapters: BTreeMap::new() }),
};

struct AdapterFairness {
    slo: Slo,
    adapters: BTreeMap<String, Attainment>,
}

#[derive(Default)]
struct Attainment {
    good: u64,
    all: u64,
}

impl Fold for AdapterFairness {
    fn record(&mut self, record: &Record<'_>) {
        let good = u64::from(meets(&self.slo, record));
        if !self.adapters.contains_key(&*record.adapter) {
            self.adapters.insert(record.adapter.clone().into_owned(), Attainment::default());
        }
        if let Some(adapter) = self.adapters.get_mut(&*record.adapter) {
            adapter.good += good;
            adapter.all += 1;
        }
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let served_well =
            self.adapters.values().filter(|a| a.good as f64 >= ATTAINMENT * a.all as f64).count();
        vec![Value::ratio(served_well as f64, self.adapters.len() as u64, "there are no records")]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::tests::check;
    use crate::testing::{failure, record};
    use acb_types::{Outcome, Record};

    #[test]
    fn each_adapter_weighs_the_same() {
        // `qa`: 9 of 10 on time, served well. `rare`: its one request failed.
        let mut records: Vec<_> = (0..9).map(|id| Record { adapter: "qa".into(), ..record(id) }).collect();
        records.push(Record { adapter: "qa".into(), ..failure(9, Outcome::TimedOut) });
        check(&records, "adapters_meeting_slo_share", 1.0);
        records.push(Record { adapter: "rare".into(), ..failure(10, Outcome::TimedOut) });
        check(&records, "adapters_meeting_slo_share", 0.5);
    }
}
