//! A sweep that was started before: what is whole is kept, what is not is done again, what is foreign is refused.

use crate::bench::{Bench, CELLS, assert_same_files};
use std::fs::{self, File};

const RUN: &str = "run small.yaml --output-dir out";

#[test]
fn a_second_run_is_refused_unless_it_resumes() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    let before = bench.files("out");
    bench.acb(RUN, &[]).says(2, &["out", "started before", "--resume", "--sweep-name"]);
    assert_same_files(&before, &bench.files("out"));
}

#[test]
fn resuming_a_complete_sweep_runs_nothing_and_reports_the_same() {
    let bench = Bench::new();
    let first = bench.done(&format!("{RUN} --json"), &[]).json();
    let written = |bench: &Bench| {
        let runs = bench.states("out").into_keys();
        let time = |run: String| {
            fs::metadata(bench.path(&format!("out/{run}/requests.jsonl"))).unwrap().modified().unwrap()
        };
        runs.map(time).collect::<Vec<_>>()
    };
    let (before, times) = (bench.files("out"), written(&bench));
    let again = bench.done(&format!("{RUN} --resume --json"), &[]).json();
    assert_eq!(times, written(&bench));
    assert_eq!(
        (again["status"]["skipped"].as_u64(), again["status"]["completed"].as_u64()),
        (Some(CELLS as u64), Some(0))
    );
    assert_eq!(first["record_digest"], again["record_digest"]);
    let mut after = bench.files("out");
    let (mut before, status) = (before, "_sweeps/small/sweep_status.json");
    before.remove(status);
    after.remove(status);
    assert_same_files(&before, &after);
}

#[test]
fn resuming_runs_only_what_is_missing() {
    let bench = Bench::new();
    let first = bench.done(&format!("{RUN} --json"), &[]).json();
    let before = bench.rows("out");
    fs::remove_dir_all(bench.path("out/small-oracle-s2")).unwrap();
    let again = bench.done(&format!("{RUN} --resume --json"), &[]).json();
    assert_eq!(
        (again["status"]["skipped"].as_u64(), again["status"]["completed"].as_u64()),
        (Some(29), Some(1))
    );
    assert_eq!(first["record_digest"], again["record_digest"]);
    assert_same_files(&before, &bench.rows("out"));
}

#[test]
fn an_edited_experiment_is_refused_by_name_and_remedy() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    let before = bench.files("out");
    let edits = [
        "workload.requests=61",
        "slo.ttft_ms=501",
        "cluster.engine.max_num_seqs=9",
        "experiment_seed=2",
        "seeds.count=7",
    ];
    for edit in edits {
        for command in [RUN, "run small.yaml --output-dir out --resume"] {
            bench
                .acb(command, &["--set", edit])
                .says(2, &["out/", "another", "--sweep-name", "--output-dir"]);
            assert_same_files(&before, &bench.files("out"));
        }
    }
    bench.done(&format!("{RUN} --sweep-name longer --set workload.requests=61"), &[]);
}

#[test]
fn limits_and_folders_are_no_part_of_what_an_experiment_is() {
    let bench = Bench::new();
    let first = bench.done(&format!("{RUN} --json --max-runs 100"), &[]).json();
    let again = bench.done(&format!("{RUN} --json --resume --set output_dir=elsewhere"), &[]).json();
    assert_eq!(again["status"]["skipped"], CELLS);
    assert_eq!(first["record_digest"], again["record_digest"]);
    let report = bench.done("report out --json", &[]).json();
    assert_eq!(report["experiments"].as_array().unwrap().len(), 1);
}

#[test]
fn a_folder_of_something_else_is_refused_and_left_alone() {
    let bench = Bench::new();
    bench.write("out/small-oracle-s2/notes.txt", "mine");
    for command in [RUN, "run small.yaml --output-dir out --resume"] {
        bench.acb(command, &[]).says(2, &["out/small-oracle-s2", "holds no run", "--output-dir"]);
        assert_eq!(bench.files("out/small-oracle-s2").into_keys().collect::<Vec<_>>(), ["notes.txt"]);
        assert!(bench.states("out").is_empty(), "nothing was run before the folders were looked at");
    }
}

#[test]
fn a_file_in_the_way_of_a_run_is_named_before_anything_runs() {
    let bench = Bench::new();
    bench.write("out/small-oracle-s2", "a file");
    bench.acb(RUN, &[]).says(2, &["out/small-oracle-s2", "Not a directory", "--output-dir"]);
    assert!(bench.states("out").is_empty());
}

#[test]
fn while_one_process_holds_a_sweep_another_is_refused() {
    let bench = Bench::new();
    bench.write("out/_sweeps/small/lock", "");
    let held = File::open(bench.path("out/_sweeps/small/lock")).unwrap();
    held.lock().unwrap();
    for command in [RUN, "run small.yaml --output-dir out --resume"] {
        bench.acb(command, &[]).says(2, &["_sweeps/small/lock", "another process", "--sweep-name"]);
    }
    assert!(bench.states("out").is_empty());
    bench.done(&format!("{RUN} --sweep-name other"), &[]);
    drop(held);
    bench.done(RUN, &[]);
}

