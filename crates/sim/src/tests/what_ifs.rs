//! What no runtime does, by hand; and what a scrape shows of adapters.

use super::bed::{
    Ask, Keep, List, Ran, adapters, ask, cluster, router, run, run_with, sglang_cluster, trained, vllm,
};
use super::fast::{asks, specs};
use crate::{
    Alora, Cluster, ClusterSpec, KvMemory, KvSpec, MergedReplica, Refusal, Run, ScrapeShows, Service,
    Stepped, Submission, WhatIf,
};
use acb_routing::{LeastInFlightSpec, LoraLoadStateSpec, PolicySpec, ReplicaSnapshot, RoutingRow};
use acb_types::{AdapterId, Nanos, Outcome, ReplicaId};
use acb_workload::Arrival;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const A: u32 = 0;
const B: u32 = 1;
const SECOND: u64 = 1_000_000_000;

fn hits(spec: &ClusterSpec, asks: &[Ask]) -> Vec<u32> {
    run(spec, asks).by_id.iter().map(|kept| kept.hit.unwrap()).collect()
}

/// The same 100 tokens, a request a second.
fn text(second: u64) -> Ask {
    ask(second * SECOND, 1, 100, 1)
}

fn alora(invocation_tokens: u32) -> ClusterSpec {
    let mut spec = cluster(1000);
    vllm(&mut spec).max_loras = 4;
    spec.what_if.alora = Some(Alora { invocation_tokens });
    spec
}

#[test]
fn blocks_that_end_before_the_invocation_are_shared_with_base_and_all_adapters() {
    let asks = [text(0), text(1).with(A), text(2).with(B), text(3).with(A), text(4)];
    // 80 tokens before the invocation are five blocks; the sixth is each adapter's own.
    assert_eq!(hits(&alora(20), &asks), [0, 80, 80, 96, 96]);
    assert_eq!(hits(&alora(21), &asks), [0, 64, 64, 96, 96], "a block with one token after it is not shared");
    assert_eq!(hits(&alora(100), &asks), [0, 0, 0, 96, 96]);
    assert_eq!(hits(&alora(1000), &asks), [0, 0, 0, 96, 96], "a shorter prompt is all the adapter's");
    let mut plain = alora(20);
    plain.what_if.alora = None;
    assert_eq!(hits(&plain, &asks), [0, 0, 0, 96, 96]);
}

#[test]
fn base_finds_what_an_adapters_prompt_computed_before_its_invocation() {
    assert_eq!(hits(&alora(20), &[text(0).with(A), text(1)]), [0, 80]);
    let salted = [text(0).with(A).salted(1), text(1).salted(1), text(2), text(3).salted(2)];
    assert_eq!(hits(&alora(20), &salted), [0, 80, 0, 0], "a salt still keeps trust groups apart");
}

#[test]
fn a_later_turn_computes_again_what_an_adapter_wrote_before_its_new_invocation() {
    let turn = Ask { runs: vec![(1, 100), (2, 60)], ..text(1) };
    // The first five blocks are base's; the sixth was adapted in the first turn and is not in the second.
    assert_eq!(hits(&alora(20), &[text(0).with(A), turn.with(A)]), [0, 80]);
}

#[test]
fn only_tokens_from_the_invocation_on_cost_what_an_adapter_costs() {
    let first = |spec: &ClusterSpec| run(spec, &[text(0).with(A)]).by_id[0].first.unwrap();
    let mut plain = alora(20);
    plain.what_if.alora = None;
    // 1.7 us for each of 80 tokens.
    assert_eq!(first(&plain) - first(&alora(20)), 136_000);
    // In chunks of 50, 30 of the second chunk come before the invocation.
    let mut chunked = alora(20);
    let cut = |spec: &mut ClusterSpec| (vllm(spec).max_num_seqs, vllm(spec).max_num_batched_tokens) = (1, 50);
    cut(&mut chunked);
    cut(&mut plain);
    assert_eq!(first(&plain) - first(&chunked), 136_000);
}

/// Replica 0 has a0 merged into its weights, replica 1 serves everything.
fn one_merged() -> ClusterSpec {
    let mut spec = cluster(1000);
    spec.replicas = 2;
    spec.what_if.merged = vec![MergedReplica { replica: 0, adapter: "a0".to_owned() }];
    spec
}

fn places(ran: &Ran) -> Vec<u32> {
    ran.by_id.iter().map(|kept| kept.replica.unwrap().0).collect()
}

