//! A cluster spec made ready: the numbers that every step needs, and the cache namespaces.

use crate::adapters::AdapterCosts;
use crate::jobs::Job;
use crate::latency::{Latency, Slots};
use crate::{CacheCondition, ClusterSpec, Profile};
use acb_types::{AdapterId, Adapters, Nanos, Request, Segment};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Settings of one replica, the same for all.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Tokens that one step computes.
    pub(crate) budget: u32,
    pub(crate) max_running: usize,
    /// Tokens of a block.
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) chunked: bool,
    /// Most prompt tokens of one request in one step while others exist; `None`: no cap.
    pub(crate) long_prefill: Option<u32>,
    pub(crate) reserve_whole: bool,
    pub(crate) watermark: u32,
    pub(crate) context: u32,
    pub(crate) condition: CacheCondition,
    pub(crate) max_queue: Option<u32>,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) latency: Latency,
    pub(crate) adapters: AdapterCosts,
    pub(crate) kv_bytes_per_token: u64,
    /// Cache namespace of base, adapter 0, adapter 1, ... without salt.
    namespaces: Vec<u64>,
}

/// Cache namespace of requests under an adapter (name and path on the server; none: base): blocks are shared only
/// where both agree, and the salt.
pub(crate) fn namespace(adapter: Option<(&str, &str)>) -> u64 {
    let mut hasher = FxHasher::default();
    if let Some((name, path)) = adapter {
        for part in [name, path] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
    }
    hasher.finish()
}

/// The namespace of requests that carry this salt too.
pub(crate) fn salted(namespace: u64, salt: Option<u64>) -> u64 {
    let Some(salt) = salt else { return namespace };
    let mut hasher = FxHasher::default();
    hasher.write_u64(namespace);
    hasher.write_u64(salt);
    hasher.finish()
}

impl Rules {
    /// From a spec without faults.
    pub(crate) fn new(spec: &ClusterSpec, profile: &Profile, blocks: u64, adapters: &Adapters) -> Self {
        let vllm = spec.vllm();
        let of_adapter = adapters.iter().map(|a| namespace(Some((&a.name, &a.name))));
        Self {
            budget: vllm.max_num_batched_tokens,
            max_running: vllm.max_num_seqs as usize,
            block: vllm.block_size,
            blocks: u32::try_from(blocks).expect("checked: the pool is below 2^28 blocks"),
            chunked: vllm.enable_chunked_prefill,
            long_prefill: (vllm.long_prefill_token_threshold > 0)
                .then_some(vllm.long_prefill_token_threshold),
            reserve_whole: vllm.scheduler_reserve_full_isl,
            watermark: (vllm.watermark * blocks as f64) as u32,
            context: vllm.context_tokens,
            condition: spec.cache_condition,
            max_queue: spec.limits.max_queue,
            timeout: spec.limits.request_timeout_ms.map(Nanos::from_millis),
            latency: Latency::new(profile, Slots { count: vllm.max_loras, max_rank: vllm.max_lora_rank }),
            adapters: AdapterCosts::new(adapters, vllm, profile),
            kv_bytes_per_token: profile.kv_bytes_per_token,
            namespaces: std::iter::once(namespace(None)).chain(of_adapter).collect(),
        }
    }

    /// Blocks that hold this many tokens.
    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block)
    }

    /// Whether the server refuses the request at once: empty, longer than the context, for an adapter while LoRA is
    /// off, or never able to fit the KV memory (the last token of an answer is never stored).
    pub(crate) fn rejects(&self, request: &Request, adapter: Option<AdapterId>) -> bool {
        let prompt = u64::from(request.prompt.tokens());
        let whole = prompt + u64::from(request.max_output_tokens);
        prompt == 0
            || request.max_output_tokens == 0
            || whole > u64::from(self.context)
            || (whole - 1).div_ceil(u64::from(self.block)) > u64::from(self.blocks)
            || (adapter.is_some() && self.adapters.gpu_slots == 0)
    }

    /// Fills in the hashes of the job's full blocks, answer included: what a later prompt with this answer in it has.
    pub(crate) fn hash(&self, job: &mut Job) {
        if !job.hashes.is_empty() {
            return;
        }
        let column = job.adapter().map_or(0, |a| a.index() + 1);
        let namespace = salted(self.namespaces[column], job.request.cache_salt);
        let content = acb_types::ContentId::of_output(job.request.id);
        let mut whole = job.request.prompt.clone();
        whole.push(Segment { content, tokens: job.answer });
        job.hashes.extend(whole.block_hashes(namespace, self.block));
    }
}
