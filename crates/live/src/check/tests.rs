use super::*;
use crate::load::Rate;
use crate::testing::workload;
use acb_types::Seed;
use acb_workload::{Arrivals, RequestSource};

/// Due times of an arrival process.
fn dues(arrivals: Arrivals, n: u64) -> Vec<Nanos> {
    let mut source = workload(arrivals, n, 6);
    std::iter::from_fn(|| source.take().map(|arrival| arrival.request.due)).collect()
}

fn law(asked_rps: f64, cv: f64) -> GapLaw {
    GapLaw { rate: Some(Rate::steady(asked_rps).unwrap()), cv: Some(cv), open_loop: true }
}

/// The check of a run in which each request left as late as `lateness` says of its number and due time.
fn check(law: GapLaw, dues: &[Nanos], lateness: impl Fn(u64, Nanos) -> Nanos) -> RunCheck {
    let mut sends = Sends::new(law);
    for (number, &due) in (0..).zip(dues) {
        let sent = due + lateness(number, due);
        sends.add(&Send { number, due, sent, connecting: Nanos::ZERO, held: Held::No });
    }
    RunCheck::judge(sends.facts(), HostFacts::default(), &Thresholds::default())
}

fn kinds(check: &RunCheck) -> Vec<&'static str> {
    let kind = |fault: &Fault| match fault {
        Fault::LateSends { .. } => "late",
        Fault::Rate { .. } => "rate",
        Fault::Dispersion { .. } => "dispersion",
        Fault::GapLaw { .. } => "gaps",
        Fault::NotOpenLoop { .. } => "held",
        _ => "host",
    };
    check.faults.iter().map(kind).collect()
}

/// Exponential with this mean, by number.
fn jitter(mean_us: f64) -> impl Fn(u64, Nanos) -> Nanos {
    move |number, _| Nanos((-(1.0 - Seed(9).unit(number)).ln() * mean_us * 1e3) as u64)
}

#[test]
fn a_punctual_client_is_valid_at_200_and_1000_poisson_requests_per_second() {
    for rate_rps in [200.0, 1000.0] {
        let dues = dues(Arrivals::Poisson { rate_rps }, 8000);
        let seen = check(law(rate_rps, 1.0), &dues, jitter(30.0));
        assert!(seen.is_valid(), "{:?}", seen.faults);
        let facts = &seen.sends;
        assert!((facts.sent_rps.unwrap() / facts.due_rps.unwrap() - 1.0).abs() < 0.001);
        assert!((0.7..1.3).contains(&facts.sent_dispersion.unwrap()), "{facts:?}");
        assert!(facts.sent_gap_p.unwrap() > 0.01, "{facts:?}");
    }
}

