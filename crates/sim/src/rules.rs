//! A cluster spec made ready: the numbers that every step needs, and the cache namespaces.

use crate::adapters::AdapterCosts;
use crate::jobs::Job;
use crate::latency::{Latency, Slots};
use crate::sglang::SglangRules;
use crate::{CacheCondition, ClusterSpec, EngineSpec, Profile, VllmSpec};
use acb_types::{AdapterId, Adapters, BlockRun, ContentId, Nanos, Request, Segment, block_runs};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Settings of one replica, the same for all.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Most prompt tokens that one step computes.
    pub(crate) budget: u32,
    /// Tokens of a block.
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) engine: EngineRules,
    pub(crate) context: u32,
    pub(crate) condition: CacheCondition,
    pub(crate) max_queue: Option<u32>,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) latency: Latency,
    pub(crate) adapters: AdapterCosts,
    pub(crate) kv_bytes_per_token: u64,
    /// Tokens at the end of a prompt from which its adapter applies; `None`: it applies to all of them.
    pub(crate) alora: Option<u32>,
    /// Cache namespace of base, adapter 0, adapter 1, ... without salt.
    namespaces: Vec<u64>,
}

/// What only one engine knows.
#[derive(Clone, Debug)]
pub(crate) enum EngineRules {
    Vllm(VllmRules),
    Sglang(SglangRules),
}

/// Settings of a vLLM replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VllmRules {
    pub(crate) max_running: usize,
    pub(crate) chunked: bool,
    /// Most prompt tokens of one request in one step while others exist; `None`: no cap.
    pub(crate) long_prefill: Option<u32>,
    pub(crate) reserve_whole: bool,
    pub(crate) watermark: u32,
}

