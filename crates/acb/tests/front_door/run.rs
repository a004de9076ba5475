//! Whole sweeps: the same again under any number of threads, and every request accounted for.

use crate::bench::{Bench, CELLS, assert_same_files};
use acb_evidence::Records;
use acb_types::Outcome;
use std::collections::BTreeSet;

#[test]
fn the_same_experiment_gives_the_same_bytes_on_one_thread_and_on_two() {
    let bench = Bench::new();
    let digest = |words: &str| bench.done(words, &[]).json()["record_digest"].clone();
    let first = digest("run small.yaml --json --output-dir one --jobs 1");
    let rows = bench.rows("one");
    assert_eq!(rows.len(), 3 * CELLS, "requests, routing and server rows of every run");
    for (folder, jobs) in [("again", 1), ("two", 2), ("many", 7)] {
        assert_eq!(first, digest(&format!("run small.yaml --json --output-dir {folder} --jobs {jobs}")));
        assert_same_files(&rows, &bench.rows(folder));
    }
}

#[test]
fn another_seed_gives_other_records() {
    let bench = Bench::new();
    let digest = |words: &str| bench.done(words, &[]).json()["record_digest"].clone();
    let one = digest("run small.yaml --json --output-dir one");
    assert_ne!(one, digest("run small.yaml --json --output-dir two --set seeds.first=2"));
}

/// Every run of `out` has one record for each of its requests.
fn assert_conserved(bench: &Bench, requests: usize) -> BTreeSet<Outcome> {
    let mut outcomes = BTreeSet::new();
    let states = bench.states("out");
    assert_eq!(states.len(), CELLS);
    for run in states.keys() {
        let mut records = Records::open(&bench.path(&format!("out/{run}/requests.jsonl"))).unwrap();
        let mut ids = BTreeSet::new();
        while let Some(record) = records.read().unwrap() {
            assert!(ids.insert(record.request.0), "{run}: request {} twice", record.request.0);
            outcomes.insert(record.outcome);
        }
        assert_eq!(ids, (0..requests as u64).collect(), "{run}");
        let summary = bench.json(&format!("out/{run}/summary.json"));
        let counted: u64 =
            summary["outcomes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!((counted, summary["requests"].as_u64().unwrap()), (requests as u64, requests as u64));
        assert_eq!(bench.json(&format!("out/{run}/status.json"))["recorded_requests"], requests);
    }
    outcomes
}

#[test]
fn every_request_of_every_arm_has_one_record() {
    let bench = Bench::new();
    bench.done("run small.yaml --output-dir out", &[]);
    assert_eq!(assert_conserved(&bench, 60), BTreeSet::from([Outcome::Ok]));
}

#[test]
fn requests_that_are_shed_or_time_out_have_their_record_too() {
    let bench = Bench::new();
    let limits = "cluster.limits={max_queue: 12, request_timeout_ms: 700}";
    bench.done("run small.yaml --output-dir out --set workload.arrivals.rate_rps=300 --set", &[limits]);
    let outcomes = assert_conserved(&bench, 60);
    assert!(outcomes.contains(&Outcome::Shed) && outcomes.contains(&Outcome::TimedOut), "{outcomes:?}");
}

#[test]
fn what_is_still_under_way_when_simulated_time_is_up_is_unfinished() {
    let bench = Bench::new();
    let limit = "cluster.limits.max_sim_seconds=0.3";
    bench.done("run small.yaml --output-dir out --set workload.arrivals.rate_rps=1000 --set", &[limit]);
    assert!(assert_conserved(&bench, 60).contains(&Outcome::Unfinished));
}

#[test]
fn arms_of_a_block_meet_the_same_requests() {
    let bench = Bench::new();
    bench.done("run small.yaml --output-dir out", &[]);
    let requests = |arm: &str| {
        let path = bench.path(&format!("out/small-{arm}-s3/requests.jsonl"));
        let (mut records, mut found) = (Records::open(&path).unwrap(), Vec::new());
        while let Some(r) = records.read().unwrap() {
            found.push((
                r.request,
                r.due_ns,
                r.session,
                r.tenant,
                r.task.to_string(),
                r.prompt_tokens,
                r.output_tokens,
            ));
        }
        found.sort();
        found
    };
    let base = requests("base");
    for arm in ["base-again", "multitask", "specialists", "oracle"] {
        assert_eq!(base, requests(arm), "{arm}");
    }
}

#[test]
fn the_configuration_in_a_run_folder_runs_that_cell_by_itself() {
    let bench = Bench::new();
    bench.done("run small.yaml --output-dir out", &[]);
    bench.done("run out/small-specialists-s4/config_resolved.yaml --output-dir alone", &[]);
    for rows in ["requests.jsonl", "routing.jsonl", "server.jsonl"] {
        let at = |folder: &str| {
            std::fs::read(bench.path(&format!("{folder}/small-specialists-s4/{rows}"))).unwrap()
        };
        assert_eq!(at("out"), at("alone"), "{rows}");
    }
}
