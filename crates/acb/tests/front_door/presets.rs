//! Published cases that ship: each plans without a refusal, and is changed like a file.

use crate::bench::Bench;

/// All presets, by their listing.
fn names(bench: &Bench) -> Vec<String> {
    let listed = bench.done("list presets", &[]).out;
    listed.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_preset_passes_its_gates_and_carries_its_name() {
    let bench = Bench::new();
    let trace = include_bytes!("../../../workload/tests/data/mooncake-sample.jsonl");
    bench.write("conversation_trace.jsonl", trace);
    for name in names(&bench) {
        // Gates look at what is replayed, and small samples of these workloads are like large ones.
        let requests = if name == "mooncake_cache_ratios" { 3 } else { 200 };
        let plan =
            bench.done(&format!("plan --preset {name} --json --set workload.requests={requests}"), &[]);
        let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
        assert_eq!(plan["experiment"], name.as_str());
        assert_eq!(plan["refused"], false, "{name}");
        let allowed = |gate: &serde_json::Value| gate["status"] == "allowed";
        assert!(!plan["gates"].as_array().unwrap().iter().any(allowed), "{name}");
    }
}

#[test]
fn a_preset_without_its_trace_says_which_file_is_missing() {
    let shown = Bench::new().acb("plan --preset mooncake_cache_ratios", &[]);
    shown.says(2, &["conversation_trace.jsonl"]);
}

#[test]
fn a_wrong_name_is_refused_with_the_nearest() {
    Bench::new().acb("run --preset queue", &[]).says(2, &["queue", "queues"]);
}

#[test]
fn a_preset_is_changed_by_files_and_by_set_and_its_faults_have_their_place() {
    let bench = Bench::new();
    bench.write("more.yaml", "seeds: [1, 2, 3]\n");
    let shown = bench.done("plan more.yaml --preset queues --set workload.requests=100", &[]);
    shown.says(0, &["18 = 1 arms x 6 levels x 3 blocks", "1,800"]);
    bench.acb("plan --preset queues --set cluster.replicas=0", &[]).says(2, &["cluster.replicas"]);
    bench.acb("plan", &[]).says(2, &["--preset"]);
}

#[test]
fn a_preset_runs_and_shows_what_was_published() {
    let bench = Bench::new();
    let words = "run --preset adapter_residency --set workload.requests=4000 --output-dir out";
    let ran = bench.done(words, &["--set", "factors={cluster.engine.max_loras: [8, 32]}"]);
    ran.says(0, &["By level: medians over blocks", "adapter_loads_cpu", "max_loras = 32"]);
    for (slots, published) in [(8, 0.3453), (32, 0.6895)] {
        let summary = bench.json(&format!("out/adapter_residency-serve-max_loras-{slots}-s1/summary.json"));
        let loads = |from: &str| summary["metrics"][from]["value"].as_f64().unwrap();
        let hits = 1.0 - (loads("adapter_loads_cpu") + loads("adapter_loads_disk")) / 4000.0;
        assert!((hits - published).abs() < 0.03, "{slots} slots: {hits}");
    }
}

#[test]
fn a_merged_server_switches_between_its_adapters_and_answers_every_request() {
    let bench = Bench::new();
    let words = "run --preset s_lora_merge_crossover --set workload.requests=400 --output-dir out";
    bench.done(words, &["--set", "factors={adapters.generate.count: [2]}", "--set", "seeds=[1]"]);
    let summary = bench.json("out/s_lora_merge_crossover-serve-count-2-s1/summary.json");
    let value = |metric: &str| summary["metrics"][metric]["value"].as_f64().unwrap();
    assert_eq!(value("failure_share"), 0.0);
    assert!(value("adapter_loads_cpu") > 2.0, "{}", value("adapter_loads_cpu"));
}
