//! Worked examples: V rows were executed against vLLM 0.33's block pool, L rows follow from reading its scheduler.
//! Block ids of the examples are told by content: blocks without one are alike here.

use super::bed::{Ask, Kept, ask, cluster, run, vllm};
use super::steps::Bench;
use crate::kv::{BlockPool, Held};
use crate::rules::namespace;
use crate::{ClusterSpec, KvSpec};
use acb_types::{BlockRun, ContentId, Segment, block_runs};
use std::collections::BTreeMap;

fn hits(spec: &ClusterSpec, asks: &[Ask]) -> Vec<Option<u32>> {
    run(spec, asks).by_id.iter().map(|kept| kept.hit).collect()
}

#[test]
fn v1_a_prompt_hits_the_same_prompt_admitted_in_the_same_step() {
    let ran = run(&cluster(100), &[ask(0, 1, 100, 2), ask(0, 1, 100, 2)]);
    assert_eq!(ran.by_id.iter().map(|k| k.hit).collect::<Vec<_>>(), [Some(0), Some(96)]);
    assert_eq!(ran.by_id[0].admitted, ran.by_id[1].admitted);
}

#[test]
fn v2_a_hit_leaves_a_token_to_compute_and_ends_at_a_full_block() {
    let later = |at: u64, tokens| ask(at * 1_000_000_000, 1, tokens, 1);
    let asks = [ask(0, 1, 100, 1), later(1, 100), later(2, 97), later(3, 96), later(4, 15)];
    assert_eq!(hits(&cluster(100), &asks), [0, 96, 96, 80, 0].map(Some));
}

#[test]
fn v3_another_path_or_another_name_is_another_namespace() {
    let keys = [("sql", "/a/sql"), ("sql", "/b/sql"), ("law", "/a/sql")].map(|key| namespace(Some(key)));
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    assert_eq!(keys[0], namespace(Some(("sql", "/a/sql"))));
    let at = |s: u64| ask(s * 1_000_000_000, 1, 100, 1);
    let asks = [at(0).with(0), at(1).with(0), at(2).with(1), at(3)];
    assert_eq!(hits(&cluster(100), &asks), [0, 96, 0, 0].map(Some));
}

#[test]
fn v4_state_is_shared_only_under_the_same_salt() {
    let at = |s: u64| ask(s * 1_000_000_000, 1, 100, 1);
    let asks = [at(0), at(1).salted(1), at(2).salted(1), at(3).salted(2), at(4)];
    assert_eq!(hits(&cluster(100), &asks), [0, 0, 96, 0, 96].map(Some));
}

fn runs(text: u64, tokens: u32) -> Vec<BlockRun> {
    block_runs([Segment { content: ContentId(text), tokens }], 0, 16).collect()
}

/// Takes blocks for a text of `tokens` tokens and registers the full ones.
fn hold(pool: &mut BlockPool, text: u64, tokens: u32) -> Held {
    let mut held = Held::default();
    pool.take(tokens.div_ceil(16));
    held.add(tokens.div_ceil(16));
    pool.register(&mut held, &runs(text, tokens), 0..tokens / 16);
    held
}

/// The free list by the ids of the examples, in which the texts that have these ids came one after the other.
fn order(pool: &BlockPool, texts: &[(u64, &[u32])]) -> Vec<Option<u32>> {
    let of_text = |&(text, ids): &(u64, &[u32])| {
        let run = runs(text, 1024)[0].hash;
        (0u32..).map(move |number| (run, number)).zip(ids.to_vec())
    };
    let ids: BTreeMap<(u64, u32), u32> = texts.iter().flat_map(of_text).collect();
    pool.free_order().iter().map(|content| content.map(|named| ids[&named])).collect()
}

#[test]
fn v5_blocks_are_freed_tail_first_and_the_oldest_tail_is_taken_first() {
    let mut pool = BlockPool::new(8);
    let (mut a, mut b) = (hold(&mut pool, 1, 64), hold(&mut pool, 2, 48));
    pool.release(&mut a);
    pool.release(&mut b);
    let texts: [(u64, &[u32]); 2] = [(1, &[1, 2, 3, 4]), (2, &[5, 6, 7])];
    assert_eq!(order(&pool, &texts), [None, Some(4), Some(3), Some(2), Some(1), Some(7), Some(6), Some(5)]);
    hold(&mut pool, 3, 32);
    assert_eq!(order(&pool, &texts), [3, 2, 1, 7, 6, 5].map(Some), "blocks 8 and 4 were taken");
    for (text, tokens, hit) in [(1, 64, 48), (2, 48, 48)] {
        assert_eq!(pool.find(&runs(text, tokens), tokens / 16, &mut Vec::new()) * 16, hit);
    }
    pool.assert_sound();
}