#[test]
fn a_merged_adapter_costs_what_base_costs_and_is_never_loaded() {
    let ran = run(&one_merged(), &[text(0).with(A), text(5), text(9).with(A)]);
    assert_eq!(places(&ran), [0, 1, 0]);
    let took = |at: usize| ran.by_id[at].first.unwrap() - ran.by_id[at].sent;
    assert_eq!(
        (took(0), ran.by_id[0].load, ran.by_id[0].decision.adapter),
        (took(1), None, Some(AdapterId(A)))
    );
    assert_eq!(ran.by_id[2].hit, Some(96), "it finds its own prefix again");
    let row = |replica: u32| ran.rows.iter().rev().find(|row| row.replica == ReplicaId(replica)).unwrap();
    assert_eq!((row(0).gpu_adapters.as_deref(), row(0).adapter_gpu_bytes), (Some(&[][..]), Some(0)));
}

#[test]
fn a_merged_replica_keeps_for_kv_what_others_set_aside_for_slots() {
    let mut spec = one_merged();
    vllm(&mut spec).max_loras = 4;
    spec.kv = KvSpec::Memory(KvMemory { gpu_gib: 0.1, utilization: 1.0, overhead_gib: 0.0 });
    let ran = run(&spec, &[text(0).with(A)]);
    let total = |replica: usize| ran.rows[replica].kv_total_bytes.unwrap();
    // Four slots of rank 16 at 125,000 bytes a rank, in blocks of 16 tokens of 1,000 bytes.
    assert_eq!((total(0) - total(1)).div_ceil(16_000), 500);
}

#[test]
fn requests_pass_over_a_replica_that_cannot_serve_them_and_spread_over_those_that_can() {
    let at = |n: u64, adapter| Ask { adapter, ..ask(n, n, 20, 50) };
    let ran = run(&one_merged(), &[at(0, None), at(1, None), at(2, Some(A)), at(3, Some(B)), at(4, Some(A))]);
    assert_eq!(places(&ran), [1, 1, 0, 1, 0]);
    assert_eq!(ran.totals.completed, 5);
}

#[test]
fn what_is_sent_to_a_replica_that_cannot_serve_it_is_rejected() {
    let asks = [text(0), text(1).with(B), text(2).with(A)];
    let ran = run_with(
        &one_merged(),
        &asks,
        (adapters(6), PolicySpec::RoundRobin(Default::default())),
        Service::Contended,
    );
    let outcomes: Vec<Outcome> = ran.by_id.iter().map(|kept| kept.outcome).collect();
    assert_eq!(outcomes, [Outcome::Rejected, Outcome::Ok, Outcome::Ok]);
}

#[test]
fn a_merged_replica_of_sglang_runs_without_slots() {
    let mut spec = sglang_cluster(10_000);
    spec.what_if.merged = one_merged().what_if.merged;
    let ran = run(&spec, &[text(0).with(A), text(1).with(A), text(2)]);
    let outcomes: Vec<Outcome> = ran.by_id.iter().map(|kept| kept.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Ok, Outcome::Rejected]);
    assert_eq!((ran.by_id[0].load, ran.by_id[1].hit), (None, Some(99)));
}

#[test]
fn a_stepped_replica_with_a_merged_adapter_takes_in_nothing_else() {
    let cluster = Cluster::new(&one_merged(), adapters(6)).unwrap();
    let mut stepped = Stepped::new(&cluster, ReplicaId(0));
    let mut submit = |id: u64, adapter: Option<u32>| {
        let Arrival { request, truth } = ask(0, id, 20, 3).arrival(id);
        let adapter = adapter.map(AdapterId);
        let submission = Submission { request, adapter, output_tokens: truth.output_tokens };
        stepped.submit(Nanos::ZERO, submission, &mut Vec::new())
    };
    assert_eq!(submit(0, None), Err(Refusal::Impossible));
    assert_eq!(submit(1, Some(B)), Err(Refusal::Impossible));
    assert_eq!(submit(2, Some(A)), Ok(()));
    stepped.advance(Nanos(SECOND), &mut Vec::new());
    assert_eq!((stepped.in_flight(), stepped.row().counters.adapter_loads_disk), (0, Some(0)));
}

#[test]
fn specialists_send_nobody_where_it_cannot_be_served() {
    let mut spec = one_merged();
    spec.replicas = 3;
    let asks: Vec<Ask> = (0..60).map(|n| ask(n * 2_000_000, n % 7, 100, 20)).collect();
    let policy = PolicySpec::Specialists(Default::default());
    let ran = run_with(&spec, &asks, (trained(), policy), Service::Contended);
    assert_eq!(ran.totals.completed, 60);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_merged_replicas_every_request_has_one_outcome_and_only_servable_ones_are_served(
        asks in asks(), mut spec in specs(), merged in prop::collection::btree_map(0u32..3, 0u32..5, 1..3),
    ) {
        spec.replicas = 3;
        spec.what_if.merged = merged.iter().map(|(&replica, adapter)| {
            MergedReplica { replica, adapter: format!("a{adapter}") }
        }).collect();
        for policy in [PolicySpec::RoundRobin(Default::default()), PolicySpec::LeastInFlight(Default::default())] {
            let careful = policy.name() == "least_in_flight";
            let ran = run_with(&spec, &asks, (adapters(6), policy), Service::Contended);
            prop_assert_eq!(ran.totals.arrived, ran.totals.completed + ran.totals.rejected);
            let fits = run_with(&ClusterSpec { what_if: WhatIf::default(), ..spec.clone() }, &asks,
                (adapters(6), PolicySpec::LeastInFlight(Default::default())), Service::Contended);
            for (kept, plain) in ran.by_id.iter().zip(&fits.by_id) {
                let only = merged.get(&kept.replica.unwrap().0);
                let servable = only.is_none_or(|&only| kept.decision.adapter == Some(AdapterId(only)));
                prop_assert!(servable || kept.outcome == Outcome::Rejected);
                prop_assert!(!careful || servable, "one replica serves everything");
                prop_assert!(kept.outcome == plain.outcome || !servable);
            }
        }
    }
}

