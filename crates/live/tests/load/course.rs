//! What is sent when, how a run ends, and that nothing is lost.

use crate::support::*;
use acb_fake::shapes::{Fault as ServerFault, Script, ShapeOptions};
use acb_live::check::{Fault, Remark};
use acb_live::load::{Control, Limits, Phase, Retries, run};
use acb_types::{Nanos, Outcome, Source};
use acb_workload::{Arrivals, CountLaw, WorkloadSpec};

const POISSON: Arrivals = Arrivals::Poisson { rate_rps: 200.0 };

#[test]
fn every_request_is_sent_after_it_is_due_and_recorded_once() {
    let server = server(script(5, 1, 16));
    let end = ran(load(&spec(POISSON, 300), &[&server]));
    let mut ids: Vec<u64> = end.sink.served.iter().map(|served| served.request.id.0).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..300), "{} rows", ids.len());
    for served in &end.sink.served {
        assert!(served.sent_ns() >= served.request.due, "request {} left early", served.request.id);
        assert_eq!((served.outcome(), served.output_tokens()), (Outcome::Ok, 16));
    }
    let trace = server.trace();
    assert_eq!(trace.requests.len(), 300);
    assert!(trace.connections <= u64::from(end.check.host.peak_in_flight), "connections are used again");
    assert_eq!(end.check.sends.sends, 300);
    let (due, sent) = (end.check.sends.due_rps.unwrap(), end.check.sends.sent_rps.unwrap());
    assert!(sent < due * 1.2, "{sent} sent per second where {due} were due");
    assert!(end.check.host.cpu_ns > Nanos::ZERO && end.check.host.wall_ns > ms(1000));
}

#[test]
fn every_fourth_answer_of_500_is_counted_and_enters_no_latency() {
    let server = server(ShapeOptions { fail_every: Some(4), ..script(5, 1, 16).into() });
    let end = ran(load(&spec(POISSON, 40), &[&server]));
    assert_eq!((end.sink.count("ok"), end.sink.count("http_error")), (30, 10));
    let failed = end.sink.served.iter().filter(|served| !served.last().is_ok());
    assert!(failed.into_iter().all(|served| served.last().ttft().is_none()));
}

#[test]
fn a_retry_is_made_only_when_asked_and_each_attempt_is_kept() {
    let server = server(ShapeOptions { fail_every: Some(2), ..script(2, 1, 16).into() });
    let mut load = load(&spec(Arrivals::Constant { rate_rps: 50.0 }, 10), &[&server]);
    load.retries = Retries { most: 3, backoff: ms(1) };
    let end = ran(load);
    assert_eq!(end.sink.count("ok"), 10);
    let attempts: usize = end.sink.served.iter().map(|served| served.attempts.len()).sum();
    assert_eq!(attempts, server.trace().requests.len());
    assert!(attempts > 10, "{attempts} attempts of 10 requests");
}

#[test]
fn an_answer_that_stalls_times_out_with_its_tokens_kept() {
    let stalled = Script { fault: ServerFault::Stall, ..script(5, 1, 16) };
    let server = server(stalled);
    let mut load = load(&spec(POISSON, 4), &[&server]);
    load.limits.timeout = ms(1500);
    let end = ran(load);
    assert_eq!(end.sink.count("timed_out"), 4);
    assert!(end.sink.served.iter().all(|served| served.outcome() == Outcome::TimedOut));
    assert!(end.sink.served.iter().all(|served| served.last().wasted_tokens() == 8));
}

#[test]
fn after_the_grace_what_is_still_in_flight_is_given_up_with_its_tokens_kept() {
    let stalled = Script { fault: ServerFault::Stall, ..script(5, 1, 16) };
    let server = server(stalled);
    let mut load = load(&spec(Arrivals::Constant { rate_rps: 20.0 }, 1000), &[&server]);
    load.limits = Limits { duration: Some(ms(500)), grace: ms(1000), timeout: ms(3_600_000), ..load.limits };
    let end = ran(load);
    assert_eq!((end.sent, end.sink.count("cancelled")), (10, 10));
    assert!(end.sink.served.iter().all(|served| served.outcome() == Outcome::Unfinished));
    assert!(end.sink.served.iter().any(|served| served.last().wasted_tokens() == 8));
}

#[test]
fn a_stopped_run_keeps_what_was_received() {
    let server = server(script(20, 1, 16));
    let control = Control::default();
    let stopper = control.clone();
    let load = load(&spec(Arrivals::Constant { rate_rps: 100.0 }, 1_000_000), &[&server]);
    let watching = std::thread::spawn(move || {
        while stopper.progress().ok < 5 {
            std::thread::yield_now();
        }
        stopper.stop();
    });
    let end = run(load, Kept::default(), &control).unwrap();
    watching.join().unwrap();
    assert!(end.sent >= 5 && end.sent < 100_000);
    assert_eq!(end.sink.served.len() as u64, end.sent);
    assert_eq!(end.sink.count("ok") as u64, end.sent, "the grace let all of them end");
    assert!(end.check.remarks.contains(&Remark::Stopped));
}

