//! The rows of traps that need a load: what comes of them is held against the server's own account.

use crate::support::*;
use acb_fake::shapes::{Fault as ServerFault, Freeze, Head, Script, ShapeOptions, ShapeServer};
use acb_live::check::Fault;
use acb_live::load::{Limits, Names, Served};
use acb_types::Nanos;
use acb_workload::{Arrivals, CountLaw, WorkloadSpec};

const POISSON: Arrivals = Arrivals::Poisson { rate_rps: 300.0 };

#[test]
fn t22_heads_without_a_body_leave_no_figure_under_load() {
    let headless =
        Script { fault: ServerFault::Truncate, after: Some(0), head: Head::Early, ..script(2, 1, 16) };
    let server = server(headless);
    let end = ran(load(&spec(POISSON, 100), &[&server]));
    assert_eq!(end.sink.count("truncated"), 100);
    for served in &end.sink.served {
        let seen = served.last();
        assert_eq!((seen.status, seen.first_token_ns(), seen.wasted_tokens()), (Some(200), None, 0));
        assert_eq!((seen.ttft_from(served.request.due), seen.e2e(), seen.tpot_ns()), (None, None, None));
    }
}

#[test]
fn t23_due_times_are_one_schedule_however_many_threads_send() {
    let server = server(script(2, 1, 16));
    let mut many = load(&spec(POISSON, 200), &[&server]);
    many.threads = 4;
    let mut rows = ran(many).sink.served;
    rows.sort_by_key(|served| served.request.id);
    let dues: Vec<Nanos> = rows.iter().map(|served| served.request.due).collect();
    assert!(dues.windows(2).all(|pair| pair[0] < pair[1]), "no due time is drawn twice: {dues:?}");
    let late = |served: &Served| served.sent_ns().since(served.request.due);
    assert!(rows.iter().all(|served| late(served) < ms(5_000)), "one zero for all threads");
}

/// A server that does nothing from 1.0 s to 1.5 s, asked at 50 a second for 2 s.
fn frozen(cap: Option<u32>) -> (ShapeServer, Vec<Served>, Vec<Fault>) {
    let freeze = Some(Freeze { from: ms(1000), until: ms(1500) });
    let server = server(ShapeOptions { freeze, ..script(5, 0, 16).into() });
    let mut load = load(&spec(Arrivals::Constant { rate_rps: 50.0 }, 100), &[&server]);
    load.limits.max_in_flight = cap;
    let end = ran(load);
    (server, end.sink.served, end.check.faults)
}

fn slow(rows: &[Served], time: impl Fn(&Served) -> Option<Nanos>) -> usize {
    rows.iter().filter(|served| time(served) >= Some(ms(100))).count()
}

#[test]
fn t26_an_open_loop_sends_into_a_frozen_server_and_shows_what_waited() {
    let (server, rows, _) = frozen(None);
    let trace = server.trace().requests;
    let waited = |row: &&acb_fake::TraceRow| row.first_token_ns.unwrap().since(row.received_ns) >= ms(100);
    let at_server = trace.iter().filter(waited).count();
    // 25 requests are due in the freeze, and 20 of them wait for 100 ms or more.
    assert!(at_server >= 18, "{at_server} requests waited at the server");
    let seen = slow(&rows, |served| served.last().ttft());
    assert!(seen >= at_server, "{seen} were seen to wait, {at_server} did");
}

#[test]
fn t26_a_cap_hides_the_freeze_from_send_times_and_not_from_due_times() {
    let (_, rows, faults) = frozen(Some(2));
    let from_due = slow(&rows, |served| served.last().ttft_from(served.request.due));
    let from_send = slow(&rows, |served| served.last().ttft());
    assert!(from_due >= 18 && from_send < from_due / 2, "{from_due} from due, {from_send} from send");
    assert!(faults.iter().any(|fault| matches!(fault, Fault::NotOpenLoop { .. })), "{faults:?}");
}

