//! Runs that end in the middle, politely (SIGINT) or not (SIGKILL).

use crate::bench::{Bench, assert_same_files, until, wait};
use acb::clock::unix_ms;
use acb_evidence::{RunState, Status, read_json};
use serde_json::Value as Json;
use std::process::{Child, Command};

/// Ten cells, each long enough to be met in its middle. What they say doesn't matter, so that two blocks are enough.
const LONG: &str =
    "run small.yaml --set workload.requests=4000 --set seeds=[1,2] --allow unit-floor --jobs 2";

/// An undisturbed run, and one that is under way: one run complete, another begun.
fn under_way() -> (Bench, Json, Child) {
    let bench = Bench::new();
    let whole = bench.done(&format!("{LONG} --output-dir whole --json"), &[]).json();
    let child = bench.start(&format!("{LONG} --output-dir out"), &[]);
    until("a complete and a running run", || {
        bench.count("out", "complete") > 0 && bench.count("out", "running") > 0
    });
    (bench, whole, child)
}

/// Whatever has a final name is what it would be in the end.
fn assert_nothing_half_written(bench: &Bench) {
    let (whole, found) = (bench.rows("whole"), bench.rows("out"));
    for (name, bytes) in found {
        assert!(whole[&name] == bytes, "{name} has its final name and differs from the undisturbed run's");
    }
    for (run, state) in bench.states("out") {
        let status: Status = read_json(&bench.path(&format!("out/{run}"))).unwrap();
        assert_eq!(status.record_digest.is_some(), state == "complete", "{run}");
        let whole: Status = read_json(&bench.path(&format!("whole/{run}"))).unwrap();
        assert!(state != "complete" || status.record_digest == whole.record_digest, "{run}");
    }
}

fn assert_resumes(bench: &Bench, whole: &Json) {
    let resumed = bench.done(&format!("{LONG} --output-dir out --resume --json"), &[]).json();
    assert!(resumed["status"]["skipped"].as_u64() >= Some(1), "{resumed}");
    assert_eq!(resumed["record_digest"], whole["record_digest"]);
    assert_same_files(&bench.rows("whole"), &bench.rows("out"));
    let left: Vec<String> =
        bench.files("out").into_keys().filter(|name| name.ends_with(".partial")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_interrupted_sweep_says_so_and_resumes_to_the_same_records() {
    let (bench, whole, mut child) = under_way();
    loop {
        interrupt(&child);
        assert_eq!(wait(child), Some(1));
        assert_eq!(bench.json("out/_sweeps/small/sweep_status.json")["state"], "interrupted");
        assert_eq!(bench.count("out", "running"), 0);
        assert!(!bench.path("out/_sweeps/small/report.md").exists());
        assert_nothing_half_written(&bench);
        if bench.count("out", "interrupted") > 0 {
            break;
        }
        // The signal came when every cell that was under way had its last record; each such miss completes two cells.
        child = bench.start(&format!("{LONG} --output-dir out --resume"), &[]);
        until("a running run", || bench.count("out", "running") > 0);
    }
    bench.done("report out", &[]).says(0, &["interrupted"]);
    assert_resumes(&bench, &whole);
}

#[test]
fn a_killed_sweep_never_looks_complete_and_resumes_to_the_same_records() {
    let (bench, whole, mut child) = under_way();
    child.kill().unwrap();
    assert_eq!(wait(child), None);
    assert_eq!(bench.json("out/_sweeps/small/sweep_status.json")["state"], "running");
    assert_eq!(bench.count("out", "interrupted"), 0);
    assert_nothing_half_written(&bench);
    let running = bench.states("out").into_iter().find(|(_, state)| state == "running");
    if let Some((run, _)) = running {
        let status: Status = read_json(&bench.path(&format!("out/{run}"))).unwrap();
        assert_eq!(status.state, RunState::Running);
        assert!(status.is_stale(unix_ms() + 10_000, 5_000), "the heartbeat stands still");
    }
    assert_resumes(&bench, &whole);
}

#[test]
fn of_a_hundred_cells_only_those_that_were_not_complete_run_again() {
    const HUNDRED: &str = "run small.yaml --set workload.requests=200 --set seeds.count=20 --jobs 2";
    let bench = Bench::new();
    let whole = bench.done(&format!("{HUNDRED} --output-dir whole --json"), &[]).json();
    let mut child = bench.start(&format!("{HUNDRED} --output-dir out"), &[]);
    until("a third of the cells", || bench.count("out", "complete") > 33);
    child.kill().unwrap();
    assert_eq!(wait(child), None);
    let kept = bench.count("out", "complete") as u64;
    let resumed = bench.done(&format!("{HUNDRED} --output-dir out --resume --json"), &[]).json();
    let status = &resumed["status"];
    assert_eq!((status["skipped"].as_u64(), status["completed"].as_u64()), (Some(kept), Some(100 - kept)));
    assert!(kept < 100, "it was met in the middle");
    assert_eq!(resumed["record_digest"], whole["record_digest"]);
    assert_same_files(&bench.rows("whole"), &bench.rows("out"));
}

#[test]
fn an_interruption_while_planning_leaves_nothing() {
    let bench = Bench::new();
    let many = "factors={workload.arrivals.rate_rps: [1,2,3,4,5,6,7,8,9,10], workload.shared_prefix_fraction: [0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9]}";
    let child = bench.start("run small.yaml --output-dir out --set workload.requests=100000 --set", &[many]);
    // The handler is there once the signal mask says that SIGINT is caught.
    let id = child.id();
    until("the signal handler", || catches_interrupts(id));
    interrupt(&child);
    assert_eq!(wait(child), Some(2));
    assert!(!bench.path("out").exists());
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Whether a process has a handler for SIGINT (signal 2), by its status in /proc.
fn catches_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 1) != 0
}
