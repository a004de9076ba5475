//! Small records and manifests for tests.

use crate::{
    AdapterRef, ArmRole, FILE_VERSION, Manifest, Metric, PlannedRun, ProfileRef, Run, RunState, Status,
    Summary, SweepArm, SweepPlan,
};
use acb_types::{
    Digest, Nanos, Outcome, RECORD_VERSION, Record, ReplicaId, RequestId, ServerCounters, ServerRow,
    SessionId, Slo, Source, TenantId, TrustGroupId,
};
use std::collections::BTreeMap;

/// Milliseconds as time.
pub(crate) fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// An answered request, due at `100 * id` ms: sent 1 ms later, admitted at 11 ms, first token at 50 ms, 5 tokens,
/// last token at 90 ms (each after the due time).
pub(crate) fn record(id: u64) -> Record<'static> {
    let due = ms(100 * id);
    Record {
        v: RECORD_VERSION,
        request: RequestId(id),
        ask: id,
        session: SessionId(id),
        turn: 0,
        tenant: TenantId((id % 2) as u32),
        trust_group: TrustGroupId(0),
        task: "qa".into(),
        source: Source::Simulated,
        engine: "vllm (simulated)".into(),
        adapter: "base".into(),
        replica: Some(ReplicaId(0)),
        reason: "round_robin".into(),
        outcome: Outcome::Ok,
        due_ns: due,
        sent_ns: due + ms(1),
        admitted_ns: Some(due + ms(11)),
        first_token_ns: Some(due + ms(50)),
        last_token_ns: Some(due + ms(90)),
        ended_ns: due + ms(90),
        itl_max_ns: Some(ms(16)),
        prompt_tokens: 100,
        output_tokens: 5,
        simulated_prefix_hit_tokens: Some(40),
        server_prefix_hit_tokens: None,
        adapter_load: None,
        preemptions: 0,
        overtaken: 0,
        quality: Some(1.0),
        quality_source: "synthetic_table".into(),
        absent: BTreeMap::new(),
    }
}

/// A request that came to nothing: only due and sent are known.
pub(crate) fn failure(id: u64, outcome: Outcome) -> Record<'static> {
    let answered = record(id);
    Record {
        outcome,
        ended_ns: answered.sent_ns,
        admitted_ns: None,
        first_token_ns: None,
        last_token_ns: None,
        itl_max_ns: None,
        output_tokens: 0,
        simulated_prefix_hit_tokens: None,
        quality: Some(0.0),
        ..answered
    }
}

/// A record as a line of a file.
pub(crate) fn record_line(record: &Record<'_>) -> String {
    serde_json::to_string(record).unwrap() + "\n"
}

/// A server row without numbers.
pub(crate) fn server_row(at: Nanos, replica: u32) -> ServerRow {
    ServerRow {
        v: RECORD_VERSION,
        at_ns: at,
        replica: ReplicaId(replica),
        source: Source::Simulated,
        running: None,
        queued: None,
        kv_active_bytes: None,
        kv_cached_bytes: None,
        kv_total_bytes: None,
        adapter_gpu_bytes: None,
        adapter_cpu_bytes: None,
        gpu_adapters: None,
        counters: ServerCounters::default(),
    }
}

/// A simulated run of `arm` in `block`, TTFT bound 60 ms.
pub(crate) fn manifest(arm: &str, role: ArmRole, block: u64) -> Manifest {
    Manifest {
        v: FILE_VERSION,
        run_id: format!("toy-{arm}-block{block}"),
        experiment: "toy".into(),
        experiment_digest: Digest::of(b"toy"),
        cell_digest: Digest::of(format!("{arm}{block}").as_bytes()),
        arm: arm.into(),
        role,
        policy: arm.into(),
        information: "nothing".into(),
        block,
        levels: BTreeMap::from([("rate_rps".into(), serde_json::json!(4.0))]),
        source: Source::Simulated,
        engine: "vllm (simulated)".into(),
        latency_profile: Some(ProfileRef { name: "toy".into(), calibrated: false }),
        slo: Slo { ttft_ns: Some(ms(60)), tpot_ns: None, e2e_ns: None },
        primary_metric: "quality_adjusted_slo_goodput".into(),
        adapters: vec![AdapterRef { name: "qa".into(), rank: 8, bytes: 1 << 20 }],
        replicas: 1,
        quality_source: "synthetic_table".into(),
        labels: vec![],
        workload: serde_json::Value::Null,
        program_version: "0.1.0".into(),
        created_unix_ms: 0,
        seed: block,
        live: None,
        preregistration: None,
    }
}

