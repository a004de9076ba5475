//! Worked examples of the SGLang scheduler: L rows follow from reading it, the others from its rules.

use super::bed::{Ask, Kept, adapters, ask, run, sglang, sglang_cluster};
use crate::jobs::{JobKey, Jobs};
use crate::replica::{Engine, Outputs};
use crate::rules::Rules;
use crate::server::Server;
use crate::{CacheCondition, ClusterSpec, LoraEvictionPolicy, SchedulePolicy};
use acb_routing::{Decision, Reason};
use acb_types::{AdapterId, AdapterLoad, ContentId, Nanos, Outcome, ReplicaId, RequestId, Tier};

const MS: u64 = 1_000_000;

fn by_id(spec: &ClusterSpec, asks: &[Ask]) -> Vec<Kept> {
    run(spec, asks).by_id
}

fn hits(spec: &ClusterSpec, asks: &[Ask]) -> Vec<Option<u32>> {
    by_id(spec, asks).iter().map(|kept| kept.hit).collect()
}

fn admitted(kept: &[Kept]) -> Vec<u64> {
    kept.iter().map(|k| k.admitted.unwrap()).collect()
}

/// A replica driven step by step.
struct Bench {
    rules: Rules,
    jobs: Jobs,
    server: Server,
    now: Nanos,
}

impl Bench {
    fn new(spec: &ClusterSpec) -> Self {
        let adapters = adapters(6);
        let rules = Rules::new(spec, &spec.latency_profile().unwrap(), spec.kv_blocks().unwrap(), &adapters);
        let server = Server::new(ReplicaId(0), &rules, 6);
        Self { server, rules, jobs: Jobs::default(), now: Nanos::ZERO }
    }

    fn send(&mut self, ask: &Ask, id: u64) -> JobKey {
        let request = ask.arrival(id).request;
        let adapter = ask.adapter.map(AdapterId);
        let decision = Decision { replica: ReplicaId(0), adapter, reason: Reason::RoundRobin };
        let key = self.jobs.insert(request, decision, ask.answer, self.now);
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.server.enqueue(engine, key, self.now);
        key
    }

    /// One step, and what it gave.
    fn step(&mut self) -> Outputs {
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        let end = self.server.start(engine, self.now).unwrap();
        self.now = self.server.cut(self.now).unwrap_or(end);
        let mut outputs = Outputs::default();
        self.server.end(engine, &mut outputs);
        outputs
    }

    fn is_admitted(&self, key: JobKey) -> bool {
        self.jobs[key].admitted.is_some()
    }
}

#[test]
fn the_same_prompt_in_one_batch_is_computed_twice_and_hit_later() {
    let same = |at| ask(at, 1, 100, 2);
    assert_eq!(hits(&sglang_cluster(1000), &[same(0), same(0), same(50 * MS)]), [0, 0, 99].map(Some));
}

#[test]
fn a_later_turn_hits_the_answer_but_its_last_token() {
    let answer = ContentId::of_output(RequestId(0)).0;
    let turn = Ask { runs: vec![(1, 40), (answer, 10), (2, 5)], ..ask(900 * MS, 0, 0, 1) };
    assert_eq!(hits(&sglang_cluster(1000), &[ask(0, 1, 40, 10), turn]), [0, 49].map(Some));
}

#[test]
fn cold_never_hits_and_disabled_is_never_asked() {
    for (condition, expected) in [(CacheCondition::Cold, Some(0)), (CacheCondition::PrefixDisabled, None)] {
        let mut spec = sglang_cluster(1000);
        spec.cache_condition = condition;
        let ran = run(&spec, &[ask(0, 1, 100, 1), ask(50 * MS, 1, 100, 1)]);
        assert_eq!(ran.by_id.iter().map(|k| k.hit).collect::<Vec<_>>(), [expected; 2]);
        let asked = ran.rows.last().unwrap().counters.prefix_query_tokens.unwrap();
        assert_eq!(asked, if condition == CacheCondition::Cold { 200 } else { 0 });
        assert_eq!(ran.rows.last().unwrap().kv_cached_bytes, Some(0));
    }
}

