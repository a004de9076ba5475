//! `acb import legacy` and `acb evidence review`: runs of the original harness through the front door.

use crate::bench::{Bench, Ended};
use crate::schema::departures;
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

/// The bench with a copy of the sample runs in `legacy`.
fn samples() -> Bench {
    let bench = Bench::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/legacy"), &bench.path("legacy"));
    bench
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
}

fn run<'a>(document: &'a Json, name: &str) -> &'a Json {
    document["runs"].as_array().unwrap().iter().find(|run| run["run_id"] == name).unwrap()
}

fn reasons(run: &Json) -> Vec<&str> {
    run["obstacles"].as_array().unwrap().iter().map(|o| o["reason"].as_str().unwrap()).collect()
}

fn follows(bench: &Bench, schema: &str, ended: &Ended) {
    let text = bench.done(&format!("schema {schema}"), &[]);
    let found = departures(&text.json(), &ended.json());
    assert!(found.is_empty(), "{schema}: {found:#?}");
}

#[test]
fn both_forms_are_read_and_each_run_says_why_it_stands_where_it_does() {
    let bench = samples();
    let imported = bench.done("import legacy legacy --json", &[]);
    follows(&bench, "import", &imported);
    let document = imported.json();
    let expected = [
        ("newer-failed", "newer", "failed", "failed", vec!["not_whole", "not_blocked"], 0),
        ("newer-mock", "newer", "complete", "whole", vec!["mock", "not_blocked"], 0),
        ("newer-reset", "newer", "complete", "whole", vec!["not_blocked"], 3),
        (
            "older-concurrent",
            "older",
            "",
            "unknown",
            vec!["no_status", "no_reset", "old_metric", "not_blocked"],
            0,
        ),
    ];
    for (name, form, claimed, found, why, rung) in expected {
        let run = run(&document, name);
        assert_eq!((&run["form"], &run["rung"]), (&form.into(), &rung.into()), "{name}");
        assert_eq!(run["lifecycle"]["claimed"].as_str().unwrap_or_default(), claimed, "{name}");
        assert_eq!((run["lifecycle"]["found"].as_str(), reasons(run)), (Some(found), why), "{name}");
        assert_eq!(run["kind"], "legacy_run");
    }
    assert!(reasons(run(&document, "older-sequential")).contains(&"unanswerable"));
    let server = &run(&document, "newer-reset")["server"];
    assert_eq!(server["vllm:prefix_cache_hits_total"]["value"], 320.0);
    assert_eq!(server["vllm:prompt_tokens_cached_total"]["value"], Json::Null, "0 and absent look alike");
    assert_eq!(server["vllm:num_requests_running"], Json::Null, "a gauge is no count");
}

#[test]
fn complete_after_ctrl_c_is_recognised() {
    let bench = samples();
    let ended = bench.done("import legacy legacy/newer-stopped", &[]);
    ended.says(
        0,
        &[
            "interrupted",
            "status.json says complete, but 5 of 12 planned requests have a row",
            "stopped by Ctrl-C",
        ],
    );
    let stopped = bench.done("import legacy legacy/newer-stopped --json", &[]).json();
    assert_eq!(reasons(run(&stopped, "newer-stopped")), ["not_whole", "old_metric", "not_blocked"]);
    // Killed inside a line, and status files that say so or lie otherwise.
    let rows = bench.path("legacy/newer-reset/requests.jsonl");
    let whole = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, &whole[..whole.len() - 40]).unwrap();
    bench.done("import legacy legacy/newer-reset", &[]).says(0, &["interrupted", "11 of 12 planned"]);
    fs::write(&rows, whole).unwrap();
    fs::remove_file(bench.path("legacy/newer-reset/summary.json")).unwrap();
    bench.done("import legacy legacy/newer-reset", &[]).says(0, &["there is no summary.json"]);
}

