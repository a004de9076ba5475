//! Laws of every kind of workload.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use acb_tasks::answerability;
use acb_types::{Nanos, SessionId};
use acb_workload::{Aliasing, Arrival, Axis, Kind, Structure, WorkloadSpec, sample_of};
use serde_json::json;
use std::collections::BTreeMap;
use support::{quick, run, spec};

/// A spec of every kind that needs no file, in a size that shows its laws.
fn all() -> Vec<WorkloadSpec> {
    let files = [Kind::JsonlEval, Kind::Trace];
    let kinds = Kind::ALL.into_iter().filter(|kind| !files.contains(kind));
    kinds.map(|kind| WorkloadSpec { requests: 600, ..WorkloadSpec::of(kind) }).collect()
}

#[test]
fn the_same_seed_gives_the_same_requests_and_another_seed_others() {
    for spec in all() {
        let (a, b, c) = (quick(&spec, 3), quick(&spec, 3), quick(&spec, 4));
        assert_eq!(a, b, "{:?}", spec.kind);
        let times = |list: &[Arrival]| list.iter().map(|a| a.request.due).collect::<Vec<_>>();
        let order =
            |list: &[Arrival]| list.iter().map(|a| (a.request.session, a.request.task)).collect::<Vec<_>>();
        assert_ne!(times(&a), times(&c), "{:?}: a seed changes arrivals", spec.kind);
        assert_ne!(order(&a), order(&c), "{:?}: and order", spec.kind);
    }
}

#[test]
fn every_kind_keeps_count_and_bounds() {
    for spec in all() {
        let list = quick(&spec, 5);
        assert_eq!(list.len() as u64, spec.requests(), "{:?}", spec.kind);
        let mut turns: BTreeMap<SessionId, u32> = BTreeMap::new();
        for (i, Arrival { request, truth }) in list.iter().enumerate() {
            assert_eq!((request.id.0, truth.request), (i as u64, request.id));
            assert!((1..=request.max_output_tokens).contains(&truth.output_tokens));
            assert!(request.prompt.tokens() > 0);
            assert!(request.tenant.0 < 2 && request.trust_group.0 < 2);
            let turn = turns.entry(request.session).or_default();
            assert_eq!(request.turn, *turn, "{:?}: turns of a session count up", spec.kind);
            *turn += 1;
        }
        assert!(list.windows(2).all(|w| w[0].request.due <= w[1].request.due), "{:?}", spec.kind);
        let (prompt, output) = spec.mean_tokens();
        let mean =
            |f: fn(&Arrival) -> u32| list.iter().map(|a| f64::from(f(a))).sum::<f64>() / list.len() as f64;
        let (seen, seen_out) = (mean(|a| a.request.prompt.tokens()), mean(|a| a.truth.output_tokens));
        assert!(
            (seen / prompt - 1.0).abs() < 0.1,
            "{:?}: {seen} prompt tokens, {prompt} expected",
            spec.kind
        );
        assert!(
            (seen_out / output - 1.0).abs() < 0.1,
            "{:?}: {seen_out} output tokens, {output} expected",
            spec.kind
        );
    }
}

#[test]
fn what_is_asked_does_not_depend_on_how_fast_the_arm_answers() {
    let sessions =
        json!({"kind": "agent_session", "requests": 200, "arrivals": {"kind": "poisson", "rate_rps": 20}});
    let closed = json!({"kind": "multi_lora", "requests": 200, "arrivals": {"kind": "closed", "users": 5, "think_ms": 20},
                        "turns": {"law": "uniform", "min": 1, "max": 4}});
    for spec in [spec(sessions), spec(closed)] {
        let fast = run(&spec, 2, |_| Nanos::from_millis(1));
        let slow = run(&spec, 2, |a| Nanos::from_millis(100 + 700 * (a.request.session.0 % 3)));
        let said = |list: Vec<Arrival>| -> BTreeMap<_, _> {
            let key = |a: &Arrival| (a.request.session, a.request.turn);
            list.into_iter()
                .map(|a| {
                    (
                        key(&a),
                        (a.request.tenant, a.request.task, a.request.prompt.tokens(), a.truth.output_tokens),
                    )
                })
                .collect()
        };
        let order = |list: &[Arrival]| list.iter().map(|a| a.request.session).collect::<Vec<_>>();
        assert_ne!(order(&fast), order(&slow), "the order does depend on it");
        assert_eq!(said(fast), said(slow));
    }
}

