//! `acb bench` on a scripted server, as a user types it.

use crate::bench::{Bench, Ended};
use crate::schema::departures;
use crate::serve_fake::{get, started, stopped};
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

/// Two tokens of this tokenizer for each ` tok` of the scripted answers.
const HALVES: &str = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ".."}, "behavior": "Isolated", "invert": false},
    "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {" t": 0, "ok": 1, "?": 2}, "unk_token": "?"}}"#;

#[test]
fn t19_answers_counted_by_another_tokenizer_are_told_beside_the_servers_count_and_kept_nowhere() {
    let bench = Bench::new();
    let script =
        Script { ttft_ns: Nanos::from_millis(20), itl_ns: Nanos::from_millis(20), ..Script::default() };
    let server = ShapeServer::launch(ShapeOptions::from(script)).unwrap();
    bench.write("tokenizer.json", HALVES);
    let words = format!(
        "bench --url {} --model base --concurrency 1 --requests 2 --output-tokens 16 --tokenizer tokenizer.json --out out",
        server.url()
    );
    let told = ran(&bench, &words).out;
    assert!(told.contains("32 by the server, 64 by the tokenizer: MISMATCH in 2 of 2 answers"), "{told}");
    let document = bench.json("out/bench.json");
    assert_eq!(document["summary"]["all"]["output_tokens"], 32, "{document}");
    // 20 ms between two tokens by the server's count; half of that by the other.
    assert!(
        document["summary"]["all"]["latencies"]["tpot_ms"]["mean"].as_f64().unwrap() >= 19.0,
        "{document}"
    );
    for file in ["requests.jsonl", "observations.jsonl", "bench.json"] {
        assert!(
            !std::fs::read_to_string(bench.path("out").join(file)).unwrap().contains("tok tok"),
            "{file}"
        );
    }
    let refused = bench
        .acb(&format!("{words}2 --tokenizer small.yaml").replace(" --tokenizer tokenizer.json", ""), &[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("small.yaml") && refused.err.contains("tokenizer.json"), "{}", refused.err);
}

#[test]
fn t21_one_failure_of_four_is_a_rate_of_a_quarter_and_is_in_no_latency() {
    let bench = Bench::new();
    let options = ShapeOptions { fail_every: Some(4), ..ShapeOptions::from(Script::default()) };
    let server = ShapeServer::launch(options).unwrap();
    let words = format!("bench --url {} --model base --concurrency 1 --requests 4 --json", server.url());
    let document = ran(&bench, &words).json();
    let summary = &document["summary"];
    assert_eq!(summary["endings"], serde_json::json!({"ok": 3, "http_error": 1}));
    for measure in ["ttft_from_send_ms", "e2e_from_send_ms"] {
        assert_eq!(summary["all"]["latencies"][measure]["n"], 3, "{measure}: {document}");
    }
    let rate = summary["ok_rps"].as_f64().unwrap() * summary["window_s"].as_f64().unwrap();
    assert!((rate - 3.0).abs() < 1e-6, "throughput is of those that ended well: {rate}");
}

/// Requests of one seed, of 160 prompt tokens that none shares with another.
fn cold_load(url: &str, more: &str) -> String {
    format!(
        "bench --url {url} --runtime vllm --model base --seed 5 --rate 100 --requests 20 --input-tokens 160 --output-tokens 2 {more}"
    )
}

#[test]
fn t30_a_run_finds_nothing_of_an_earlier_one_in_the_cache_unless_it_asks_the_same_and_then_is_warned() {
    let bench = Bench::new();
    let (child, addrs) = started(&["--engine", "vllm", "--model", "base", "--time-scale", "20"], 1);
    let url = format!("http://{}", addrs[0]);
    let share = |told: &Ended| told.json()["unexpected_cached_share"].as_f64().unwrap();
    for _ in 0..2 {
        let cold = ran(&bench, &cold_load(&url, "--json"));
        assert_eq!(share(&cold), 0.0, "each run has a number of its own in its prompts");
    }
    assert_eq!(share(&ran(&bench, &cold_load(&url, "--same-prompts --json"))), 0.0);
    let warm = ran(&bench, &cold_load(&url, "--same-prompts"));
    assert!(warm.out.contains("WARM CACHE") && warm.out.contains("--same-prompts"), "{}", warm.out);
    stopped(child);
}

#[test]
fn t36_each_of_twelve_adapters_on_eight_slots_has_its_share_its_tail_and_its_count() {
    let bench = Bench::new();
    let names: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    let names = names.join(",");
    let arguments = ["--engine", "vllm", "--adapters", &names, "--slots", "8", "--time-scale", "50"];
    let (child, addrs) = started(&arguments, 1);
    let words = format!(
        "bench --url http://{} --runtime vllm --adapters {names} --popularity zipf:1.0 --rate 200 --requests 600 \
         --input-tokens 32 --output-tokens 4 --seed 3 --out out",
        addrs[0]
    );
    let told = ran(&bench, &words).out;
    assert!(told.contains("worst adapter: a"), "{told}");
    let document = bench.json("out/bench.json");
    let adapters = document["summary"]["adapters"].as_array().unwrap();
    let total: f64 = (1..=12).map(|k| 1.0 / f64::from(k)).sum();
    let mut chi_square = 0.0;
    for (adapter, rank) in adapters.iter().zip(1..=12) {
        let n = adapter["all"]["requests"].as_f64().unwrap();
        let expected = 600.0 / f64::from(rank) / total;
        chi_square += (n - expected).powi(2) / expected;
        assert_eq!(adapter["all"]["latencies"]["ttft_from_due_ms"]["n"].as_f64(), Some(n));
        assert!(adapter["all"]["latencies"]["ttft_from_due_ms"]["p50"].is_number(), "{adapter}");
        // A 99th percentile is shown only where 299 requests or more stand behind it.
        assert_eq!(
            adapter["all"]["latencies"]["ttft_from_due_ms"]["p99"].is_number(),
            n >= 299.0,
            "{adapter}"
        );
        assert_eq!(
            adapter["cold"]["requests"].as_f64().unwrap() + adapter["warm"]["requests"].as_f64().unwrap(),
            n
        );
    }
    assert!(chi_square < 31.26, "99.9th percentile of chi-square with 11 degrees of freedom: {chi_square}");
    stopped(child);
}

#[test]
fn t37_the_adapter_of_a_request_is_the_clients_although_the_servers_series_say_base() {
    let bench = Bench::new();
    let (child, addrs) =
        started(&["--engine", "vllm", "--model", "base", "--adapters", "sql,chat", "--time-scale", "50"], 1);
    let words = format!(
        "bench --url http://{} --runtime vllm --adapters sql,chat --rate 100 --requests 20 --input-tokens 16 \
         --output-tokens 2 --out out",
        addrs[0]
    );
    ran(&bench, &words);
    let named = |row: &Json| row["adapter"].as_str().unwrap().to_owned();
    let rows: std::collections::BTreeSet<String> =
        lines(&bench, "out/requests.jsonl").iter().map(named).collect();
    assert_eq!(Vec::from_iter(rows), ["chat", "sql"]);
    let metrics = get(&addrs[0], "/metrics");
    let of_success: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("vllm:request_success_total{")).collect();
    assert!(!of_success.is_empty());
    for line in of_success {
        assert!(line.contains("model_name=\"base\"") && !line.contains("sql"), "{line}");
    }
    stopped(child);
}
