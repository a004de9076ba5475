//! Whether each adapter is served well, not only the popular ones.

use super::{Better, Family, Fold, MetricInfo, SourceRule, Value, meets};
use crate::Wall;
use crate::keyed::Keyed;
use acb_types::{Record, Slo};

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
    start: |slo| Box::new(AdapterFairness { slo: *slo, adapters: Keyed::default() }),
};

struct AdapterFairness {
    slo: Slo,
    adapters: Keyed<String, Attainment>,
}

#[derive(Default)]
struct Attainment {
    good: u64,
    all: u64,
}

impl Fold for AdapterFairness {
    fn record(&mut self, record: &Record<'_>) {
        let good = u64::from(meets(&self.slo, record));
        let adapter = self.adapters.of(&*record.adapter);
        adapter.good += good;
        adapter.all += 1;
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let adapters = self.adapters.sorted();
        let served_well = adapters.iter().filter(|(_, a)| a.good as f64 >= ATTAINMENT * a.all as f64).count();
        vec![Value::ratio(served_well as f64, adapters.len() as u64, "there are no records")]
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
