//! Settings of SGLang, as an experiment file says them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of SGLang whose rules are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SglangVersion {
    /// 0.5.23.
    #[default]
    #[serde(rename = "0.5.23")]
    V0_5_23,
}

/// Order in which waiting requests are considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulePolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Longest cached prefix first; first come, first served while more than 128 wait.
    Lpm,
    /// Heaviest subtree of the radix tree first.
    DfsWeight,
    /// Longest allowed answer first.
    Lof,
    /// A new random order at each pass.
    Random,
}

/// Which leaf of the radix tree is given up first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RadixEvictionPolicy {
    /// Least recently used.
    #[default]
    Lru,
    /// Least often used.
    Lfu,
    /// Least recently used, those used twice after all others.
    Slru,
    /// Made first.
    Fifo,
    /// Most recently used.
    Mru,
    /// Made last.
    Filo,
    /// Lowest priority (requests have none of their own: answers go before prompts), then least recently used.
    Priority,
}

/// Which adapter loses its GPU slot first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoraEvictionPolicy {
    /// Least recently used.
    #[default]
    Lru,
    /// Loaded first.
    Fifo,
}

/// Settings of SGLang under its own names. Defaults are those of 0.5.23 on a card of 20 to 60 GB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SglangSpec {
    /// Version whose rules are modelled.
    pub version: SglangVersion,
    /// Most requests that run at once. (The server computes it from its memory when it is not set.)
    pub max_running_requests: u32,
    /// Most prompt tokens that one step computes, and where longer prompts are cut (8192 on cards from 60 GB, 16384
    /// above 160 GB); `null`: prompts are not cut.
    pub chunked_prefill_size: Option<u32>,
    /// Prompt tokens after which a step takes no further prompt.
    pub max_prefill_tokens: u32,
    /// Whether running requests decode in the steps that compute prompts.
    pub enable_mixed_chunk: bool,
    /// Tokens of one page of KV memory.
    pub page_size: u32,
    /// Order in which waiting requests are considered.
    pub schedule_policy: SchedulePolicy,
    /// Scales the share of its allowed answer that each running request is expected to write.
    pub schedule_conservativeness: f64,
    /// Seed of `schedule_policy: random`.
    pub random_seed: u64,
    /// Which leaf of the radix tree is given up first.
    pub radix_eviction_policy: RadixEvictionPolicy,
    /// Whether adapters are served.
    pub enable_lora: bool,
    /// GPU slots: most adapters of running requests, the base model counting as one.
    #[schemars(range(max = 65_536))]
    pub max_loras_per_batch: u32,
    /// Rank that each slot is sized for.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_lora_rank: u32,
    /// Which adapter loses its GPU slot first.
    pub lora_eviction_policy: LoraEvictionPolicy,
    /// Most adapters in host memory; absent: all of them.
    #[schemars(range(max = 1_000_000))]
    pub max_loaded_loras: Option<u32>,
    /// Names of adapters that never leave their slot or host memory.
    pub pinned_loras: Vec<String>,
    /// Whether adapters are copied into slots beside the computation instead of by the step that needs them.
    pub enable_lora_overlap_loading: bool,
    /// Time that requests of an adapter wait before others are drained for it, s; 0: never.
    pub lora_drain_wait_threshold: f64,
    /// Longest prompt and answer together, tokens (`context_length`).
    pub context_tokens: u32,
}

impl Default for SglangSpec {
    fn default() -> Self {
        Self {
            version: SglangVersion::default(),
            max_running_requests: 256,
            chunked_prefill_size: Some(4096),
            max_prefill_tokens: 16_384,
            enable_mixed_chunk: false,
            page_size: 1,
            schedule_policy: SchedulePolicy::default(),
            schedule_conservativeness: 1.0,
            random_seed: 0,
            radix_eviction_policy: RadixEvictionPolicy::default(),
            enable_lora: true,
            max_loras_per_batch: 8,
            max_lora_rank: 16,
            lora_eviction_policy: LoraEvictionPolicy::default(),
            max_loaded_loras: None,
            pinned_loras: Vec::new(),
            enable_lora_overlap_loading: false,
            lora_drain_wait_threshold: 0.0,
            context_tokens: 32_768,
        }
    }
}
