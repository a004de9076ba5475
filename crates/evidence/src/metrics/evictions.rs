//! What servers gave up to make room.

use super::server_counter::Counter;
use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::ServerRow;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info("kv_evictions", "blocks", "Cached KV blocks given up to make room, over all replicas."),
        info("adapter_evictions_gpu", "evictions", "Adapters dropped from a GPU slot, over all replicas."),
        info("adapter_evictions_cpu", "evictions", "Adapters dropped from host memory, over all replicas."),
        info(
            "preemptions",
            "preemptions",
            "Requests that lost their KV memory and started again, over all replicas.",
        ),
    ],
    start: |_| Box::new(Evictions::default()),
};

const fn info(name: &'static str, unit: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit, source_rule: SourceRule::ServerRows, better: Better::Lower, summary }
}

#[derive(Default)]
struct Evictions {
    kv: Counter,
    gpu: Counter,
    cpu: Counter,
    preemptions: Counter,
}

impl Fold for Evictions {
    fn server(&mut self, row: &ServerRow) {
        self.kv.add(row, row.counters.kv_evictions);
        self.gpu.add(row, row.counters.adapter_evictions_gpu);
        self.cpu.add(row, row.counters.adapter_evictions_cpu);
        self.preemptions.add(row, row.counters.preemptions);
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        [self.kv, self.gpu, self.cpu, self.preemptions].map(|counter| counter.total(1.0)).into()
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::server_counter::tests::check_rows;
    use crate::testing::{ms, server_row};
    use acb_types::{ServerCounters, ServerRow};

    #[test]
    fn each_kind_of_eviction_is_counted_apart() {
        let counters = ServerCounters {
            kv_evictions: Some(7),
            adapter_evictions_gpu: Some(3),
            adapter_evictions_cpu: Some(0),
            preemptions: Some(2),
            ..ServerCounters::default()
        };
        let rows = [ServerRow { counters, ..server_row(ms(5), 0) }];
        check_rows(&rows, "kv_evictions", Ok(7.0));
        check_rows(&rows, "adapter_evictions_gpu", Ok(3.0));
        check_rows(&rows, "adapter_evictions_cpu", Ok(0.0));
        check_rows(&rows, "preemptions", Ok(2.0));
    }
}
