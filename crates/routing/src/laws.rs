//! Laws that hold for every policy, tried on random stories of dispatches and events.

use crate::testing::{context, finished, prompt, request, scraped};
use crate::{
    Decision, DynamoCostSpec, EppWeightedSpec, Information, PolicySpec, ReplicaSnapshot, Router,
    RouterContext, RouterEvent, RoutingError, RoutingRow, SeedMode, SeedScoreSpec, SpecialistsSpec, replay,
};
use acb_types::*;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// One thing that happens in a story.
#[derive(Clone, Debug)]
enum Step {
    Dispatch(Request),
    /// The first token of one of those in flight, counted from the oldest, around the end.
    FirstToken(usize),
    Finished(usize),
    Scraped(u32, ReplicaSnapshot),
}

/// What of the story the router is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Everything,
    NoScrapes,
    Dispatches,
}

struct Played {
    decisions: Vec<Decision>,
    rows: Vec<RoutingRow>,
    router: Router,
    in_flight: Vec<RequestId>,
}

fn play(spec: &PolicySpec, context: RouterContext, story: &[Step], told: Told) -> Played {
    let rows = Arc::new(Mutex::new(Vec::new()));
    let log = rows.clone();
    let router = Router::new(spec, context).unwrap();
    let mut router = router.with_log(Box::new(move |row| log.lock().unwrap().push(row.clone())));
    let (mut decisions, mut in_flight) = (Vec::new(), Vec::new());
    for (at, step) in (0..).map(|ms| Nanos::from_millis(3 * ms)).zip(story) {
        match step {
            Step::Dispatch(request) => {
                decisions.push(router.dispatch(at, request));
                in_flight.push(request.id);
            }
            Step::Scraped(replica, snapshot) => {
                if told == Told::Everything {
                    let replica = replica % router.state().replicas.len() as u32;
                    router.apply(&scraped(at, replica, snapshot.clone()));
                }
            }
            _ if told == Told::Dispatches || in_flight.is_empty() => {}
            Step::FirstToken(nth) => {
                let request = in_flight[nth % in_flight.len()];
                router.apply(&RouterEvent::FirstToken { at, request });
            }
            Step::Finished(nth) => {
                let request = in_flight.remove(nth % in_flight.len());
                router.apply(&RouterEvent::Finished { at, request });
            }
        }
    }
    let rows = std::mem::take(&mut *rows.lock().unwrap());
    Played { decisions, rows, router, in_flight }
}

fn requests(story: &[Step]) -> Vec<Request> {
    let requests = story.iter().filter_map(|step| match step {
        Step::Dispatch(request) => Some(request.clone()),
        _ => None,
    });
    requests.collect()
}

prop_compose! {
    fn any_request()(
        task in 0u32..4, session in 0u64..6, party in 0u32..3, shared in 0u64..4, tokens in 1u32..400,
        salt in proptest::option::weighted(0.2, 0u64..2), required in proptest::option::weighted(0.1, 0u32..5),
    ) -> Request {
        let mut made = request(0, task, 1);
        made.session = SessionId(session);
        made.tenant = TenantId(party);
        made.trust_group = TrustGroupId(party / 2);
        made.prompt = prompt(&[(shared, 64), (100 + session, tokens)]);
        made.cache_salt = salt;
        made.required_adapter = required.map(AdapterId);
        made
    }
}

fn any_adapters() -> impl Strategy<Value = Option<Vec<AdapterId>>> {
    proptest::option::of(proptest::sample::subsequence((0..5).map(AdapterId).collect::<Vec<_>>(), 0..=5))
}

prop_compose! {
    fn any_snapshot()(
        running in proptest::option::of(0u32..300), pending in proptest::option::of(0u64..20_000),
        gpu in any_adapters(), cpu in any_adapters(), active in any_adapters(),
    ) -> ReplicaSnapshot {
        ReplicaSnapshot {
            running,
            queued: running,
            pending_prefill_tokens: pending,
            free_kv_tokens: pending,
            gpu_adapters: gpu,
            cpu_adapters: cpu,
            active_adapters: active,
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any_request().prop_map(Step::Dispatch),
        2 => (0usize..50).prop_map(Step::FirstToken),
        3 => (0usize..50).prop_map(Step::Finished),
        2 => (0u32..8, any_snapshot()).prop_map(|(r, s)| Step::Scraped(r, s)),
    ]
}

fn any_story() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any_step(), 1..80).prop_map(|mut story| {
        let mut id = 0;
        for step in &mut story {
            if let Step::Dispatch(request) = step {
                request.id = RequestId(id);
                id += 1;
            }
        }
        story
    })
}

