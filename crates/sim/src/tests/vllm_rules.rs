//! Our own worked examples of vLLM's rules, each computed by hand. Costs are the bed's: a step takes 1 ms, a prompt token
//! 10 us, `n` prompt tokens after `c` others 0.25 ns * n * (2c + n), a decoding request 20 us and 100 ns for each token of
//! its context.

use super::bed::{Ask, Ran, ask, cluster, run, vllm};
use super::steps::Bench;
use crate::ClusterSpec;
use crate::replica::Engine;
use acb_types::Tier::{Cpu, Disk};
use acb_types::{AdapterId, ContentId, Nanos, RequestId, Tier};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

fn hits(ran: &Ran) -> Vec<u32> {
    ran.by_id.iter().map(|kept| kept.hit.unwrap()).collect()
}

fn admitted(ran: &Ran) -> Vec<u64> {
    ran.by_id.iter().map(|kept| kept.admitted.unwrap()).collect()
}

fn loads(ran: &Ran) -> Vec<Option<Tier>> {
    ran.by_id.iter().map(|kept| kept.load.map(|load| load.from)).collect()
}

/// A request for a text of these runs that gives one token.
fn text(due: u64, runs: &[(u64, u32)]) -> Ask {
    Ask { runs: runs.to_vec(), ..ask(due, 0, 0, 1) }
}

fn with_slots(blocks: u64, slots: u32) -> ClusterSpec {
    let mut spec = cluster(blocks);
    vllm(&mut spec).max_loras = slots;
    spec
}

/// The budget is 2048: 2048 tokens take 1 + 20.48 + 0.00025 * 2048^2 / 1000 = 22.528576 ms. One token more takes a second
/// step of 1 ms + 10 us + 0.25 * (2 * 2048 + 1) = 1024.25 ns.
#[test]
fn a_prompt_of_the_budget_takes_one_step_and_one_token_more_a_second() {
    let served = |tokens| {
        let ran = run(&cluster(200), &[ask(0, 1, tokens, 1)]);
        (ran.totals.steps, ran.by_id[0].first.unwrap())
    };
    assert_eq!(served(2048), (1, 22_528_576));
    assert_eq!(served(2049), (2, 22_528_576 + 1_011_024));
}

/// 2048 = 1000 + 1000 + 48; then two decode, and 952 of the third's are left.
#[test]
fn prompts_share_a_step_in_order_until_its_budget_is_spent() {
    let mut bench = Bench::new(&cluster(300));
    let keys = [1, 2, 3].map(|id| bench.send(0, &ask(0, id, 1000, 9), id));
    let at = bench.step(0);
    assert_eq!(keys.map(|key| bench.computed(key)), [1000, 1000, 48]);
    bench.step(at);
    assert_eq!(bench.computed(keys[2]), 1000);
}

/// 5000 = 2048 + 2048 + 904: the second step has nothing left for who came meanwhile, the third has.
#[test]
fn a_running_prompt_goes_before_one_that_waits() {
    let mut bench = Bench::new(&cluster(400));
    let long = bench.send(0, &ask(0, 1, 5000, 9), 1);
    let mut at = bench.step(0);
    bench.send(at, &ask(at, 2, 10, 9), 2);
    at = bench.step(at);
    assert_eq!((bench.computed(long), bench.running(), bench.waiting()), (4096, vec![1], vec![2]));
    bench.step(at);
    assert_eq!((bench.computed(long), bench.running()), (5000, vec![1, 2]));
}

/// With a cap of 100, two prompts of 250 go 100 + 100, 100 + 100, 50 + 50; alone, one goes whole.
#[test]
fn the_cap_on_long_prompts_holds_only_in_company() {
    let mut spec = cluster(100);
    vllm(&mut spec).long_prefill_token_threshold = 100;
    assert_eq!(run(&spec, &[ask(0, 1, 250, 1)]).totals.steps, 1);
    assert_eq!(run(&spec, &[ask(0, 1, 250, 1), ask(0, 2, 250, 1)]).totals.steps, 3);
}

