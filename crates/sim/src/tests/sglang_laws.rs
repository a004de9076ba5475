//! Laws of whole runs on SGLang.

use super::bed::{Ask, Ran, adapters, ask, run, run_in, run_with, sglang, sglang_cluster, trained};
use super::fast::{asks, with_turns};
use crate::jobs::Jobs;
use crate::replica::{Engine, Outputs};
use crate::rules::Rules;
use crate::server::Server;
use crate::{
    CacheCondition, ClusterSpec, KvSpec, LoraEvictionPolicy, RadixEvictionPolicy, SchedulePolicy, Service,
};
use acb_routing::{Decision, Information, PolicySpec, Reason};
use acb_types::{AdapterId, Nanos, Outcome, ReplicaId};
use proptest::prelude::*;

pub fn specs() -> impl Strategy<Value = ClusterSpec> {
    use RadixEvictionPolicy as E;
    use SchedulePolicy as P;
    let numbers = (prop_oneof![1u32..2, 4u32..5], 60u64..400, 1u32..8, 2u32..5, 1u32..6);
    let condition = prop_oneof![4 => Just(CacheCondition::Warm), 1 => Just(CacheCondition::Cold), 1 => Just(CacheCondition::PrefixDisabled)];
    let order = prop_oneof![
        3 => Just(P::Fcfs), 1 => Just(P::Lpm), 1 => Just(P::DfsWeight), 1 => Just(P::Lof), 1 => Just(P::Random)
    ];
    let leaf = prop_oneof![
        3 => Just(E::Lru), 1 => Just(E::Lfu), 1 => Just(E::Slru), 1 => Just(E::Fifo), 1 => Just(E::Mru),
        1 => Just(E::Filo), 1 => Just(E::Priority)
    ];
    let lora = (
        prop::option::of(0u32..4),
        0u32..2,
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(0.0), Just(0.01)],
    );
    let prefill = (prop_oneof![Just(None), (1u32..6).prop_map(Some)], any::<bool>(), 20u32..100, 0.3f64..1.2);
    (numbers, condition, order, leaf, lora, prefill).prop_map(
        |((page, tokens, running, slots, spare), condition, order, leaf, lora, prefill)| {
            let mut spec = sglang_cluster(tokens.div_ceil(u64::from(page)));
            spec.cache_condition = condition;
            let engine = sglang(&mut spec);
            engine.page_size = page;
            engine.max_running_requests = running;
            engine.max_loras_per_batch = slots;
            engine.context_tokens = 300;
            (engine.schedule_policy, engine.radix_eviction_policy) = (order, leaf);
            let (loaded, pinned, fifo, overlap, drain) = lora;
            engine.max_loaded_loras = loaded.map(|more| slots + more.min(slots));
            engine.pinned_loras = (0..pinned).map(|i| format!("a{i}")).collect();
            engine.lora_eviction_policy =
                if fifo { LoraEvictionPolicy::Fifo } else { LoraEvictionPolicy::Lru };
            engine.enable_lora_overlap_loading = overlap && loaded.is_some();
            engine.lora_drain_wait_threshold = drain;
            let (chunk, mixed, prompts, conservativeness) = prefill;
            engine.chunked_prefill_size = chunk
                .map(|pages| (pages * 4 + spare).next_multiple_of(page) + running.next_multiple_of(page));
            engine.enable_mixed_chunk = mixed && chunk.is_some();
            engine.max_prefill_tokens = prompts;
            engine.schedule_conservativeness = conservativeness;
            spec
        },
    )
}

fn outcomes_add_up(ran: &Ran) -> bool {
    let t = &ran.totals;
    t.arrived == t.completed + t.failed + t.shed + t.timed_out + t.unfinished + t.rejected
        && ran.by_id.len() as u64 == t.arrived
}

/// A replica that serves everything from time 0 and is cut short at these times; the ends of all answers.
fn served_with_cuts(spec: &ClusterSpec, asks: &[Ask], cuts: &[u64]) -> Vec<Option<Nanos>> {
    let catalogue = adapters(6);
    let rules = Rules::new(spec, &spec.latency_profile().unwrap(), spec.kv_blocks().unwrap(), &catalogue);
    let (mut jobs, mut server) = (Jobs::default(), Server::new(ReplicaId(0), &rules, 6));
    let mut ends = Vec::new();
    for (id, ask) in (0..).zip(asks) {
        let adapter = ask.adapter.map(AdapterId);
        let decision = Decision { replica: ReplicaId(0), adapter, reason: Reason::RoundRobin };
        let request = ask.arrival(id).request;
        ends.push(None);
        if !rules.rejects(&request, adapter) {
            let key = jobs.insert(request, decision, ask.answer, Nanos::ZERO);
            server.enqueue(&mut Engine { rules: &rules, jobs: &mut jobs }, key, Nanos::ZERO);
        }
    }
    let (mut now, mut cuts) = (Nanos::ZERO, cuts.iter().peekable());
    while let Some(end) = server.start(&mut Engine { rules: &rules, jobs: &mut jobs }, now) {
        while cuts.next_if(|&&cut| cut < now.0).is_some() {}
        now = cuts.next_if(|&&cut| cut < end.0).and_then(|&cut| server.cut(Nanos(cut))).unwrap_or(end);
        let mut outputs = Outputs::default();
        server.end(&mut Engine { rules: &rules, jobs: &mut jobs }, &mut outputs);
        for key in outputs.complete {
            ends[jobs[key].request.id.0 as usize] = Some(now);
        }
    }
    assert!(!server.has_work(), "what is there is served");
    ends
}

