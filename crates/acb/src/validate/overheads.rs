//! What one adapter and many cost: closed benchmarks that send everything at once.

use super::bench::{Ask, Tally, serve, side_by_side};
use super::{Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Throughput over the number of distinct adapters.
pub const AGULLO: Case = Case {
    name: "agullo_overhead",
    source: "Llama-2-7B, rank 32, 1500 requests of 250/231 tokens at once; 0, 1, 8, 32, 64 adapters (logs published with arXiv \
             2508.08343; the card is not said, ours is an uncalibrated A100-80 roofline). Throughput relative to no adapter. The roofline \
             knows no time that a LoRA kernel loses on each row; the last rows show it with what a row costs in the same engine on \
             another card, as fitted on the runs of `multi_lora_runs`.",
    run: agullo,
};

/// The fixed tax of LoRA in 2024.
pub const PUNICA: Case = Case {
    name: "vllm_pr_11267",
    source: "vLLM PR 11267: Llama-2-7B on an A100, 1000 ShareGPT prompts at once: 11.45 req/s without LoRA, 7.60 with max_loras 1 and \
             7.61 with 4, rank 8. Ours is an uncalibrated roofline: it has the launches and the bytes of LoRA, not the \
             kernels of 2024 that this tax comes from, and nothing here measures those by themselves.",
    run: punica,
};

struct Load {
    profile: Profile,
    requests: u32,
    slots: u32,
    adapters: u32,
    max_rank: u32,
    /// Prompt and answer tokens.
    lengths: fn(u64) -> (u32, u32),
}

fn run(load: &Load) -> Tally {
    let mut spec = ClusterSpec::new(1, 1, "");
    spec.profile = ProfileSpec::Inline(Box::new(load.profile.clone()));
    spec.kv = KvSpec::Memory(KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 });
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_loras: load.slots,
        max_lora_rank: load.max_rank,
        context_tokens: 4096,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000;
    let asks = (0..load.requests).map(|i| {
        let (prompt, answer) = (load.lengths)(u64::from(i));
        let adapter = (load.adapters > 0).then(|| i % load.adapters);
        Ask { due_s: 0.0, prompt, answer, adapter }
    });
    serve(&spec, load.slots.max(load.adapters), asks)
}

fn rate(tally: &Tally) -> f64 {
    tally.completed as f64 / tally.end_s
}

fn roofline() -> Profile {
    acb_sim::profile("llama-2-7b-a100-80").expect("the profile ships")
}

fn agullo() -> Vec<Row> {
    let published = [(0, 1.0), (1, 0.8748), (8, 0.8653), (32, 0.8321), (64, 0.7949)];
    let fitted = acb_sim::profile("llama-3.1-8b-vllm-0.8.5").expect("the profile ships");
    let with_rows = Profile { lora_row_us: fitted.lora_row_us, ..roofline() };
    let shares = |profile: &Profile| {
        let load = |&(adapters, _): &(u32, f64)| Load {
            profile: profile.clone(),
            requests: 1500,
            slots: adapters,
            adapters,
            max_rank: 32,
            lengths: |_| (250, 231),
        };
        let rates = side_by_side(&published, |point| rate(&run(&load(point))));
        rates.iter().map(|rate| rate / rates[0]).collect::<Vec<f64>>()
    };
    let pairs = |ours: Vec<f64>| published.into_iter().zip(ours).skip(1);
    let what = |adapters| format!("throughput with {adapters} adapters over none");
    let plain = pairs(shares(&roofline()))
        .map(|((adapters, theirs), ours)| Row::compare(what(adapters), ours, theirs, 0.1));
    let rows = pairs(shares(&with_rows)).map(|((adapters, theirs), ours)| {
        Row::shown(format!("{}, rows at their fitted cost", what(adapters)), ours, theirs)
    });
    plain.chain(rows).collect()
}

fn punica() -> Vec<Row> {
    let loads = [(0, 0), (1, 1), (4, 1)].map(|(slots, adapters)| Load {
        profile: roofline(),
        requests: 1000,
        slots,
        adapters,
        max_rank: 8,
        lengths: share_gpt,
    });
    let rates = side_by_side(&loads, |load| rate(&run(load)));
    vec![
        Row::shown("req/s without LoRA", rates[0], 11.45),
        Row::compare("share of throughput that one adapter costs", 1.0 - rates[1] / rates[0], 0.336, 0.2),
        Row::compare("throughput with 4 slots over that with 1", rates[2] / rates[1], 7.61 / 7.60, 0.02),
    ]
}

/// Lognormal around 223 and 235 tokens: 5510 tokens/s at 11.45 req/s are 481 a request.
fn share_gpt(index: u64) -> (u32, u32) {
    let mut stream = Seed(11_267).child(&index.to_string()).stream("lengths");
    let mut draw = |mean: f64, spread: f64| {
        let log = mean.ln() - spread * spread / 2.0 + spread * stream.normal();
        log.exp().round().clamp(1.0, 2000.0) as u32
    };
    (draw(246.0, 1.1), draw(235.0, 0.6))
}