#[test]
fn a_change_of_one_thing_shifts_no_other() {
    let with = |extra: serde_json::Value| {
        let mut value = json!({"kind": "multi_lora", "requests": 400});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        quick(&spec(value), 9)
    };
    let base = with(json!({}));
    let zipf = with(json!({"popularity": {"law": "zipf", "s": 1.0}}));
    let gamma = with(json!({"arrivals": {"kind": "gamma", "rate_rps": 3, "cv": 4}}));
    for (a, b, c) in base.iter().zip(&zipf).zip(&gamma).map(|((a, b), c)| (a, b, c)) {
        assert_eq!((a.request.due, a.request.session), (b.request.due, b.request.session));
        assert_eq!((a.request.task, a.request.tenant), (c.request.task, c.request.tenant));
        assert_eq!(a.request.prompt.tokens(), b.request.prompt.tokens());
        assert_eq!(a.truth, c.truth);
    }
    assert!(base.iter().zip(&zipf).any(|(a, b)| a.request.task != b.request.task));
}

#[test]
fn a_session_belongs_to_one_tenant_and_a_tenant_to_one_trust_group() {
    let spec = spec(
        json!({"kind": "regime_uniform", "requests": 2000, "sessions": 40, "tenants": 8, "trust_groups": 3}),
    );
    let (mut tenants, mut groups) = (BTreeMap::new(), BTreeMap::new());
    for Arrival { request, .. } in quick(&spec, 1) {
        assert_eq!(*tenants.entry(request.session).or_insert(request.tenant), request.tenant);
        assert_eq!(*groups.entry(request.tenant).or_insert(request.trust_group), request.trust_group);
        assert_eq!(request.cache_salt, Some(u64::from(request.trust_group.0)));
    }
    let distinct: std::collections::BTreeSet<_> = groups.values().collect();
    assert_eq!((tenants.len(), groups.len(), distinct.len()), (40, 8, 3));
}

#[test]
fn no_axis_stands_for_another() {
    for kind in
        [Kind::ControlledOverlap, Kind::PromptLayoutAblation, Kind::RegimeUniform, Kind::RegimeZipfian]
    {
        let mut workload = WorkloadSpec { requests: 6000, sessions: Some(24), ..WorkloadSpec::of(kind) };
        workload.tenants = 4;
        let mut aliasing = Aliasing::default();
        for arrival in quick(&workload, 6) {
            aliasing.add(&arrival.request);
        }
        for pair in aliasing.finish().iter().filter(|pair| !pair.nested) {
            assert!(pair.v.is_none_or(|v| v < 0.05), "{kind:?}: {pair:?}");
        }
    }
}

#[test]
fn the_original_rotation_is_found_out_as_aliased() {
    let mut aliasing = Aliasing::default();
    let spec = spec(json!({"kind": "controlled_overlap", "requests": 480}));
    for (i, mut arrival) in quick(&spec, 6).into_iter().enumerate() {
        arrival.request.session = SessionId(i as u64 % 24);
        arrival.request.task = acb_types::TaskId(i as u32 % 4);
        aliasing.add(&arrival.request);
    }
    let pairs = aliasing.finish();
    let found = pairs.iter().find(|pair| (pair.a, pair.b) == (Axis::Session, Axis::Task)).unwrap();
    assert!(found.v.unwrap() > 0.95, "{found:?}");
    assert_eq!((found.levels_a, found.levels_b, found.n), (24, 4, 480));
}

#[test]
fn every_question_about_a_document_has_its_answer_in_the_prompt() {
    for spec in all().into_iter().filter(|spec| spec.kind.has_documents()) {
        for arrival in quick(&spec, 7).iter().step_by(13) {
            let sample = sample_of(&arrival.request).unwrap().unwrap();
            let report = answerability(&sample);
            assert!(report.answerable, "{:?}: {report:?}, gold {}", spec.kind, sample.gold);
            if arrival.request.turn == 0 || spec.kind != Kind::AgentSession {
                let tokens = acb_tasks::tokenizer::count(&sample.prompt);
                assert_eq!(tokens, u64::from(arrival.request.prompt.tokens()), "{:?}", spec.kind);
            }
        }
    }
    let lora = quick(&WorkloadSpec::of(Kind::MultiLora), 7);
    assert!(sample_of(&lora[0].request).is_none());
}

