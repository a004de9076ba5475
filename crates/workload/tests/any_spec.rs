//! Any spec that passes its checks can be run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use acb_types::Nanos;
use acb_workload::{
    Arrivals, CountLaw, Drift, Kind, LayoutChoice, Popularity, PopularityOrder, RequestSource, WorkloadSpec,
};
use proptest::option::of;
use proptest::prelude::*;
use support::open;

/// Mostly a sensible number, sometimes an extreme or impossible one.
fn edge() -> impl Strategy<Value = f64> {
    let extremes = [0.0, -1.0, 1e-9, 1e-6, 1e6, 1e300, f64::NAN, f64::INFINITY];
    prop_oneof![8 => 1.5..50.0, 6 => 0.01..1.0, 1 => prop::sample::select(extremes.to_vec())]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![12 => 50u32..500, 2 => 1u32..50, 1 => prop::sample::select(vec![0, 1_000_000, u32::MAX])]
}

fn law() -> impl Strategy<Value = CountLaw> {
    prop_oneof![
        count().prop_map(|value| CountLaw::Fixed { value }),
        (count(), count()).prop_map(|(min, max)| CountLaw::Uniform { min, max }),
        (edge(), edge()).prop_map(|(mean, cv)| CountLaw::Lognormal { mean, cv }),
        edge().prop_map(|mean| CountLaw::Geometric { mean }),
    ]
}

fn popularity() -> impl Strategy<Value = Popularity> {
    prop_oneof![
        Just(Popularity::Uniform {}),
        Just(Popularity::Linear {}),
        edge().prop_map(|s| Popularity::Zipf { s }),
        edge().prop_map(|alpha| Popularity::SloraPower { alpha }),
        edge().prop_map(|alpha| Popularity::PunicaGeometric { alpha }),
        prop::collection::vec(edge(), 0..10).prop_map(|weights| Popularity::Weights { weights }),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        edge().prop_map(|rate_rps| Arrivals::Constant { rate_rps }),
        edge().prop_map(|rate_rps| Arrivals::Poisson { rate_rps }),
        (edge(), edge()).prop_map(|(rate_rps, cv)| Arrivals::Gamma { rate_rps, cv }),
        (edge(), edge(), edge()).prop_map(|(rate_rps, on_s, off_s)| Arrivals::OnOff {
            rate_rps,
            on_s,
            off_s
        }),
        (0u32..50, edge()).prop_map(|(users, think_ms)| Arrivals::Closed { users, think_ms }),
        edge().prop_map(|speed| Arrivals::Trace { speed }),
    ]
}

fn drift() -> impl Strategy<Value = Drift> {
    prop_oneof![
        (edge(), count()).prop_map(|(every_s, step)| Drift::Rotate { every_s, step }),
        edge().prop_map(|every_s| Drift::Reshuffle { every_s }),
    ]
}

prop_compose! {
    fn who()(kind in prop::sample::select(&Kind::ALL[..]), requests in 1u64..60, arrivals in of(arrivals()),
        sessions in of(1u32..50), turns in of(law()), think_ms in of(edge()), tenants in 5u32..50,
        trust_groups in of(1u32..10), laws in [of(popularity()), of(popularity()), of(popularity())]) -> WorkloadSpec {
        let [session_popularity, tenant_popularity, popularity] = laws;
        WorkloadSpec { requests, arrivals, sessions, turns, think_ms, tenants, trust_groups, session_popularity,
            tenant_popularity, popularity, ..WorkloadSpec::of(kind) }
    }
}

prop_compose! {
    fn any_spec()(who in who(), drift in of(drift()), stickiness in of(edge()), documents in of(0u32..50),
        document_popularity in of(popularity()), document_tokens in of(count()), fraction in of(edge()),
        lengths in [of(law()), of(law())], max_output_tokens in of(count()),
        choices in (any::<bool>(), any::<bool>())) -> WorkloadSpec {
        let [prompt_tokens, output_tokens] = lengths;
        WorkloadSpec { drift, stickiness, documents, document_popularity, document_tokens, prompt_tokens, output_tokens,
            shared_prefix_fraction: fraction, max_output_tokens,
            layout: choices.0.then_some(LayoutChoice::Both),
            popularity_order: choices.1.then_some(PopularityOrder::Shuffled), ..who }
    }
}

/// Takes away what the kind has no use for, so that more than a few specs pass.
fn useful(mut spec: WorkloadSpec) -> WorkloadSpec {
    for (pointer, message) in spec.check() {
        if message.contains("no effect") {
            match pointer.as_str() {
                "/sessions" => spec.sessions = None,
                "/session_popularity" => spec.session_popularity = None,
                "/turns" => spec.turns = None,
                "/think_ms" => spec.think_ms = None,
                "/tenant_popularity" => spec.tenant_popularity = None,
                "/trust_groups" => spec.trust_groups = None,
                "/popularity" => spec.popularity = None,
                "/popularity_order" => spec.popularity_order = None,
                "/drift" => spec.drift = None,
                "/stickiness" => spec.stickiness = None,
                "/documents" => spec.documents = None,
                "/document_popularity" => spec.document_popularity = None,
                "/document_tokens" => spec.document_tokens = None,
                "/shared_prefix_fraction" => spec.shared_prefix_fraction = None,
                "/layout" => spec.layout = None,
                "/prompt_tokens" => spec.prompt_tokens = None,
                other => panic!("{other} is not among the fields of this test"),
            }
        }
    }
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_passes_its_checks_runs_or_is_refused_with_a_reason(spec in any_spec().prop_map(useful)) {
        let sound = spec.check().is_empty();
        let Ok(mut workload) = open(&spec, 1) else { return Ok(()) };
        prop_assert!(sound, "a faulty spec was accepted");
        let (mut last, mut taken) = (Nanos::ZERO, 0);
        while let Some(due) = workload.next_due() {
            let arrival = workload.take().unwrap();
            prop_assert_eq!(arrival.request.due, due);
            prop_assert!(due >= last);
            last = due;
            taken += 1;
            workload.ended(arrival.request.id, due + Nanos::from_millis(5));
        }
        prop_assert_eq!(taken, spec.requests());
        let (prompt, output) = spec.mean_tokens();
        prop_assert!(prompt > 0.0 && output > 0.0);
    }
}
