//! What a cluster is, as an experiment file says it.

use crate::{AdapterTiers, Memory, Profile, SglangSpec, SglangVersion, WhatIf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster of like replicas of one base model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Number of replicas.
    #[schemars(range(min = 1, max = 4096))]
    #[serde(default = "defaults::one")]
    pub replicas: u32,
    /// The serving engine that each replica runs, and its settings.
    #[serde(default)]
    pub engine: EngineSpec,
    /// KV memory of each replica.
    pub kv: KvSpec,
    /// What a step costs: the name of a shipped profile, or the constants themselves.
    pub profile: ProfileSpec,
    /// What the prefix cache holds when a request is admitted.
    #[serde(default)]
    pub cache_condition: CacheCondition,
    /// How adapters reach host memory.
    #[serde(default)]
    pub adapter_tiers: AdapterTiers,
    /// What a scrape shows to policies that look at an interval. (Those that see the true state see all of it.)
    #[serde(default)]
    pub scrape: ScrapeShows,
    /// What no runtime does.
    #[serde(default)]
    pub what_if: WhatIf,
    /// Limits that end requests or the run.
    #[serde(default)]
    pub limits: Limits,
    /// Time between two rows of `server.jsonl` of one replica, ms.
    #[serde(default = "defaults::server_interval_ms")]
    pub server_interval_ms: u64,
}

/// A serving engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineSpec {
    /// vLLM, its V1 scheduler.
    Vllm(VllmSpec),
    /// SGLang, its default scheduler and radix cache.
    Sglang(SglangSpec),
}

impl Default for EngineSpec {
    fn default() -> Self {
        Self::Vllm(VllmSpec::default())
    }
}

/// Version of vLLM whose rules are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VllmVersion {
    /// 0.33.0.
    #[default]
    #[serde(rename = "0.33.0")]
    V0_33_0,
}

/// Settings of vLLM under its own names. Defaults are those of 0.33.0 on a card below 70 GiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VllmSpec {
    /// Version whose rules are modelled.
    pub version: VllmVersion,
    /// Most requests that run at once (1024 on cards of 70 GiB and more).
    pub max_num_seqs: u32,
    /// Most tokens that one step computes (8192 on H100 and H200).
    pub max_num_batched_tokens: u32,
    /// Tokens in one KV block.
    #[schemars(range(min = 1, max = 65_536))]
    pub block_size: u32,
    /// Adapter slots on the GPU; 0 turns LoRA off.
    #[schemars(range(max = 65_536))]
    pub max_loras: u32,
    /// Adapters kept in host memory; the same as `max_loras` when absent.
    #[schemars(range(max = 1_000_000))]
    pub max_cpu_loras: Option<u32>,
    /// Rank that each slot is sized for.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_lora_rank: u32,
    /// Whether a prompt may be computed in several steps.
    pub enable_chunked_prefill: bool,
    /// Most prompt tokens of one request in one step while others exist; 0: no cap.
    pub long_prefill_token_threshold: u32,
    /// Whether a request is admitted only when all of its tokens fit, not just its first chunk.
    pub scheduler_reserve_full_isl: bool,
    /// Share of the KV blocks that an admission must leave free while others run.
    pub watermark: f64,
    /// Longest prompt and answer together, tokens (`max_model_len`).
    pub context_tokens: u32,
}

impl Default for VllmSpec {
    fn default() -> Self {
        Self {
            version: VllmVersion::default(),
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            block_size: 16,
            max_loras: 1,
            max_cpu_loras: None,
            max_lora_rank: 16,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            scheduler_reserve_full_isl: true,
            watermark: 0.0,
            context_tokens: 32_768,
        }
    }
}

impl VllmSpec {
    /// Host-memory capacity in adapters, with the engine's rule for an absent value.
    #[must_use]
    pub fn cpu_loras(&self) -> u32 {
        self.max_cpu_loras.unwrap_or(self.max_loras)
    }
}

