//! A cluster ready to run: a spec without faults, and the catalogue of adapters.

use crate::rules::Rules;
use crate::{ClusterSpec, ScrapeShows, SimError};
use acb_types::{AdapterId, Adapters, Nanos, ReplicaId};
use std::sync::Arc;

/// A cluster, without any state of a run: it can be run any number of times.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) replicas: u32,
    /// Of replicas that serve any adapter.
    pub(crate) rules: Rules,
    /// Of replicas that have one merged into their weights, where there are any.
    merged_rules: Option<Rules>,
    /// By replica, the adapter merged into its weights; empty when no replica has one.
    merged: Vec<Option<AdapterId>>,
    pub(crate) scrape: ScrapeShows,
    pub(crate) adapters: Arc<Adapters>,
    pub(crate) report_interval: Nanos,
    pub(crate) stop_at: Nanos,
    pub(crate) most_events: u64,
}

impl Cluster {
    /// A cluster as the spec says.
    ///
    /// # Errors
    /// The first fault that [`ClusterSpec::check`] finds.
    pub fn new(spec: &ClusterSpec, adapters: Arc<Adapters>) -> Result<Self, SimError> {
        let catalogue: Vec<(String, u32, u64)> =
            adapters.iter().map(|a| (a.name.clone(), a.rank, a.bytes)).collect();
        if let Some((pointer, message)) = spec.check(&catalogue).into_iter().next() {
            return Err(SimError::Spec { pointer, message });
        }
        let profile = spec.latency_profile().expect("checked: the profile exists");
        let blocks = spec.kv_blocks().expect("checked: the profile exists");
        let merged = merged(spec, &adapters);
        let plain = spec.without_lora();
        let merged_rules = plain.kv_blocks().filter(|_| !merged.is_empty());
        Ok(Self {
            replicas: spec.replicas,
            merged_rules: merged_rules.map(|blocks| Rules::new(&plain, &profile, blocks, &adapters)),
            merged,
            scrape: spec.scrape,
            rules: Rules::new(spec, &profile, blocks, &adapters),
            adapters,
            report_interval: Nanos::from_millis(spec.server_interval_ms),
            stop_at: Nanos::from_secs_f64(spec.limits.max_sim_seconds),
            most_events: spec.limits.max_events.unwrap_or(u64::MAX),
        })
    }

    /// The settings of a replica.
    pub(crate) fn rules_of(&self, replica: ReplicaId) -> &Rules {
        match &self.merged_rules {
            Some(rules) if self.merged_into(replica).is_some() => rules,
            _ => &self.rules,
        }
    }

    /// The adapter merged into a replica's weights, which is then all that it serves.
    #[must_use]
    pub fn merged_into(&self, replica: ReplicaId) -> Option<AdapterId> {
        self.merged.get(replica.index()).copied().flatten()
    }

    /// Whether a replica can serve requests for this adapter (none: base).
    #[must_use]
    pub fn serves(&self, replica: ReplicaId, adapter: Option<AdapterId>) -> bool {
        self.merged_into(replica).is_none_or(|merged| adapter == Some(merged))
    }
}

/// By replica, the adapter merged into its weights; empty when no replica has one.
fn merged(spec: &ClusterSpec, adapters: &Adapters) -> Vec<Option<AdapterId>> {
    let count = if spec.what_if.merged.is_empty() { 0 } else { spec.replicas as usize };
    let mut merged = vec![None; count];
    for one in &spec.what_if.merged {
        merged[one.replica as usize] = adapters.by_name(&one.adapter);
    }
    merged
}
