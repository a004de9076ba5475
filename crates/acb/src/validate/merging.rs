//! Merged into the weights, an adapter costs nothing, but only its own requests may run.

use super::bench::{Ask, Catalogue, Tally, serve_closed, side_by_side};
use super::{Bound, Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Merging against computing beside the weights.
pub const CASE: Case = Case {
    name: "s_lora_merge_crossover",
    source: "S-LoRA, Fig. 9: merging gives about 1.7 req/s against 1.4 with one adapter, and loses from 2 or 3 adapters on. Compared are \
             the sign with one adapter and where it turns. Its merged server leaves an adapter once more than 30 requests of others \
             are before that adapter's next one (`router/peft_req_queue.py` of its repository). Ours is an uncalibrated A100-80 \
             roofline with vLLM's scheduler, at most 32 at once, and 62 users that each send again when they are answered: 32 run and \
             30 wait, so that an adapter runs out of requests and the next one comes. Merging is a server with one slot, no cost of \
             LoRA, and a switch that reads and writes the weights. Throughput is all requests over the time to the last answer.",
    run,
};

const PROFILE: &str = "llama-2-7b-a100-80";
const COUNTS: [u32; 4] = [1, 2, 3, 5];
const REQUESTS: u32 = 1200;
/// Requests in a step at most.
const RUNNING: u32 = 32;
/// Requests of others that wait at most before the merged server leaves an adapter.
const WAITING: u32 = 30;

fn run() -> Vec<Row> {
    let beside = acb_sim::profile(PROFILE).expect("the profile ships");
    let merged = merged(&beside);
    let both = side_by_side(&COUNTS, |&count| [serve(count, 1, &merged), serve(count, count, &beside)]);
    let rate = |tally: &Tally| tally.completed as f64 / tally.end_s;
    let ratios: Vec<f64> = both.iter().map(|[merged, beside]| rate(merged) / rate(beside)).collect();
    let answered = both.iter().flatten().map(|tally| tally.completed).min().unwrap_or(0);
    let mut rows = vec![
        Row::bounded(
            "requests answered, the least of all servers",
            answered as f64,
            Bound::AtLeast(REQUESTS.into()),
        ),
        Row::bounded("merged over beside with 1 adapter", ratios[0], Bound::Above(1.0)).beside(1.7 / 1.4),
        Row::bounded("merged over beside with 5 adapters", ratios[3], Bound::Below(1.0)),
    ];
    let turns =
        COUNTS.iter().zip(&ratios).find(|(_, ratio)| **ratio < 1.0).map(|(&count, _)| f64::from(count));
    rows.extend(turns.map(|turns| Row::alone("adapters from which merging loses; theirs is 2 or 3", turns)));
    for (&count, ([merged, beside], &ratio)) in COUNTS.iter().zip(both.iter().zip(&ratios)) {
        rows.push(Row::alone(format!("merged over beside, {count} adapters"), ratio).detail());
        rows.push(Row::alone(format!("req/s merged, {count} adapters"), rate(merged)).detail());
        rows.push(Row::alone(format!("req/s beside, {count} adapters"), rate(beside)).detail());
        rows.push(
            Row::alone(format!("loads into the weights, {count} adapters"), merged.loads as f64).detail(),
        );
    }
    rows
}

/// What a server costs whose adapter is in the weights. The adapter goes out of them and the next one in: two passes that
/// read and write all of them.
fn merged(beside: &Profile) -> Profile {
    let card = acb_sim::card("a100-80").expect("the card is known");
    Profile {
        lora_step_ms: 0.0,
        lora_adapter_ms: 0.0,
        lora_row_us: 0.0,
        lora_prefill_token_us: 0.0,
        load_gpu_ms: 4.0 * beside.weight_bytes as f64 / card.bytes_per_s * 1e3,
        load_gpu_ms_per_mb: 0.0,
        ..beside.clone()
    }
}

fn serve(adapters: u32, slots: u32, profile: &Profile) -> Tally {
    let mut spec = ClusterSpec::new(1, 1, "");
    spec.kv = KvSpec::Memory(KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 });
    let warm = Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile.clone() };
    spec.profile = ProfileSpec::Inline(Box::new(warm));
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_num_seqs: RUNNING,
        max_loras: slots,
        max_cpu_loras: Some(adapters),
        max_lora_rank: 8,
        context_tokens: 4096,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    let mut draws = Seed(9).stream("asks");
    let asks = (0..REQUESTS).map(|_| {
        let mut length = || 8 + draws.below(504) as u32;
        let (prompt, answer) = (length(), length());
        Ask { due_s: 0.0, prompt, answer, adapter: Some(draws.below(u64::from(adapters)) as u32) }
    });
    let catalogue = Catalogue { count: adapters, bytes: 8 * profile.lora_bytes_per_rank };
    serve_closed(&spec, catalogue, ((RUNNING + WAITING) as usize, asks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_server_of_two_adapters_switches_between_them_and_answers_every_request() {
        let beside = acb_sim::profile(PROFILE).unwrap();
        let tally = serve(2, 1, &merged(&beside));
        assert_eq!(tally.completed, u64::from(REQUESTS));
        assert!(tally.loads > 4, "{} loads", tally.loads);
    }
}
