//! Adapter loads by tier, and the time that they cost.

use super::server_counter::Counter;
use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::ServerRow;

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "adapter_loads_cpu",
            "loads",
            "Adapter loads into a GPU slot from host memory, over all replicas.",
        ),
        info("adapter_loads_disk", "loads", "Adapter loads into a GPU slot from disk, over all replicas."),
        info(
            "adapter_loads_remote",
            "loads",
            "Adapter loads into a GPU slot from behind the network, over all replicas.",
        ),
        info(
            "adapter_stall_ms",
            "ms",
            "Time that steps were lengthened by adapter loads, over all replicas.",
        ),
    ],
    start: |_| Box::new(AdapterLoads::default()),
};

const fn info(name: &'static str, unit: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit, source_rule: SourceRule::ServerRows, better: Better::Lower, summary }
}

#[derive(Default)]
struct AdapterLoads {
    cpu: Counter,
    disk: Counter,
    remote: Counter,
    stall_ns: Counter,
}

impl Fold for AdapterLoads {
    fn server(&mut self, row: &ServerRow) {
        self.cpu.add(row, row.counters.adapter_loads_cpu);
        self.disk.add(row, row.counters.adapter_loads_disk);
        self.remote.add(row, row.counters.adapter_loads_remote);
        self.stall_ns.add(row, row.counters.adapter_stall_ns.map(|stall| stall.0));
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        vec![self.cpu.total(1.0), self.disk.total(1.0), self.remote.total(1.0), self.stall_ns.total(1e-6)]
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::server_counter::tests::check_rows;
    use crate::testing::{ms, server_row};
    use acb_types::{ServerCounters, ServerRow};

    #[test]
    fn the_last_counters_of_all_replicas_add_up() {
        let row = |at, replica, cpu, stall| ServerRow {
            counters: ServerCounters {
                adapter_loads_cpu: Some(cpu),
                adapter_loads_remote: Some(3 * cpu),
                adapter_stall_ns: Some(ms(stall)),
                ..ServerCounters::default()
            },
            ..server_row(ms(at), replica)
        };
        let rows = [row(0, 0, 1, 5), row(0, 1, 0, 0), row(10, 0, 4, 20), row(10, 1, 2, 10)];
        check_rows(&rows, "adapter_loads_cpu", Ok(6.0));
        check_rows(&rows, "adapter_loads_remote", Ok(18.0));
        check_rows(&rows, "adapter_stall_ms", Ok(30.0));
        check_rows(&rows, "adapter_loads_disk", Err("replica 0 does not report it"));
        check_rows(&[], "adapter_loads_cpu", Err("no server rows"));
    }
}
