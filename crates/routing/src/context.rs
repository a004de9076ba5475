//! What a router is built from, besides its policy.

use crate::RoutingError;
use acb_types::{AdapterId, Adapters, Outcomes, QualityTable, ReplicaId, Seed, Slo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every policy of an arm is built from.
#[derive(Clone, Debug)]
pub struct RouterContext {
    /// Replicas in the cluster, at least one.
    pub replicas: u32,
    /// Replicas that serve one adapter only, merged into their weights (a what-if of the simulator).
    pub merged: BTreeMap<ReplicaId, AdapterId>,
    /// The catalogue.
    pub adapters: Arc<Adapters>,
    /// What policies believe of quality: from a calibration split, never the hidden table itself.
    pub prior: Arc<QualityTable>,
    /// The objective that the run is scored by.
    pub slo: Slo,
    /// What policies believe of the servers' speed.
    pub costs: CostModel,
    /// Size of the router's own prefix index.
    pub prefix: PrefixIndexSpec,
    /// The block's seed; the router draws from its child `routing`.
    pub seed: Seed,
    /// Outcomes of answers not yet given: only the oracle's constructor reads it.
    pub truth: Option<Outcomes>,
}

impl RouterContext {
    /// # Errors
    /// When a number is impossible or the prior does not cover the catalogue.
    pub(crate) fn check(&self) -> Result<(), RoutingError> {
        if self.replicas == 0 {
            return Err(RoutingError::NoReplicas);
        }
        let (covered, adapters) = (self.prior.adapters(), self.adapters.len());
        if covered < adapters {
            return Err(RoutingError::PriorTooSmall { covered, adapters });
        }
        if self.prefix.block_tokens == 0 {
            return Err(RoutingError::Parameter {
                owner: "prefix",
                parameter: "block_tokens",
                value: 0.0,
                allowed: "at least 1",
            });
        }
        self.costs.check()
    }
}

/// What a policy believes of a replica's speed, the same for all replicas: one straight line through a latency
/// profile. The defaults are round figures for an 8-billion-parameter model on one data-centre GPU, not a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// Milliseconds of engine time per prompt token that is not cached.
    pub ms_per_prefill_token: f64,
    /// Milliseconds of one decode step at a usual batch: every running request gets one token per step.
    pub step_ms: f64,
    /// Factor on prefill time when an adapter is applied, at least 1.
    pub adapter_slowdown: f64,
    /// Milliseconds to bring an adapter from host memory into a GPU slot.
    pub load_ms_cpu: f64,
    /// Milliseconds to bring an adapter from disk into a GPU slot.
    pub load_ms_disk: f64,
    /// Adapters that fit on the GPU at once.
    pub gpu_slots: u32,
    /// Adapters that fit in host memory, those on the GPU included.
    pub cpu_slots: u32,
    /// Requests that one replica runs at once; more of them wait.
    pub max_running: u32,
    /// Tokens of a usual answer: with `step_ms` it says how long a request holds its place and its slot.
    pub output_tokens_mean: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            ms_per_prefill_token: 0.05,
            step_ms: 12.0,
            adapter_slowdown: 1.0,
            load_ms_cpu: 5.0,
            load_ms_disk: 200.0,
            gpu_slots: 4,
            cpu_slots: 32,
            max_running: 256,
            output_tokens_mean: 128.0,
        }
    }
}

impl CostModel {
    /// # Errors
    /// When a cost is negative or not a number, or the slowdown is below 1.
    pub(crate) fn check(&self) -> Result<(), RoutingError> {
        let refuse = |parameter, value, allowed| {
            Err(RoutingError::Parameter { owner: "costs", parameter, value, allowed })
        };
        let costs = [
            ("ms_per_prefill_token", self.ms_per_prefill_token),
            ("step_ms", self.step_ms),
            ("load_ms_cpu", self.load_ms_cpu),
            ("load_ms_disk", self.load_ms_disk),
            ("output_tokens_mean", self.output_tokens_mean),
        ];
        for (parameter, value) in costs {
            if !(value >= 0.0 && value.is_finite()) {
                return refuse(parameter, value, "a finite number of at least 0");
            }
        }
        if !(self.adapter_slowdown >= 1.0 && self.adapter_slowdown.is_finite()) {
            return refuse("adapter_slowdown", self.adapter_slowdown, "a finite number of at least 1");
        }
        Ok(())
    }

    /// Milliseconds for which a usual request holds its place in the batch.
    #[must_use]
    pub fn residence_ms(&self) -> f64 {
        self.output_tokens_mean * self.step_ms
    }
}

/// Size of the router's own index of what each replica has cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrefixIndexSpec {
    /// Tokens per block; only full blocks are remembered, as in vLLM.
    pub block_tokens: u32,
    /// Blocks remembered per replica; the least recently sent go first.
    pub capacity_blocks: u64,
}

impl Default for PrefixIndexSpec {
    fn default() -> Self {
        Self { block_tokens: 16, capacity_blocks: 31_250 }
    }
}
