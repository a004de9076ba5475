//! `acb prereg`: what is fixed before the first run, and what a run makes of it.

use crate::bench::{Bench, SMALL};
use serde_json::Value as Json;
use std::fs;

/// What the small experiment lacks for a lock.
const SECTION: &str = r#"
hypothesis: It does, since it sees what the others do not.
secondary_metrics: [mean_quality_on_time]
preregistration:
  existing_data: none
  promotion:
    - {kind: superior}
    - {kind: not_worse, metric: mean_quality_on_time, margin_ratio: 1.05}
  falsification:
    - {kind: only_simulated}
    - {kind: vanishes_at, factor: cluster.cache_condition, value: prefix_disabled}
  exclusions: none
  sample_size: {blocks: 6, log_ratio_sd: 0.1, pilot: a guess for this test, power: 0.8, minimal_effect_ratio: 1.19}
  stopping_rule: After all blocks.
  analyses: As the report prints them.
  deviations: Locked again with their reason.
"#;

const RUN: &str = "run registered.yaml --output-dir out";

fn registered() -> Bench {
    let bench = Bench::new();
    bench.write("registered.yaml", format!("{SMALL}{SECTION}"));
    bench
}

fn hash(bench: &Bench) -> String {
    acb_evidence::sha256_hex(&fs::read(bench.path("registered.lock.json")).unwrap())
}

#[test]
fn a_lock_refuses_every_blank_by_name_and_place() {
    let bench = Bench::new();
    bench.acb("prereg lock small.yaml", &[]).says(2, &["no `preregistration` section"]);
    let blank = SECTION.replace("  exclusions: none\n", "").replace("hypothesis", "# hypothesis");
    bench.write("registered.yaml", format!("{SMALL}{blank}"));
    bench.acb("prereg lock registered.yaml", &[]).says(
        2,
        &[
            "the experiment has 2 faults",
            "`hypothesis` is blank",
            "`preregistration.exclusions` is blank",
            "registered.yaml:",
        ],
    );
    assert!(!bench.path("registered.lock.json").exists());
}

#[test]
fn a_locked_experiment_runs_under_its_hash_and_the_log_has_the_lock_ahead_of_the_first_run() {
    let bench = registered();
    let told = bench.done("prereg lock registered.yaml", &[]).out;
    let hash = hash(&bench);
    assert!(told.contains(&hash), "{told}");
    bench.done("prereg check registered.yaml", &[]);
    assert!(bench.done("prereg show registered.yaml", &[]).out.contains("preregistration.exclusions: none"));
    bench.done(RUN, &[]);
    let log = fs::read_to_string(bench.path("out/run_log.jsonl")).unwrap();
    let lines: Vec<Json> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines[0]["event"].as_str(), lines[0]["preregistration"].as_str()),
        (Some("locked"), Some(&*hash))
    );
    let started = lines.iter().filter(|line| line["event"] == "started");
    assert!(
        started.clone().count() > 0 && started.clone().all(|line| line["preregistration"] == hash.as_str())
    );
    let check = bench.done("log check out", &[]).out;
    assert!(
        check.contains("small: locked in line 1 as sha256") && check.contains("the first in line 2"),
        "{check}"
    );
    for file in ["manifest.json", "status.json", "summary.json"] {
        let text = fs::read_to_string(bench.path(&format!("out/small-base-s1/{file}"))).unwrap();
        assert!(text.contains(&hash), "{file}");
    }
    let copy = fs::read(bench.path("out/_sweeps/small/preregistration.lock.json")).unwrap();
    assert_eq!(copy, fs::read(bench.path("registered.lock.json")).unwrap());
}

