//! Laws of whole runs.

use super::bed::{Ask, Ran, adapters, ask, cluster, run, run_in, run_with, trained, vllm};
use super::fast::{asks, specs, with_turns};
use crate::jobs::Jobs;
use crate::replica::{Engine, Outputs, Replica};
use crate::rules::Rules;
use crate::{ClusterSpec, Service};
use acb_routing::{Decision, Information, PolicySpec, Reason};
use acb_types::{AdapterId, Nanos, Outcome, ReplicaId};
use proptest::prelude::*;

#[test]
fn a_request_alone_takes_the_time_that_the_profile_says() {
    let ran = run(&cluster(100), &[ask(7, 1, 100, 3)]);
    let kept = &ran.by_id[0];
    // 1 ms + 100 * 10 us + 0.5 ns * 100^2 / 2
    let first = 7 + 1_000_000 + 1_000_000 + 2_500;
    // 1 ms + 20 us + 100 ns * (101 + 102)
    let last = first + 2 * 1_020_000 + 203 * 100;
    assert_eq!((kept.admitted, kept.first, kept.last), (Some(7), Some(first), Some(last)));
    assert_eq!((kept.itl_max, kept.output, kept.outcome), (Some(1_030_200), 3, Outcome::Ok));
    assert_eq!((ran.totals.steps, ran.totals.completed, ran.totals.end.0), (3, 1, last));
}

#[test]
fn no_requests_give_totals_of_zero() {
    let ran = run(&cluster(100), &[]);
    assert_eq!(ran.totals.arrived, 0);
    assert_eq!(ran.totals.end.0, 0);
}

#[test]
fn impossible_requests_are_rejected_and_the_rest_is_served() {
    let mut spec = cluster(4);
    vllm(&mut spec).context_tokens = 200;
    let asks =
        [ask(0, 1, 199, 2), ask(0, 2, 60, 6), ask(0, 3, 60, 5), Ask { runs: vec![], ..ask(0, 0, 0, 3) }];
    let ran = run(&spec, &asks);
    let outcomes: Vec<Outcome> = ran.by_id.iter().map(|k| k.outcome).collect();
    assert_eq!(outcomes, [Outcome::Rejected, Outcome::Rejected, Outcome::Ok, Outcome::Rejected]);
    assert_eq!((ran.by_id[0].admitted, ran.by_id[0].first, ran.by_id[0].itl_max), (None, None, None));
    assert_eq!((ran.totals.arrived, ran.totals.rejected, ran.totals.completed), (4, 3, 1));
}

#[test]
fn a_full_queue_sheds() {
    let mut spec = cluster(100);
    vllm(&mut spec).max_num_seqs = 1;
    spec.limits.max_queue = Some(1);
    let ran = run(&spec, &[ask(0, 1, 16, 9), ask(1, 2, 16, 9), ask(2, 3, 16, 9)]);
    assert_eq!(ran.by_id[2].outcome, Outcome::Shed);
    assert_eq!(ran.totals.shed, 1);
}

#[test]
fn a_request_whose_time_is_up_keeps_its_tokens_and_frees_its_memory_at_the_end_of_the_step() {
    let mut spec = cluster(10);
    spec.limits.request_timeout_ms = Some(20);
    let asks = [ask(0, 1, 96, 60), ask(1, 2, 96, 5), ask(19_000_000, 3, 96, 5)];
    let ran = run(&spec, &asks);
    let (running, waiting, next) = (&ran.by_id[0], &ran.by_id[1], &ran.by_id[2]);
    assert_eq!((running.outcome, running.ended_at), (Outcome::TimedOut, 20_000_000));
    assert!(running.output > 5 && running.last.unwrap() <= 20_000_000 && running.itl_max.is_some());
    assert_eq!((waiting.outcome, waiting.first, waiting.output), (Outcome::TimedOut, None, 0));
    assert_eq!(next.outcome, Outcome::Ok);
    assert!((20_000_001..22_000_000).contains(&next.admitted.unwrap()), "{:?}", next.admitted);
}