#[test]
fn the_old_definitions_give_what_was_published_and_stand_beside_ours() {
    let bench = samples();
    let document = bench.done("import legacy legacy --compat --json", &[]).json();
    for (name, definition) in [
        ("older-sequential", "goodput_times_mean_quality"),
        ("older-concurrent", "goodput_times_mean_quality"),
        ("newer-mock", "sum_on_time"),
        ("newer-reset", "sum_on_time"),
        ("newer-failed", "sum_on_time"),
    ] {
        let run = run(&document, name);
        assert_eq!(run["qag_definition"], definition, "{name}");
        let rows = run["compat"].as_array().unwrap();
        assert_eq!(rows.len(), 17);
        for row in rows.iter().filter(|row| row["metric"] != "quality_adjusted_goodput") {
            assert_eq!(row["agrees"], true, "{name}: {row}");
        }
        let adjusted: Vec<_> =
            rows.iter().filter(|row| row["metric"] == "quality_adjusted_goodput").collect();
        let agree: Vec<bool> = adjusted.iter().map(|row| row["agrees"].as_bool().unwrap()).collect();
        assert_eq!(agree, [definition != "sum_on_time", definition == "sum_on_time"], "{name}");
        assert_eq!(adjusted[1]["recomputed"], adjusted[0]["ours"]);
    }
    let rows = run(&document, "newer-failed")["compat"].as_array().unwrap();
    let of = |metric: &str| rows.iter().find(|row| row["metric"] == metric).unwrap();
    let (old, ours) =
        (of("slo_attainment_rate")["recomputed"].as_f64(), of("slo_attainment_rate")["ours"].as_f64());
    assert!((ours.unwrap() - old.unwrap() * 11.0 / 12.0).abs() < 1e-12, "a failure is a miss");
    assert!(of("p99_ttft_ms")["reason"].as_str().unwrap().contains("not estimable"));
    bench
        .done("import legacy legacy/newer-reset --compat", &[])
        .says(0, &["from July 2026", "old definitions beside ours"]);
}

#[test]
fn imported_runs_are_written_once_and_reviewed() {
    let bench = samples();
    let before = bench.files("legacy");
    bench.done("import legacy legacy --out imported", &[]);
    assert_eq!(bench.files("legacy"), before, "the source is read only");
    assert_eq!(bench.files("imported").len(), 6);
    bench.acb("import legacy legacy --out imported", &[]).says(2, &["not overwritten; choose another --out"]);
    let reviewed = bench.done("evidence review imported --json", &[]);
    follows(&bench, "review", &reviewed);
    assert_eq!(reviewed.json()["imported"].as_array().unwrap().len(), 6);
    let shown = bench.done("evidence review imported", &[]);
    shown.says(
        0,
        &["readme_headline", "old metric definition", "unanswerable workload", "no status.json", "no reset"],
    );
    bench.done("evidence review --show readme_headline", &[]).says(0, &["666.0", "62.3", "rung L0"]);
    bench.acb("evidence review --show nothing", &[]).says(2, &["readme_headline"]);
    bench.acb("evidence review legacy", &[]).says(2, &["holds no imported run"]);
}

/// Spoils one file of a run; the run is refused by these words, the others are read.
fn refused(file: &str, spoil: impl Fn(&str) -> String, words: &[&str]) {
    let bench = samples();
    let path = bench.path("legacy/newer-reset").join(file);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, spoil(&text)).unwrap();
    let ended = bench.acb("import legacy legacy --out imported", &[]);
    ended.says(1, &[&["refused legacy/newer-reset"], words].concat());
    assert_eq!(bench.files("imported").len(), 5, "the others are imported");
}