#[test]
fn v6_a_partial_block_goes_to_the_front() {
    let mut pool = BlockPool::new(8);
    let mut blocks = hold(&mut pool, 1, 40);
    pool.release(&mut blocks);
    let blank = [None; 6];
    assert_eq!(order(&pool, &[(1, &[1, 2])]), [&blank[..], &[Some(2), Some(1)]].concat());
    pool.assert_sound();
}

const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

fn two_slots(blocks: u64) -> ClusterSpec {
    let mut spec = cluster(blocks);
    vllm(&mut spec).max_loras = 2;
    spec
}

fn queue_of_l1(bench: &mut Bench, at: u64) {
    let waiting = [Some(C), Some(A), None, Some(C), Some(B)];
    for (id, adapter) in (10..).zip(waiting) {
        let ask = Ask { adapter, ..ask(at, id, 20, 50) };
        bench.send(at, &ask, id);
    }
}

#[test]
fn l1_a_request_without_a_slot_is_passed_and_keeps_its_place() {
    let mut bench = Bench::new(&two_slots(100));
    bench.send(0, &ask(0, 1, 20, 50).with(A), 1);
    bench.send(0, &ask(0, 2, 20, 50).with(B), 2);
    let at = bench.start(0);
    bench.end();
    queue_of_l1(&mut bench, at);
    bench.start(at);
    assert_eq!(bench.running(), [1, 2, 11, 12, 14], "a, base, b enter");
    assert_eq!(bench.waiting(), [10, 13], "c, c stay in order");
}

#[test]
fn l2_nobody_is_admitted_in_a_step_with_a_preemption() {
    // 10 blocks: 63 tokens (4 blocks) and 95 (6 blocks): both need a block soon after.
    let mut bench = Bench::new(&two_slots(10));
    bench.send(0, &ask(0, 1, 63, 20).with(A), 1);
    bench.send(0, &ask(0, 2, 95, 20).with(B), 2);
    let mut at = bench.start(0);
    bench.end();
    at = bench.start(at);
    bench.end();
    queue_of_l1(&mut bench, at);
    bench.start(at);
    assert_eq!(bench.running(), [1], "the last admitted lost its memory");
    assert_eq!(bench.waiting(), [2, 10, 11, 12, 13, 14], "it waits before all others, and nobody entered");
}

#[test]
fn l3_a_long_prompt_takes_what_ten_decoding_requests_leave_of_the_budget() {
    let mut bench = Bench::new(&cluster(1000));
    for id in 0..10 {
        bench.send(0, &ask(0, id, 16, 100), id);
    }
    let mut at = bench.start(0);
    bench.end();
    let long = bench.send(at, &ask(at, 99, 5000, 2), 99);
    let mut chunks = Vec::new();
    let mut computed = 0;
    while computed < 5000 {
        at = bench.start(at);
        bench.end();
        chunks.push(bench.jobs[long].computed - computed);
        computed = bench.jobs[long].computed;
    }
    assert_eq!(chunks, [2038, 2038, 924]);
}

#[test]
fn a_base_request_never_takes_a_slot() {
    let mut spec = cluster(100);
    vllm(&mut spec).max_loras = 1;
    let ran = run(&spec, &[ask(0, 1, 20, 50).with(A), ask(0, 2, 20, 50), ask(0, 3, 20, 50).with(B)]);
    let admitted = |at: usize| ran.by_id[at].admitted.unwrap();
    assert_eq!((admitted(0), admitted(1)), (0, 0));
    assert_eq!(admitted(2), ran.by_id[0].ended_at, "b waits until a has left its slot");
}

#[test]
fn a_request_that_was_passed_says_by_how_many() {
    let mut spec = cluster(100);
    vllm(&mut spec).max_loras = 1;
    let asks =
        [ask(0, 1, 20, 50).with(A), ask(1, 2, 20, 5).with(B), ask(2, 3, 20, 5), ask(3, 4, 20, 5).with(A)];
    let ran = run(&spec, &asks);
    assert_eq!(ran.by_id.iter().map(|k| k.overtaken).collect::<Vec<_>>(), [0, 2, 0, 0]);
}

#[test]
fn a_preempted_request_hits_its_own_blocks() {
    let ran = run(&cluster(10), &[ask(0, 1, 63, 30), ask(0, 2, 95, 30)]);
    let (first, second) = (&ran.by_id[0], &ran.by_id[1]);
    assert_eq!((first.preemptions, second.preemptions), (0, 1));
    let found = ran.rows.last().unwrap().counters.prefix_hit_tokens.unwrap();
    assert!(found >= 64, "its surviving blocks are found again, got {found} tokens");
    assert_eq!(second.hit, Some(0), "the hit at first admission stays on record");
    assert_eq!(second.output, 30);
}

