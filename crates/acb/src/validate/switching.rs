//! SGLang with more adapters than slots: the cliff when they don't fit, and the tail that draining cuts.

use super::bench::{Ask, Catalogue, Times, poisson, quantile, serve_into, side_by_side};
use super::{Bound, Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec, SglangSpec};
use acb_types::Seed;

/// Twice as many adapters as slots.
pub const CLIFF: Case = Case {
    name: "sglang_residency_cliff",
    source: "SGLang PR 13349: Llama-3.1-8B on two H100, 8 slots, 100 requests at 4 req/s of up to 4096 and 2048 tokens: median TTFT \
             39.65 ms with 8 adapters, 6,278 ms with 16. Lengths are even from 1 up, as its benchmark draws them; ours is an \
             uncalibrated roofline whose weights and arithmetic are halved between the cards.",
    run: cliff,
};

/// Resident adapters first, and what draining does about it.
pub const DRAINING: Case = Case {
    name: "sglang_draining",
    source: "SGLang PR 17913: Llama-3.1-8B on an A100-80, 6 adapters of which 3 run at once, 200 requests at 4 req/s of up to 512 and \
             512 tokens, without draining: E2E mean 12,060 ms, median 7,051 ms, P90 32,928 ms. The numbers with draining are not \
             known; it must cut the P90. Ours is an uncalibrated roofline.",
    run: draining,
};

/// One server under one load.
struct Load {
    sglang: SglangSpec,
    profile: Profile,
    gpu_gib: f64,
    adapters: u32,
    requests: u32,
    rate_rps: f64,
    /// Longest prompt and answer, tokens.
    longest: (u64, u64),
}

impl Load {
    fn times(&self) -> Times {
        let mut spec = ClusterSpec::new(1, 1, "");
        spec.kv = KvSpec::Memory(KvMemory { gpu_gib: self.gpu_gib, utilization: 0.85, overhead_gib: 2.0 });
        spec.profile = ProfileSpec::Inline(Box::new(self.profile.clone()));
        spec.engine = EngineSpec::Sglang(self.sglang.clone());
        spec.cache_condition = CacheCondition::Warm;
        spec.server_interval_ms = 1_000_000_000;
        let (prompts, answers) = self.longest;
        let adapters = u64::from(self.adapters);
        let asks = poisson(Seed(13_349), (self.requests, self.rate_rps), |draws| Ask {
            due_s: 0.0,
            prompt: 1 + draws.below(prompts) as u32,
            answer: 1 + draws.below(answers) as u32,
            adapter: Some(draws.below(adapters) as u32),
        });
        let bytes = u64::from(self.sglang.max_lora_rank) * self.profile.lora_bytes_per_rank;
        let mut times = Times::default();
        serve_into(&spec, Catalogue { count: self.adapters, bytes }, asks, &mut times);
        times
    }
}

/// A shipped profile whose adapters are in host memory before the clock runs.
fn warm(name: &str) -> Profile {
    let profile = acb_sim::profile(name).expect("the profile ships");
    Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile }
}

/// Half of the work for each of two cards; what they say to each other is left out.
#[must_use]
pub fn halved(profile: &Profile) -> Profile {
    Profile {
        weight_read_ms: profile.weight_read_ms / 2.0,
        prefill_token_us: profile.prefill_token_us / 2.0,
        prefill_pair_ns: profile.prefill_pair_ns / 2.0,
        decode_compute_us: profile.decode_compute_us / 2.0,
        context_token_ns: profile.context_token_ns / 2.0,
        lora_adapter_ms: profile.lora_adapter_ms / 2.0,
        ..profile.clone()
    }
}

/// Time between tokens of SGLang with adapters on a H100 (median of PR 6994, Llama-3.1-8B at 8 req/s), ms.
const LORA_STEP_MS: f64 = 22.7;

/// The same, with the step that SGLang takes when adapters are in it.
fn slowed(profile: &Profile) -> Profile {
    let lora_step_ms = LORA_STEP_MS - profile.step_ms - profile.weight_read_ms;
    Profile { lora_step_ms: lora_step_ms.max(profile.lora_step_ms), ..profile.clone() }
}