/// A step computes at most 300 tokens. After 200, neither 200 nor the 50 behind them enter; the next step decodes one and
/// computes 200 + 50. The first step takes 1 + 2 + 0.01 ms.
#[test]
fn without_chunks_a_prompt_waits_for_room_for_all_of_it_and_holds_up_shorter_ones() {
    let mut spec = cluster(100);
    let engine = vllm(&mut spec);
    (engine.enable_chunked_prefill, engine.max_num_batched_tokens, engine.context_tokens) = (false, 300, 300);
    let ran = run(&spec, &[ask(0, 1, 200, 3), ask(0, 2, 200, 1), ask(0, 3, 50, 1)]);
    assert_eq!(admitted(&ran), [0, 3_010_000, 3_010_000]);
}

#[test]
fn a_third_request_waits_for_the_end_of_one_of_two() {
    let mut spec = cluster(100);
    vllm(&mut spec).max_num_seqs = 2;
    let ran = run(&spec, &[ask(0, 1, 16, 3), ask(0, 2, 16, 5), ask(0, 3, 16, 1)]);
    assert_eq!(admitted(&ran), [0, 0, ran.by_id[0].ended_at]);
}

/// A budget of 4: four prompts of a token each take it, then four decoding requests do.
#[test]
fn decoding_requests_take_the_budget_before_a_waiting_prompt() {
    let mut spec = cluster(100);
    vllm(&mut spec).max_num_batched_tokens = 4;
    let mut bench = Bench::new(&spec);
    for id in 0..5 {
        bench.send(0, &ask(0, id, 1, 3), id);
    }
    let mut at = bench.step(0);
    assert_eq!(bench.running(), [0, 1, 2, 3]);
    at = bench.step(at);
    assert_eq!(
        (bench.running(), bench.waiting()),
        (vec![], vec![4]),
        "two steps of decoding end four answers"
    );
    bench.start(at);
    assert_eq!(bench.running(), [4]);
}

/// 96 of 128 tokens are cached: 32 fit a budget of 64. 1 ms + 320 us + 0.25 * 32 * (192 + 32) = 1792 ns.
#[test]
fn a_hit_takes_nothing_of_the_budget_and_its_attention_is_still_paid() {
    let mut spec = cluster(100);
    let engine = vllm(&mut spec);
    (engine.max_num_batched_tokens, engine.max_num_seqs) = (64, 8);
    let ran = run(&spec, &[text(0, &[(1, 96)]), text(SECOND, &[(1, 96), (2, 32)])]);
    assert_eq!((hits(&ran), ran.totals.steps), (vec![0, 96], 2 + 1));
    assert_eq!(ran.by_id[1].first, Some(SECOND + 1_321_792));
}

/// Of 40 shared tokens two blocks are full; of 100, six are, and the last token is computed anyway.
#[test]
fn a_prompt_that_goes_on_where_another_ended_hits_its_full_blocks() {
    let longer = |at| text(at * SECOND, &[(1, 40), (2, 60)]);
    assert_eq!(hits(&run(&cluster(100), &[text(0, &[(1, 40)]), longer(1), longer(2)])), [0, 32, 96]);
}

/// 24 shared tokens: one block of 16 is the same, the second differs from its ninth token on.
#[test]
fn prompts_that_part_within_a_block_share_the_blocks_before_it() {
    let asks = [text(0, &[(1, 24), (2, 40)]), text(SECOND, &[(1, 24), (3, 40)])];
    assert_eq!(hits(&run(&cluster(100), &asks)), [0, 16]);
}

/// The last token of an answer is never stored: 30 + 2 tokens fill two blocks, 30 + 1 only one.
#[test]
fn an_answer_fills_a_block_of_the_prompt() {
    let answer = ContentId::of_output(RequestId(0)).0;
    for (tokens, hit) in [(3, 32), (2, 16)] {
        let asks = [ask(0, 1, 30, tokens), text(SECOND, &[(1, 30), (answer, tokens), (9, 20)])];
        assert_eq!(hits(&run(&cluster(100), &asks)), [0, hit]);
    }
}