#[test]
fn a_full_disk_ends_the_run_with_its_reason_and_keeps_what_was_written() {
    let server = server(script(2, 1, 16));
    let load = load(&spec(Arrivals::Constant { rate_rps: 100.0 }, 1_000_000), &[&server]);
    let sink = Kept { room: Some(20), ..Kept::default() };
    let end = run(load, sink, &Control::default()).unwrap();
    assert_eq!(end.sink.served.len(), 20);
    let lost = end.check.faults.iter().find_map(|fault| match fault {
        Fault::NotRecorded { lost, .. } => Some(*lost),
        _ => None,
    });
    assert!(lost.is_some_and(|lost| lost > 0), "{:?}", end.check.faults);
}

#[test]
fn a_server_that_is_not_there_gives_a_recorded_outcome_for_each_request() {
    let gone = server(script(2, 1, 16));
    let load = load(&spec(POISSON, 20), &[&gone]);
    drop(gone);
    let end = ran(load);
    assert_eq!(end.sink.count("connect_error"), 20);
    assert!(end.sink.served.iter().all(|served| served.outcome() == Outcome::Failed));
}

#[test]
fn a_closed_loop_has_as_many_in_flight_as_users_and_is_no_open_loop_at_fault() {
    let server = server(script(5, 1, 16));
    let end = ran(load(&spec(Arrivals::Closed { users: 4, think_ms: 0.0 }, 60), &[&server]));
    assert_eq!((end.sent, end.check.host.peak_in_flight), (60, 4));
    assert_eq!(server.trace().connections, 4);
    let held = |fault: &Fault| matches!(fault, Fault::NotOpenLoop { .. } | Fault::Rate { .. });
    assert!(!end.check.faults.iter().any(held), "{:?}", end.check.faults);
}

#[test]
fn a_full_cap_marks_an_open_loop_as_not_open() {
    let server = server(script(100, 1, 16));
    let mut load = load(&spec(POISSON, 60), &[&server]);
    load.limits.max_in_flight = Some(2);
    let end = ran(load);
    assert_eq!(end.check.host.peak_in_flight, 2);
    let held = end.check.faults.iter().find_map(|fault| match fault {
        Fault::NotOpenLoop { held, of: 60, max_in_flight: 2, never_sent: 0 } => Some(*held),
        _ => None,
    });
    assert!(held.is_some_and(|held| held > 30), "{:?}", end.check.faults);
}

#[test]
fn what_finds_no_place_before_the_end_is_counted_as_never_sent() {
    let server = server(Script { fault: ServerFault::Stall, ..script(5, 1, 16) });
    let mut load = load(&spec(Arrivals::Constant { rate_rps: 100.0 }, 1000), &[&server]);
    load.limits = Limits { duration: Some(ms(300)), max_in_flight: Some(4), grace: ms(100), ..load.limits };
    let end = ran(load);
    assert_eq!((end.sent, end.check.host.never_sent), (4, 26), "{:?}", end.check.faults);
    assert!(!end.check.is_valid());
}

#[test]
fn a_turn_waits_for_the_answer_before_it_and_its_think_time() {
    let server = server(script(10, 1, 16));
    let turns = WorkloadSpec {
        turns: Some(CountLaw::Fixed { value: 3 }),
        think_ms: Some(5.0),
        ..spec(Arrivals::Poisson { rate_rps: 100.0 }, 30)
    };
    let end = ran(load(&turns, &[&server]));
    assert_eq!(end.sent, 30);
    let mut rows = end.sink.served;
    rows.sort_by_key(|served| (served.request.session, served.request.turn));
    for pair in rows.windows(2).filter(|pair| pair[0].request.session == pair[1].request.session) {
        assert!(pair[1].request.due >= pair[0].last().ended_ns, "turn {}", pair[1].request.turn);
    }
}

#[test]
fn the_warm_up_is_recorded_and_told_apart() {
    let server = server(script(2, 1, 16));
    let mut load = load(&spec(Arrivals::Constant { rate_rps: 100.0 }, 50), &[&server]);
    load.limits.warmup = ms(200);
    let end = ran(load);
    let warm = end.sink.served.iter().filter(|served| served.phase == Phase::Warmup).count();
    assert_eq!((warm, end.sink.served.len()), (20, 50));
}

#[test]
fn a_record_says_who_saw_its_times_and_why_a_number_is_absent() {
    let server = server(script(5, 1, 16));
    let end = ran(load(&spec(POISSON, 1), &[&server]));
    let adapters = catalogue(3);
    let tasks = ["t0", "t1", "t2"].map(str::to_owned);
    let names = acb_live::load::Names { tasks: &tasks, adapters: &adapters, engine: "scripted" };
    let record = end.sink.served[0].record(&names);
    assert_eq!((record.source, record.outcome, record.output_tokens), (Source::Simulated, Outcome::Ok, 16));
    assert!(record.first_token_ns < record.last_token_ns && record.due_ns <= record.sent_ns);
    let nulls = serde_json::to_value(&record).unwrap();
    let nulls = nulls.as_object().unwrap();
    for (field, _) in nulls.iter().filter(|(_, value)| value.is_null()) {
        assert!(record.absent.contains_key(field.as_str()), "{field} is null without a reason");
    }
    let rows: Vec<_> = end.sink.served[0].observations(&names).collect();
    let row = serde_json::to_value(&rows[0]).unwrap();
    assert_eq!((rows.len(), row["token_events"].as_array().unwrap().len()), (1, 16));
}
