//! Latency and attainment by adapter and by tenant.

use crate::GroupRow;
use crate::metrics::{meets, quantile, sort};
use acb_types::{Outcome, Record, Slo};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Accumulators by key: one number per answered request, for its quantiles.
pub(crate) struct Groups<K> {
    slo: Slo,
    groups: BTreeMap<K, Group>,
}

#[derive(Default)]
struct Group {
    requests: u64,
    ok: u64,
    good: u64,
    ttft_millis: Vec<f64>,
}

impl<K: Ord + Display> Groups<K> {
    pub(crate) fn new(slo: Slo) -> Self {
        Self { slo, groups: BTreeMap::new() }
    }

    /// Takes in a record of this key.
    pub(crate) fn add<Q>(&mut self, key: &Q, record: &Record<'_>)
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if !self.groups.contains_key(key) {
            self.groups.insert(key.to_owned(), Group::default());
        }
        let Some(group) = self.groups.get_mut(key) else { return };
        group.requests += 1;
        group.good += u64::from(meets(&self.slo, record));
        if record.outcome == Outcome::Ok {
            group.ok += 1;
            group.ttft_millis.extend(record.ttft().map(|ttft| ttft.as_millis_f64()));
        }
    }

    /// One row per key, ascending.
    pub(crate) fn rows(self) -> Vec<GroupRow> {
        self.groups.into_iter().map(|(key, group)| group.row(key.to_string())).collect()
    }
}

impl Group {
    fn row(mut self, name: String) -> GroupRow {
        sort(&mut self.ttft_millis);
        let quantile = |q| quantile(&self.ttft_millis, q).number.ok();
        GroupRow {
            name,
            requests: self.requests,
            ok: self.ok,
            slo_attainment: self.good as f64 / self.requests as f64,
            p50_ttft_ms: quantile(0.5),
            p95_ttft_ms: quantile(0.95),
            p99_ttft_ms: quantile(0.99),
            max_ttft_ms: self.ttft_millis.last().copied(),
        }
    }
}