/// What the router is shown at each scrape.
fn scrapes(spec: &ClusterSpec, asks: &[Ask], policy: &PolicySpec) -> Vec<ReplicaSnapshot> {
    let catalogue = adapters(6);
    let cluster = Cluster::new(spec, catalogue.clone()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mut router = router(spec, &catalogue, policy).with_log(Box::new(move |row| {
        if let RoutingRow::Scraped { snapshot, .. } = row {
            log.lock().unwrap().push(snapshot.clone());
        }
    }));
    let (mut source, mut sink) = (List::new(asks), Keep::default());
    let mode = Service::Contended;
    Run { cluster: &cluster, source: &mut source, router: &mut router, sink: &mut sink, mode }.run().unwrap();
    let seen = seen.lock().unwrap();
    seen.clone()
}

fn every(scrape_interval_ms: f64) -> PolicySpec {
    PolicySpec::LoraLoadState(LoraLoadStateSpec { scrape_interval_ms, ..Default::default() })
}

#[test]
fn a_scrape_of_vllm_lists_adapters_in_flight_waiting_ones_too_and_no_idle_resident() {
    let mut spec = cluster(1000);
    vllm(&mut spec).max_cpu_loras = Some(3);
    // a2 ends and stays in the slot; a0 takes it; a1 waits for it.
    let asks =
        [ask(0, 1, 20, 1).with(2), ask(200_000_000, 2, 20, 200).with(A), ask(210_000_000, 3, 20, 2).with(B)];
    let at = |seen: &[ReplicaSnapshot], n: usize| {
        let ids =
            |list: &Option<Vec<AdapterId>>| list.as_ref().map(|l| l.iter().map(|a| a.0).collect::<Vec<_>>());
        (ids(&seen[n].active_adapters), ids(&seen[n].gpu_adapters), ids(&seen[n].cpu_adapters))
    };
    let released = scrapes(&spec, &asks, &every(100.0));
    assert_eq!(at(&released, 1), (Some(vec![]), None, None), "a2 is loaded and idle: nobody says so");
    assert_eq!(at(&released, 3), (Some(vec![0, 1]), None, None), "a1 waits, and is listed like a0");
    spec.scrape = ScrapeShows::Residency;
    let proposed = scrapes(&spec, &asks, &every(100.0));
    assert_eq!(at(&proposed, 1), (Some(vec![]), Some(vec![2]), Some(vec![2])));
    assert_eq!(at(&proposed, 3), (Some(vec![0, 1]), Some(vec![0]), Some(vec![0, 2])));
    spec.scrape = ScrapeShows::Released;
    let truth = scrapes(&spec, &asks, &every(0.0));
    assert_eq!(at(&truth, 1), (Some(vec![]), Some(vec![2]), Some(vec![2])), "the true state hides nothing");
}

#[test]
fn a_scrape_of_sglang_names_no_adapter_whatever_it_is_asked_to_show() {
    let mut spec = sglang_cluster(10_000);
    spec.scrape = ScrapeShows::Residency;
    for interval in [0.0, 1.0] {
        let seen = scrapes(
            &spec,
            &[ask(0, 1, 20, 50).with(A), ask(Nanos::from_millis(5).0, 2, 20, 9)],
            &every(interval),
        );
        assert!(seen.len() > 1);
        assert!(seen.iter().all(|s| s.active_adapters.is_none() && s.gpu_adapters.is_none()));
    }
}

#[test]
fn a_policy_for_least_load_without_merged_replicas_decides_as_before() {
    let mut spec = one_merged();
    spec.what_if.merged.clear();
    let asks: Vec<Ask> = (0..6).map(|n| ask(n, n, 20, 50)).collect();
    let policy = PolicySpec::LeastInFlight(LeastInFlightSpec::default());
    assert_eq!(
        places(&run_with(&spec, &asks, (adapters(6), policy), Service::Contended)),
        [0, 1, 0, 1, 0, 1]
    );
}