#[test]
fn what_is_in_flight_at_the_limit_is_unfinished() {
    let mut spec = cluster(100);
    spec.limits.max_sim_seconds = 0.02;
    let ran = run(&spec, &[ask(0, 1, 16, 500), ask(1, 2, 16, 500), ask(30_000_000, 3, 16, 1)]);
    assert_eq!((ran.totals.arrived, ran.totals.unfinished, ran.totals.end.0), (2, 2, 20_000_000));
    assert!(ran.by_id[0].output > 10 && ran.by_id[0].ended_at == 20_000_000);
}

#[test]
fn requests_spread_over_replicas_and_server_rows_come_at_the_interval_and_at_the_end() {
    let mut spec = cluster(100);
    spec.replicas = 3;
    spec.server_interval_ms = 5;
    let ran = run(&spec, &[ask(0, 1, 16, 9), ask(0, 2, 16, 9), ask(0, 3, 16, 9)]);
    let replicas: Vec<u32> = ran.by_id.iter().map(|k| k.replica.unwrap().0).collect();
    assert_eq!(replicas, [0, 1, 2]);
    let times: Vec<u64> = ran.rows.iter().map(|row| row.at_ns.0).collect();
    let end = ran.totals.end.0;
    assert_eq!(times, [0, 0, 0, 5_000_000, 5_000_000, 5_000_000, end, end, end]);
    let middle = &ran.rows[3];
    assert_eq!((middle.running, middle.kv_active_bytes), (Some(1), Some(2 * 16 * 1000)));
    assert!(middle.counters.decode_tokens.unwrap() > 0);
}

#[test]
fn every_policy_gets_what_it_declares_and_serves_every_request() {
    let mut spec = cluster(200);
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

/// A replica that serves everything from time 0 and is cut short at these times; the ends of all answers.
pub fn served_with_cuts(spec: &ClusterSpec, asks: &[Ask], cuts: &[u64]) -> Vec<Option<Nanos>> {
    let catalogue = adapters(6);
    let rules = Rules::new(spec, &spec.latency_profile().unwrap(), spec.kv_blocks().unwrap(), &catalogue);
    let (mut jobs, mut replica) = (Jobs::default(), Replica::new(ReplicaId(0), &rules, 6));
    let mut ends = Vec::new();
    for (id, ask) in (0..).zip(asks) {
        let adapter = ask.adapter.map(AdapterId);
        let decision = Decision { replica: ReplicaId(0), adapter, reason: Reason::RoundRobin };
        let request = ask.arrival(id).request;
        ends.push(None);
        if !rules.rejects(&request, adapter) {
            let key = jobs.insert(request, decision, ask.answer, Nanos::ZERO);
            replica.enqueue(&mut Engine { rules: &rules, jobs: &mut jobs }, key, Nanos::ZERO);
        }
    }
    let (mut now, mut cuts) = (Nanos::ZERO, cuts.iter().peekable());
    while let Some(end) = replica.start(&mut Engine { rules: &rules, jobs: &mut jobs }, now) {
        while cuts.next_if(|&&cut| cut < now.0).is_some() {}
        now = cuts.next_if(|&&cut| cut < end.0).and_then(|&cut| replica.cut(Nanos(cut))).unwrap_or(end);
        let mut outputs = Outputs::default();
        replica.end(&mut Engine { rules: &rules, jobs: &mut jobs }, &mut outputs);
        for key in outputs.complete {
            ends[jobs[key].request.id.0 as usize] = Some(now);
        }
    }
    ends
}

fn outcomes_add_up(ran: &Ran) -> bool {
    let t = &ran.totals;
    t.arrived == t.completed + t.failed + t.shed + t.timed_out + t.unfinished + t.rejected
        && ran.by_id.len() as u64 == t.arrived
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

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
    fn the_bound_is_not_beaten_by_serving_the_same_request_from_the_base_model(asks in asks(), spec in specs()) {
        let plain: Vec<_> = asks.iter().map(|ask| Ask { adapter: None, ..ask.clone() }).collect();
        let (base, bound) = (run(&spec, &plain), run_in(&spec, &asks, Service::Uncontended));
        for (shared, single) in base.by_id.iter().zip(&bound.by_id).filter(|(_, s)| s.outcome == Outcome::Ok) {
            prop_assert!(single.first <= shared.first && single.last <= shared.last, "{shared:?} {single:?}");
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
