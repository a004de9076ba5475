//! From files on disk to a report, as `acb report` does it: nothing but run folders goes in.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use acb_evidence::{
    AdapterRef, ArmRole, ComparisonRule, Effect, FILE_VERSION, Manifest, ProfileRef, RunState, Status,
    Verdict, compare, load_runs, render_markdown, summarise_folder, write_json,
};
use acb_types::{
    Digest, Nanos, Outcome, RECORD_VERSION, Record, ReplicaId, RequestId, SessionId, Slo, Source, TenantId,
    TrustGroupId,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const REQUESTS: u64 = 60;

fn manifest(arm: &str, role: ArmRole, block: u64) -> Manifest {
    Manifest {
        v: FILE_VERSION,
        run_id: format!("{arm}-block{block}"),
        experiment: "front door".into(),
        experiment_digest: Digest::of(b"front door"),
        cell_digest: Digest::of(format!("{arm} {block}").as_bytes()),
        arm: arm.into(),
        role,
        policy: arm.into(),
        information: "own history".into(),
        block,
        levels: BTreeMap::new(),
        source: Source::Simulated,
        engine: "vllm (simulated)".into(),
        latency_profile: Some(ProfileRef { name: "toy".into(), calibrated: false }),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(100)), tpot_ns: None, e2e_ns: None },
        primary_metric: "quality_adjusted_slo_goodput".into(),
        adapters: vec![AdapterRef { name: "qa".into(), rank: 8, bytes: 1 << 20 }],
        replicas: 2,
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

/// Requests every 10 ms; every `late`-th misses the bound of 100 ms, and the last one fails.
fn record(id: u64, block: u64, late: u64) -> Record<'static> {
    let due = Nanos::from_millis(10 * id + block);
    let failed = id + 1 == REQUESTS;
    let first = due + Nanos::from_millis(if id.is_multiple_of(late) { 150 } else { 40 + id % 7 });
    let answered = |at: Nanos| (!failed).then_some(at);
    Record {
        v: RECORD_VERSION,
        request: RequestId(id),
        ask: id,
        session: SessionId(id / 4),
        turn: (id % 4) as u32,
        tenant: TenantId((id % 2) as u32),
        trust_group: TrustGroupId(0),
        task: "qa".into(),
        source: Source::Simulated,
        engine: "vllm (simulated)".into(),
        adapter: "qa".into(),
        replica: Some(ReplicaId((id % 2) as u32)),
        reason: "round_robin".into(),
        outcome: if failed { Outcome::TimedOut } else { Outcome::Ok },
        due_ns: due,
        sent_ns: due,
        admitted_ns: answered(due),
        first_token_ns: answered(first),
        last_token_ns: answered(first + Nanos::from_millis(30)),
        ended_ns: if failed { due } else { first + Nanos::from_millis(30) },
        itl_max_ns: answered(Nanos::from_millis(10)),
        prompt_tokens: 100,
        output_tokens: if failed { 0 } else { 4 },
        simulated_prefix_hit_tokens: (!failed).then_some(32),
        server_prefix_hit_tokens: None,
        adapter_load: None,
        preemptions: 0,
        overtaken: 0,
        quality: Some(if failed { 0.0 } else { 0.5 }),
        quality_source: "synthetic_table".into(),
        absent: BTreeMap::new(),
    }
}

fn write_run(root: &Path, arm: &str, role: ArmRole, (block, late): (u64, u64)) {
    let manifest = manifest(arm, role, block);
    let folder = root.join(&manifest.run_id);
    fs::create_dir_all(&folder).unwrap();
    write_json(&folder, &manifest).unwrap();
    let line = |id| serde_json::to_string(&record(id, block, late)).unwrap() + "\n";
    let rows = (0..REQUESTS).map(line).collect::<String>();
    fs::write(folder.join("requests.jsonl"), &rows).unwrap();
    // Half of the folders carry their summary, the others leave it to the reader.
    if block % 2 == 0 {
        write_json(&folder, &summarise_folder(&folder, &manifest).unwrap()).unwrap();
    }
    let status = Status {
        state: RunState::Complete,
        recorded_requests: REQUESTS,
        record_digest: Some(Digest::of(rows.as_bytes())),
        ..Status::planned(&manifest.run_id, REQUESTS, 0)
    };
    write_json(&folder, &status).unwrap();
}

fn write_experiment(root: &Path) {
    for block in 0..6 {
        write_run(root, "smart", ArmRole::Treatment, (block, 20));
        write_run(root, "plain", ArmRole::Baseline, (block, 2 + block % 3));
        write_run(root, "plain_again", ArmRole::AaReplicate { of: "plain".into() }, (block, 2 + block % 3));
    }
}

#[test]
fn folders_alone_make_a_report() {
    let root = tempfile::tempdir().unwrap();
    write_experiment(root.path());
    let loaded = load_runs(root.path()).unwrap();
    assert_eq!((loaded.runs.len(), loaded.skipped.len()), (18, 0));
    let seen = compare(&loaded.runs, &ComparisonRule::of_runs(&loaded.runs));
    let primary = &seen.levels[0].primary[0];
    let Effect::Ratio(range) = &primary.effect else { panic!("{primary:?}") };
    assert!(range.low > 1.0 && primary.verdict == Some(Verdict::Better), "{primary:?}");
    let replicate = &seen.levels[0].replicates[0];
    assert_eq!((replicate.p, replicate.excludes_no_difference()), (Some(1.0), Some(false)));
    let report = render_markdown(&loaded, &seen);
    for words in [
        "would be better",
        "L1: simulated, uncalibrated",
        "| plain | 354 | 6 |",
        "needs 299 answers, there are 59",
    ] {
        assert!(report.contains(words), "\"{words}\" is not in\n{report}");
    }
}

#[test]
fn a_killed_run_is_left_out_and_said_to_be() {
    let root = tempfile::tempdir().unwrap();
    write_experiment(root.path());
    let folder = root.path().join("smart-block3");
    let running = Status { state: RunState::Running, ..Status::planned("smart-block3", REQUESTS, 0) };
    write_json(&folder, &running).unwrap();
    let loaded = load_runs(root.path()).unwrap();
    let seen = compare(&loaded.runs, &ComparisonRule::of_runs(&loaded.runs));
    assert_eq!((seen.levels[0].missing[0].arm.as_str(), seen.levels[0].missing[0].block), ("smart", 3));
    assert_eq!(seen.rung.level, 0, "five blocks carry no claim");
    let report = render_markdown(&loaded, &seen);
    assert!(report.contains("- smart-block3: still running, or killed"), "{report}");
    assert!(report.contains("Missing: arm smart, block 3: no complete run."), "{report}");
}
