//! How fast, and in how much memory, a run folder becomes a summary: all that `acb report` does with one, the hash of
//! its records included. Prints a row of a Markdown table.
//!
//! `cargo bench -p acb-evidence --bench rows -- 10000000` writes that many made-up records to a folder below the
//! system's temporary one (about 715 bytes each), reads them, and takes them away again. Without a number: 100,000.
//! `-- write FOLDER ROWS` and `-- read FOLDER` do the two halves, so that two versions can read one file.

use acb_evidence::{
    AdapterRef, ArmRole, FILE_VERSION, Manifest, ProfileRef, RunState, Status, load_runs, write_json,
};
use acb_types::{
    AbsentReason, Digest, Nanos, Outcome, RECORD_VERSION, Record, ReplicaId, RequestId, SessionId, Slo,
    Source, TenantId, TrustGroupId,
};
use rustix::time::ClockId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Adapters that the records name, base aside.
const ADAPTERS: u64 = 32;
/// One request in this many fails.
const FAILS: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["write", folder, rows] => write_run(Path::new(folder), rows.parse()?),
        ["read", folder] => read(Path::new(folder)),
        [] | [_] => {
            let rows = words.first().map_or(Ok(100_000), |word| word.parse())?;
            let folder = tempfile::tempdir()?;
            write_run(folder.path(), rows)?;
            read(folder.path())
        }
        _ => Err("usage: rows [ROWS] | rows write FOLDER ROWS | rows read FOLDER".into()),
    }
}

/// Reads a run as `acb report` does, and prints what that took.
fn read(folder: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = folder.join("requests.jsonl").metadata()?.len();
    let (wall, cpu) = (time(ClockId::Monotonic), time(ClockId::ProcessCPUTime));
    let loaded = load_runs(folder)?;
    let (wall, cpu) = (time(ClockId::Monotonic) - wall, time(ClockId::ProcessCPUTime) - cpu);
    if let Some(skipped) = loaded.skipped.first() {
        return Err(format!("the run was left out: {}", skipped.why).into());
    }
    let run = loaded.runs.first().ok_or("the run was not found")?;
    let rows = run.summary.requests;
    println!("| rows | file, MB | wall, s | CPU, s | rows per CPU second | peak memory, MiB | summary |");
    println!("|---:|---:|---:|---:|---:|---:|---|");
    println!(
        "| {rows} | {} | {:.2} | {:.2} | {:.0} | {} | {} |",
        bytes / 1_000_000,
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        rows as f64 / cpu.as_secs_f64(),
        peak_kib()? / 1024,
        Digest::of(&serde_json::to_vec(&run.summary)?).short(),
    );
    Ok(())
}

fn write_run(folder: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let manifest = manifest();
    let names: Vec<String> = (0..=ADAPTERS).map(adapter).collect();
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(folder.join("requests.jsonl"))?);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for id in 0..rows {
        serde_json::to_writer(&mut out, &record(id, &mut dice, &names))?;
        out.write_all(b"\n")?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    let digest = Digest::of_reader(File::open(folder.join("requests.jsonl"))?)?;
    let status = Status {
        state: RunState::Complete,
        recorded_requests: rows,
        record_digest: Some(digest),
        ..Status::planned(&manifest.run_id, rows, 0)
    };
    write_json(folder, &manifest)?;
    write_json(folder, &status)?;
    Ok(())
}

fn adapter(number: u64) -> String {
    if number == 0 { "base".to_owned() } else { format!("adapter-{number:03}") }
}

