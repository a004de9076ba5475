//! Latency profiles: what a step costs, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a step of one replica costs and what its memory holds. Times are milliseconds or microseconds as the names
/// say. A step costs
///
/// `step_ms + prefill_token_us * P + prefill_pair_ns * sum n*(c + n/2) + decode_row_us * D + context_token_ns * K`
///
/// for `P` prompt tokens computed (a request computes `n` after `c`), `D` decoding requests that read `K` tokens of
/// context; with LoRA as described at the `lora_*` fields; plus the adapter loads that the step has to wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Fixed cost of a step, ms.
    pub step_ms: f64,
    /// Cost of one prompt token computed, us.
    pub prefill_token_us: f64,
    /// Cost of one (query, key) pair of prefill attention, ns.
    #[serde(default)]
    pub prefill_pair_ns: f64,
    /// Cost of one decoding request, us.
    pub decode_row_us: f64,
    /// Cost of one token of context read by a decoding request, ns.
    #[serde(default)]
    pub context_token_ns: f64,
    /// Fixed cost of a step in which any request has an adapter, ms.
    #[serde(default)]
    pub lora_step_ms: f64,
    /// Cost of one distinct adapter in a step, ms.
    #[serde(default)]
    pub lora_adapter_ms: f64,
    /// Cost of one decoding request that has an adapter, us.
    #[serde(default)]
    pub lora_row_us: f64,
    /// Cost of one decoding request with an adapter for each distinct adapter in the step, us.
    #[serde(default)]
    pub lora_row_adapter_us: f64,
    /// Cost of one prompt token computed under an adapter, us.
    #[serde(default)]
    pub lora_prefill_token_us: f64,
    /// Copying one adapter from host memory into a GPU slot: fixed part, ms.
    #[serde(default)]
    pub load_gpu_ms: f64,
    /// Copying one adapter into a GPU slot: per megabyte (10^6 bytes), ms.
    #[serde(default)]
    pub load_gpu_ms_per_mb: f64,
    /// Reading one adapter from disk into host memory: fixed part, ms.
    #[serde(default)]
    pub load_cpu_ms: f64,
    /// Reading one adapter from disk: per megabyte (10^6 bytes), ms.
    #[serde(default)]
    pub load_cpu_ms_per_mb: f64,
    /// Bytes of the model's weights.
    #[serde(default)]
    pub weight_bytes: u64,
    /// Bytes of KV memory for one token.
    pub kv_bytes_per_token: u64,
    /// Bytes of one LoRA rank over all target modules: a slot takes this times `max_lora_rank`.
    #[serde(default)]
    pub lora_bytes_per_rank: u64,
}

impl Profile {
    /// The costs with their names, for checks.
    pub(crate) fn costs(&self) -> [(&'static str, f64); 14] {
        [
            ("step_ms", self.step_ms),
            ("prefill_token_us", self.prefill_token_us),
            ("prefill_pair_ns", self.prefill_pair_ns),
            ("decode_row_us", self.decode_row_us),
            ("context_token_ns", self.context_token_ns),
            ("lora_step_ms", self.lora_step_ms),
            ("lora_adapter_ms", self.lora_adapter_ms),
            ("lora_row_us", self.lora_row_us),
            ("lora_row_adapter_us", self.lora_row_adapter_us),
            ("lora_prefill_token_us", self.lora_prefill_token_us),
            ("load_gpu_ms", self.load_gpu_ms),
            ("load_gpu_ms_per_mb", self.load_gpu_ms_per_mb),
            ("load_cpu_ms", self.load_cpu_ms),
            ("load_cpu_ms_per_mb", self.load_cpu_ms_per_mb),
        ]
    }

    /// Copy from host memory into a slot, ms.
    pub(crate) fn gpu_load_ms(&self, bytes: u64) -> f64 {
        self.load_gpu_ms + self.load_gpu_ms_per_mb * bytes as f64 * 1e-6
    }

    /// Read from disk, ms.
    pub(crate) fn cpu_load_ms(&self, bytes: u64) -> f64 {
        self.load_cpu_ms + self.load_cpu_ms_per_mb * bytes as f64 * 1e-6
    }
}