/// Lets the cell `small-oracle-s2` fail: its record file can't be made.
fn obstruct(bench: &Bench) {
    fs::create_dir_all(bench.path("out/small-oracle-s2/requests.jsonl.partial")).unwrap();
}

#[test]
fn a_failed_cell_stops_the_sweep_and_says_why() {
    let bench = Bench::new();
    obstruct(&bench);
    let ended = bench.acb(&format!("{RUN} --resume --jobs 1 --json"), &[]);
    ended.says(1, &["failed: small-oracle-s2", "requests.jsonl", "Is a directory"]);
    let status = bench.json("out/small-oracle-s2/status.json");
    assert_eq!(status["state"], "failed");
    assert!(status["message"].as_str().unwrap().contains("Is a directory"), "{status}");
    assert!(status["record_digest"].is_null());
    let sweep = bench.json("out/_sweeps/small/sweep_status.json");
    assert_eq!(
        (sweep["state"].as_str(), sweep["failed"][0]["run_id"].as_str()),
        (Some("failed"), Some("small-oracle-s2"))
    );
    assert!(bench.count("out", "complete") < CELLS - 1, "no cell is started after a failure");
    assert!(!bench.path("out/_sweeps/small/report.md").exists());
}

#[test]
fn with_continue_on_error_the_other_cells_run_and_resuming_heals_the_sweep() {
    let bench = Bench::new();
    let undisturbed = bench.done("run small.yaml --output-dir whole --json", &[]).json();
    obstruct(&bench);
    bench.acb(&format!("{RUN} --resume --continue-on-error"), &[]).says(1, &["failed: small-oracle-s2"]);
    assert_eq!((bench.count("out", "complete"), bench.count("out", "failed")), (CELLS - 1, 1));
    bench.done("report out", &[]).says(0, &["small-oracle-s2", "Is a directory"]);
    fs::remove_dir(bench.path("out/small-oracle-s2/requests.jsonl.partial")).unwrap();
    let healed = bench.done(&format!("{RUN} --resume --json"), &[]).json();
    assert_eq!(healed["record_digest"], undisturbed["record_digest"]);
    assert_same_files(&bench.rows("whole"), &bench.rows("out"));
    let status = bench.json("out/small-oracle-s2/status.json");
    assert!(status["message"].is_null(), "an old failure doesn't stick: {status}");
}

/// An outcome table in which the specialist of qa is worth this much.
fn table(qa: f64) -> String {
    let row = |own: f64| serde_json::json!({"base": 0.3, "qa": own, "json": own, "multitask": 0.6});
    let quality = serde_json::json!({"qa": row(qa), "json": row(0.8), "summary": row(0.4), "code": row(0.5)});
    serde_json::json!({"v": 1, "quality": quality}).to_string()
}

#[test]
fn changed_data_is_a_changed_experiment() {
    let bench = Bench::new();
    bench.write("one.json", table(0.9));
    bench.write("two.json", table(0.7));
    let words = "run small.yaml --output-dir out --set";
    let source = "quality.source={kind: table, file: one.json}";
    let more = [source, "--set", "factors={quality.source.file: [one.json, two.json]}", "--resume"];
    bench.done(words, &more);
    bench.done(words, &more);
    for (file, old) in [("one.json", 0.9), ("two.json", 0.7)] {
        bench.write(file, table(0.8));
        bench.acb(words, &more).says(2, &["another", "--sweep-name"]);
        bench.write(file, table(old));
    }
    bench.done(words, &more);
}

#[test]
fn levels_whose_names_look_alike_have_folders_of_their_own() {
    let bench = Bench::new();
    bench.write("t/a.json", table(0.9));
    bench.write("t-a.json", table(0.7));
    let source = "quality.source={kind: table, file: t-a.json}";
    let more = [source, "--set", "factors={quality.source.file: [t/a.json, t-a.json]}"];
    bench.done("run small.yaml --output-dir out --set", &more);
    assert_eq!(bench.count("out", "complete"), 2 * CELLS);
}

#[test]
fn a_complete_run_whose_records_were_changed_is_not_taken_for_whole() {
    let bench = Bench::new();
    bench.done(RUN, &[]);
    let path = bench.path("out/small-base-s2/requests.jsonl");
    let whole = fs::read(&path).unwrap();
    let resume = format!("{RUN} --resume");
    let words = ["out/small-base-s2", "requests.jsonl", "move the folder away"];
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    bench.acb(&resume, &[]).says(2, &words);
    fs::remove_file(&path).unwrap();
    bench.acb(&resume, &[]).says(2, &words);
    fs::remove_dir_all(bench.path("out/small-base-s2")).unwrap();
    bench.done(&resume, &[]);
    assert_eq!(fs::read(&path).unwrap(), whole);
}
