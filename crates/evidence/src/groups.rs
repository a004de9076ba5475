//! Latency and attainment by adapter and by tenant.

use crate::GroupRow;
use crate::keyed::Keyed;
use crate::metrics::meets;
use crate::sample::Sample;
use acb_types::{Outcome, Record, Slo};
use std::borrow::Borrow;
use std::fmt::Display;
use std::hash::Hash;

/// Accumulators by key: one number per answered request, for its quantiles.
pub(crate) struct Groups<K> {
    slo: Slo,
    groups: Keyed<K, Group>,
}

#[derive(Default)]
struct Group {
    requests: u64,
    ok: u64,
    good: u64,
    ttft: Sample,
}

impl<K: Hash + Ord + Clone + Display> Groups<K> {
    pub(crate) fn new(slo: Slo) -> Self {
        Self { slo, groups: Keyed::default() }
    }

    /// Takes in a record of this key.
    pub(crate) fn add<Q>(&mut self, key: &Q, record: &Record<'_>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let group = self.groups.of(key);
        group.requests += 1;
        group.good += u64::from(meets(&self.slo, record));
        if record.outcome == Outcome::Ok {
            group.ok += 1;
            record.ttft().into_iter().for_each(|ttft| group.ttft.push(ttft));
        }
    }

    /// One row per key, ascending.
    pub(crate) fn rows(self) -> Vec<GroupRow> {
        self.groups.sorted().into_iter().map(|(key, group)| group.row(key.to_string())).collect()
    }
}

impl Group {
    fn row(self, name: String) -> GroupRow {
        let sorted = self.ttft.sorted();
        let quantile = |q| sorted.quantile(q).number.ok();
        GroupRow {
            name,
            requests: self.requests,
            ok: self.ok,
            slo_attainment: self.good as f64 / self.requests as f64,
            p50_ttft_ms: quantile(0.5),
            p95_ttft_ms: quantile(0.95),
            p99_ttft_ms: quantile(0.99),
            max_ttft_ms: sorted.longest(),
        }
    }
}