#[test]
fn l4_the_base_model_holds_a_slot() {
    let mut spec = sglang_cluster(10_000);
    sglang(&mut spec).max_loras_per_batch = 2;
    let mut bench = Bench::new(&spec);
    bench.send(&ask(0, 1, 10, 99).with(0), 0);
    bench.send(&ask(0, 2, 10, 99), 1);
    bench.step();
    let waiting = [Some(1), Some(0), None].map(|adapter| Ask { adapter, ..ask(0, 3, 10, 99) });
    let keys: Vec<JobKey> = (2..).zip(&waiting).map(|(id, ask)| bench.send(ask, id)).collect();
    bench.step();
    assert_eq!(keys.iter().map(|&k| bench.is_admitted(k)).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn l7_a_prompt_stalls_all_decoding_requests_for_one_step() {
    let mut spec = sglang_cluster(100_000);
    sglang(&mut spec).chunked_prefill_size = Some(8192);
    let mut bench = Bench::new(&spec);
    for id in 0..10 {
        bench.send(&ask(0, id, 10, 99), id);
    }
    bench.step();
    bench.step();
    let before = bench.now;
    let long = bench.send(&ask(0, 77, 3000, 9), 10);
    let outputs = bench.step();
    assert_eq!(outputs.first_tokens, [long]);
    // 1 ms + 3000 * 10 us + 0.5 ns * 3000^2 / 2, and nothing for the ten.
    assert_eq!(bench.now.since(before).0, MS + 30 * MS + 2_250_000);
}

#[test]
fn a_mixed_step_computes_a_prompt_and_decodes() {
    let mut spec = sglang_cluster(100_000);
    sglang(&mut spec).enable_mixed_chunk = true;
    let mut bench = Bench::new(&spec);
    bench.send(&ask(0, 1, 10, 99), 0);
    bench.step();
    let before = bench.now;
    bench.send(&ask(0, 2, 100, 99), 1);
    bench.step();
    // 1 ms + 100 * 10 us + 0.5 ns * 100^2 / 2 + one row of 20 us with 11 tokens of context.
    assert_eq!(bench.now.since(before).0, 2 * MS + 2_500 + 20_000 + 1_100);
}

#[test]
fn a_long_prompt_is_cut_and_its_chunks_go_before_others() {
    let mut spec = sglang_cluster(10_000);
    sglang(&mut spec).chunked_prefill_size = Some(100);
    let kept = by_id(&spec, &[ask(0, 1, 250, 1), ask(0, 2, 40, 1)]);
    let step = |from: u64, n: u64| MS + n * 10_000 + n * (2 * from + n) / 4;
    let (one, two) = (step(0, 100), step(100, 100));
    assert_eq!(admitted(&kept), [0, one + two], "the last 50 leave room for the other");
    assert_eq!(kept[0].first, kept[1].first);
}

#[test]
fn a_chunk_ends_at_a_page() {
    let mut spec = sglang_cluster(1000);
    (sglang(&mut spec).chunked_prefill_size, sglang(&mut spec).page_size) = (Some(64), 16);
    let mut bench = Bench::new(&spec);
    bench.send(&ask(0, 1, 30, 9), 0);
    let long = bench.send(&ask(0, 2, 300, 9), 1);
    bench.step();
    assert_eq!(bench.jobs[long].computed, 32, "30 tokens take two of four pages");
}

#[test]
fn requests_are_admitted_by_what_the_running_ones_may_still_write() {
    // 0.7 * 99 tokens are expected of the first; 100 + 99 + 1 of the second must be less than what is left.
    let last = |tokens| {
        let kept = by_id(&sglang_cluster(tokens), &[ask(0, 1, 100, 100), ask(MS / 2, 2, 100, 100)]);
        kept[1].admitted.unwrap()
    };
    let (short, enough) = (370, 371);
    assert!(last(enough) < 3 * MS && last(short) > 3 * MS, "{} {}", last(enough), last(short));
}

#[test]
fn who_does_not_fit_holds_up_those_behind() {
    let asks = [ask(0, 1, 100, 50), ask(1, 2, 330, 50), ask(2, 3, 10, 5)];
    let kept = by_id(&sglang_cluster(500), &asks);
    assert!(kept[2].admitted >= kept[1].admitted);
    assert!(kept[1].admitted >= kept[0].last);
}

/// Two requests that both fit at first and not to their ends.
fn short_of_memory() -> Vec<Kept> {
    let mut spec = sglang_cluster(250);
    sglang(&mut spec).schedule_conservativeness = 0.1;
    by_id(&spec, &[ask(0, 1, 50, 100), ask(MS / 2, 2, 60, 100)])
}

#[test]
fn the_request_with_fewer_tokens_is_retracted_and_resumes_with_its_prompt_cached() {
    let kept = short_of_memory();
    assert_eq!((kept[0].preemptions, kept[1].preemptions), (0, 1));
    assert_eq!((kept[0].output, kept[1].output, kept[1].hit), (100, 100, Some(0)));
    assert!(kept[1].last > kept[0].last);
}

#[test]
fn among_equals_the_longer_prompt_is_retracted() {
    let mut spec = sglang_cluster(250);
    sglang(&mut spec).schedule_conservativeness = 0.1;
    let kept = by_id(&spec, &[ask(0, 1, 70, 100), ask(0, 2, 40, 100)]);
    assert_eq!((kept[0].preemptions, kept[1].preemptions), (1, 0));
}

#[test]
fn the_longest_answer_goes_first_under_lof() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.schedule_policy, engine.max_running_requests) = (SchedulePolicy::Lof, 1);
    let kept = by_id(&spec, &[ask(0, 1, 10, 5), ask(1, 2, 10, 7), ask(2, 3, 10, 9)]);
    assert!(kept[2].admitted < kept[1].admitted);
    assert_eq!((kept[0].admitted, kept[1].overtaken), (Some(0), 1));
}