/// KV memory of one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvSpec {
    /// Usable blocks (SGLang: pages), as the engine counts them after it has set weights and adapter slots aside.
    Blocks(u64),
    /// What is left of a card's memory after weights, adapter slots and overhead.
    Memory(KvMemory),
}

/// A card's memory, from which the KV pool is computed as the engine does at start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KvMemory {
    /// Memory of the card, GiB.
    pub gpu_gib: f64,
    /// Share that the engine may use (`gpu_memory_utilization`).
    #[serde(default = "defaults::utilization")]
    pub utilization: f64,
    /// Activations, graphs and the like, GiB.
    #[serde(default = "defaults::overhead_gib")]
    pub overhead_gib: f64,
}

/// A profile by name, or spelled out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ProfileSpec {
    /// One that ships (`acb list profiles`).
    Name(String),
    /// The constants themselves.
    Inline(Box<Profile>),
}

impl<'de> Deserialize<'de> for ProfileSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrConstants)
    }
}

/// Keeps the error of the form that was meant, which an untagged enum would swallow.
struct NameOrConstants;

impl<'de> serde::de::Visitor<'de> for NameOrConstants {
    type Value = ProfileSpec;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a profile or a map of its constants")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ProfileSpec, E> {
        Ok(ProfileSpec::Name(name.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<ProfileSpec, A::Error> {
        let profile = Profile::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(ProfileSpec::Inline(Box::new(profile)))
    }
}

/// What the prefix cache holds when a request is admitted. The condition changes the engine, not the bookkeeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheCondition {
    /// Whatever earlier requests left: the engine's default.
    #[default]
    Warm,
    /// Nothing: the cache is on and asked, but reset before every admission, also of a request that lost its memory.
    Cold,
    /// The cache is off and never asked.
    PrefixDisabled,
}

/// What servers say of their adapters when they are scraped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrapeShows {
    /// What the modelled version says. vLLM 0.33.0 (`vllm:lora_requests_info`) lists the adapters of requests in flight, the
    /// same ones as running and as waiting, and no adapter that is merely loaded; SGLang 0.5.23 counts slots and names
    /// nothing.
    #[default]
    Released,
    /// Adapters in slots and in host memory as well, as metrics that were proposed for vLLM (#45411, #54830) would; for
    /// vLLM only.
    Residency,
}

/// Limits; reaching one is an outcome, never silence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most requests that wait at one replica; one more is shed. Absent: no limit.
    pub max_queue: Option<u32>,
    /// Time from due to last token after which a request is given up, ms. Absent: no limit.
    pub request_timeout_ms: Option<u64>,
    /// Simulated time at which the run stops and what is in flight is unfinished, s.
    pub max_sim_seconds: f64,
    /// Events after which the run stops in the same way. Absent: no limit.
    pub max_events: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_queue: None, request_timeout_ms: None, max_sim_seconds: 604_800.0, max_events: None }
    }
}

mod defaults {
    pub fn one() -> u32 {
        1
    }
    pub fn server_interval_ms() -> u64 {
        1000
    }
    pub fn utilization() -> f64 {
        0.92
    }
    pub fn overhead_gib() -> f64 {
        2.0
    }
}

impl ClusterSpec {
    /// A cluster with the engine's defaults and `blocks` KV blocks a replica.
    #[must_use]
    pub fn new(replicas: u32, blocks: u64, profile: &str) -> Self {
        Self {
            replicas,
            engine: EngineSpec::default(),
            kv: KvSpec::Blocks(blocks),
            profile: ProfileSpec::Name(profile.to_owned()),
            cache_condition: CacheCondition::default(),
            adapter_tiers: AdapterTiers::default(),
            scrape: ScrapeShows::default(),
            what_if: WhatIf::default(),
            limits: Limits::default(),
            server_interval_ms: defaults::server_interval_ms(),
        }
    }

    /// The vLLM settings.
    ///
    /// # Panics
    /// When the engine is another one.
    #[must_use]
    pub fn vllm(&self) -> &VllmSpec {
        let EngineSpec::Vllm(vllm) = &self.engine else { panic!("the engine of this cluster is not vLLM") };
        vllm
    }

