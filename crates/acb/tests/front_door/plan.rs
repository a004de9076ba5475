//! `plan` and its like: they show and don't touch.

use crate::bench::Bench;

#[test]
fn a_plan_shows_cells_requests_and_gates_and_writes_nothing() {
    let bench = Bench::new();
    let gates = ["distinct-arms", "aliased-factors", "unit-floor", "answerable-tasks", "budget"];
    for command in ["plan small.yaml --output-dir out", "run small.yaml --output-dir out --dry-run"] {
        let shown = bench.done(command, &[]);
        shown.says(0, &["30 runs", "1,800 requests", "30 = 5 arms x 1 levels x 6 blocks"]);
        shown.says(0, &gates);
        assert_eq!(bench.files("").into_keys().collect::<Vec<_>>(), ["small.yaml"], "{command}");
    }
    bench.done("doctor small.yaml --output-dir out", &[]);
    assert_eq!(bench.files("").into_keys().collect::<Vec<_>>(), ["small.yaml"]);
}

#[test]
fn a_plan_beside_finished_runs_leaves_them_as_they_are() {
    let bench = Bench::new();
    bench.done("run small.yaml --output-dir out", &[]);
    let before = bench.files("out");
    bench.done("plan small.yaml --output-dir out", &[]);
    bench.done("plan small.yaml --output-dir out --set workload.requests=70", &[]);
    bench.done("report out", &[]);
    assert_eq!(before, bench.files("out"));
}

#[test]
fn without_a_terminal_the_program_talks_in_one_line_and_prints_data() {
    let bench = Bench::new();
    let ran = bench.done("run small.yaml --output-dir out", &[]);
    assert_eq!(ran.err.lines().count(), 1, "no progress bar where no terminal is: {}", ran.err);
    assert!(ran.out.contains("record digest: "));
    assert_eq!(bench.done("report out", &[]).err, "");
    assert_eq!(bench.done("plan small.yaml", &[]).err, "");
}

#[test]
fn every_command_has_help_and_every_shell_completions() {
    let bench = Bench::new();
    let commands = ["", "plan", "run", "report", "doctor", "schema", "list", "trace info", "completions"];
    for command in commands {
        bench.done(&format!("{command} --help"), &[]).says(0, &["Usage: acb"]);
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(bench.done(&format!("completions {shell}"), &[]).out.contains("acb"));
    }
}

#[test]
fn factors_multiply_the_cells() {
    let bench = Bench::new();
    let factors = "factors={workload.arrivals.rate_rps: [5, 10], cluster.replicas: [1, 2, 4]}";
    bench.acb("plan small.yaml --set", &[factors]).says(0, &["180 = 5 arms x 6 levels x 6 blocks", "10,800"]);
}

#[test]
fn files_merge_from_left_to_right_and_set_goes_last() {
    let bench = Bench::new();
    bench.write("more.yaml", "workload: {requests: 90}\nseeds: {first: 1, count: 7}\n");
    bench.done("plan small.yaml more.yaml", &[]).says(0, &["35 runs", "3,150 requests"]);
    bench.done("plan small.yaml more.yaml --set workload.requests=10", &[]).says(0, &["350 requests"]);
}