/// A record as the simulator would write it: a Poisson-like stream, answers of up to 256 tokens, one in [`FAILS`] shed.
fn record<'a>(id: u64, dice: &mut Dice, names: &'a [String]) -> Record<'a> {
    let due = id * 100_000 + dice.below(100_000);
    let failed = dice.below(FAILS) == 0;
    let tokens = if failed { 0 } else { 1 + dice.below(256) };
    let scale = 16 + dice.below(14);
    let waited = dice.below(1 << scale);
    let first = due + waited + 12_000_000 + dice.below(80_000_000);
    let gap = 8_000_000 + dice.below(14_000_000);
    let last = first + tokens.saturating_sub(1) * gap;
    let at = |time: u64| (!failed).then_some(Nanos(time));
    let longest = (tokens > 1).then(|| Nanos(20_000_000 + dice.below(200_000_000)));
    let absent = [
        ("admitted_ns", failed),
        ("first_token_ns", failed),
        ("last_token_ns", failed),
        ("itl_max_ns", longest.is_none()),
        ("simulated_prefix_hit_tokens", failed),
        ("server_prefix_hit_tokens", true),
        ("adapter_load", true),
    ];
    let why = if failed { AbsentReason::RequestFailed } else { AbsentReason::NotApplicable };
    Record {
        task: Cow::Borrowed("summary"),
        tenant: TenantId(dice.below(4) as u32),
        adapter: Cow::Borrowed(&names[dice.below(ADAPTERS + 1) as usize]),
        replica: Some(ReplicaId(dice.below(64) as u32)),
        outcome: if failed { Outcome::Shed } else { Outcome::Ok },
        sent_ns: Nanos(due),
        admitted_ns: at(due + waited),
        first_token_ns: at(first),
        last_token_ns: at(last),
        ended_ns: Nanos(if failed { due } else { last }),
        itl_max_ns: longest,
        prompt_tokens: 1 + dice.below(4000) as u32,
        output_tokens: tokens as u32,
        simulated_prefix_hit_tokens: (!failed).then(|| dice.below(4000) as u32),
        overtaken: dice.below(3) as u32,
        quality: Some(if failed { 0.0 } else { dice.below(1001) as f64 / 1000.0 }),
        absent: absent.into_iter().filter(|a| a.1).map(|(name, _)| (Cow::Borrowed(name), why)).collect(),
        ..arrival(id, due)
    }
}

/// What all records have alike.
fn arrival<'a>(id: u64, due: u64) -> Record<'a> {
    Record {
        v: RECORD_VERSION,
        request: RequestId(id),
        ask: id,
        session: SessionId(id / 8),
        turn: (id % 8) as u32,
        tenant: TenantId(0),
        trust_group: TrustGroupId(0),
        task: Cow::Borrowed(""),
        source: Source::Simulated,
        engine: Cow::Borrowed("vllm-0.33.0 (simulated)"),
        adapter: Cow::Borrowed(""),
        replica: None,
        reason: Cow::Borrowed("round_robin"),
        outcome: Outcome::Ok,
        due_ns: Nanos(due),
        sent_ns: Nanos(due),
        admitted_ns: None,
        first_token_ns: None,
        last_token_ns: None,
        ended_ns: Nanos(due),
        itl_max_ns: None,
        prompt_tokens: 0,
        output_tokens: 0,
        simulated_prefix_hit_tokens: None,
        server_prefix_hit_tokens: None,
        adapter_load: None,
        preemptions: 0,
        overtaken: 0,
        quality: None,
        quality_source: Cow::Borrowed("synthetic_table"),
        absent: BTreeMap::new(),
    }
}

fn manifest() -> Manifest {
    Manifest {
        v: FILE_VERSION,
        run_id: "rows".into(),
        experiment: "rows".into(),
        experiment_digest: Digest::of(b"rows"),
        cell_digest: Digest::of(b"rows"),
        arm: "base".into(),
        role: ArmRole::Baseline,
        policy: "base".into(),
        information: "nothing".into(),
        block: 0,
        levels: BTreeMap::new(),
        source: Source::Simulated,
        engine: "vllm-0.33.0 (simulated)".into(),
        latency_profile: Some(ProfileRef { name: "made-up".into(), calibrated: false }),
        slo: Slo {
            ttft_ns: Some(Nanos::from_millis(250)),
            tpot_ns: Some(Nanos::from_millis(20)),
            e2e_ns: None,
        },
        primary_metric: "quality_adjusted_slo_goodput".into(),
        adapters: vec![AdapterRef { name: adapter(1), rank: 8, bytes: 1 << 20 }],
        replicas: 64,
        quality_source: "synthetic_table".into(),
        labels: vec!["made-up records of a benchmark".into()],
        workload: serde_json::Value::Null,
        program_version: env!("CARGO_PKG_VERSION").into(),
        created_unix_ms: 0,
        seed: 0,
        live: None,
        preregistration: None,
    }
}

/// Xorshift: good enough to vary the digits of a file.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What a clock says: of the wall, or user and system time of this process.
fn time(clock: ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The most memory that this process has held, in KiB.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("the kernel tells no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("VmHWM without a number")?.parse()?)
}