#[test]
fn what_a_running_request_holds_is_hit() {
    let ran = run(&cluster(100), &[ask(0, 1, 100, 500), ask(10 * MS, 1, 100, 1)]);
    assert_eq!(hits(&ran), [0, 96]);
    assert!(ran.by_id[1].ended_at < ran.by_id[0].ended_at);
}

/// 3000 = 2048 + 952. In the second step the first request's blocks are registered before the second is admitted, which
/// hits 187 blocks = 2992 tokens and computes 8 in the same step.
#[test]
fn a_prompt_is_hit_in_the_step_that_computes_its_last_chunk() {
    let mut bench = Bench::new(&cluster(400));
    bench.send(0, &ask(0, 1, 3000, 9), 1);
    let at = bench.step(0);
    let same = bench.send(at, &ask(at, 1, 3000, 9), 2);
    bench.step(at);
    assert_eq!((bench.jobs[same].prefix_hit_tokens, bench.computed(same)), (Some(2992), 3000));
}

/// 15 tokens fill no block. 16 fill one, but one token has to be computed. 17 hit it.
#[test]
fn a_prompt_of_one_block_is_hit_only_by_a_longer_one() {
    let asks: Vec<Ask> = (0..).zip([15, 15, 16, 16, 17]).map(|(s, n)| text(s * SECOND, &[(1, n)])).collect();
    assert_eq!(hits(&run(&cluster(100), &asks)), [0, 0, 0, 0, 16]);
}

#[test]
fn adapter_and_salt_are_both_part_of_the_name_of_a_block() {
    let at = |s| text(s * SECOND, &[(1, 100)]);
    let asks = [
        at(0).with(A).salted(1),
        at(1).with(A).salted(1),
        at(2).with(A).salted(2),
        at(3).with(B).salted(1),
        at(4).salted(1),
        at(5).with(A),
    ];
    assert_eq!(hits(&run(&cluster(100), &asks)), [0, 96, 0, 0, 0, 0]);
}

/// Eight blocks; free order by number. A takes 1 to 4: 5 6 7 8 4 3 2 1. B takes 5 to 7: 8 4 3 2 1 7 6 5. C takes 8 4 3 2 1
/// (four contents of A): 7 6 5 1 2 3 4 8. A takes 7 6 5 1 (three of B, one of C): 2 3 4 8 1 5 6 7. B takes 2 3 4 (three
/// of C). 4 + 4 + 3 contents are given up, and eight blocks have one at the end.
#[test]
fn each_text_pushes_out_the_oldest_tails() {
    let asks: Vec<Ask> = (0..)
        .zip([(1, 64), (2, 48), (3, 80), (1, 64), (2, 48)])
        .map(|(s, run)| text(s * SECOND, &[run]))
        .collect();
    let ran = run(&cluster(8), &asks);
    let last = ran.rows.last().unwrap();
    assert_eq!((hits(&ran), last.counters.kv_evictions), (vec![0; 5], Some(11)));
    assert_eq!((last.kv_cached_bytes, last.kv_active_bytes), (Some(8 * 16 * 1000), Some(0)));
}

/// Three blocks. Two requests of one step compute the same 16 tokens in blocks 1 and 2 (a hit would leave nothing to
/// compute). Freed in order, after block 3. Another text takes 3 and 1; block 2 still has the content.
#[test]
fn a_content_is_hit_as_long_as_one_of_its_copies_is_there() {
    let asks =
        [text(0, &[(1, 16)]), text(0, &[(1, 16)]), text(SECOND, &[(2, 32)]), text(2 * SECOND, &[(1, 17)])];
    let ran = run(&cluster(3), &asks);
    assert_eq!(hits(&ran), [0, 0, 0, 16]);
    assert_eq!(
        ran.rows.last().unwrap().counters.kv_evictions,
        Some(2),
        "one copy, and a tail of the other text"
    );
}

