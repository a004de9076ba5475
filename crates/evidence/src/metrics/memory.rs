//! Bytes that KV and adapters hold on the GPU, over time.

use super::server_counter::one_source;
use super::{Better, Family, Fold, MetricInfo, SourceRule, Value};
use crate::Wall;
use acb_types::{Nanos, ReplicaId, ServerRow, Source};
use std::collections::{BTreeMap, BTreeSet};

/// The registry's entry.
pub(super) const FAMILY: Family = Family {
    metrics: &[
        info(
            "mean_resident_kv_bytes",
            "KV memory in use, active and cached: time average of each replica, added over replicas.",
        ),
        info("max_resident_kv_bytes", "KV memory in use, active and cached: most on one replica at any row."),
        info(
            "mean_resident_adapter_bytes",
            "Adapters in GPU slots, padding included: time average of each replica, added over replicas.",
        ),
        info(
            "max_resident_adapter_bytes",
            "Adapters in GPU slots, padding included: most on one replica at any row.",
        ),
    ],
    start: |_| Box::new(Memory::default()),
};

const fn info(name: &'static str, summary: &'static str) -> MetricInfo {
    MetricInfo { name, unit: "bytes", source_rule: SourceRule::ServerRows, better: Better::Lower, summary }
}

#[derive(Default)]
struct Memory {
    kv: BTreeMap<ReplicaId, Gauge>,
    adapters: BTreeMap<ReplicaId, Gauge>,
    sources: BTreeSet<Source>,
}

/// A gauge that holds its value until the next row.
#[derive(Default)]
struct Gauge {
    latest: Option<(Nanos, u64)>,
    byte_ns: u128,
    span_ns: u64,
    highest: u64,
    rows: u64,
    missed: bool,
}

impl Gauge {
    fn add(&mut self, at: Nanos, bytes: Option<u64>) {
        let Some(bytes) = bytes else {
            self.missed = true;
            return;
        };
        if let Some((before, held)) = self.latest {
            let span = at.since(before).0;
            self.byte_ns += u128::from(held) * u128::from(span);
            self.span_ns += span;
        }
        self.latest = Some((at, bytes));
        self.highest = self.highest.max(bytes);
        self.rows += 1;
    }
}

impl Fold for Memory {
    fn server(&mut self, row: &ServerRow) {
        let kv = row
            .kv_active_bytes
            .zip(row.kv_cached_bytes)
            .map(|(active, cached)| active.saturating_add(cached));
        self.kv.entry(row.replica).or_default().add(row.at_ns, kv);
        self.adapters.entry(row.replica).or_default().add(row.at_ns, row.adapter_gpu_bytes);
        self.sources.insert(row.source);
    }

    fn finish(self: Box<Self>, _wall: Option<Wall>) -> Vec<Value> {
        let source = one_source(&self.sources);
        [&self.kv, &self.adapters].into_iter().flat_map(|gauges| mean_and_highest(gauges, source)).collect()
    }
}

fn mean_and_highest(gauges: &BTreeMap<ReplicaId, Gauge>, source: Result<Source, &'static str>) -> [Value; 2] {
    let rows = gauges.values().map(|gauge| gauge.rows).sum();
    let source = match source {
        Ok(source) => Some(source),
        Err(reason) => return [Value::absent(reason, rows), Value::absent(reason, rows)],
    };
    if let Some((replica, _)) = gauges.iter().find(|(_, gauge)| gauge.missed) {
        let absent = Value::absent(format!("replica {replica} does not report it in every row"), rows);
        return [absent.clone(), absent];
    }
    let highest = gauges.values().map(|gauge| gauge.highest).max().unwrap_or(0);
    let mean = match gauges.iter().find(|(_, gauge)| gauge.span_ns == 0) {
        Some((replica, _)) => Value::absent(format!("the rows of replica {replica} span no time"), rows),
        None => {
            Value::of(gauges.values().map(|gauge| gauge.byte_ns as f64 / gauge.span_ns as f64).sum(), rows)
        }
    };
    [Value { source, ..mean }, Value { source, ..Value::of(highest as f64, rows) }]
}

#[cfg(test)]
mod tests {
    use crate::metrics::server_counter::tests::check_rows;
    use crate::testing::{ms, server_row};
    use acb_types::ServerRow;

    fn row(at: u64, replica: u32, active: u64, cached: u64) -> ServerRow {
        ServerRow {
            kv_active_bytes: Some(active),
            kv_cached_bytes: Some(cached),
            adapter_gpu_bytes: (replica == 0).then_some(8),
            ..server_row(ms(at), replica)
        }
    }

    #[test]
    fn a_gauge_holds_until_the_next_row() {
        // Replica 0: 10 bytes for 30 ms, 50 for 10 ms: (300 + 500) / 40 = 20. Replica 1: 4 bytes throughout.
        let rows =
            [row(0, 0, 10, 0), row(0, 1, 1, 3), row(30, 0, 20, 30), row(40, 0, 99, 0), row(40, 1, 0, 4)];
        check_rows(&rows, "mean_resident_kv_bytes", Ok(24.0));
        check_rows(&rows, "max_resident_kv_bytes", Ok(99.0));
        check_rows(&rows, "mean_resident_adapter_bytes", Err("replica 1 does not report it"));
    }

    #[test]
    fn one_row_has_a_height_and_no_average() {
        let rows = [row(5, 0, 1, 2)];
        check_rows(&rows, "max_resident_kv_bytes", Ok(3.0));
        check_rows(&rows, "mean_resident_kv_bytes", Err("span no time"));
        check_rows(&rows, "max_resident_adapter_bytes", Ok(8.0));
    }
}