#[test]
fn a_request_that_does_not_fit_as_a_whole_holds_up_those_behind_it() {
    let mut spec = cluster(10);
    let asks = [ask(0, 1, 64, 40), ask(1, 2, 120, 2), ask(2, 3, 16, 2)];
    let ran = run(&spec, &asks);
    assert_eq!(ran.by_id[1].admitted.unwrap(), ran.by_id[0].ended_at);
    assert_eq!(ran.by_id[2].admitted.unwrap(), ran.by_id[1].ended_at.min(ran.by_id[2].admitted.unwrap()));
    assert!(ran.by_id[2].admitted >= ran.by_id[1].admitted, "first come, first served");
    // Without the reservation, a first chunk that fits is enough.
    vllm(&mut spec).scheduler_reserve_full_isl = false;
    vllm(&mut spec).max_num_batched_tokens = 256;
    vllm(&mut spec).long_prefill_token_threshold = 32;
    let ran = run(&spec, &asks);
    assert!(ran.by_id[1].admitted.unwrap() < ran.by_id[0].ended_at);
}

#[test]
fn the_watermark_keeps_blocks_free_while_others_run() {
    let mut spec = cluster(10);
    let asks = [ask(0, 1, 64, 10), ask(1, 2, 80, 2)];
    let waits =
        |spec: &ClusterSpec| run(spec, &asks).by_id[1].admitted == Some(run(spec, &asks).by_id[0].ended_at);
    assert!(!waits(&spec), "4 + 5 of 10 blocks");
    vllm(&mut spec).watermark = 0.2;
    assert!(waits(&spec), "2 blocks must stay free");
}

#[test]
fn a_later_turn_hits_the_answer_of_the_one_before() {
    let output = 1 << 63;
    let turn = Ask { runs: vec![(1, 40), (output, 30), (2, 30)], ..ask(1_000_000_000, 0, 0, 1) };
    // 40 + 29 tokens are stored: the last one never is.
    assert_eq!(hits(&cluster(100), &[ask(0, 1, 40, 30), turn]), [Some(0), Some(64)]);
}

#[test]
fn cold_never_hits_and_disabled_is_never_asked() {
    let at = |s: u64| ask(s * 1_000_000_000, 1, 100, 1);
    let mut spec = cluster(100);
    spec.cache_condition = crate::CacheCondition::Cold;
    let ran = run(&spec, &[at(0), at(1)]);
    assert_eq!(ran.by_id[1].hit, Some(0));
    assert_eq!(ran.rows.last().unwrap().counters.prefix_query_tokens, Some(200));
    spec.cache_condition = crate::CacheCondition::PrefixDisabled;
    let ran = run(&spec, &[at(0), at(1)]);
    assert_eq!(ran.by_id[1].hit, None);
    assert_eq!(ran.rows.last().unwrap().counters.prefix_query_tokens, Some(0));
}

fn loads(kept: &[Kept]) -> Vec<Option<(acb_types::Tier, u64)>> {
    kept.iter().map(|k| k.load.map(|l| (l.from, l.stall_ns.0 / 1_000_000))).collect()
}

#[test]
fn a_load_stalls_the_whole_step_and_is_charged_to_the_request_that_caused_it() {
    use acb_types::Tier::{Cpu, Disk};
    let mut spec = cluster(100);
    vllm(&mut spec).max_cpu_loras = Some(3);
    let at = |s: u64, adapter| ask(s * 1_000_000_000, s + 1, 20, 1).with(adapter);
    let ran = run(&spec, &[at(0, A), at(1, B), at(2, A), at(3, A)]);
    assert_eq!(loads(&ran.by_id), [Some((Disk, 55)), Some((Disk, 55)), Some((Cpu, 5)), None]);
    let ttft = |at: usize| ran.by_id[at].first.unwrap() - ran.by_id[at].sent;
    assert_eq!((ttft(0) - ttft(3), ttft(2) - ttft(3)), (55_000_000, 5_000_000));
    // A base request in the same step waits too.
    let ran = run(&spec, &[ask(0, 1, 20, 1), ask(0, 2, 20, 1).with(A)]);
    assert!(ran.by_id[0].first.unwrap() > 55_000_000 && ran.by_id[0].load.is_none());
}

#[test]
fn slots_take_memory_from_the_kv_pool_whatever_is_loaded() {
    let mut spec = ClusterSpec::new(1, 1, "llama-3.1-8b-vllm-0.8.5");
    spec.kv = KvSpec::Memory(crate::KvMemory { gpu_gib: 64.0, utilization: 0.92, overhead_gib: 2.0 });
    let mut blocks = |loras| {
        vllm(&mut spec).max_loras = loras;
        spec.kv_blocks().unwrap()
    };
    let (few, many) = (blocks(8), blocks(64));
    let bytes_per_block = 16 * 131_072;
    assert!((few - many).abs_diff(56 * 16 * 5_772_288 / bytes_per_block) <= 1);
}