#[test]
fn malformed_folders_are_refused_with_place_and_remedy() {
    let first_twice = |text: &str| format!("{}\n{text}", text.lines().next().unwrap());
    refused(
        "requests.jsonl",
        first_twice,
        &["requests.jsonl:2: request \"w-00000\" has a second row", "leave this run out"],
    );
    let nan = |text: &str| text.replacen("\"queue_ms\": 0.0", "\"queue_ms\": NaN", 1);
    refused("requests.jsonl", nan, &["requests.jsonl:1: expected value", "NaN and Infinity"]);
    let huge = |text: &str| format!("{text}{}\n", "[".repeat(2 << 20));
    refused("requests.jsonl", huge, &["requests.jsonl:13: the line is longer than 1048576 bytes"]);
    let negative = |text: &str| text.replacen("\"ttft_ms\": ", "\"ttft_ms\": -", 1);
    refused("requests.jsonl", negative, &["requests.jsonl:1: request \"w-00000\": ttft_ms is negative"]);
    let blank = |text: &str| text.replacen('\n', "\n\n", 1);
    refused("requests.jsonl", blank, &["requests.jsonl:2: the line is empty"]);
    let neither = |text: &str| text.replacen("\"response\"", "\"reply\"", 1);
    refused(
        "requests.jsonl",
        neither,
        &["requests.jsonl:1: request \"w-00000\" needs either a response or an error"],
    );
    refused(
        "summary.json",
        |text| text.replace("\"mean_quality\": ", "\"mean_quality\": Infinity, \"was\": "),
        &["summary.json: expected value", "leave this run out"],
    );
    refused(
        "manifest.json",
        |text| text.replace("\"run_id\": \"newer-reset\"", "\"run_id\": \"../../escape\""),
        &["manifest.json: is of run \"../../escape\"", "give the folder the name of its run"],
    );
    refused("status.json", |_| "[]".to_owned(), &["status.json: invalid"]);
    refused(
        "config_resolved.yaml",
        |text| text.replace("ttft_slo_ms: 200", "ttft_slo_ms: soon"),
        &["config_resolved.yaml: line 7, column 16", "backend.ttft_slo_ms is no number above 0"],
    );
    refused("config_resolved.yaml", |text| format!("{text}a: [\n"), &["config_resolved.yaml"]);
}

#[test]
fn a_folder_of_this_program_and_a_folder_of_nothing_are_named() {
    let bench = samples();
    bench.done("run small.yaml --output-dir out", &[]);
    bench
        .acb("import legacy out/small-base-s1", &[])
        .says(1, &["is a run of this program; read it with `acb report`"]);
    fs::create_dir(bench.path("empty")).unwrap();
    bench.acb("import legacy empty", &[]).says(2, &["holds no run of the original harness"]);
    bench.acb("import legacy absent", &[]).says(2, &["absent"]);
}

#[cfg(unix)]
#[test]
fn links_out_of_a_folder_are_refused_and_nothing_is_written_through_them() {
    use std::os::unix::fs::symlink;
    let bench = samples();
    bench.write("secret.jsonl", "{\"secret\": 1}\n");
    let rows = bench.path("legacy/newer-reset/requests.jsonl");
    fs::remove_file(&rows).unwrap();
    symlink(bench.path("secret.jsonl"), &rows).unwrap();
    symlink(bench.path("legacy/newer-mock"), bench.path("legacy/linked")).unwrap();
    fs::remove_file(bench.path("legacy/newer-mock/manifest.json")).unwrap();
    fs::create_dir(bench.path("legacy/newer-mock/manifest.json")).unwrap();
    let ended = bench.acb("import legacy legacy --out imported", &[]);
    ended.says(
        1,
        &[
            "requests.jsonl: is a symbolic link, which is not followed",
            "linked: a symbolic link",
            "is not a plain file",
        ],
    );
    assert!(!ended.err.contains("secret\": 1"), "what lies outside is not shown");
    // A target that is a link is not written through either.
    fs::create_dir_all(bench.path("second")).unwrap();
    symlink(bench.path("legacy"), bench.path("second/newer-failed")).unwrap();
    bench
        .acb("import legacy legacy/newer-failed --out second", &[])
        .says(2, &["is not a folder; choose another --out"]);
    assert!(!bench.path("legacy/legacy.json").exists());
}