/// A complete run's status.
pub(crate) fn status(manifest: &Manifest) -> Status {
    Status { state: RunState::Complete, ..Status::planned(&manifest.run_id, 2, 0) }
}

/// The plan of these runs.
pub(crate) fn sweep_plan(manifests: &[Manifest]) -> SweepPlan {
    let mut arms: Vec<SweepArm> = Vec::new();
    for manifest in manifests.iter().filter(|manifest| manifest.block == 0) {
        arms.push(SweepArm {
            name: manifest.arm.clone(),
            role: manifest.role.clone(),
            policy: manifest.policy.clone(),
            information: manifest.information.clone(),
        });
    }
    let mut blocks: Vec<u64> = manifests.iter().map(|manifest| manifest.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let run = |manifest: &Manifest| PlannedRun {
        run_id: manifest.run_id.clone(),
        arm: manifest.arm.clone(),
        block: manifest.block,
        levels: manifest.levels.clone(),
        requests: 2,
        cell_digest: manifest.cell_digest.clone(),
    };
    let named = |wanted: ArmRole| arms.iter().filter(move |arm: &&SweepArm| arm.role == wanted);
    let contrasts = named(ArmRole::Treatment)
        .flat_map(|arm| named(ArmRole::Baseline).map(move |other| (arm.name.clone(), other.name.clone())))
        .map(|(arm, against)| crate::Pair { arm, against })
        .collect();
    SweepPlan {
        v: FILE_VERSION,
        sweep: "toy".into(),
        experiment: "toy".into(),
        experiment_digest: Digest::of(b"toy"),
        question: "Does it help?".into(),
        hypothesis: "It does.".into(),
        arms,
        blocks,
        primary_metric: "quality_adjusted_slo_goodput".into(),
        alpha: 0.05,
        min_effect_ratio: 1.0,
        contrasts,
        secondary_metrics: Vec::new(),
        multiplicity: crate::Multiplicity::Holm,
        runs: manifests.iter().map(run).collect(),
    }
}

/// A complete run whose primary metric has this value; TTFT p50 is its inverse.
pub(crate) fn run(arm: &str, role: ArmRole, block: u64, value: f64) -> Run {
    let manifest = manifest(arm, role, block);
    let metric = |unit: &str, value| Metric {
        value: Some(value),
        unit: unit.into(),
        source: Source::Simulated,
        n: 100,
        low: None,
        high: None,
        reason: None,
    };
    let too_few = "not estimable: needs 299 answers, there are 100";
    let absent = Metric { value: None, reason: Some(too_few.into()), ..metric("ms", 0.0) };
    let metrics = [
        ("quality_adjusted_slo_goodput".into(), metric("quality/s", value)),
        ("ttft_goodput".into(), metric("requests/s", 20.0 - value / 10.0)),
        ("mean_quality_on_time".into(), metric("quality", 0.01 * value)),
        ("p50_ttft_ms".into(), metric("ms", 1000.0 / (1.0 + value))),
        ("p99_ttft_ms".into(), absent),
        ("failure_share".into(), metric("share", 0.0)),
    ];
    let summary = Summary {
        v: FILE_VERSION,
        run_id: manifest.run_id.clone(),
        requests: 100,
        outcomes: BTreeMap::from([(Outcome::Ok, 100)]),
        wall: None,
        metrics: BTreeMap::from(metrics),
        per_adapter: vec![],
        per_tenant: vec![],
        preregistration: None,
    };
    Run { folder: manifest.run_id.clone().into(), manifest, summary }
}