/// 100 tokens are seven blocks, of which six are shared: 7 + 1 + 1 = 9, and none is left for a fourth. The step computes
/// 100 + 4 + 4 tokens: 1 ms + 1080 us + 0.25 * (100^2 + 2 * 4 * 196) = 2892 ns.
#[test]
fn requests_that_share_a_prompt_hold_its_full_blocks_once() {
    let ran = run(&cluster(9), &[(); 4].map(|()| ask(0, 1, 100, 1)));
    assert_eq!(hits(&ran), [0, 96, 96, 96]);
    assert_eq!(admitted(&ran), [0, 0, 0, 2_082_892]);
}

/// Ten blocks, four free ones with a text. Another request runs in six (80 tokens and its answer). 96 tokens that begin
/// with the text need two new blocks, but the four they hit are free ones too: six of four.
#[test]
fn a_hit_on_free_blocks_takes_them_from_what_is_free() {
    let asks = [text(0, &[(1, 64)]), ask(SECOND, 2, 80, 5), text(SECOND + 1, &[(1, 64), (3, 32)])];
    let ran = run(&cluster(10), &asks);
    assert_eq!(hits(&ran), [0, 0, 64]);
    assert_eq!(ran.by_id[2].admitted, Some(ran.by_id[1].ended_at));
}

/// Ten blocks, five held by a request that has just decoded its 65th token's step. 96 tokens that begin with its prompt
/// need two blocks more than the four it holds: they enter at the end of its first step, 1 ms + 640 us + 1024 ns.
#[test]
fn a_hit_on_held_blocks_costs_nothing() {
    let ran = run(&cluster(10), &[ask(0, 1, 64, 60), text(MS, &[(1, 64), (3, 32)])]);
    assert_eq!((hits(&ran), ran.by_id[1].admitted), (vec![0, 64], Some(1_641_024)));
}

/// Ten blocks: 90 tokens in six, 64 in four. The second needs a fifth at once, and is the last admitted: it gives up its
/// own. It comes back when the first has ended, with 65 tokens, of which the first has overwritten one block (its seventh)
/// from the tail: 3 * 16 = 48 are hit.
#[test]
fn the_last_one_preempts_itself_and_comes_back_to_what_is_left_of_it() {
    let ran = run(&cluster(10), &[ask(0, 1, 90, 20), ask(0, 2, 64, 20)]);
    assert_eq!(ran.by_id.iter().map(|k| (k.preemptions, k.output)).collect::<Vec<_>>(), [(0, 20), (1, 20)]);
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (Some(90 + 64 + 65), Some(48)));
}

/// Ten blocks, two prompts of four each and answers of 64: both enter, since only prompts are reserved. At token 81 both
/// need a sixth block; the second loses its five, with 17 tokens given.
/// The first step ends at 1 ms + 1280 us + 2 * 1024 ns = 2.282048 ms; 16 more of 1.04 ms + 200 ns * (64 + k), k = 1..16,
/// at 19.154048. The first goes on alone, 47 steps of 1.02 ms + 100 ns * (64 + k), k = 17..63, until 67.582848. Its sixth to
/// eighth block took three of the second's five: 32 of 81 tokens are hit, 49 cost 1 ms + 490 us + 0.25 * 49 * 113 = 1384.25
/// ns. 46 tokens follow at 1.02 ms + 100 ns * (82..=127), a sum of 4807.
#[test]
fn two_answers_that_outgrow_the_memory_are_given_one_after_the_other() {
    let ran = run(&cluster(10), &[ask(0, 1, 64, 64), ask(0, 2, 64, 64)]);
    let (first, second) = (&ran.by_id[0], &ran.by_id[1]);
    assert_eq!((first.ended_at, first.preemptions), (67_582_848, 0));
    assert_eq!((second.preemptions, second.admitted), (1, Some(0)));
    assert_eq!(second.itl_max, Some(67_582_848 + 1_491_385 - 19_154_048), "the gap, rounded up");
    assert_eq!(second.last, Some(67_582_848 + 1_491_384 + 46 * 1_020_000 + 480_700));
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (Some(64 + 64 + 81), Some(32)));
}