#[test]
fn controlled_overlap_shares_exactly_the_fraction() {
    for (fraction, shared) in [(0.25, 60), (0.75, 180), (0.95, 228)] {
        let spec = spec(
            json!({"kind": "controlled_overlap", "document_tokens": 240, "shared_prefix_fraction": fraction}),
        );
        let list = quick(&spec, 8);
        for pair in list.windows(2) {
            assert_eq!(pair[0].request.prompt.common_prefix(&pair[1].request.prompt), shared);
        }
    }
}

#[test]
fn a_turn_says_everything_that_was_said_before_and_waits_for_it() {
    let spec = spec(json!({"kind": "agent_session", "requests": 100, "think_ms": 10}));
    let mut last: BTreeMap<SessionId, Arrival> = BTreeMap::new();
    for arrival in quick(&spec, 9) {
        if let Some(before) = last.insert(arrival.request.session, arrival.clone()) {
            let (a, b) = (&before.request, &arrival.request);
            assert!(b.due >= a.due + Nanos::from_millis(50), "not before the answer");
            assert_eq!(b.prompt.common_prefix(&a.prompt), a.prompt.tokens());
            let answer = b.prompt.segments()[a.prompt.segments().len()];
            assert_eq!(answer.content, acb_types::ContentId::of_output(a.id));
            assert_eq!(answer.tokens, before.truth.output_tokens);
            assert_eq!((a.tenant, a.document), (b.tenant, b.document));
        }
    }
    assert_eq!(last.len(), 20, "100 requests are 20 sessions of 5 turns");
}

#[test]
fn a_conversation_stops_before_it_outgrows_the_context() {
    let spec = spec(json!({"kind": "agent_session", "requests": 50, "document_tokens": 32000,
                           "turns": {"law": "fixed", "value": 50}}));
    let list = quick(&spec, 1);
    assert_eq!(list.len(), 50);
    assert!(list.iter().all(|a| a.request.prompt.tokens() + a.request.max_output_tokens <= 32_768));
    assert!(list.iter().any(|a| a.request.turn > 2));
}

#[test]
fn the_regimes_are_what_they_say() {
    let of = |kind, requests| {
        let list = quick(&WorkloadSpec { requests, ..WorkloadSpec::of(kind) }, 10);
        let mut structure = Structure::default();
        list.iter().for_each(|a| structure.add(&a.request));
        (list, structure.finish())
    };
    let (churn, report) = of(Kind::RegimeAdversarialChurn, 500);
    assert!(churn.windows(2).all(|w| w[0].request.task != w[1].request.task), "another task every time");
    assert_eq!(report.adapter_switch_rate, Some(1.0));
    let documents: std::collections::BTreeSet<_> = churn.iter().map(|a| a.request.document).collect();
    assert_eq!(documents.len(), 500, "a new document every time");
    let (shift, _) = of(Kind::RegimePhaseShift, 400);
    for (i, Arrival { request, .. }) in shift.iter().enumerate() {
        let (task, document) = (request.task.0, request.document.unwrap().0);
        assert!(
            if i < 200 { task != 3 && document < 4 } else { task != 0 && document >= 4 },
            "{i}: {request:?}"
        );
    }
    let (_, zipfian) = of(Kind::RegimeZipfian, 4000);
    assert!((zipfian.popularity.unwrap().top1_share - 12.0 / 22.0).abs() < 0.03);
    let (_, uniform) = of(Kind::RegimeUniform, 4000);
    assert!(uniform.popularity.unwrap().n_eff > 3.9);
    let (_, low) = of(Kind::LowOverlapControl, 200);
    assert!(low.shared_prefix_reuse_ratio.unwrap() > 0.9, "instruction first shares the instruction only");
    let (bursty, report) = of(Kind::RegimeBurstySession, 1000);
    assert!(report.session_locality.unwrap() > 0.5, "{report:?}");
    assert!(bursty.iter().all(|a| a.request.turn < 8));
}

