//! Plans that can't answer their question, or cost too much, are refused before anything is written.

use crate::bench::{Bench, CELLS};

/// Refused by plan and run alike, in these words, with nothing written.
fn check_refused(sets: &[&str], words: &[&str]) {
    let bench = Bench::new();
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    for command in ["plan small.yaml --output-dir out", "run small.yaml --output-dir out"] {
        bench.acb(command, &sets).says(1, &[&["REFUSE"], words].concat());
        assert!(!bench.path("out").exists(), "{command} {sets:?}");
    }
}

const TWINS: &str =
    "arms=[{name: base, policy: base}, {name: twin, policy: base}, {name: multitask, policy: multitask}]";
const TWINS_RULE: &str = "decision_rule.contrasts=[{treatment: twin, against: [base, multitask]}]";

#[test]
fn a_budget_in_the_file_refuses_before_anything_is_written() {
    check_refused(&["budget={max_runs: 29}"], &["30 runs exceed the limit of 29", "budget"]);
    check_refused(&["budget={max_requests: 1799}"], &["1800 requests exceed the limit of 1799"]);
    check_refused(&["budget={max_disk_mb: 0.001}"], &["MB on disk exceed the limit of 0.001"]);
    check_refused(&["budget={max_tokens: 1000}"], &["tokens exceed the limit of 1000"]);
}

#[test]
fn a_budget_on_the_command_line_refuses_before_anything_is_written() {
    let bench = Bench::new();
    for limit in ["--max-runs 29", "--max-requests 1799"] {
        for command in ["plan", "run", "run --resume --continue-on-error"] {
            let ended = bench.acb(&format!("{command} small.yaml --output-dir out {limit}"), &[]);
            ended.says(1, &["REFUSE", "exceed the limit"]);
            assert!(!bench.path("out").exists());
        }
    }
    bench.done("plan small.yaml --max-runs 30 --max-requests 1800", &[]);
}

#[test]
fn a_treatment_that_never_differs_from_a_baseline_is_refused() {
    check_refused(
        &[TWINS, TWINS_RULE],
        &["distinct-arms", "base, twin decide alike", "--allow indistinct-arms"],
    );
}

#[test]
fn an_allowed_finding_is_written_above_every_table() {
    let bench = Bench::new();
    let finding = "gate distinct-arms overruled: 2 of 3 arms never differ: base, twin decide alike";
    let run = "run small.yaml --output-dir out --allow indistinct-arms";
    let ran = bench.acb(run, &["--set", TWINS, "--set", TWINS_RULE]);
    ran.says(0, &["distinct-arms overruled", "base, twin"]);
    let manifest = bench.json("out/small-twin-s1/manifest.json");
    assert!(manifest["labels"][0].as_str().unwrap().starts_with(finding), "{manifest}");
    let report = std::fs::read_to_string(bench.path("out/_sweeps/small/report.md")).unwrap();
    assert!(report.contains(finding), "{report}");
    assert!(bench.done("report out --format markdown", &[]).out.contains(finding));
}

#[test]
fn factors_that_determine_each_other_are_refused() {
    check_refused(
        &["workload.stickiness=1"],
        &["aliased-factors", "session and task", "--allow aliased-factors"],
    );
}

#[test]
fn too_few_blocks_for_the_claim_are_refused_with_the_number_that_would_do() {
    check_refused(&["seeds.count=5"], &["unit-floor", "5 blocks", "plan at least 6 seeds"]);
    let bench = Bench::new();
    bench
        .done("run small.yaml --output-dir out --allow unit-floor --set seeds.count=5", &[])
        .says(0, &["unit-floor overruled"]);
    assert_eq!(bench.count("out", "complete"), CELLS / 6 * 5);
}

#[test]
fn the_plan_as_registered_has_its_size_and_its_five_indistinct_arms() {
    let bench = Bench::new();
    let registered = include_str!("../../../../experiments/e001/canonical-as-registered.yaml");
    bench.write("registered.yaml", registered);
    bench.acb("plan registered.yaml", &[]).says(
        1,
        &[
            "378 runs",
            "45,360 requests",
            "4.725",
            "5 of 7 arms never differ: semantic, sticky_session, cache_static, specialists, oracle",
            "REFUSE",
        ],
    );
    let plan = bench.acb("plan registered.yaml --json", &[]).json();
    assert_eq!(plan["estimate"]["runs"], 378);
    assert_eq!(plan["estimate"]["requests"], 45_360);
    assert!((plan["estimate"]["gpu_hours"].as_f64().unwrap() - 4.725).abs() < 1e-9);
}

const MERGED: &str = "cluster.what_if={merged: [{replica: 0, adapter: ADAPTER}]}";

#[test]
fn an_arm_that_sends_requests_where_an_adapter_is_merged_in_is_refused_by_name() {
    let merged = MERGED.replace("ADAPTER", "multitask");
    let blind = "arms.base.policy={kind: round_robin, adapter_choice: base}";
    let words = ["merged-replicas", "arm base sends", "for base to replica 0, which serves multitask only"];
    check_refused(&["cluster.replicas=2", &merged, blind], &words);
}

#[test]
fn a_what_if_is_in_every_record_and_above_every_table() {
    let bench = Bench::new();
    let sets =
        ["cluster.what_if={alora: {invocation_tokens: 16}}", "cluster.adapter_tiers.prefetch=on_arrival"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    bench.done("run small.yaml --output-dir out", &sets);
    let rows = std::fs::read_to_string(bench.path("out/small-base-s1/requests.jsonl")).unwrap();
    let engine = r#""engine":"vllm-0.33.0 (simulated, what-if: alora, prefetch on_arrival)""#;
    assert!(rows.lines().count() > 0 && rows.lines().all(|row| row.contains(engine)), "{rows}");
    let report = bench.done("report out --format markdown", &[]).out;
    for words in ["what-if: alora; no runtime does this today", "what-if: prefetch on_arrival"] {
        assert!(report.contains(words), "{report}");
    }
}
