//! Nanoseconds per generated request: `cargo bench -p acb-workload`.

use acb_types::{AdapterRole, Adapters, Nanos, Seed, TaskId};
use acb_workload::{RequestSource, Workload, WorkloadContext, WorkloadSpec};
use divan::counter::ItemsCount;
use serde_json::json;

const REQUESTS: u64 = 100_000;

fn main() {
    divan::main();
}

fn bench(bencher: divan::Bencher<'_, '_>, value: serde_json::Value) {
    let spec: WorkloadSpec = serde_json::from_value(value).expect("a sound spec");
    let tasks = spec.task_names(&(0..5_000).map(|i| format!("t{i}")).collect::<Vec<_>>());
    let entry = |i: usize| (format!("a{i}"), 16, 1 << 20, AdapterRole::Specialist(TaskId(i as u32)));
    let adapters = Adapters::new((0..tasks.len()).map(entry)).expect("names differ");
    let context = WorkloadContext { tasks: &tasks, adapters: &adapters, context_tokens: 32_768 };
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| Workload::new(&spec, &context, Seed(1)).expect("a sound workload"))
        .bench_local_values(|mut workload| {
            let mut tokens = 0;
            while let Some(arrival) = workload.take() {
                tokens += u64::from(arrival.request.prompt.tokens());
                let end = arrival.request.due + Nanos::from_millis(20);
                workload.ended(arrival.request.id, end);
            }
            tokens
        });
}

#[divan::bench]
fn multi_lora_5000_adapters(bencher: divan::Bencher<'_, '_>) {
    bench(
        bencher,
        json!({"kind": "multi_lora", "requests": REQUESTS, "sessions": 1000, "tenants": 300,
        "popularity": {"law": "zipf", "s": 1.0}, "arrivals": {"kind": "gamma", "rate_rps": 50, "cv": 2}}),
    );
}

#[divan::bench]
fn multi_lora_closed_loop(bencher: divan::Bencher<'_, '_>) {
    bench(
        bencher,
        json!({"kind": "multi_lora", "requests": REQUESTS, "arrivals": {"kind": "closed", "users": 64}}),
    );
}

#[divan::bench]
fn controlled_overlap(bencher: divan::Bencher<'_, '_>) {
    bench(
        bencher,
        json!({"kind": "controlled_overlap", "requests": REQUESTS, "shared_prefix_fraction": 0.75}),
    );
}

#[divan::bench]
fn agent_session(bencher: divan::Bencher<'_, '_>) {
    bench(
        bencher,
        json!({"kind": "agent_session", "requests": REQUESTS, "arrivals": {"kind": "poisson", "rate_rps": 100}}),
    );
}