#[test]
fn t27_the_rate_that_a_valid_run_reports_is_the_servers() {
    for rate_rps in [200.0, 1000.0] {
        let server = server(script(10, 2, 16));
        let end = ran(load(&spec(Arrivals::Poisson { rate_rps }, rate_rps as u64), &[&server]));
        let trace = server.trace().requests;
        let (first, last) = (trace.first().unwrap().received_ns, trace.last().unwrap().received_ns);
        let arrived = (trace.len() - 1) as f64 / last.since(first).as_secs_f64();
        let sent = end.check.sends.sent_rps.unwrap();
        // A busy machine may keep the last few from the server for a while.
        assert!((arrived / sent - 1.0).abs() < 0.2, "{arrived} arrived per second, {sent} were sent");
        if end.check.is_valid() {
            let due = end.check.sends.due_rps.unwrap();
            assert!((arrived / due - 1.0).abs() < 0.2, "{arrived} arrived per second, {due} were due");
        }
    }
}

#[test]
fn t28_under_load_no_time_is_shorter_than_the_servers_own() {
    let server = server(script(10, 2, 16));
    let end = ran(load(&spec(Arrivals::Poisson { rate_rps: 1000.0 }, 500), &[&server]));
    let mut seen: Vec<Nanos> = end.sink.served.iter().map(|served| served.last().ttft().unwrap()).collect();
    let truth = server.trace().requests.into_iter();
    let mut truth: Vec<Nanos> = truth.map(|row| row.first_token_ns.unwrap().since(row.received_ns)).collect();
    seen.sort_unstable();
    truth.sort_unstable();
    assert_eq!((seen.len(), truth.len()), (500, 500));
    assert!(seen.iter().zip(&truth).all(|(seen, truth)| seen >= truth), "rank by rank");
}

#[test]
fn t32_a_run_on_a_server_that_stalls_ends_by_its_bound_and_grace() {
    let server = server(Script { fault: ServerFault::Stall, ..script(2, 1, 16) });
    let mut stalled = load(&spec(Arrivals::Constant { rate_rps: 50.0 }, 10_000), &[&server]);
    stalled.limits = Limits { duration: Some(ms(200)), grace: ms(300), ..stalled.limits };
    let end = ran(stalled);
    assert_eq!(end.sink.served.len() as u64, end.sent);
    assert!(
        end.check.host.wall_ns >= ms(500) && end.check.host.wall_ns < ms(10_000),
        "{}",
        end.check.host.wall_ns
    );
}

#[test]
fn t33_rows_hold_neither_prompts_nor_answers() {
    let server = server(script(2, 0, 16));
    let long = WorkloadSpec { prompt_tokens: Some(CountLaw::Fixed { value: 4000 }), ..spec(POISSON, 5) };
    let (end, adapters) = (ran(load(&long, &[&server])), catalogue(3));
    let names =
        Names { tasks: &["t0", "t1", "t2"].map(str::to_owned), adapters: &adapters, engine: "scripted" };
    for served in &end.sink.served {
        let row = serde_json::to_string(&served.observations(&names).next().unwrap()).unwrap();
        let record = serde_json::to_string(&served.record(&names)).unwrap();
        assert!(!row.contains("\"text\"") && row.len() < 3000, "{row}");
        assert!(record.len() < 1500, "{record}");
    }
}

#[test]
fn t34_the_first_of_ten_thousand_long_prompts_leaves_at_once() {
    let server = server(script(2, 0, 16));
    let arrivals = Arrivals::Closed { users: 1, think_ms: 0.0 };
    let long =
        WorkloadSpec { prompt_tokens: Some(CountLaw::Fixed { value: 5000 }), ..spec(arrivals, 10_000) };
    let mut load = load(&long, &[&server]);
    load.limits.requests = Some(3);
    let end = ran(load);
    let first = end.sink.served.iter().map(Served::sent_ns).min().unwrap();
    assert!(end.sent == 3 && first < ms(2000), "the first of {} left after {first}", end.sent);
}