impl VllmRules {
    fn new(vllm: &VllmSpec, blocks: u64) -> Self {
        Self {
            max_running: vllm.max_num_seqs as usize,
            chunked: vllm.enable_chunked_prefill,
            long_prefill: (vllm.long_prefill_token_threshold > 0)
                .then_some(vllm.long_prefill_token_threshold),
            reserve_whole: vllm.scheduler_reserve_full_isl,
            watermark: (vllm.watermark * blocks as f64) as u32,
        }
    }
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

/// The hash of a run under an invoked adapter: that of its text, the adapter's namespace, and how many blocks are the base
/// model's.
fn invoked(text: u64, namespace: u64, base_blocks: u32) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(text);
    hasher.write_u64(namespace);
    hasher.write_u32(base_blocks);
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
        let (budget, engine) = match &spec.engine {
            EngineSpec::Vllm(vllm) => {
                (vllm.max_num_batched_tokens, EngineRules::Vllm(VllmRules::new(vllm, blocks)))
            }
            EngineSpec::Sglang(sglang) => {
                let rules = SglangRules::new(sglang, blocks, adapters);
                (sglang.chunked_prefill_size.unwrap_or(u32::MAX), EngineRules::Sglang(rules))
            }
        };
        let of_adapter = adapters.iter().map(|a| namespace(Some((&a.name, &a.name))));
        Self {
            budget,
            block: spec.block_tokens(),
            blocks: u32::try_from(blocks).expect("checked: the pool is below 2^28 blocks"),
            engine,
            context: spec.context_tokens(),
            condition: spec.cache_condition,
            max_queue: spec.limits.max_queue,
            timeout: spec.limits.request_timeout_ms.map(Nanos::from_millis),
            latency: Latency::new(profile, Slots::of(spec)),
            adapters: AdapterCosts::new(adapters, spec, profile),
            kv_bytes_per_token: profile.kv_bytes_per_token,
            alora: spec.what_if.alora.as_ref().map(|alora| alora.invocation_tokens),
            namespaces: std::iter::once(namespace(None)).chain(of_adapter).collect(),
        }
    }

    /// The settings of vLLM.
    pub(crate) fn vllm(&self) -> &VllmRules {
        let EngineRules::Vllm(vllm) = &self.engine else {
            unreachable!("a vLLM replica has vLLM's settings")
        };
        vllm
    }

    /// The settings of SGLang.
    pub(crate) fn sglang(&self) -> &SglangRules {
        let EngineRules::Sglang(sglang) = &self.engine else {
            unreachable!("an SGLang replica has SGLang's settings")
        };
        sglang
    }

    /// Blocks that hold this many tokens.
    pub(crate) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block)
    }

    /// Whether the server refuses the request at once: empty, longer than the context, for an adapter while LoRA is
    /// off, or never able to fit the KV memory (vLLM: the last token of an answer is never stored; SGLang: the admission
    /// estimate must pass on an empty server, which would otherwise cut the answer short).
    pub(crate) fn rejects(&self, request: &Request, adapter: Option<AdapterId>) -> bool {
        let prompt = u64::from(request.prompt.tokens());
        let whole = prompt + u64::from(request.max_output_tokens);
        prompt == 0
            || request.max_output_tokens == 0
            || whole > u64::from(self.context)
            || !self.can_ever_fit(whole)
            || (adapter.is_some() && self.adapters.gpu_slots == 0)
    }

    /// Whether no request can find what one that came after it has computed.
    pub(crate) fn keeps_order(&self) -> bool {
        match &self.engine {
            EngineRules::Vllm(_) => true,
            EngineRules::Sglang(sglang) => sglang.keeps_order(),
        }
    }

    fn can_ever_fit(&self, tokens: u64) -> bool {
        match &self.engine {
            EngineRules::Vllm(_) => (tokens - 1).div_ceil(u64::from(self.block)) <= u64::from(self.blocks),
            EngineRules::Sglang(sglang) => sglang.can_ever_fit(tokens),
        }
    }

    /// From now on the adapter is known to the caches by this name and path.
    pub(crate) fn name_adapter(&mut self, adapter: AdapterId, name: &str, path: &str) {
        self.namespaces[adapter.index() + 1] = namespace(Some((name, path)));
    }

    /// The cache namespace of requests under an adapter (none: base) and with a salt.
    pub(crate) fn namespace(&self, adapter: Option<AdapterId>, salt: Option<u64>) -> u64 {
        salted(self.namespaces[adapter.map_or(0, |a| a.index() + 1)], salt)
    }

    /// Fills in the job's full blocks, answer included: what a later prompt with this answer in it has.
    pub(crate) fn hash(&self, job: &mut Job) {
        if !job.text.is_empty() {
            return;
        }
        let salt = job.request.cache_salt;
        let content = ContentId::of_output(job.request.id);
        let answer = Segment { content, tokens: job.answer };
        let namespace = self.namespace(job.adapter(), salt);
        let invoked_from = self.invoked_from(job);
        let whole = job.request.prompt.segments().iter().copied().chain([answer]);
        let Some(invoked_from) = invoked_from else {
            return block_runs(whole, namespace, self.block).for_each(|run| job.text.push(run));
        };
        let base_blocks = invoked_from / self.block;
        let mut start = 0;
        for run in block_runs(whole, self.namespace(None, salt), self.block) {
            if start < base_blocks {
                job.text.push(BlockRun { end: run.end.min(base_blocks), ..run });
            }
            if run.end > base_blocks {
                job.text.push(BlockRun { hash: invoked(run.hash, namespace, base_blocks), ..run });
            }
            start = run.end;
        }
    }

    /// The token from which the adapter of a request applies, where not from the first; `None` for base too.
    fn invoked_from(&self, job: &Job) -> Option<u32> {
        let tokens = self.alora.filter(|_| job.adapter().is_some())?;
        Some(job.request.prompt.tokens().saturating_sub(tokens))
    }

    /// Of the next `tokens` prompt tokens of a request, those that are computed under its adapter.
    pub(crate) fn adapted(&self, job: &Job, tokens: u32) -> u32 {
        if job.adapter().is_none() {
            return 0;
        }
        let from = self.invoked_from(job).unwrap_or(0);
        (job.computed + tokens).saturating_sub(from.max(job.computed))
    }
}
