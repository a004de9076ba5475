//! Decisions under live load: the same router, a log that replays, and adapters in the shares asked for.

use crate::support::*;
use acb_live::load::{Control, LoadError, run};
use acb_routing::{PolicySpec, ReplicaSnapshot, RouterEvent, RoutingRow, replay};
use acb_types::{AdapterId, Nanos, ReplicaId};
use acb_workload::{Arrivals, Popularity, RequestSource, WorkloadSpec};
use std::collections::BTreeMap;

const POISSON: Arrivals = Arrivals::Poisson { rate_rps: 300.0 };

#[test]
fn the_log_of_a_live_run_replays_to_the_same_decisions() {
    let (one, two) = (server(script(4, 1, 16)), server(script(12, 2, 16)));
    for name in ["least_in_flight", "power_of_two", "cache_static", "sticky_session", "adapter_hash_bounded"]
    {
        let policy = PolicySpec::all().into_iter().find(|policy| policy.name() == name).unwrap();
        let spec = spec(POISSON, 80);
        let end = ran(load_by(&policy, &spec, &[&one, &two], 3));
        let adapters = catalogue(3);
        let mut again = workload(&spec, &adapters);
        let mut requests = std::iter::from_fn(|| again.take().map(|arrival| arrival.request));
        let mut rows = end.sink.routed.iter().cloned();
        let checked = replay(&policy, context(2, &adapters), &mut requests, &mut rows);
        assert_eq!(checked, Ok(80), "{name}");
        let told = |wanted: fn(&RoutingRow) -> bool| end.sink.routed.iter().filter(|row| wanted(row)).count();
        assert_eq!(told(|row| matches!(row, RoutingRow::FirstToken { .. })), 80, "{name}");
        assert_eq!(told(|row| matches!(row, RoutingRow::Finished { .. })), 80, "{name}");
        for served in &end.sink.served {
            let at = served.decision.replica.index();
            assert!(at < 2 && served.decision.adapter == served.request.required_adapter, "{name}");
        }
    }
}

#[test]
fn a_policy_decides_from_the_last_scrape_and_the_log_says_how_old_it_is() {
    let (one, two) = (server(script(4, 1, 16)), server(script(4, 1, 16)));
    let policy = PolicySpec::LoraLoadState(Default::default());
    let spec = spec(Arrivals::Constant { rate_rps: 100.0 }, 20);
    let mut load = load_by(&policy, &spec, &[&one, &two], 3);
    let (scrape, scrapes) = tokio::sync::mpsc::unbounded_channel();
    let snapshot = || ReplicaSnapshot {
        running: Some(1),
        queued: Some(0),
        gpu_adapters: Some(vec![AdapterId(0)]),
        active_adapters: Some(vec![AdapterId(0)]),
        ..ReplicaSnapshot::default()
    };
    for replica in [0, 1].map(ReplicaId) {
        scrape.send(RouterEvent::Scraped { at: Nanos::ZERO, replica, snapshot: snapshot() }).unwrap();
    }
    load.scrapes = Some(scrapes);
    let end = ran(load);
    let aged = end.sink.routed.iter().filter(|row| match row {
        RoutingRow::Decision { views, .. } => views.observed_at == [Some(Nanos::ZERO); 2],
        _ => false,
    });
    assert!(aged.count() >= 15, "all but the first decisions saw the scrapes");
    let adapters = catalogue(3);
    let mut again = workload(&spec, &adapters);
    let mut requests = std::iter::from_fn(|| again.take().map(|arrival| arrival.request));
    let checked = replay(&policy, context(2, &adapters), &mut requests, &mut end.sink.routed.iter().cloned());
    assert_eq!(checked, Ok(20));
}

#[test]
fn a_policy_that_sees_what_nobody_shows_is_refused_by_name() {
    let one = server(script(4, 1, 16));
    let blind = load_by(&PolicySpec::LoraLoadState(Default::default()), &spec(POISSON, 1), &[&one], 3);
    let refused = run(blind, Kept::default(), &Control::default()).err().unwrap();
    assert!(matches!(refused, LoadError::NoScrapes { policy: "lora_load_state", .. }), "{refused}");
    let mut short = load(&spec(POISSON, 1), &[&one]);
    short.targets.clear();
    let refused = run(short, Kept::default(), &Control::default()).err().unwrap();
    assert!(matches!(refused, LoadError::Targets { replicas: 1, targets: 0 }), "{refused}");
}

#[test]
fn adapters_are_asked_for_in_the_shares_of_the_law_and_under_their_own_names() {
    let server = server(script(1, 0, 16));
    let law = Popularity::Zipf { s: 1.0 };
    let spec =
        WorkloadSpec { popularity: Some(law), ..spec(Arrivals::Closed { users: 16, think_ms: 0.0 }, 1200) };
    let policy = PolicySpec::RoundRobin(Default::default());
    let end = ran(load_by(&policy, &spec, &[&server], 12));
    assert_eq!(end.sink.count("ok"), 1200);
    let mut at_server: BTreeMap<String, f64> = BTreeMap::new();
    server.trace().requests.into_iter().for_each(|row| *at_server.entry(row.model).or_default() += 1.0);
    let harmonic: f64 = (1..=12).map(|k| 1.0 / f64::from(k)).sum();
    let chi_square: f64 = (0..12)
        .map(|k| {
            let wanted = 1200.0 / f64::from(k + 1) / harmonic;
            let seen = at_server.get(&format!("a{k}")).copied().unwrap_or(0.0);
            (seen - wanted).powi(2) / wanted
        })
        .sum();
    // 11 degrees of freedom: 31.3 is passed by chance once in a thousand.
    assert!(chi_square < 31.3 && at_server.len() == 12, "{chi_square}: {at_server:?}");
}
