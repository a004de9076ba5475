//! The engine against the scheduler to the letter, on random traffic in tight memory.

use super::bed::{Ask, adapters, cluster, profile, run, vllm};
use super::reference;
use crate::{Alora, CacheCondition, ClusterSpec, Profile, ProfileSpec, RemoteTier};
use acb_types::{ContentId, RequestId};
use proptest::prelude::*;

pub fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let runs = prop::collection::vec((0u64..4, 1u32..40), 1..4);
    let one = (0u64..80_000_000, runs, 1u32..60, prop::option::of(0u32..5), prop::option::of(0u64..2));
    let one = one.prop_map(|(due, runs, answer, adapter, salt)| Ask { due, runs, answer, adapter, salt });
    prop::collection::vec(one, 1..40)
}

/// The same requests, then a second turn of each after all have ended: prompt, answer, and something new. (No client can
/// send an answer back before it has it.)
pub fn with_turns(asks: &[Ask], end: u64) -> Vec<Ask> {
    let mut all: Vec<Ask> = asks.to_vec();
    all.sort_by_key(|ask| ask.due);
    for at in 0..all.len() {
        let mut turn = all[at].clone();
        turn.due = end + turn.due / 3;
        turn.runs.push((ContentId::of_output(RequestId(at as u64)).0, turn.answer));
        turn.runs.push((at as u64 % 3, 5));
        all.push(turn);
    }
    all
}

/// The round profile with everything that bends: arithmetic behind the weights, slots, exponents.
fn bent() -> Profile {
    Profile {
        decode_compute_us: 11.0,
        prefill_request_us: 7.0,
        lora_slot_ms: 0.05,
        lora_adapter_exponent: 0.6,
        lora_rank_exponent: 0.3,
        lora_row_slot_us: 0.7,
        skipped_request_us: 31.0,
        ..profile()
    }
}

pub fn specs() -> impl Strategy<Value = ClusterSpec> {
    let numbers = (12u64..90, 1u32..8, 1u32..4, 0u32..3, 1u32..20);
    let condition = prop_oneof![4 => Just(CacheCondition::Warm), 1 => Just(CacheCondition::Cold), 1 => Just(CacheCondition::PrefixDisabled)];
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![Just(0.0), Just(0.1)]);
    (numbers, condition, switches).prop_map(|((blocks, seqs, loras, more, budget), condition, switches)| {
        let (chunked, capped, reserve, watermark) = switches;
        let mut spec = cluster(blocks);
        spec.cache_condition = condition;
        if reserve {
            spec.profile = ProfileSpec::Inline(Box::new(Profile { weight_read_ms: 0.09, ..bent() }));
        }
        let engine = vllm(&mut spec);
        engine.block_size = 4;
        engine.max_num_seqs = seqs;
        engine.max_loras = loras;
        engine.max_cpu_loras = Some(loras + more);
        engine.context_tokens = 300;
        engine.enable_chunked_prefill = chunked;
        engine.max_num_batched_tokens = if chunked { seqs + budget } else { 300 };
        engine.long_prefill_token_threshold = if capped { 7 } else { 0 };
        engine.scheduler_reserve_full_isl = reserve;
        engine.watermark = watermark;
        spec
    })
}

/// A cluster with adapters behind a network, loads at a time, and activated LoRA; nothing is read ahead, which the slow
/// scheduler does not know.
fn specs_beyond() -> impl Strategy<Value = ClusterSpec> {
    let remote = prop::option::of((0.0f64..20.0, 1.0f64..100.0, prop::option::of(1u32..4)));
    (specs(), remote, 1u32..4, prop::option::of(1u32..40)).prop_map(
        |(mut spec, remote, at_once, invocation)| {
            spec.adapter_tiers.loads_at_once = at_once;
            spec.adapter_tiers.remote = remote.map(|(latency_ms, mb_per_s, max_disk_loras)| RemoteTier {
                latency_ms,
                mb_per_s,
                max_disk_loras,
            });
            spec.what_if.alora = invocation.map(|invocation_tokens| Alora { invocation_tokens });
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_engine_agrees_with_the_scheduler_to_the_letter(
        asks in asks(), spec in prop_oneof![specs(), specs_beyond()],
    ) {
        let asks = with_turns(&asks, run(&spec, &asks).totals.end.0);
        let ran = run(&spec, &asks);
        let expected = reference::serve(&spec, &asks, &adapters(6), &ran.by_id);
        for (seen, right) in ran.by_id.iter().zip(&expected.by_id) {
            prop_assert_eq!(seen, right);
        }
        prop_assert_eq!(ran.by_id.len(), expected.by_id.len());
        prop_assert_eq!(ran.totals.steps, expected.steps);
        let last = ran.rows.last().unwrap();
        prop_assert_eq!(last.counters.kv_evictions, Some(expected.evictions));
        prop_assert_eq!(last.counters.preemptions, Some(expected.preemptions));
    }
}
