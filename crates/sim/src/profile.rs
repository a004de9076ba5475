//! Latency profiles: what a step costs, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a step of one replica costs and what its memory holds. Times are milliseconds or microseconds as the names
/// say. For `P` prompt tokens of `q` requests (each computes `n` after `c`) and `D` decoding requests that read `K`
/// tokens of context, a step costs
///
/// `step_ms + max(weight_read_ms, prefill_token_us * P + prefill_pair_ns * sum n*(c + n/2) + decode_compute_us * D)
/// + prefill_request_us * q + decode_row_us * D + context_token_ns * K`
///
/// and, when any request has an adapter, for `A` distinct adapters on `S` slots of rank `R`, with `P'` prompt tokens
/// and `D'` decoding requests under adapters,
///
/// `lora_step_ms + lora_slot_ms * S + lora_adapter_ms * A^lora_adapter_exponent * (R / 16)^lora_rank_exponent
/// + (lora_row_us + lora_row_slot_us * S + lora_row_adapter_us * A) * D' + lora_prefill_token_us * P'`
///
/// plus the adapter loads that the step has to wait for, and `skipped_request_us` for each waiting request that vLLM's
/// scheduler passes over in the step because all slots are used and its adapter is in none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Fixed cost of a step, ms.
    pub step_ms: f64,
    /// Reading the weights once, ms; arithmetic hides behind it.
    #[serde(default)]
    pub weight_read_ms: f64,
    /// Cost of one prompt token computed, us.
    pub prefill_token_us: f64,
    /// Arithmetic of one decoding request, which hides behind the reading of weights, us.
    #[serde(default)]
    pub decode_compute_us: f64,
    /// Fixed cost of one request that computes a part of its prompt, us.
    #[serde(default)]
    pub prefill_request_us: f64,
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
    /// Cost of one slot that the engine was started with, in a step in which any request has an adapter, ms.
    #[serde(default)]
    pub lora_slot_ms: f64,
    /// Cost of the first distinct adapter in a step, at `max_lora_rank` 16, ms.
    #[serde(default)]
    pub lora_adapter_ms: f64,
    /// How the cost of distinct adapters grows with their number: 1 evenly, below 1 ever more slowly.
    #[serde(default = "one")]
    pub lora_adapter_exponent: f64,
    /// How the cost of distinct adapters grows with `max_lora_rank` over 16: 0 not at all, 1 evenly.
    #[serde(default)]
    pub lora_rank_exponent: f64,
    /// Cost of one decoding request that has an adapter, us.
    #[serde(default)]
    pub lora_row_us: f64,
    /// Cost of one decoding request with an adapter for each slot that the engine was started with, us.
    #[serde(default)]
    pub lora_row_slot_us: f64,
    /// Cost of one decoding request with an adapter for each distinct adapter in the step, us.
    #[serde(default)]
    pub lora_row_adapter_us: f64,
    /// Cost of one prompt token computed under an adapter, us.
    #[serde(default)]
    pub lora_prefill_token_us: f64,
    /// Passing over one waiting request whose adapter has no slot, us: the scheduler looks at every one of them in every
    /// step (vLLM 0.8.5, `v1/core/sched/scheduler.py`, the loop over the waiting requests).
    #[serde(default)]
    pub skipped_request_us: f64,
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
    /// Bytes of one LoRA rank over all modules for which the engine sets memory aside (vLLM: also embedding and output
    /// layer): a slot takes this times `max_lora_rank`.
    #[serde(default)]
    pub lora_bytes_per_rank: u64,
}

impl Profile {
    /// The costs with their names, for checks.
    pub(crate) fn costs(&self) -> [(&'static str, f64); 22] {
        [
            ("step_ms", self.step_ms),
            ("weight_read_ms", self.weight_read_ms),
            ("decode_compute_us", self.decode_compute_us),
            ("prefill_request_us", self.prefill_request_us),
            ("lora_slot_ms", self.lora_slot_ms),
            ("lora_adapter_exponent", self.lora_adapter_exponent),
            ("lora_rank_exponent", self.lora_rank_exponent),
            ("lora_row_slot_us", self.lora_row_slot_us),
            ("prefill_token_us", self.prefill_token_us),
            ("prefill_pair_ns", self.prefill_pair_ns),
            ("decode_row_us", self.decode_row_us),
            ("context_token_ns", self.context_token_ns),
            ("lora_step_ms", self.lora_step_ms),
            ("lora_adapter_ms", self.lora_adapter_ms),
            ("lora_row_us", self.lora_row_us),
            ("lora_row_adapter_us", self.lora_row_adapter_us),
            ("lora_prefill_token_us", self.lora_prefill_token_us),
            ("skipped_request_us", self.skipped_request_us),
            ("load_gpu_ms", self.load_gpu_ms),
            ("load_gpu_ms_per_mb", self.load_gpu_ms_per_mb),
            ("load_cpu_ms", self.load_cpu_ms),
            ("load_cpu_ms_per_mb", self.load_cpu_ms_per_mb),
        ]
    }

    /// What a step costs for having `adapters` distinct adapters in `slots` slots of rank `max_rank`, rows aside, ms.
    pub(crate) fn adapters_ms(&self, adapters: u32, slots: u32, max_rank: u32) -> f64 {
        if adapters == 0 {
            return 0.0;
        }
        let ranks = (f64::from(max_rank) / USUAL_RANK).powf(self.lora_rank_exponent);
        let distinct = f64::from(adapters).powf(self.lora_adapter_exponent);
        self.lora_step_ms + self.lora_slot_ms * f64::from(slots) + self.lora_adapter_ms * distinct * ranks
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

/// Rank at which the cost of an adapter is stated.
const USUAL_RANK: f64 = 16.0;

fn one() -> f64 {
    1.0
}
