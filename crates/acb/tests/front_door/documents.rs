//! Every `--json` output against the schema that `acb schema` prints for it.

use crate::bench::{Bench, Ended};
use crate::schema::departures;

fn check(bench: &Bench, schema: &str, ended: &Ended) {
    let schema_text = bench.done(&format!("schema {schema}"), &[]);
    let found = departures(&schema_text.json(), &ended.json());
    assert!(found.is_empty(), "{schema}: {found:#?}");
}

#[test]
fn what_plan_and_doctor_print_follows_their_schemas() {
    let bench = Bench::new();
    check(&bench, "plan", &bench.done("plan small.yaml --json", &[]));
    check(&bench, "doctor", &bench.done("doctor small.yaml --json", &[]));
    let refused = bench.acb("plan small.yaml --json --max-runs 1", &[]);
    assert_eq!(refused.code, Some(1));
    assert_eq!(refused.json()["refused"], true);
    check(&bench, "plan", &refused);
    check(&bench, "plan", &bench.done("run small.yaml --dry-run --json", &[]));
}

#[test]
fn what_run_and_report_print_follows_their_schemas() {
    let bench = Bench::new();
    let ran = bench.done("run small.yaml --output-dir out --json", &[]);
    check(&bench, "run", &ran);
    assert_eq!(ran.json()["status"]["state"], "complete");
    check(&bench, "report", &bench.done("report out --json", &[]));
    let same = bench.done("report out --format json", &[]);
    assert_eq!(bench.done("report out --json", &[]).out, same.out);
}

#[test]
fn what_the_lists_print_follows_their_schema() {
    let bench = Bench::new();
    for what in ["policies", "workloads", "metrics", "profiles"] {
        let listed = bench.done(&format!("list {what} --json"), &[]);
        assert!(!listed.json().as_array().unwrap().is_empty());
        check(&bench, "list", &listed);
    }
}

#[test]
fn what_memory_prints_follows_its_schema_and_says_by_its_status_whether_the_engine_starts() {
    let bench = Bench::new();
    let small =
        "memory --model qwen2.5-7b --gpu l4 --utilization 0.85 --max-rank 8 --overhead-gib 4.5035 --json";
    let starts = bench.done(&format!("{small} --slots 5"), &[]);
    check(&bench, "memory", &starts);
    let fails = bench.acb(&format!("{small} --slots 8"), &[]);
    assert_eq!((fails.code, &fails.json()["starts"]), (Some(1), &serde_json::Value::Bool(false)));
    check(&bench, "memory", &fails);
    let unknown = bench.acb("memory --model qwen2.5-7b --gpu tpu", &[]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("h200"), "{}", unknown.err);
}

#[test]
fn what_validate_prints_follows_its_schema_and_a_failed_case_fails_the_command() {
    let bench = Bench::new();
    let passed = bench.done("validate memory_starts mooncake_cache_ratios --json", &[]);
    assert_eq!(passed.json()["failed"], 0);
    check(&bench, "validate", &passed);
    let failed = bench.acb("validate sglang_residency_cliff --json", &[]);
    assert_eq!((failed.code, &failed.json()["failed"]), (Some(1), &serde_json::Value::from(1)));
    assert!(
        failed.err.contains("1 of 1 rows are outside their tolerance or bound, all as recorded"),
        "{}",
        failed.err
    );
    let computed = bench.done("validate memory_starts", &[]).out;
    assert!(computed.contains("computed now by acb"), "{computed}");
    check(&bench, "validate", &bench.done("validate --recorded --json", &[]));
    let unknown = bench.acb("validate nothing", &[]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("multi_lora_runs"), "{}", unknown.err);
}

#[test]
fn what_trace_info_prints_follows_its_schema() {
    let bench = Bench::new();
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n";
    bench.write("azure.csv", azure);
    check(&bench, "trace", &bench.done("trace info azure.csv --json", &[]));
    let mooncake = "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [1, 2]}\n{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [1, 3]}\n";
    bench.write("mooncake.jsonl", mooncake);
    check(&bench, "trace", &bench.done("trace info mooncake.jsonl --json", &[]));
}

#[test]
fn what_a_rejected_experiment_prints_follows_its_schema() {
    let bench = Bench::new();
    for command in ["plan", "doctor", "run"] {
        let faults = bench
            .acb(&format!("{command} small.yaml --json --set cluster.replicas=0 --set slo.ttft_ms=-1"), &[]);
        assert_eq!(faults.code, Some(2), "{}", faults.err);
        check(&bench, "faults", &faults);
        assert!(!faults.json().as_array().unwrap().is_empty());
    }
}

#[test]
fn the_schema_of_experiments_allows_the_experiment_that_ran() {
    let bench = Bench::new();
    let schema = bench.done("schema", &[]).json();
    assert_eq!(schema["properties"]["arms"]["type"], "array");
    assert_eq!(schema["additionalProperties"], false);
}