#[test]
fn relative_sleeps_that_lengthen_every_gap_are_found_by_rate_and_lag() {
    // What two peers do: 1 ms more in each gap turns 1000 requests per second into fewer than 520.
    let dues = dues(Arrivals::Poisson { rate_rps: 1000.0 }, 5000);
    let seen = check(law(1000.0, 1.0), &dues, |number, _| Nanos((number + 1) * 1_000_000));
    assert!(seen.sends.sent_rps.unwrap() < 520.0);
    let kinds = kinds(&seen);
    assert!(["late", "rate", "gaps"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn an_event_loop_that_wakes_in_bursts_is_found_by_dispersion_and_gaps() {
    let dues = dues(Arrivals::Poisson { rate_rps: 200.0 }, 4000);
    let seen = check(law(200.0, 1.0), &dues, |_, due| Nanos(250_000_000 - due.0 % 250_000_000));
    let kinds = kinds(&seen);
    assert!(["late", "dispersion", "gaps"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert!(!kinds.contains(&"rate"), "bursts keep the rate: {kinds:?}");
}

#[test]
fn bursts_that_were_asked_for_are_no_fault() {
    let dues = dues(Arrivals::Gamma { rate_rps: 200.0, cv: 3.0 }, 8000);
    let seen = check(law(200.0, 3.0), &dues, jitter(30.0));
    assert!(seen.is_valid(), "{:?}", seen.faults);
    assert!(seen.sends.sent_dispersion.unwrap() > 3.0);
    assert_eq!(seen.sends.sent_gap_p, None, "most gaps are shorter than a send is late");
}

#[test]
fn even_gaps_are_held_to_their_spread_and_not_to_a_law() {
    let dues = dues(Arrivals::Constant { rate_rps: 100.0 }, 1000);
    let seen = check(law(100.0, 0.0), &dues, jitter(30.0));
    assert!(seen.is_valid(), "{:?}", seen.faults);
    assert_eq!(seen.sends.sent_gap_p, None);
    let uneven = check(law(100.0, 0.0), &dues, |_, due| Nanos(300_000_000 - due.0 % 300_000_000));
    assert!(kinds(&uneven).contains(&"dispersion"), "{:?}", uneven.faults);
}

#[test]
fn a_full_cap_makes_the_load_not_open_and_its_waits_are_not_the_clients_lag() {
    let mut sends = Sends::new(law(100.0, 1.0));
    for (number, &due) in (0..).zip(&dues(Arrivals::Poisson { rate_rps: 100.0 }, 1000)) {
        let late = Nanos(if number % 4 == 0 { 30_000_000 } else { 40_000 });
        let held = if number % 4 == 0 { Held::Yes } else { Held::No };
        sends.add(&Send { number, due, sent: due + late, connecting: Nanos::ZERO, held });
    }
    let host = HostFacts { max_in_flight: Some(256), never_sent: 3, ..HostFacts::default() };
    let seen = RunCheck::judge(sends.facts(), host, &Thresholds::default());
    let wanted = Fault::NotOpenLoop { held: 250, of: 1000, max_in_flight: 256, never_sent: 3 };
    assert!(seen.faults.contains(&wanted), "{:?}", seen.faults);
    assert!(seen.sends.lag_max_ns.unwrap() < Nanos(50_000), "{:?}", seen.sends);
}

#[test]
fn a_slow_handshake_is_not_the_clients_lag() {
    let mut sends = Sends::new(law(10.0, 0.0));
    let connecting = Nanos::from_millis(80);
    sends.add(&Send { number: 0, due: Nanos(5), sent: connecting + Nanos(1005), connecting, held: Held::No });
    assert_eq!(sends.facts().lag_max_ns, Some(Nanos(1000)));
}

#[test]
fn the_machine_and_the_recorder_can_spoil_a_run() {
    let sound = HostFacts {
        wall_ns: Nanos::from_secs_f64(10.0),
        threads: 1,
        cpu_ns: Nanos::from_secs_f64(2.0),
        peak_in_flight: 100,
        descriptors: Some(1024),
        ..HostFacts::default()
    };
    let faults = |host: HostFacts| {
        let facts = Sends::new(law(1.0, 1.0)).facts();
        RunCheck::judge(facts, host, &Thresholds::default()).faults
    };
    assert_eq!(faults(sound.clone()), []);
    let busy = HostFacts { cpu_ns: Nanos::from_secs_f64(9.5), ..sound.clone() };
    assert_eq!(faults(busy), [Fault::ClientCpu { share: 0.95 }]);
    let crowded = HostFacts { peak_in_flight: 1000, ..sound.clone() };
    assert!(matches!(faults(crowded)[..], [Fault::Descriptors { limit: 1024, .. }]));
    let asleep = HostFacts { slept_ns: Nanos::from_secs_f64(30.0), ..sound.clone() };
    assert!(matches!(faults(asleep)[..], [Fault::Slept { .. }]));
    let full = HostFacts { record_error: Some("no space".to_owned()), rows_lost: 3, ..sound };
    assert_eq!(faults(full), [Fault::NotRecorded { message: "no space".to_owned(), lost: 3 }]);
}

#[test]
fn a_stepped_wall_clock_is_remarked_and_spoils_nothing() {
    let host = HostFacts { clock_step_ns: -3_600_000_000_000, ..HostFacts::default() };
    let facts = Sends::new(law(1.0, 1.0)).facts();
    let seen = RunCheck::judge(facts, host, &Thresholds::default());
    assert!(seen.is_valid());
    assert!(seen.remarks.contains(&Remark::ClockStepped { by_ns: -3_600_000_000_000 }), "{:?}", seen.remarks);
}

#[test]
fn due_times_start_with_the_run_and_their_gaps_differ() {
    let dues = dues(Arrivals::Poisson { rate_rps: 500.0 }, 3000);
    let mut gaps: Vec<u64> = dues.windows(2).map(|w| w[1].since(w[0]).0).collect();
    assert!(dues[0] < Nanos::from_secs_f64(1.0) && *dues.last().unwrap() < Nanos::from_secs_f64(10.0));
    gaps.sort_unstable();
    gaps.dedup();
    assert!(gaps.len() > 2990, "{} distinct gaps of 2999", gaps.len());
}

/// Constant 50 requests per second for 20 s, 10 ms of service, a server that stands still from 5 s to 7 s.
fn frozen(due: Nanos) -> Nanos {
    let (freeze, thaw) = (Nanos::from_secs_f64(5.0), Nanos::from_secs_f64(7.0));
    let service = Nanos::from_millis(10);
    if due + service > freeze && due < thaw { thaw + service } else { due + service }
}

#[test]
fn latency_from_the_due_time_shows_a_frozen_server_that_a_capped_client_hides() {
    let dues = dues(Arrivals::Constant { rate_rps: 50.0 }, 1000);
    let mut from_due: Vec<f64> = dues.iter().map(|&due| frozen(due).since(due).as_secs_f64()).collect();
    from_due.sort_by(f64::total_cmp);
    let at = |q: f64| acb_stats::quantile_inverted(&from_due, q).unwrap();
    assert!(at(0.9) < 0.02, "{}", at(0.9));
    assert!((at(0.95) - 1.0).abs() < 0.05, "{}", at(0.95));
    assert!((at(0.99) - 1.8).abs() < 0.05, "{}", at(0.99));
    assert!((at(1.0) - 2.0).abs() < 0.05, "{}", at(1.0));
    // With eight places the others leave after the thaw and look quick when they are timed from their sending.
    let mut places = [Nanos::ZERO; 8];
    let slow = dues
        .iter()
        .filter(|&&due| {
            let place = places.iter_mut().min().unwrap();
            let sent = due.max(*place);
            *place = frozen(sent);
            place.since(sent) > Nanos::from_millis(100)
        })
        .count();
    assert_eq!(slow, 8);
}