#[test]
fn the_longest_cached_prefix_goes_first_under_lpm() {
    let asks = [
        ask(0, 1, 100, 2),
        ask(10 * MS, 7, 400, 3),
        ask(10 * MS + 1, 2, 100, 2),
        Ask { runs: vec![(1, 100), (3, 20)], ..ask(10 * MS + 2, 0, 0, 2) },
    ];
    let mut spec = sglang_cluster(10_000);
    sglang(&mut spec).max_running_requests = 1;
    let fcfs = by_id(&spec, &asks);
    assert!(fcfs[2].admitted < fcfs[3].admitted);
    sglang(&mut spec).schedule_policy = SchedulePolicy::Lpm;
    let lpm = by_id(&spec, &asks);
    assert!(lpm[3].admitted < lpm[2].admitted);
}

#[test]
fn one_of_two_alike_waits_for_the_other_under_lpm_and_then_hits() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.schedule_policy, engine.chunked_prefill_size) = (SchedulePolicy::Lpm, Some(120));
    let alike = |at, tail| Ask { runs: vec![(1, 60), (tail, 20)], ..ask(at, 0, 0, 2) };
    // The other text fills the step, so that the second of the two comes in the next one.
    let asks = [alike(0, 2), alike(0, 3), ask(0, 9, 40, 2)];
    assert_eq!(hits(&spec, &asks), [0, 60, 0].map(Some));
    sglang(&mut spec).schedule_policy = SchedulePolicy::Fcfs;
    assert_eq!(hits(&spec, &asks), [0, 0, 0].map(Some));
}

#[test]
fn a_load_stalls_the_step_and_is_charged_to_who_caused_it() {
    let ran = run(&sglang_cluster(1000), &[ask(0, 1, 100, 3).with(0), ask(0, 2, 100, 3)]);
    let stall = AdapterLoad { from: Tier::Cpu, stall_ns: Nanos(5 * MS) };
    assert_eq!((ran.by_id[0].load, ran.by_id[1].load), (Some(stall), None));
    assert!(ran.by_id[1].first.unwrap() > 7 * MS, "the base request waits too");
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.adapter_loads_cpu, counters.adapter_stall_ns), (Some(1), Some(Nanos(5 * MS))));
}

#[test]
fn with_overlap_loading_the_request_waits_and_the_others_go_on() {
    let mut spec = sglang_cluster(1000);
    let engine = sglang(&mut spec);
    (engine.enable_lora_overlap_loading, engine.max_loaded_loras) = (true, Some(8));
    let ran = run(&spec, &[ask(0, 1, 100, 30), ask(0, 2, 100, 3).with(0)]);
    let (base, other) = (&ran.by_id[0], &ran.by_id[1]);
    assert!(base.first.unwrap() < 3 * MS);
    assert!((5 * MS..7 * MS).contains(&other.admitted.unwrap()), "{:?}", other.admitted);
    assert_eq!(
        (base.load, other.load),
        (None, Some(AdapterLoad { from: Tier::Cpu, stall_ns: Nanos(5 * MS) }))
    );
    assert_eq!(ran.rows.last().unwrap().counters.adapter_stall_ns, Some(Nanos::ZERO));
}