const ON_EDGE: &str = "of 100 requests a third waits for seconds, because their adapters are not among the eight that came first; in theirs \
                       more than half do, and so the median. Slower steps don't change that: the last rows, added after this one had \
                       failed, are with the step that SGLang was measured to take with adapters";
const TAIL: &str = "an answer of the roofline is over too soon to hold its slot for as long; the last rows, added after this one had \
                    failed, are with the step that SGLang was measured to take with adapters";

fn cliff() -> Vec<Row> {
    let roofline = halved(&warm("llama-3.1-8b-h100"));
    let slow = slowed(&roofline);
    let load = |&(adapters, profile): &(u32, &Profile)| Load {
        sglang: SglangSpec { chunked_prefill_size: Some(8192), ..SglangSpec::default() },
        profile: profile.clone(),
        gpu_gib: 160.0,
        adapters,
        requests: 100,
        rate_rps: 4.0,
        longest: (4096, 2048),
    };
    let loads = [(8, &roofline), (16, &roofline), (8, &slow), (16, &slow)];
    let ttfts = side_by_side(&loads, |point| load(point).times().ttft_s);
    let medians: Vec<f64> =
        ttfts.iter().map(|ttft_s| quantile(ttft_s, 0.5).expect("requests are answered") * 1e3).collect();
    let waiting = |at: usize| ttfts[at].iter().filter(|&&s| s > 1.0).count() as f64 / ttfts[at].len() as f64;
    let ratio = medians[1] / medians[0];
    let half =
        "share of requests with 16 adapters whose first token takes more than 1 s; theirs is more than half";
    vec![
        Row::shown("median TTFT ms with 8 adapters", medians[0], 39.65),
        Row::shown("median TTFT ms with 16 adapters", medians[1], 6278.0),
        Row::bounded("median TTFT with 16 adapters over that with 8", ratio, Bound::AtLeast(50.0))
            .beside(6278.0 / 39.65)
            .noted(ON_EDGE),
        Row::alone(half, waiting(1)),
        Row::shown("median TTFT ms with 8 adapters, steps of 22.7 ms", medians[2], 39.65),
        Row::shown("median TTFT ms with 16 adapters, steps of 22.7 ms", medians[3], 6278.0),
        Row::alone(format!("{half}, steps of 22.7 ms"), waiting(3)),
    ]
}

fn draining() -> Vec<Row> {
    let roofline = warm("llama-3.1-8b-a100-80");
    let slow = slowed(&roofline);
    let load = |&(lora_drain_wait_threshold, profile): &(f64, &Profile)| Load {
        sglang: SglangSpec {
            max_loras_per_batch: 3,
            lora_drain_wait_threshold,
            chunked_prefill_size: Some(8192),
            ..SglangSpec::default()
        },
        profile: profile.clone(),
        gpu_gib: 80.0,
        adapters: 6,
        requests: 200,
        rate_rps: 4.0,
        longest: (512, 512),
    };
    let loads = [(0.0, &roofline), (1.0, &roofline), (5.0, &roofline), (0.0, &slow)];
    let all = side_by_side(&loads, |point| load(point).times());
    let e2e = |at: usize, share| quantile(&all[at].e2e_s, share).expect("requests are answered") * 1e3;
    let mean = all[0].e2e_s.iter().sum::<f64>() / all[0].e2e_s.len() as f64 * 1e3;
    let tail = e2e(0, 0.9) / e2e(0, 0.5);
    let cut = |what, at| Row::bounded(what, e2e(at, 0.9) / e2e(0, 0.9), Bound::Below(1.0));
    vec![
        Row::shown("mean E2E ms without draining", mean, 12_060.0),
        Row::shown("median E2E ms without draining", e2e(0, 0.5), 7051.0),
        Row::shown("P90 E2E ms without draining", e2e(0, 0.9), 32_928.0),
        Row::bounded("P90 over median without draining", tail, Bound::AtLeast(4.0))
            .beside(32_928.0 / 7051.0)
            .noted(TAIL),
        cut("P90 when draining after 1 s over that without", 1),
        cut("P90 when draining after 5 s over that without", 2),
        Row::shown("median E2E ms without draining, steps of 22.7 ms", e2e(3, 0.5), 7051.0),
        Row::shown("P90 E2E ms without draining, steps of 22.7 ms", e2e(3, 0.9), 32_928.0),
    ]
}
