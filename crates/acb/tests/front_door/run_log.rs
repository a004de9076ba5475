//! `acb log`: what was begun, and what became of it.

use crate::bench::{Bench, CELLS};
use std::fs;

const RUN: &str = "run small.yaml --output-dir out";
const LOG: &str = "out/run_log.jsonl";

#[test]
fn every_run_is_in_the_log_and_a_sweep_that_was_left_alone_agrees_with_it() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    let told = bench.done("log check out", &[]).out;
    let expected = format!("{CELLS} runs begun: {CELLS} complete, 0 failed, 0 interrupted, 0 never ended");
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn a_run_that_was_thrown_away_or_changed_or_slipped_in_shows() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    fs::remove_dir_all(bench.path("out/small-oracle-s2")).unwrap();
    let rows = bench.path("out/small-base-s1/requests.jsonl");
    let text = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, text.replacen("\"v\":1", "\"v\": 1", 1)).unwrap();
    let log = fs::read_to_string(bench.path(LOG)).unwrap();
    bench.acb("log check out", &[]).says(
        1,
        &[
            "small-oracle-s2: ended complete, and its folder is gone",
            "small-base-s1: its records are not those",
        ],
    );
    let last_start = log.rfind("\"event\":\"started\"").unwrap();
    let kept = log[..last_start].rfind('\n').unwrap() + 1;
    fs::write(bench.path(LOG), &log[..kept]).unwrap();
    bench.acb("log check out", &[]).says(1, &["that the log never saw begin"]);
}

#[test]
fn a_broken_or_unfinished_log_is_named_and_stops_the_next_sweep() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    let log = fs::read_to_string(bench.path(LOG)).unwrap();
    fs::write(bench.path(LOG), format!("{log}{{\"v\":1,")).unwrap();
    bench.acb("log check out", &[]).says(2, &["run_log.jsonl", "acb log mend"]);
    bench.acb("run small.yaml --output-dir out --sweep-name again", &[]).says(1, &["acb log mend"]);
    bench.done("log mend out", &[]);
    bench.done(&format!("{RUN} --resume"), &[]);
    fs::write(bench.path(LOG), log.replacen("small-base-s1", "small-base-s9", 1)).unwrap();
    bench.acb("log check out", &[]).says(2, &["run_log.jsonl:", "does not agree with its hash"]);
    bench.acb("log check nowhere", &[]).says(2, &["no such log"]);
}