/// Ten blocks: 63 tokens in four, 95 in six. In the third step the first needs a fifth and the second loses its six: five
/// are free. It would need seven for 97 tokens, so that it stays at the front, and 16 tokens behind it wait as well.
#[test]
fn a_preempted_request_that_does_not_fit_holds_up_those_behind_it() {
    let ran = run(&cluster(10), &[ask(0, 1, 63, 20), ask(0, 2, 95, 20), ask(1, 3, 16, 1)]);
    assert_eq!((ran.by_id[1].preemptions, ran.by_id[2].overtaken), (1, 0));
    assert_eq!(ran.by_id[2].admitted, Some(ran.by_id[0].ended_at));
}

/// Half of ten blocks must stay free while others run: eight are given to the first all the same, and then not one.
#[test]
fn the_watermark_does_not_hold_on_an_idle_server() {
    let mut spec = cluster(10);
    vllm(&mut spec).watermark = 0.5;
    let ran = run(&spec, &[ask(0, 1, 120, 5), ask(0, 2, 16, 1)]);
    assert_eq!(admitted(&ran), [0, ran.by_id[0].ended_at]);
}

#[test]
fn requests_of_one_adapter_take_one_slot() {
    let asks = [ask(0, 1, 20, 5).with(A), ask(0, 2, 20, 9).with(A), ask(0, 3, 20, 1).with(B)];
    let ran = run(&with_slots(100, 1), &asks);
    assert_eq!(admitted(&ran), [0, 0, ran.by_id[1].ended_at]);
}

/// One slot; b waits before another a. While the first a runs the other passes b; when it has ended b is first.
#[test]
fn a_slot_that_nobody_uses_goes_to_the_first_in_line() {
    for (answer, running, waiting) in [(2, vec![1, 3], vec![2]), (1, vec![2], vec![3])] {
        let mut bench = Bench::new(&with_slots(100, 1));
        bench.send(0, &ask(0, 1, 20, answer).with(A), 1);
        let at = bench.step(0);
        bench.send(at, &ask(at, 2, 20, 9).with(B), 2);
        bench.send(at, &ask(at, 3, 20, 9).with(A), 3);
        bench.start(at);
        assert_eq!((bench.running(), bench.waiting()), (running, waiting));
    }
}

/// Two slots, three places in host memory: a, b from disk; a is there; c pushes b out of its slot; b, from host memory,
/// pushes out a, and a pushes out c. 3 * 55 + 2 * 5 ms.
#[test]
fn the_adapter_used_longest_ago_leaves_its_slot() {
    let mut spec = with_slots(100, 2);
    vllm(&mut spec).max_cpu_loras = Some(3);
    let asks: Vec<Ask> =
        (0..).zip([A, B, A, C, B, A]).map(|(s, a)| ask(s * SECOND, s, 20, 1).with(a)).collect();
    let ran = run(&spec, &asks);
    assert_eq!(loads(&ran), [Some(Disk), Some(Disk), None, Some(Disk), Some(Cpu), Some(Cpu)]);
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.adapter_evictions_gpu, counters.adapter_evictions_cpu), (Some(3), Some(0)));
    assert_eq!(counters.adapter_stall_ns, Some(Nanos(175 * MS)));
}

/// One slot, two places in host memory. c is read before a is given up; b is still there; then a is read again, and c,
/// used before b, is given up; c comes back for it.
#[test]
fn the_adapter_used_longest_ago_leaves_host_memory() {
    let mut spec = with_slots(100, 1);
    vllm(&mut spec).max_cpu_loras = Some(2);
    let asks: Vec<Ask> =
        (0..).zip([A, B, C, B, A, B, C]).map(|(s, a)| ask(s * SECOND, s, 20, 1).with(a)).collect();
    let ran = run(&spec, &asks);
    assert_eq!(loads(&ran), [Disk, Disk, Disk, Cpu, Disk, Cpu, Disk].map(Some));
    assert_eq!(ran.rows.last().unwrap().counters.adapter_evictions_cpu, Some(3));
}