#[test]
fn a_changed_experiment_is_refused_with_its_fields_until_it_is_a_deviation() {
    let bench = registered();
    bench.done("prereg lock registered.yaml", &[]);
    let first = hash(&bench);
    bench.acb(RUN, &["--set", "slo.ttft_ms=400"]).says(
        2,
        &[
            "is not the one that was registered",
            "experiment.slo.ttft_ms: 500 -> 400",
            "--reason",
            "--exploratory",
        ],
    );
    assert!(!bench.path("out/run_log.jsonl").exists());
    bench.write("registered.yaml", format!("{SMALL}{SECTION}").replace("ttft_ms: 500", "ttft_ms: 400"));
    bench.acb("prereg check registered.yaml", &[]).says(1, &["slo.ttft_ms: 500 -> 400"]);
    bench.acb("prereg lock registered.yaml", &[]).says(2, &["slo.ttft_ms: 500 -> 400", "--reason"]);
    bench.done("prereg lock registered.yaml", &["--reason", "the bound was a slip of the pen"]);
    let lock: Json = serde_json::from_slice(&fs::read(bench.path("registered.lock.json")).unwrap()).unwrap();
    assert_eq!(lock["deviations"][0]["previous"], first.as_str());
    assert_eq!(lock["deviations"][0]["changes"][0]["field"], "experiment.slo.ttft_ms");
    bench.done(RUN, &[]);
}

#[test]
fn an_exploration_carries_no_hash_and_an_edited_lock_is_noticed() {
    let bench = registered();
    bench.done("prereg lock registered.yaml", &[]);
    bench.done(&format!("{RUN} --exploratory"), &["--set", "slo.ttft_ms=400"]);
    let log = fs::read_to_string(bench.path("out/run_log.jsonl")).unwrap();
    assert!(!log.contains("\"locked\"") && !log.contains(&hash(&bench)));
    let lock = fs::read_to_string(bench.path("registered.lock.json")).unwrap();
    bench.write("registered.lock.json", format!("{lock}\n"));
    bench.acb("prereg check registered.yaml", &[]).says(1, &["is not the text that `acb prereg lock` wrote"]);
}

#[test]
fn claims_above_the_evidence_are_refused_with_what_is_missing_and_power_reads_the_pilot() {
    let bench = registered();
    bench.done("prereg lock registered.yaml", &[]);
    bench.done(RUN, &[]);
    let sweep = "out/_sweeps/small";
    let page = bench.done(&format!("claims {sweep} --want L1"), &[]).out;
    assert!(page.contains("What each rung asks for") && page.contains("Hypothesis"), "{page}");
    bench
        .acb(&format!("claims {sweep} --want L4"), &[])
        .says(1, &["a claim on L4 is refused: the runs stand on L1", "- measurement on a real server"]);
    bench.acb(&format!("claims {sweep} --want L6"), &[]).says(2, &["give a rung from L1 to L5"]);
    let printed: Json =
        serde_json::from_str(&bench.done(&format!("claims {sweep} --json"), &[]).out).unwrap();
    let written: Json =
        serde_json::from_slice(&fs::read(bench.path(&format!("{sweep}/claims.json"))).unwrap()).unwrap();
    assert_eq!(printed, written);
    let experiment = &written["experiments"][0];
    assert_eq!(
        (&experiment["rung"]["level"], &experiment["preregistration"]),
        (&1.into(), &hash(&bench).into())
    );
    assert_eq!(experiment["claims"].as_array().map(Vec::len), Some(2));
    let power: Json =
        serde_json::from_str(&bench.done(&format!("power {sweep} --blocks 12 --json"), &[]).out).unwrap();
    assert_eq!((power["tests"].as_u64(), power["rows"].as_array().map(Vec::len)), (Some(2), Some(2)));
    bench.acb("power --blocks 12", &[]).says(2, &["--log-ratio-sd"]);
}

#[test]
fn derived_files_do_not_depend_on_where_the_results_lie() {
    let bench = registered();
    bench.done("prereg lock registered.yaml", &[]);
    bench.done(RUN, &[]);
    let before = bench.done("report out/_sweeps/small --format markdown", &[]).out;
    let claims = bench.done("claims out/_sweeps/small --json", &[]).out;
    fs::create_dir_all(bench.path("elsewhere")).unwrap();
    fs::rename(bench.path("out"), bench.path("elsewhere/moved")).unwrap();
    assert_eq!(before, bench.done("report elsewhere/moved/_sweeps/small --format markdown", &[]).out);
    assert_eq!(claims, bench.done("claims elsewhere/moved/_sweeps/small --json", &[]).out);
    assert_eq!(before, fs::read_to_string(bench.path("elsewhere/moved/_sweeps/small/report.md")).unwrap());
}
