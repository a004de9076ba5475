//! What families over server rows share: a counter of each replica, and who reports it.

use super::Value;
use acb_types::{ReplicaId, ServerRow, Source};
use std::collections::{BTreeMap, BTreeSet};

/// The latest value of a counter on each replica; `None` when its server has not reported it.
#[derive(Default)]
pub(super) struct Counter {
    latest: BTreeMap<ReplicaId, Option<u64>>,
    sources: BTreeSet<Source>,
}

impl Counter {
    /// Takes in a row. A counter only grows, so the highest value is the latest whatever the order.
    pub(super) fn add(&mut self, row: &ServerRow, value: Option<u64>) {
        let latest = self.latest.entry(row.replica).or_default();
        *latest = (*latest).max(value);
        self.sources.insert(row.source);
    }

    /// Sum over replicas, times `scale`.
    pub(super) fn total(&self, scale: f64) -> Value {
        let n = self.latest.len() as u64;
        let source = match one_source(&self.sources) {
            Ok(source) => source,
            Err(reason) => return Value::absent(reason, n),
        };
        if let Some((replica, _)) = self.latest.iter().find(|(_, value)| value.is_none()) {
            return Value::absent(format!("replica {replica} does not report it"), n);
        }
        let total: u64 = self.latest.values().flatten().sum();
        Value { source: Some(source), ..Value::of(total as f64 * scale, n) }
    }
}

/// The source of rows that must all have the same.
pub(super) fn one_source(sources: &BTreeSet<Source>) -> Result<Source, &'static str> {
    match (sources.first(), sources.len()) {
        (Some(&source), 1) => Ok(source),
        (None, _) => Err("there are no server rows"),
        _ => Err("server rows of several sources can't be added"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::tests::summary;
    use crate::testing::{ms, server_row};

    /// Asserts one metric of these rows; `Err` is a part of the reason for its absence.
    pub(in crate::metrics) fn check_rows(rows: &[ServerRow], name: &str, expected: Result<f64, &str>) {
        let seen = summary(&[], rows).metrics[name].clone();
        match expected {
            Ok(value) => assert_eq!(seen.value, Some(value), "{name}: {seen:?}"),
            Err(reason) => {
                assert!(seen.reason.as_ref().is_some_and(|r| r.contains(reason)), "{name}: {seen:?}")
            }
        }
    }

    #[test]
    fn a_counter_that_one_replica_hides_has_no_total() {
        let mut counter = Counter::default();
        assert_eq!(counter.total(1.0).number, Err("there are no server rows".into()));
        counter.add(&server_row(ms(0), 0), Some(3));
        counter.add(&server_row(ms(1), 0), Some(5));
        counter.add(&server_row(ms(1), 1), Some(2));
        assert_eq!(counter.total(2.0).number, Ok(14.0));
        counter.add(&server_row(ms(1), 2), None);
        assert_eq!(counter.total(1.0).number, Err("replica 2 does not report it".into()));
        let other = ServerRow { source: Source::Server, ..server_row(ms(2), 2) };
        counter.add(&other, Some(1));
        assert!(counter.total(1.0).number.unwrap_err().contains("several sources"));
    }
}
