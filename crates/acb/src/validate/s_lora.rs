//! Thousands of adapters on one card: what engines with slots show of it.

use super::bench::{Ask, Catalogue, Tally, poisson, serve_into, side_by_side};
use super::{Bound, Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Throughput over the number of adapters.
pub const TABLE_3: Case = Case {
    name: "s_lora_table_3",
    source: "S-LoRA, Table 3, setting S1: Llama-7B with adapters of rank 8 on an A100-80, 10 req/s for 120 s, prompts and answers even in \
             8 to 511 tokens: 8.05 req/s with 5 adapters, 7.99 with 100, 7.64 with 1000, 7.61 with 2000; merged copies run out of \
             memory beyond 5. S-LoRA pages adapters and KV in one pool; the engines modelled here have slots, so ours is vLLM with 64 \
             of them and all adapters in host memory: what is compared is the loss from 5 to many, not the level.",
    run,
};

const SLOTS: u32 = 64;
const RATE_RPS: f64 = 10.0;
const SECONDS: f64 = 120.0;
const PUBLISHED: [(u32, f64); 4] = [(5, 8.05), (100, 7.99), (1000, 7.64), (2000, 7.61)];

fn run() -> Vec<Row> {
    let profile = acb_sim::profile("llama-2-7b-a100-80").expect("the profile ships");
    let rates = side_by_side(&PUBLISHED, |&(adapters, _)| rate(adapters, &profile));
    let card = acb_sim::card("a100-80").expect("the card is known");
    let copies = (card.memory_mib * (1 << 20) / profile.weight_bytes) as f64;
    let mut rows = vec![
        Row::bounded("merged copies whose weights fit the card: the 5 that ran", copies, Bound::AtLeast(5.0)),
        Row::bounded("merged copies whose weights fit the card: not the 100", copies, Bound::Below(100.0)),
    ];
    rows.extend(PUBLISHED.iter().zip(&rates).map(|(&(adapters, theirs), &ours)| {
        Row::shown(format!("req/s with {adapters} adapters"), ours, theirs)
    }));
    for (&(adapters, theirs), &ours) in PUBLISHED.iter().zip(&rates).skip(1) {
        let what = format!("throughput with {adapters} adapters over that with 5");
        rows.push(Row::compare(what, ours / rates[0], theirs / PUBLISHED[0].1, 0.1));
    }
    rows
}

/// Requests answered within the time, req/s.
fn rate(adapters: u32, profile: &Profile) -> f64 {
    let mut spec = ClusterSpec::new(1, 1, "");
    spec.kv = KvSpec::Memory(KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 });
    // Adapters were in host memory before the clock ran.
    let warm = Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile.clone() };
    spec.profile = ProfileSpec::Inline(Box::new(warm));
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_loras: SLOTS,
        max_cpu_loras: Some(adapters.max(SLOTS)),
        max_lora_rank: 8,
        context_tokens: 4096,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    spec.limits.max_sim_seconds = SECONDS;
    let length = |draws: &mut acb_types::Stream| 8 + draws.below(504) as u32;
    let asks = poisson(Seed(42), ((SECONDS * RATE_RPS) as u32, RATE_RPS), |draws| Ask {
        due_s: 0.0,
        prompt: length(draws),
        answer: length(draws),
        adapter: Some(draws.below(u64::from(adapters)) as u32),
    });
    let catalogue = Catalogue { count: adapters, bytes: 8 * profile.lora_bytes_per_rank };
    let mut tally = Tally::default();
    serve_into(&spec, catalogue, asks, &mut tally);
    tally.completed as f64 / SECONDS
}
