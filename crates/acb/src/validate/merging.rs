//! Merged into the weights, an adapter costs nothing, but only its own requests may run.

use super::bench::{Ask, Catalogue, Tally, poisson, serve_into, side_by_side};
use super::{Case, Row, least, most};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Merging against computing beside the weights.
pub const CASE: Case = Case {
    name: "s_lora_merge_crossover",
    source: "S-LoRA, Fig. 9: merging gives about 1.7 req/s against 1.4 with one adapter, and loses from 2 or 3 adapters on. Compared are \
             the sign with one adapter and where it turns. Ours is an uncalibrated A100-80 roofline with vLLM's scheduler, more requests \
             than it can serve, and at most 32 at once; merging is a server with one slot, no cost of LoRA, and a switch that reads and \
             writes the weights.",
    run,
};

const PROFILE: &str = "llama-2-7b-a100-80";
const COUNTS: [u32; 4] = [1, 2, 3, 5];
const SECONDS: f64 = 120.0;
const RATE_RPS: f64 = 10.0;

fn run() -> Vec<Row> {
    let beside = acb_sim::profile(PROFILE).expect("the profile ships");
    let card = acb_sim::card("a100-80").expect("the card is known");
    // The adapter goes out of the weights and the next one in: two passes that read and write all of them.
    let switch_ms = 4.0 * beside.weight_bytes as f64 / card.bytes_per_s * 1e3;
    let merged = Profile {
        lora_step_ms: 0.0,
        lora_adapter_ms: 0.0,
        lora_row_us: 0.0,
        lora_prefill_token_us: 0.0,
        load_gpu_ms: switch_ms,
        load_gpu_ms_per_mb: 0.0,
        ..beside.clone()
    };
    let ratios =
        side_by_side(&COUNTS, |&adapters| rate(adapters, 1, &merged) / rate(adapters, adapters, &beside));
    let mut rows = vec![
        least("merged over beside with 1 adapter, above 1", ratios[0], 1.0),
        most("merged over beside with 5 adapters, below 1", ratios[3], 1.0),
    ];
    let turns =
        COUNTS.iter().zip(&ratios).find(|(_, ratio)| **ratio < 1.0).map(|(count, _)| f64::from(*count));
    if let Some(turns) = turns {
        rows.push(Row::shown("adapters from which merging loses", turns, 2.0));
    }
    rows
}

/// Requests answered within the time, req/s.
fn rate(adapters: u32, slots: u32, profile: &Profile) -> f64 {
    let mut spec = ClusterSpec::new(1, 1, "");
    spec.kv = KvSpec::Memory(KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 });
    let warm = Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile.clone() };
    spec.profile = ProfileSpec::Inline(Box::new(warm));
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_num_seqs: 32,
        max_loras: slots,
        max_cpu_loras: Some(adapters),
        max_lora_rank: 8,
        context_tokens: 4096,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    spec.limits.max_sim_seconds = SECONDS;
    let length = |draws: &mut acb_types::Stream| 8 + draws.below(504) as u32;
    let asks = poisson(Seed(9), ((SECONDS * RATE_RPS) as u32, RATE_RPS), |draws| Ask {
        due_s: 0.0,
        prompt: length(draws),
        answer: length(draws),
        adapter: Some(draws.below(u64::from(adapters)) as u32),
    });
    let mut tally = Tally::default();
    serve_into(
        &spec,
        Catalogue { count: adapters, bytes: 8 * profile.lora_bytes_per_rank },
        asks,
        &mut tally,
    );
    tally.completed as f64 / SECONDS
}