#[test]
fn an_adapter_that_is_read_again_finds_nothing_cached() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.max_loras_per_batch, engine.max_loaded_loras) = (2, Some(2));
    // Of six adapters the last two, a4 and a5, are loaded at start.
    let at = |s: u64, adapter| ask(s * 1000 * MS, 1, 100, 1).with(adapter);
    let ran = run(&spec, &[at(0, 5), at(1, 5), at(2, 0), at(3, 1), at(4, 5)]);
    let hits: Vec<_> = ran.by_id.iter().map(|k| k.hit.unwrap()).collect();
    assert_eq!(hits, [0, 99, 0, 0, 0]);
    let tiers: Vec<_> = ran.by_id.iter().map(|k| k.load.map(|load| load.from)).collect();
    assert_eq!(tiers, [Some(Tier::Cpu), None, Some(Tier::Disk), Some(Tier::Disk), Some(Tier::Disk)]);
    assert_eq!(ran.by_id[2].load.unwrap().stall_ns, Nanos(55 * MS), "50 ms from disk and 5 ms into the slot");
    assert_eq!(ran.by_id[2].admitted, Some(2050 * MS));
    let counters = &ran.rows.last().unwrap().counters;
    assert_eq!((counters.adapter_loads_disk, counters.adapter_evictions_cpu), (Some(3), Some(3)));
    assert_eq!(ran.rows.last().unwrap().kv_cached_bytes, Some(400 * 1000), "orphans stay until evicted");
}

#[test]
fn an_adapter_that_is_used_is_waited_for_before_it_goes() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.max_loras_per_batch, engine.max_loaded_loras) = (2, Some(2));
    let asks = [ask(0, 1, 10, 200).with(4), ask(1, 2, 10, 2).with(5), ask(2 * MS, 3, 10, 2).with(0)];
    let kept = by_id(&spec, &asks);
    assert!(kept[2].admitted.unwrap() >= kept[0].last.unwrap(), "a4 was asked for longest ago");
    assert_eq!(kept.iter().map(|k| k.outcome).collect::<Vec<_>>(), [Outcome::Ok; 3]);
}

#[test]
fn a_running_adapter_can_lose_its_slot_to_a_prompt_and_is_loaded_again() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.max_loras_per_batch, engine.lora_eviction_policy) = (3, LoraEvictionPolicy::Fifo);
    // a0 runs, a1 is done and idle in its slot; a2 comes, and a0 was loaded first.
    let asks = [ask(0, 1, 10, 99).with(0), ask(1, 2, 10, 1).with(1), ask(20 * MS, 3, 10, 9).with(2)];
    let ran = run(&spec, &asks);
    assert_eq!(ran.rows.last().unwrap().counters.adapter_loads_cpu, Some(4));
}

#[test]
fn an_idle_base_model_keeps_its_slot_from_a_running_adapter() {
    let mut spec = sglang_cluster(10_000);
    sglang(&mut spec).max_loras_per_batch = 2;
    // a1's prompt takes a0's slot, not the base model's; then both decode, and the base model has to go.
    let ran = run(&spec, &[ask(0, 1, 10, 99).with(0), ask(20 * MS, 2, 10, 9).with(1)]);
    assert_eq!(ran.rows.last().unwrap().counters.adapter_loads_cpu, Some(3));
}

#[test]
fn an_adapter_drains_for_one_that_starves() {
    let mut spec = sglang_cluster(10_000);
    sglang(&mut spec).max_loras_per_batch = 1;
    let mut asks: Vec<Ask> = (0..30).map(|i| ask(i * 8 * MS, i, 10, 20).with(0)).collect();
    asks.push(ask(MS, 99, 10, 5).with(1));
    let waited = |spec: &ClusterSpec| {
        let kept = by_id(spec, &asks);
        kept.iter().find(|k| k.decision.adapter == Some(AdapterId(1))).unwrap().admitted.unwrap()
    };
    let undrained = waited(&spec);
    sglang(&mut spec).lora_drain_wait_threshold = 0.02;
    let drained = waited(&spec);
    assert!(drained < 100 * MS && undrained > 200 * MS, "{drained} {undrained}");
}

#[test]
fn the_scrape_counts_memory_and_names_no_adapter() {
    let mut bench = Bench::new(&sglang_cluster(1000));
    bench.send(&ask(0, 1, 100, 9).with(0), 0);
    bench.step();
    bench.send(&ask(0, 2, 50, 9), 1);
    let engine = &Engine { rules: &bench.rules, jobs: &mut bench.jobs };
    let seen = bench.server.snapshot(engine, bench.now);
    assert_eq!((seen.running, seen.queued, seen.pending_prefill_tokens), (Some(1), Some(1), Some(50)));
    assert_eq!((seen.free_kv_tokens, seen.gpu_adapters, seen.cpu_adapters), (Some(900), None, None));
}