#[test]
fn a_thousand_adapters_are_asked_for_as_their_law_says() {
    let law = json!({"law": "zipf", "s": 1.0});
    let workload = json!({"kind": "multi_lora", "requests": 100_000, "popularity": law, "sessions": 500, "tenants": 300});
    let mut structure = Structure::default();
    let list = quick(&spec(workload), 11);
    list.iter().for_each(|a| structure.add(&a.request));
    let seen = structure.finish().popularity.unwrap();
    let shares = acb_workload::Popularity::Zipf { s: 1.0 }.shares(1000);
    assert!((seen.top1_share - shares[0]).abs() < 0.005, "{}", seen.top1_share);
    assert!((seen.top10_share - shares[..10].iter().sum::<f64>()).abs() < 0.01);
    assert_eq!((seen.shares.len(), seen.shares[0].0), (20, 0));
    let tenants: std::collections::BTreeSet<_> = list.iter().map(|a| a.request.tenant).collect();
    assert_eq!(tenants.len(), 300, "no tenant is left out");
}

#[test]
fn popularity_can_drift_and_be_dealt() {
    let most_asked = |list: &[Arrival]| {
        let mut counts = BTreeMap::<u32, u32>::new();
        list.iter().for_each(|a| *counts.entry(a.request.task.0).or_default() += 1);
        counts.into_iter().max_by_key(|&(_, count)| count).unwrap().0
    };
    let halves = |extra: serde_json::Value| {
        let mut value = json!({"kind": "multi_lora", "requests": 2000, "popularity": {"law": "zipf", "s": 2.0},
                               "arrivals": {"kind": "constant", "rate_rps": 100}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let list = quick(&spec(value), 12);
        (most_asked(&list[..1000]), most_asked(&list[1000..]))
    };
    assert_eq!(halves(json!({})), (0, 0));
    assert_eq!(halves(json!({"drift": {"kind": "rotate", "every_s": 10, "step": 7}})), (0, 7));
    let (a, b) = halves(json!({"drift": {"kind": "reshuffle", "every_s": 10}}));
    assert!(a == 0 && b != 0);
    let (a, b) = halves(json!({"popularity_order": "shuffled"}));
    assert!(a == b && a != 0);
}

#[test]
fn a_sticky_session_asks_again_for_what_it_asked_before() {
    let repeats = |stickiness: f64, turns: serde_json::Value| {
        let mut value = json!({"kind": "multi_lora", "requests": 4000, "stickiness": stickiness});
        value.as_object_mut().unwrap().extend(turns.as_object().unwrap().clone());
        let (mut last, mut same, mut n) = (BTreeMap::new(), 0.0, 0.0);
        for Arrival { request, .. } in quick(&spec(value), 13) {
            if let Some(before) = last.insert(request.session, request.task) {
                n += 1.0;
                same += f64::from(u8::from(before == request.task));
            }
        }
        same / n
    };
    assert!(repeats(0.0, json!({})) < 0.02);
    assert!((repeats(0.8, json!({})) - 0.8).abs() < 0.03);
    assert!((repeats(0.8, json!({"turns": {"law": "geometric", "mean": 6.0}})) - 0.8).abs() < 0.03);
}

#[test]
fn clients_name_the_specialist_of_their_task() {
    let list = quick(&spec(json!({"kind": "multi_lora", "adapter_named_by": "client"})), 14);
    assert!(list.iter().all(|a| a.request.required_adapter.unwrap().0 == a.request.task.0));
    assert!(
        quick(&spec(json!({"kind": "multi_lora"})), 14).iter().all(|a| a.request.required_adapter.is_none())
    );
}

#[test]
fn a_closed_loop_never_has_more_in_flight_than_users() {
    let spec =
        spec(json!({"kind": "shared_doc_qa", "requests": 300, "arrivals": {"kind": "closed", "users": 4}}));
    let list = run(&spec, 15, |a| Nanos::from_millis(20 + a.request.id.0 % 50));
    assert_eq!(list.len(), 300);
    for (i, arrival) in list.iter().enumerate() {
        let at = arrival.request.due;
        let end = |a: &Arrival| a.request.due + Nanos::from_millis(20 + a.request.id.0 % 50);
        let busy = list[..=i].iter().filter(|a| end(a) > at).count();
        assert!(busy <= 4, "{busy} in flight");
    }
}