    /// The constants of the profile; `None` when its name is unknown.
    #[must_use]
    pub fn latency_profile(&self) -> Option<Profile> {
        match &self.profile {
            ProfileSpec::Name(name) => crate::profile(name),
            ProfileSpec::Inline(profile) => Some((**profile).clone()),
        }
    }

    /// Longest prompt and answer together, tokens.
    #[must_use]
    pub fn context_tokens(&self) -> u32 {
        match &self.engine {
            EngineSpec::Vllm(vllm) => vllm.context_tokens,
            EngineSpec::Sglang(sglang) => sglang.context_tokens,
        }
    }

    /// Tokens of one block (SGLang: page) of KV memory.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        match &self.engine {
            EngineSpec::Vllm(vllm) => vllm.block_size,
            EngineSpec::Sglang(sglang) => sglang.page_size,
        }
    }

    /// Adapter slots on the GPU and the rank that each is sized for; no slots when LoRA is off.
    pub(crate) fn slots(&self) -> (u32, u32) {
        match &self.engine {
            EngineSpec::Vllm(vllm) => (vllm.max_loras, vllm.max_lora_rank),
            EngineSpec::Sglang(sglang) if sglang.enable_lora => {
                (sglang.max_loras_per_batch, sglang.max_lora_rank)
            }
            EngineSpec::Sglang(sglang) => (0, sglang.max_lora_rank),
        }
    }

    /// Most adapters in host memory; `None`: all of them.
    pub(crate) fn cpu_slots(&self) -> Option<u32> {
        match &self.engine {
            EngineSpec::Vllm(vllm) => Some(vllm.cpu_loras()),
            EngineSpec::Sglang(sglang) => sglang.max_loaded_loras,
        }
    }

    /// Most requests that run at once on a replica.
    pub(crate) fn max_running(&self) -> u32 {
        match &self.engine {
            EngineSpec::Vllm(vllm) => vllm.max_num_seqs,
            EngineSpec::Sglang(sglang) => sglang.max_running_requests,
        }
    }

    /// Runtime and version, such as `vllm-0.33.0`.
    #[must_use]
    pub fn engine_label(&self) -> String {
        match &self.engine {
            EngineSpec::Vllm(vllm) => match vllm.version {
                VllmVersion::V0_33_0 => "vllm-0.33.0".to_owned(),
            },
            EngineSpec::Sglang(sglang) => match sglang.version {
                SglangVersion::V0_5_23 => "sglang-0.5.23".to_owned(),
            },
        }
    }

    /// Name of the latency profile (`inline` when spelled out) and whether it was calibrated.
    #[must_use]
    pub fn profile_label(&self) -> (String, bool) {
        match &self.profile {
            ProfileSpec::Name(name) => {
                let calibrated = crate::profiles().iter().any(|p| p.name == name && p.calibrated);
                (name.clone(), calibrated)
            }
            ProfileSpec::Inline(_) => ("inline".to_owned(), false),
        }
    }

    /// Usable KV blocks of a replica, 0 when nothing is left for them; `None` when the profile is unknown.
    #[must_use]
    pub fn kv_blocks(&self) -> Option<u64> {
        let memory = match &self.kv {
            KvSpec::Blocks(blocks) => return Some(*blocks),
            KvSpec::Memory(memory) => memory,
        };
        let (profile, (slots, rank)) = (self.latency_profile()?, self.slots());
        let gib = f64::from(1u32 << 30);
        let divided = Memory {
            card_bytes: memory.gpu_gib * gib,
            utilization: memory.utilization,
            overhead_bytes: memory.overhead_gib * gib,
            weight_bytes: profile.weight_bytes,
            slots,
            slot_bytes: u64::from(rank) * profile.lora_bytes_per_rank,
            kv_bytes_per_token: profile.kv_bytes_per_token,
            block_tokens: self.block_tokens(),
        };
        Some(divided.plan().blocks)
    }
}