#[test]
fn a_request_alone_takes_the_time_that_the_profile_says() {
    let ran = run(&sglang_cluster(1000), &[ask(7, 1, 100, 3)]);
    let kept = &ran.by_id[0];
    let first = 7 + 1_000_000 + 1_000_000 + 2_500;
    let last = first + 2 * 1_020_000 + 203 * 100;
    assert_eq!((kept.admitted, kept.first, kept.last), (Some(7), Some(first), Some(last)));
    assert_eq!((kept.itl_max, kept.output, kept.outcome), (Some(1_030_200), 3, Outcome::Ok));
    assert_eq!((ran.totals.steps, ran.totals.completed, ran.totals.end.0), (3, 1, last));
}

#[test]
fn every_policy_gets_what_it_declares_and_serves_every_request() {
    let mut spec = sglang_cluster(2000);
    spec.replicas = 3;
    let asks: Vec<Ask> = (0..60).map(|i| ask(i * 2_000_000, i % 7, 100, 20)).collect();
    for policy in PolicySpec::all() {
        if policy.information() != Information::Truth {
            let name = policy.name();
            let ran = run_with(&spec, &asks, (trained(), policy), Service::Contended);
            assert_eq!((ran.totals.completed, outcomes_add_up(&ran)), (60, true), "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stretch_cut_anywhere_gives_the_same_times(
        asks in asks(), spec in specs(), mut cuts in prop::collection::vec(0u64..300_000_000, 0..60),
    ) {
        cuts.sort_unstable();
        prop_assert_eq!(served_with_cuts(&spec, &asks, &cuts), served_with_cuts(&spec, &asks, &[]));
    }

    #[test]
    fn the_same_run_twice_gives_the_same(asks in asks(), mut spec in specs()) {
        spec.replicas = 2;
        let (one, two) = (run(&spec, &asks), run(&spec, &asks));
        prop_assert_eq!(one.by_id, two.by_id);
        prop_assert_eq!(one.rows, two.rows);
        prop_assert_eq!(one.totals, two.totals);
    }

    #[test]
    fn every_request_has_one_outcome_whatever_the_limits(
        asks in asks(), mut spec in specs(), timeout in 1u64..100, queue in 0u32..5, seconds in 0.001f64..0.2,
        replicas in 1u32..4,
    ) {
        spec.replicas = replicas;
        spec.limits.request_timeout_ms = Some(timeout);
        spec.limits.max_queue = Some(queue);
        spec.limits.max_sim_seconds = seconds;
        let ran = run(&spec, &asks);
        prop_assert!(outcomes_add_up(&ran));
        for kept in &ran.by_id {
            let last = kept.last.unwrap_or(kept.ended_at);
            prop_assert!(kept.ended_at >= last && kept.ended_at <= kept.sent.max(timeout * 1_000_000 + kept.sent));
            prop_assert!(kept.outcome == Outcome::Ok || kept.output < asks.iter().map(|a| a.answer).max().unwrap());
            prop_assert_eq!(kept.itl_max.is_some(), kept.output > 1);
        }
    }

    #[test]
    fn nobody_is_faster_in_company_than_alone(asks in asks(), mut spec in specs(), replicas in 1u32..3) {
        let asks = with_turns(&asks, run(&spec, &asks).totals.end.0);
        spec.replicas = replicas;
        let (company, alone) = (run(&spec, &asks), run_in(&spec, &asks, Service::Uncontended));
        for (shared, single) in company.by_id.iter().zip(&alone.by_id) {
            prop_assert_eq!(shared.outcome, single.outcome);
            prop_assert!(single.hit >= shared.hit && single.replica.is_none());
            prop_assert!(single.first <= shared.first && single.last <= shared.last, "{shared:?} {single:?}");
            prop_assert!(single.itl_max <= shared.itl_max);
        }
    }
}

#[test]
fn the_pool_is_what_a_card_leaves_after_weights_and_slots() {
    let mut spec = ClusterSpec::new(1, 0, "llama-3.1-8b-h100");
    spec.engine = sglang_cluster(1).engine;
    spec.kv = KvSpec::Memory(crate::KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 });
    let profile = spec.latency_profile().unwrap();
    let left = (80.0 * 0.9 - 2.0) * 1_073_741_824.0
        - profile.weight_bytes as f64
        - (8 * 16 * profile.lora_bytes_per_rank) as f64;
    assert_eq!(spec.kv_blocks(), Some((left / 131_072.0) as u64), "pages of one token");
    sglang(&mut spec).page_size = 64;
    assert_eq!(spec.kv_blocks(), Some((left / 131_072.0 / 64.0) as u64));
    assert_eq!((spec.engine_label().as_str(), spec.context_tokens()), ("sglang-0.5.23", 32_768));
}
