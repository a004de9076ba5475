//! What an SGLang replica is set to, made ready from its spec.

use crate::{LoraEvictionPolicy, RadixEvictionPolicy, SchedulePolicy, SglangSpec};
use acb_types::{Adapters, Nanos};

/// Settings of one replica.
#[derive(Clone, Debug)]
pub(crate) struct SglangRules {
    pub(super) page: u32,
    /// Tokens of KV memory.
    pub(super) total: u64,
    pub(super) max_running: usize,
    /// Most prompt tokens of one step; `None`: prompts are not cut.
    pub(super) chunk: Option<u32>,
    pub(super) max_prefill_tokens: u32,
    pub(super) mixed: bool,
    pub(super) conservativeness: f64,
    pub(super) schedule_policy: SchedulePolicy,
    pub(super) random_seed: u64,
    pub(super) radix_eviction_policy: RadixEvictionPolicy,
    pub(super) lora: Option<LoraRules>,
}

/// Settings of adapters.
#[derive(Clone, Debug)]
pub(crate) struct LoraRules {
    /// Slots, the base model's included.
    pub(super) slots: usize,
    pub(super) eviction: LoraEvictionPolicy,
    pub(super) overlap: bool,
    /// Waiting time from which an adapter makes others drain; `None`: never.
    pub(super) drain_after: Option<Nanos>,
    /// Most adapters in host memory; `None`: all.
    pub(super) max_loaded: Option<usize>,
    /// By adapter id.
    pub(super) pinned: Vec<bool>,
}

impl LoraRules {
    pub(super) fn pinned_count(&self) -> usize {
        self.pinned.iter().filter(|&&pinned| pinned).count()
    }
}

impl SglangRules {
    /// Whether no request can find what one that came after it has computed: none of the same adapter overtakes it.
    pub(crate) fn keeps_order(&self) -> bool {
        let strict = |lora: &LoraRules| lora.drain_after.is_none() && lora.max_loaded.is_none();
        self.schedule_policy == SchedulePolicy::Fcfs && self.lora.as_ref().is_none_or(strict)
    }

    /// Whether a prompt and its allowed answer, so many tokens, pass the admission estimate on an empty server.
    pub(crate) fn can_ever_fit(&self, tokens: u64) -> bool {
        tokens + 2 * u64::from(self.page) < self.total
    }

    /// From a spec without faults, for a pool of so many pages.
    pub(crate) fn new(spec: &SglangSpec, pages: u64, adapters: &Adapters) -> Self {
        let lora = spec.enable_lora.then(|| LoraRules {
            slots: spec.max_loras_per_batch as usize,
            eviction: spec.lora_eviction_policy,
            overlap: spec.enable_lora_overlap_loading,
            drain_after: (spec.lora_drain_wait_threshold > 0.0)
                .then(|| Nanos::from_secs_f64(spec.lora_drain_wait_threshold)),
            max_loaded: spec.max_loaded_loras.map(|most| most as usize),
            pinned: adapters.iter().map(|a| spec.pinned_loras.contains(&a.name)).collect(),
        });
        Self {
            page: spec.page_size,
            total: pages * u64::from(spec.page_size),
            max_running: spec.max_running_requests as usize,
            chunk: spec.chunked_prefill_size,
            max_prefill_tokens: spec.max_prefill_tokens,
            mixed: spec.enable_mixed_chunk,
            conservativeness: spec.schedule_conservativeness,
            schedule_policy: spec.schedule_policy,
            random_seed: spec.random_seed,
            radix_eviction_policy: spec.radix_eviction_policy,
            lora: lora.filter(|_| !adapters.is_empty()),
        }
    }
}
