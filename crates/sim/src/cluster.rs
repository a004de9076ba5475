//! A cluster ready to run: a spec without faults, and the catalogue of adapters.

use crate::rules::Rules;
use crate::{ClusterSpec, SimError};
use acb_types::{Adapters, Nanos};
use std::sync::Arc;

/// A cluster, without any state of a run: it can be run any number of times.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) replicas: u32,
    pub(crate) rules: Rules,
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
        Ok(Self {
            replicas: spec.replicas,
            rules: Rules::new(spec, &profile, blocks, &adapters),
            adapters,
            report_interval: Nanos::from_millis(spec.server_interval_ms),
            stop_at: Nanos::from_secs_f64(spec.limits.max_sim_seconds),
            most_events: spec.limits.max_events.unwrap_or(u64::MAX),
        })
    }
}