/// 55 ms each, then 1 ms + 40 * 10 us + 2 * 0.25 * 20^2 ns + 0.5 + 2 * 0.1 ms for adapters + 40 * 1.7 us.
#[test]
fn two_adapters_that_enter_together_are_loaded_one_after_the_other() {
    let ran = run(&with_slots(100, 2), &[ask(0, 1, 20, 1).with(A), ask(0, 2, 20, 1).with(B)]);
    let firsts: Vec<Option<u64>> = ran.by_id.iter().map(|kept| kept.first).collect();
    assert_eq!(firsts, [Some(110 * MS + 2_168_200); 2]);
    assert!(ran.by_id.iter().all(|kept| kept.load.unwrap().stall_ns == Nanos(55 * MS)));
}

/// 1 ms + 20 us + 100 ns * 21 + 0.5 + 0.1 ms for one adapter + 3 us + 0.3 us.
#[test]
fn a_decoding_request_pays_for_its_adapter() {
    let ran = run(&with_slots(100, 1), &[ask(0, 1, 20, 2).with(A)]);
    assert_eq!(ran.by_id[0].itl_max, Some(1_625_400));
}

/// The first step ends at 1 ms + 200 us + 100 ns. The next decodes with 21 tokens of context and computes 100:
/// 1 ms + 20 us + 2100 ns + 1 ms + 2500 ns. Both get a token when it ends.
#[test]
fn a_prompt_and_a_decoding_request_share_a_step() {
    let ran = run(&cluster(100), &[ask(0, 1, 20, 9), ask(1, 2, 100, 1)]);
    assert_eq!((ran.by_id[1].admitted, ran.by_id[1].first), (Some(1_200_100), Some(3_224_700)));
    assert_eq!(ran.by_id[0].itl_max, Some(2_024_600));
}

/// A prompt of two chunks asks once for all of its 3000 tokens; its repetition finds 187 blocks.
#[test]
fn the_cache_is_asked_once_per_admission() {
    let ran = run(&cluster(400), &[ask(0, 1, 3000, 1), ask(SECOND, 1, 3000, 1)]);
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (Some(6000), Some(2992)));
}

/// c is idle in a slot, a runs, b waits for a place in the batch: the scrape calls a and b active and not c.
#[test]
fn the_scrape_names_the_adapters_of_all_in_flight_and_no_idle_one() {
    let mut spec = with_slots(100, 2);
    vllm(&mut spec).max_num_seqs = 1;
    let mut bench = Bench::new(&spec);
    bench.send(0, &ask(0, 1, 20, 1).with(C), 1);
    let at = bench.step(0);
    bench.send(at, &ask(at, 2, 20, 50).with(A), 2);
    bench.send(at, &ask(at, 3, 30, 50).with(B), 3);
    let at = bench.step(at);
    let engine = &Engine { rules: &bench.rules, jobs: &mut bench.jobs };
    let seen = bench.replica.snapshot(engine, Nanos(at));
    assert_eq!((seen.running, seen.queued, seen.pending_prefill_tokens), (Some(1), Some(1), Some(30)));
    assert_eq!(seen.active_adapters, Some(vec![AdapterId(A), AdapterId(B)]));
    assert_eq!(seen.gpu_adapters, Some(vec![AdapterId(A), AdapterId(C)]));
}

/// 100 tokens: seven blocks of 16 tokens of 1000 bytes while they are computed, six full ones when they are not used.
#[test]
fn memory_is_active_while_held_and_cached_after() {
    let mut spec = cluster(100);
    spec.server_interval_ms = 1;
    let ran = run(&spec, &[ask(0, 1, 100, 1)]);
    let bytes: Vec<_> = ran.rows.iter().map(|row| (row.kv_active_bytes, row.kv_cached_bytes)).collect();
    assert_eq!(bytes[1], (Some(112_000), Some(0)));
    assert_eq!(bytes.last(), Some(&(Some(0), Some(96_000))));
}