/// Every policy with its defaults, and those with modes in each mode.
fn policies() -> Vec<PolicySpec> {
    let modes = [
        SeedMode::CacheAware,
        SeedMode::Semantic,
        SeedMode::StickySession,
        SeedMode::Oracle,
        SeedMode::Multitask,
        SeedMode::Base,
    ];
    let mut all = PolicySpec::all();
    all.extend(modes.map(|mode| PolicySpec::SeedScore(SeedScoreSpec { mode, ..Default::default() })));
    let true_state = SpecialistsSpec { scrape_interval_ms: 0.0, ..Default::default() };
    all.push(PolicySpec::Specialists(true_state));
    all.push(PolicySpec::DynamoCost(DynamoCostSpec { temperature: 0.5, ..Default::default() }));
    all.push(PolicySpec::EppWeighted(EppWeightedSpec { lora_weight: 1.0, ..Default::default() }));
    all
}

fn any_policy() -> impl Strategy<Value = PolicySpec> {
    policy_that(|_| true)
}

fn policy_that(sees: impl Fn(Information) -> bool) -> impl Strategy<Value = PolicySpec> {
    let kept: Vec<_> = policies().into_iter().filter(|spec| sees(spec.information())).collect();
    proptest::sample::select(kept)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_policy_stays_in_the_cluster_and_respects_the_required_adapter(
        spec in any_policy(), story in any_story(), replicas in 1u32..70
    ) {
        let played = play(&spec, context(replicas), &story, Told::Everything);
        for (request, decision) in requests(&story).iter().zip(&played.decisions) {
            prop_assert!(decision.replica.0 < replicas);
            prop_assert!(decision.adapter.is_none_or(|a| a.0 < 5));
            if let Some(required) = request.required_adapter {
                prop_assert_eq!(decision.adapter, Some(required));
            }
        }
    }

    #[test]
    fn the_same_seed_and_events_give_the_same_decisions(spec in any_policy(), story in any_story()) {
        let first = play(&spec, context(5), &story, Told::Everything);
        let again = play(&spec, context(5), &story, Told::Everything);
        prop_assert_eq!(first.decisions, again.decisions);
        prop_assert_eq!(first.rows, again.rows);
    }

    #[test]
    fn a_log_read_back_from_its_lines_replays_to_the_same_decisions(
        spec in any_policy(), story in any_story()
    ) {
        let played = play(&spec, context(3), &story, Told::Everything);
        let lines = played.rows.iter().map(|row| serde_json::to_string(row).unwrap());
        let mut rows = lines.map(|line| serde_json::from_str::<RoutingRow>(&line).unwrap());
        let checked = replay(&spec, context(3), &mut requests(&story).into_iter(), &mut rows);
        prop_assert_eq!(checked, Ok(played.decisions.len() as u64));
    }

    #[test]
    fn a_tampered_decision_is_found_and_named(
        spec in any_policy(), story in any_story(), which in any::<prop::sample::Index>()
    ) {
        let mut rows = play(&spec, context(3), &story, Told::Everything).rows;
        let decided: Vec<usize> =
            (0..rows.len()).filter(|&i| matches!(rows[i], RoutingRow::Decision { .. })).collect();
        prop_assume!(!decided.is_empty());
        let at = decided[which.index(decided.len())];
        let RoutingRow::Decision { request: tampered, decision, .. } = &mut rows[at] else { unreachable!() };
        decision.replica = ReplicaId((decision.replica.0 + 1) % 3);
        let tampered = *tampered;
        let found = replay(&spec, context(3), &mut requests(&story).into_iter(), &mut rows.into_iter());
        match found {
            Err(RoutingError::DecisionDiffers { row, request, .. }) => {
                prop_assert_eq!((row, request), (at as u64 + 1, tampered));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn with_one_replica_it_is_always_that_one(spec in any_policy(), story in any_story()) {
        let played = play(&spec, context(1), &story, Told::Everything);
        prop_assert!(played.decisions.iter().all(|d| d.replica == ReplicaId(0)));
    }

    #[test]
    fn a_policy_that_declares_no_scrapes_decides_the_same_without_them(
        spec in policy_that(|sees| !sees.sees_scrapes()), story in any_story()
    ) {
        let told = play(&spec, context(4), &story, Told::Everything);
        let untold = play(&spec, context(4), &story, Told::NoScrapes);
        prop_assert_eq!(told.decisions, untold.decisions);
        prop_assert!(told.router.state().replicas.iter().all(|view| view.scraped.is_none()));
    }

    #[test]
    fn a_policy_that_declares_nothing_decides_the_same_whatever_happened(
        spec in policy_that(|sees| sees == Information::Nothing), story in any_story()
    ) {
        let told = play(&spec, context(4), &story, Told::Everything);
        let untold = play(&spec, context(4), &story, Told::Dispatches);
        prop_assert_eq!(told.decisions, untold.decisions);
    }

    #[test]
    fn only_the_oracle_changes_with_the_truth(
        spec in policy_that(|sees| sees != Information::Truth), story in any_story(), seed: u64
    ) {
        let mut other = context(4);
        let table = QualityTable::from_fn(4, 5, |t, a| Seed(seed).unit(u64::from(t.0) * 6 + a.map_or(5, |a| a.0.into())));
        other.truth = Some(Outcomes::new(table.unwrap(), Seed(seed)));
        let none = RouterContext { truth: None, ..context(4) };
        let decided = play(&spec, context(4), &story, Told::Everything).decisions;
        prop_assert_eq!(&play(&spec, other, &story, Told::Everything).decisions, &decided);
        prop_assert_eq!(&play(&spec, none, &story, Told::Everything).decisions, &decided);
    }

    #[test]
    fn the_views_count_exactly_what_is_in_flight(spec in any_policy(), story in any_story()) {
        let played = play(&spec, context(3), &story, Told::Everything);
        let views = &played.router.state().replicas;
        let mut expected = vec![std::collections::BTreeMap::new(); 3];
        for (request, decision) in requests(&story).iter().zip(&played.decisions) {
            if played.in_flight.contains(&request.id) {
                *expected[decision.replica.index()].entry(decision.adapter).or_insert(0) += 1;
            }
        }
        for (view, expected) in views.iter().zip(expected) {
            prop_assert_eq!(view.in_flight, expected.values().sum::<u32>());
            prop_assert_eq!(&view.in_flight_by_adapter, &expected.into_iter().collect::<Vec<_>>());
            prop_assert!(view.unscraped_prefill_tokens <= view.pending_prefill_tokens);
            prop_assert!(view.in_flight > 0 || view.pending_prefill_tokens == 0);
        }
    }
}

#[test]
fn every_policy_is_listed_once_and_reads_back_by_its_kind_alone() {
    let schema = serde_json::to_value(schemars::schema_for!(PolicySpec)).unwrap();
    let all = PolicySpec::all();
    assert_eq!(schema["oneOf"].as_array().unwrap().len(), all.len(), "a variant is missing from all()");
    for spec in all {
        let kind = serde_json::json!({ "kind": spec.name() });
        assert_eq!(serde_json::from_value::<PolicySpec>(kind).unwrap(), spec);
        let typo = serde_json::json!({ "kind": spec.name(), "no_such_parameter": 1 });
        assert!(serde_json::from_value::<PolicySpec>(typo).is_err(), "{}", spec.name());
        let router = Router::new(&spec, context(2)).unwrap();
        assert_eq!((router.policy_name(), router.information()), (spec.name(), spec.information()));
        assert!(!spec.summary().is_empty());
    }
}

#[test]
fn on_an_idle_cluster_ties_go_to_the_lowest_id() {
    for spec in policies() {
        let by_chance = matches!(
            spec,
            PolicySpec::Random(_)
                | PolicySpec::PowerOfTwo(_)
                | PolicySpec::AdapterHashBounded(_)
                | PolicySpec::ProductionStackPrefix(_)
                | PolicySpec::AibrixPrefix(_)
                | PolicySpec::StaticPartition(_)
                | PolicySpec::EppWeighted(_)
                | PolicySpec::DynamoCost(_)
                | PolicySpec::LoraLoadState(_)
        );
        if !by_chance {
            let decision = Router::new(&spec, context(9)).unwrap().dispatch(Nanos::ZERO, &request(0, 1, 50));
            assert_eq!(decision.replica, ReplicaId(0), "{}", spec.name());
        }
    }
}

#[test]
fn the_oracle_changes_with_the_truth() {
    let oracle = PolicySpec::Oracle(Default::default());
    let chosen = |right: Option<AdapterId>| {
        let table = QualityTable::from_fn(4, 5, |_, adapter| f64::from(u8::from(adapter == right))).unwrap();
        let context = RouterContext { truth: Some(Outcomes::new(table, Seed(1))), ..context(2) };
        Router::new(&oracle, context).unwrap().dispatch(Nanos::ZERO, &request(0, 0, 10)).adapter
    };
    assert_eq!(chosen(Some(AdapterId(3))), Some(AdapterId(3)));
    assert_eq!(chosen(None), None);
}

#[test]
fn a_log_that_lacks_rows_does_not_replay() {
    let spec = PolicySpec::LeastInFlight(Default::default());
    let story = [Step::Dispatch(request(0, 0, 10)), Step::Finished(0), Step::Dispatch(request(1, 0, 10))];
    let rows = play(&spec, context(2), &story, Told::Everything).rows;
    let check = |rows: Vec<RoutingRow>| {
        replay(&spec, context(2), &mut requests(&story).into_iter(), &mut rows.into_iter())
    };
    let without = |at: usize| {
        let mut rows = rows.clone();
        rows.remove(at);
        check(rows)
    };
    assert_eq!(check(rows.clone()), Ok(2));
    assert_eq!(without(0), Err(RoutingError::NotInFlight { row: 1, request: RequestId(0) }));
    assert_eq!(without(1), Err(RoutingError::ViewsDiffer { row: 2, request: RequestId(1) }));
    let twice = vec![rows[0].clone(), rows[0].clone()];
    assert_eq!(check(twice), Err(RoutingError::AlreadyInFlight { row: 2, request: RequestId(0) }));
    let no_workload = replay(&spec, context(2), &mut std::iter::empty(), &mut rows.into_iter());
    assert_eq!(no_workload, Err(RoutingError::UnknownRequest { row: 1, request: RequestId(0) }));
}

#[test]
fn an_impossible_context_is_refused() {
    let spec = PolicySpec::Random(Default::default());
    let refused = |context: RouterContext| Router::new(&spec, context).err().unwrap();
    assert_eq!(refused(RouterContext { replicas: 0, ..context(1) }), RoutingError::NoReplicas);
    let mut negative = context(1);
    negative.costs.step_ms = -1.0;
    assert!(refused(negative).to_string().starts_with("costs: step_ms is -1"));
    let mut blockless = context(1);
    blockless.prefix.block_tokens = 0;
    assert!(refused(blockless).to_string().contains("block_tokens"));
    let blind = RouterContext { truth: None, ..context(1) };
    let oracle = Router::new(&PolicySpec::Oracle(Default::default()), blind);
    assert_eq!(oracle.err(), Some(RoutingError::NoTruth));
}

#[test]
fn an_impossible_parameter_is_named_before_anything_is_built() {
    let refused = |spec: serde_json::Value| {
        serde_json::from_value::<PolicySpec>(spec).unwrap().check().unwrap_err().to_string()
    };
    let cases = [
        (
            serde_json::json!({"kind": "specialists", "scrape_interval_ms": -5.0}),
            "specialists: scrape_interval_ms is -5, which is not from 0 to 1e12",
        ),
        (
            serde_json::json!({"kind": "sticky_session", "suits_at_prior": 1.5}),
            "sticky_session: suits_at_prior is 1.5, which is not between 0 and 1",
        ),
        (
            serde_json::json!({"kind": "adapter_hash_bounded", "load_factor": 0.5}),
            "adapter_hash_bounded: load_factor is 0.5, which is not a finite number of at least 1",
        ),
        (
            serde_json::json!({"kind": "adapter_hash_bounded", "ring_points": 0}),
            "adapter_hash_bounded: ring_points is 0, which is not at least 1",
        ),
        (
            serde_json::json!({"kind": "static_partition", "replicas_per_adapter": 0}),
            "static_partition: replicas_per_adapter is 0, which is not at least 1",
        ),
        (
            serde_json::json!({"kind": "sglang_cache_aware", "cache_threshold": 30.0}),
            "sglang_cache_aware: cache_threshold is 30, which is not between 0 and 1",
        ),
        (
            serde_json::json!({"kind": "lora_load_state", "placement_bonus": 0.05, "headroom_bonus": 0.05}),
            "lora_load_state: placement_bonus and headroom_bonus together is 0.1, which is not at most 0.09",
        ),
        (
            serde_json::json!({"kind": "preble_e2", "rebalance_ratio": 0.5}),
            "preble_e2: rebalance_ratio is 0.5, which is not a finite number of at least 1",
        ),
    ];
    for (spec, message) in cases {
        assert_eq!(refused(spec), message);
    }
    let infinite = SeedScoreSpec { beta: f64::INFINITY, ..Default::default() };
    assert!(PolicySpec::SeedScore(infinite).check().unwrap_err().to_string().contains("beta is inf"));
    assert!(PolicySpec::all().iter().all(|spec| spec.check().is_ok()));
}

#[test]
#[should_panic(expected = "dispatched while in flight")]
fn a_request_is_not_dispatched_twice() {
    let mut router = Router::new(&PolicySpec::Random(Default::default()), context(2)).unwrap();
    router.dispatch(Nanos::ZERO, &request(0, 0, 10));
    router.dispatch(Nanos::ZERO, &request(0, 0, 10));
}

#[test]
#[should_panic(expected = "not in flight")]
fn an_event_about_a_stranger_is_our_bug() {
    Router::new(&PolicySpec::Random(Default::default()), context(2)).unwrap().apply(&finished(7));
}
