//! `acb bench` on a scripted server, as a user types it.

use crate::bench::{Bench, Ended};
use crate::schema::departures;
use acb_fake::shapes::{Script, ShapeOptions, ShapeServer};
use acb_types::Nanos;
use serde_json::Value as Json;
use std::process::Command;

fn server() -> ShapeServer {
    let script = Script {
        ttft_ns: Nanos::from_millis(10),
        itl_ns: Nanos::from_millis(2),
        tokens: 8,
        ..Script::default()
    };
    ShapeServer::launch(ShapeOptions::from(script)).unwrap()
}

/// Exit status 1 is a busy machine's: the client found itself late and says so. Anything else is a fault.
fn ran(bench: &Bench, words: &str) -> Ended {
    let ended = bench.acb(words, &[]);
    let late = ended.code == Some(1) && (ended.out.contains("INVALID") || ended.out.contains("\"invalid\""));
    assert!(ended.code == Some(0) || late, "acb {words}\n{}{}", ended.out, ended.err);
    ended
}

fn lines(bench: &Bench, file: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(bench.path(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_bench_over_adapters_prints_its_summary_and_leaves_its_rows() {
    let (bench, server) = (Bench::new(), server());
    let words = format!(
        "bench --url {} --rate 100 --adapters a,b,c --popularity zipf:1.0 --requests 60 --output-tokens 8 \
         --warmup 100ms --goodput ttft:60000,e2e:60000 --out out --json",
        server.url()
    );
    let document = ran(&bench, &words).json();
    let schema = bench.done("schema bench", &[]).json();
    assert!(departures(&schema, &document).is_empty(), "{:#?}", departures(&schema, &document));
    let summary = &document["summary"];
    let (all, warm) =
        (summary["all"]["requests"].as_u64().unwrap(), summary["warmup_requests"].as_u64().unwrap());
    assert_eq!((all + warm, &summary["endings"]["ok"]), (60, &Json::from(all)));
    assert_eq!(summary["all"]["good"], all);
    assert_eq!(summary["all"]["latencies"]["ttft_from_due_ms"]["n"], all);
    assert_eq!(summary["adapters"].as_array().unwrap().len(), 3);
    assert_eq!(summary["simulated"], all, "the scripted server says what it is");
    let (records, seen) = (lines(&bench, "out/requests.jsonl"), lines(&bench, "out/observations.jsonl"));
    assert_eq!((records.len(), seen.len()), (60, 60));
    assert!(records.iter().all(|record| record["source"] == "simulated" && record["outcome"] == "ok"));
    assert_eq!(lines(&bench, "out/routing.jsonl").len(), 3 * 60);
    let again = bench.acb(&words, &[]);
    assert_eq!(again.code, Some(2), "a folder in use is refused");
    assert!(again.err.contains("not empty"), "{}", again.err);
}

#[test]
fn a_person_is_told_load_outcomes_latencies_and_verdict() {
    let (bench, server) = (Bench::new(), server());
    let words = format!("bench --url {} --model base --concurrency 4 --requests 40 --api chat", server.url());
    let told = ran(&bench, &words).out;
    for part in ["SIMULATED", "closed loop of 4 users", "40 ok", "TTFT from send", "TPOT", "self-check"] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
}

#[test]
fn prompts_come_from_files_and_traces() {
    let (bench, server) = (Bench::new(), server());
    bench.write("rows.jsonl", "{\"prompt\":\"one two\",\"output_tokens\":8}\n{\"prompt\":\"three\"}\n");
    bench.write("trace.jsonl", "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 8, \"hash_ids\": [1, 2]}\n{\"timestamp\": 30, \"input_length\": 600, \"output_length\": 8, \"hash_ids\": [1, 3]}\n");
    let base = format!("bench --url {} --model base --json", server.url());
    let rows = ran(&bench, &format!("{base} --dataset jsonl:rows.jsonl --rate 50 --requests 6")).json();
    assert_eq!(rows["summary"]["endings"]["ok"], 6);
    let trace = ran(&bench, &format!("{base} --dataset mooncake:trace.jsonl")).json();
    assert_eq!(trace["summary"]["endings"]["ok"], 2);
}

#[test]
fn a_key_comes_from_the_environment_and_reaches_no_file_and_no_screen() {
    let (bench, server) = (Bench::new(), server());
    let url = server.url();
    let words = ["bench", "--url", &url, "--model", "base", "--concurrency", "1", "--requests", "3"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_acb"));
    command.args(words).args(["--out", "out", "--json", "--api-key-env", "BENCH_KEY"]);
    let output = command.env("BENCH_KEY", "sk-hunter2").current_dir(bench.path("")).output().unwrap();
    let ended = Ended::from(output);
    assert!(!ended.out.contains("hunter2") && !ended.err.contains("hunter2"), "{}", ended.err);
    for file in ["requests.jsonl", "observations.jsonl", "routing.jsonl", "bench.json"] {
        let text = std::fs::read_to_string(bench.path("out").join(file)).unwrap();
        assert!(!text.contains("hunter2"), "{file}");
    }
    let unset =
        bench.acb(&format!("bench --url {url} --model base --rate 1 --api-key-env NOT_SET_HERE"), &[]);
    assert_eq!(unset.code, Some(2));
    assert!(unset.err.contains("NOT_SET_HERE"), "{}", unset.err);
}

#[test]
fn what_makes_no_load_is_refused_with_the_remedy() {
    let bench = Bench::new();
    for (words, remedy) in [
        ("bench --url http://127.0.0.1:1 --model m", "--rate"),
        ("bench --url http://127.0.0.1:1 --rate 5", "--model"),
        ("bench --url 127.0.0.1:1 --model m --rate 5", "http://"),
        ("bench --url http://127.0.0.1:1 --model m --rate 5 --policy best", "acb list policies"),
        ("bench --url http://127.0.0.1:1 --model m --rate 5 --policy oracle", "oracle"),
        ("bench --url http://127.0.0.1:1 --model m --rate 5 --concurrency 2", "--concurrency"),
        ("bench --url http://127.0.0.1:1 --model m --rate 5 --dataset sharegpt:none.json", "none.json"),
        ("bench --url http://127.0.0.1:1 --adapters a,a --rate 5", "named twice"),
    ] {
        let refused = bench.acb(words, &[]);
        assert_eq!(refused.code, Some(2), "{words}: {}", refused.out);
        assert!(refused.err.contains(remedy), "{words}: {}", refused.err);
    }
}

#[test]
fn a_server_that_is_not_there_fails_the_command_and_every_request_has_its_outcome() {
    let bench = Bench::new();
    let gone = server();
    let url = gone.url();
    drop(gone);
    let words = format!("bench --url {url} --model base --rate 100 --requests 10 --json");
    let ended = bench.acb(&words, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert_eq!(ended.json()["summary"]["endings"]["connect_error"], 10);
}
