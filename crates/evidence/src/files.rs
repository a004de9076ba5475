//! The documents of a run folder and of a sweep folder: what the binary writes and this crate reads.
//!
//! `manifest.json`, `status.json` and `summary.json` lie in a run folder; `sweep_plan.json` and `divergence.json` in
//! `_sweeps/NAME/`. Each carries its version `v`; a version that is not known is refused, never guessed at.

use crate::{EvidenceError, Pair, write_atomically};
use acb_types::{Digest, Nanos, Outcome, Slo, Source};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Version of every JSON document that this module defines.
pub const FILE_VERSION: u32 = 1;

/// Factor levels of a cell by factor name, such as `{"rate_rps": 4.0}`.
pub type Levels = BTreeMap<String, serde_json::Value>;

/// What a run is: written once, before its first request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Name of the run, unique within its sweep; also the folder's name.
    pub run_id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Hash of the resolved experiment: runs of different experiments are never compared.
    pub experiment_digest: Digest,
    /// Hash of resolved cell, data and program version: what `--resume` goes by.
    pub cell_digest: Digest,
    /// Name of the arm.
    pub arm: String,
    /// What the arm is in the comparison.
    pub role: ArmRole,
    /// Name of the routing policy.
    pub policy: String,
    /// What the policy may see, in words.
    pub information: String,
    /// Block: runs of one block share arrivals, prompts and difficulties.
    pub block: u64,
    /// Factor levels of the cell.
    pub levels: Levels,
    /// Who saw the times in the records.
    pub source: Source,
    /// Runtime and version, such as `vllm-0.33.0 (simulated)`.
    pub engine: String,
    /// Latency profile of a simulated engine; `null` for a real one.
    pub latency_profile: Option<ProfileRef>,
    /// Bounds that an on-time request meets.
    pub slo: Slo,
    /// Name of the metric that the decision rule is about.
    pub primary_metric: String,
    /// The adapter catalogue.
    pub adapters: Vec<AdapterRef>,
    /// Replicas of the base model.
    pub replicas: u32,
    /// Where quality comes from: `synthetic_table`, `outcome_table`, `scored`.
    pub quality_source: String,
    /// Sentences that are printed above every table of these runs.
    pub labels: Vec<String>,
    /// Structure and realised popularity of the workload.
    pub workload: serde_json::Value,
    /// Version of the program that made the run.
    pub program_version: String,
    /// When, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// The block's seed.
    pub seed: u64,
    /// What a run on servers says of them and of its client; absent for the embedded simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveFacts>,
    /// The preregistration that it was run under; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preregistration: Option<Registered>,
}

/// The preregistration that a run was made under, and the program that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registered {
    /// SHA-256 of the preregistration, hex.
    pub sha256: String,
    /// SHA-256 of the executable that made the run, hex.
    pub program_sha256: String,
}

/// A run on servers: what they said of themselves before it, and whether the client did what was asked of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LiveFacts {
    /// The servers, in order of replicas.
    pub servers: Vec<ServerFacts>,
    /// Why the client's check of itself found the run invalid, so that it can't support a claim; empty when valid. The
    /// whole check is `client_check.json`.
    pub client_faults: Vec<String>,
    /// What else the client remarked.
    pub client_remarks: Vec<String>,
    /// What went wrong with looking at the servers during the run; empty where every look brought something.
    pub watch_faults: Vec<String>,
    /// Whether the run wrote a number of its own into its prompts, so that it shares no prefix with any other run.
    #[serde(default)]
    pub own_prompts: bool,
}

/// A server before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// Where it is, without keys.
    pub url: String,
    /// Its kind, as experiment files name it.
    pub runtime: String,
    /// Its version; `null` where it doesn't say.
    pub version: Option<String>,
    /// Whether it says of itself that it simulates.
    pub simulated: bool,
    /// Its settings, as far as it tells them.
    pub flags: BTreeMap<String, serde_json::Value>,
    /// Adapters that were seen to answer otherwise than base and than each other.
    pub canary_adapters: Vec<String>,
    /// The reset of its cache and its proof; `null` where none was asked for.
    pub reset: Option<ResetFacts>,
}

/// Cached tokens of one prompt around a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResetFacts {
    /// Of a prompt that had been asked already, just before.
    pub before: u32,
    /// Of the same prompt, just after.
    pub after: u32,
}

/// What an arm is in a comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArmRole {
    /// Something that the treatment must beat.
    Baseline,
    /// What the hypothesis is about.
    Treatment,
    /// A check on the treatment, such as the same policy under a shuffled prior. Secondary.
    Control,
    /// Requests served by adapters of zero weights: what adapters cost, apart from what they are good for. Secondary.
    Placebo,
    /// Another arm run again under another routing seed: its difference is noise by construction.
    AaReplicate {
        /// The arm that it repeats.
        of: String,
    },
    /// An upper bound that no real policy can reach. Never a competitor.
    Bound,
}

/// A latency profile of the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRef {
    /// Its name.
    pub name: String,
    /// Whether it was fitted to measurements and checked on held-out ones.
    pub calibrated: bool,
}

/// One adapter of the catalogue, as far as evidence needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterRef {
    /// Its name.
    pub name: String,
    /// LoRA rank.
    pub rank: u32,
    /// Weight bytes.
    pub bytes: u64,
}

/// Where a run stands: replaced atomically while the run goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Name of the run.
    pub run_id: String,
    /// Where it stands.
    pub state: RunState,
    /// When it started, in milliseconds since 1970; `null` while planned.
    pub started_unix_ms: Option<u64>,
    /// When the writer was last alive, in milliseconds since 1970.
    pub heartbeat_unix_ms: u64,
    /// Requests planned.
    pub planned_requests: u64,
    /// Requests that have a record.
    pub recorded_requests: u64,
    /// Hash of `requests.jsonl`; only when complete.
    pub record_digest: Option<Digest>,
    /// Why it failed or was interrupted.
    pub message: Option<String>,
    /// SHA-256 of the preregistration that it is run under, hex; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preregistration: Option<String>,
}

/// State of a run. Only `complete` is evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not started.
    Planned,
    /// Going on, or killed since the last heartbeat.
    Running,
    /// Every file is whole.
    Complete,
    /// Ended by an error.
    Failed,
    /// Ended by the user.
    Interrupted,
}

impl Status {
    /// A run that has not started.
    #[must_use]
    pub fn planned(run_id: &str, planned_requests: u64, now_unix_ms: u64) -> Self {
        Self {
            v: FILE_VERSION,
            run_id: run_id.to_owned(),
            state: RunState::Planned,
            started_unix_ms: None,
            heartbeat_unix_ms: now_unix_ms,
            planned_requests,
            recorded_requests: 0,
            record_digest: None,
            message: None,
            preregistration: None,
        }
    }

    /// Whether the run claims to go on though its writer has been silent for longer than `limit_ms`.
    #[must_use]
    pub fn is_stale(&self, now_unix_ms: u64, limit_ms: u64) -> bool {
        self.state == RunState::Running && now_unix_ms.saturating_sub(self.heartbeat_unix_ms) > limit_ms
    }
}

/// All metrics of one run: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Name of the run.
    pub run_id: String,
    /// Requests with a record, failures included.
    pub requests: u64,
    /// How they ended.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The time that rates are over; `null` for a run without records.
    pub wall: Option<Wall>,
    /// Every metric of the registry by name.
    pub metrics: BTreeMap<String, Metric>,
    /// One row per adapter that served, by name (`base` for none).
    pub per_adapter: Vec<GroupRow>,
    /// One row per tenant, by number.
    pub per_tenant: Vec<GroupRow>,
    /// SHA-256 of the preregistration that it was run under, hex; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preregistration: Option<String>,
}

/// The time that rates are over: from the first due time to the last end, for open and closed loops alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wall {
    /// The earliest due time.
    pub first_due_ns: Nanos,
    /// The latest end of a request, however it ended.
    pub last_end_ns: Nanos,
}

/// A number with its unit, its source and its sample, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// The number; `null` is not zero.
    pub value: Option<f64>,
    /// Unit of value and bounds.
    pub unit: String,
    /// Who saw what it is made of.
    pub source: Source,
    /// Observations that it is made of.
    pub n: u64,
    /// Lower end of a 95 % interval within this run, where the metric is a quantile. It takes requests for
    /// independent, which they are not: use it to judge a tail's resolution, never to compare arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of that interval; absent when the sample is too small for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Why the value is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Latency and attainment of one adapter or tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupRow {
    /// Adapter name, or tenant number.
    pub name: String,
    /// Requests, failures included.
    pub requests: u64,
    /// Requests answered in full.
    pub ok: u64,
    /// Share of its requests that met every bound; failures are misses.
    pub slo_attainment: f64,
    /// Median TTFT of answered requests in milliseconds; `null` when the sample is too small.
    pub p50_ttft_ms: Option<f64>,
    /// 95th percentile, as above.
    pub p95_ttft_ms: Option<f64>,
    /// 99th percentile, as above.
    pub p99_ttft_ms: Option<f64>,
    /// The longest TTFT.
    pub max_ttft_ms: Option<f64>,
}

/// What a sweep set out to do: `_sweeps/NAME/sweep_plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPlan {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Name of the sweep; also the folder's name.
    pub sweep: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Hash of the resolved experiment, as in the manifests of its runs.
    pub experiment_digest: Digest,
    /// The question that the experiment asks.
    pub question: String,
    /// What it expects.
    pub hypothesis: String,
    /// The arms in the order of the file.
    pub arms: Vec<SweepArm>,
    /// The blocks.
    pub blocks: Vec<u64>,
    /// Metric of the decision rule.
    pub primary_metric: String,
    /// Level of the family-wise test, such as 0.05.
    pub alpha: f64,
    /// Smallest ratio of the better to the worse that matters; 1 for any.
    pub min_effect_ratio: f64,
    /// The primary pairs, as the decision rule names them.
    pub contrasts: Vec<Pair>,
    /// Metrics beside the primary one that the experiment names.
    pub secondary_metrics: Vec<String>,
    /// Whether they are tested after the primary one, each once everything before it is significant.
    #[serde(default, skip_serializing_if = "Multiplicity::is_holm")]
    pub multiplicity: Multiplicity,
    /// Every run that was planned, in the order of execution.
    pub runs: Vec<PlannedRun>,
}

/// How tests share the probability of a false claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Multiplicity {
    /// Holm over the primary family; nothing else is tested.
    #[default]
    Holm,
    /// Holm within families, which follow each other: the primary metric, then each secondary one in its order.
    Gatekeeping,
}

impl Multiplicity {
    /// Whether it is the plain rule, which documents leave out.
    fn is_holm(&self) -> bool {
        *self == Self::Holm
    }
}

/// One arm of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepArm {
    /// Its name.
    pub name: String,
    /// What it is in the comparison.
    pub role: ArmRole,
    /// Name of its policy.
    pub policy: String,
    /// What the policy may see, in words.
    pub information: String,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedRun {
    /// Name of the run; its folder is beside `_sweeps`.
    pub run_id: String,
    /// Name of its arm.
    pub arm: String,
    /// Its block.
    pub block: u64,
    /// Its factor levels.
    pub levels: Levels,
    /// Requests planned.
    pub requests: u64,
    /// What `--resume` goes by.
    pub cell_digest: Digest,
}

/// How often arms decide differently over the planned workload: `_sweeps/NAME/divergence.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Divergence {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Arms in the order of rows and columns.
    pub arms: Vec<String>,
    /// One pair of matrices per level.
    pub levels: Vec<DivergenceLevel>,
}

/// The divergence matrices of one level. Both are symmetric with a zero diagonal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DivergenceLevel {
    /// Factor levels.
    pub levels: Levels,
    /// Requests replayed.
    pub requests: u64,
    /// `adapter[i][j]`: share of requests for which arms i and j choose different adapters; `null` where none was
    /// decided by both.
    pub adapter: Vec<Vec<Option<f64>>>,
    /// `replica[i][j]`: share of requests for which they choose different replicas; `null` where one of them has none,
    /// as the oracle's bound.
    pub replica: Vec<Vec<Option<f64>>>,
}

/// A JSON document with a version.
pub trait Versioned: Serialize + DeserializeOwned {
    /// File name within its folder.
    const FILE: &'static str;
    /// Version that this program reads and writes.
    const VERSION: u32 = FILE_VERSION;
}

impl Versioned for Manifest {
    const FILE: &'static str = "manifest.json";
}
impl Versioned for Status {
    const FILE: &'static str = "status.json";
}
impl Versioned for Summary {
    const FILE: &'static str = "summary.json";
}
impl Versioned for SweepPlan {
    const FILE: &'static str = "sweep_plan.json";
}
impl Versioned for Divergence {
    const FILE: &'static str = "divergence.json";
}

/// Reads the document of this type from its place in `folder`.
///
/// # Errors
/// When it can't be read, has another version, or is not what it should be; the error names file and place.
pub fn read_json<T: Versioned>(folder: &Path) -> Result<T, EvidenceError> {
    #[derive(Deserialize)]
    struct Version {
        v: u64,
    }
    let path = folder.join(T::FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(EvidenceError::Io { path, source }),
    };
    let document =
        |path, error: serde_json::Error| EvidenceError::Document { path, message: error.to_string() };
    match serde_json::from_slice::<Version>(&bytes) {
        Err(error) => Err(document(path, error)),
        Ok(Version { v: found }) if found != u64::from(T::VERSION) => {
            Err(EvidenceError::Version { path, found, known: T::VERSION })
        }
        Ok(_) => serde_json::from_slice(&bytes).map_err(|error| document(path, error)),
    }
}

/// Writes the document atomically to its place in `folder`, indented, with a final line end.
///
/// # Errors
/// When the file can't be written.
pub fn write_json<T: Versioned>(folder: &Path, document: &T) -> Result<(), EvidenceError> {
    write_atomically(&folder.join(T::FILE), &document_bytes(document))
}

/// The document as its file holds it.
///
/// # Panics
/// Never: documents have text keys only.
#[must_use]
pub fn document_bytes<T: Versioned>(document: &T) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec_pretty(document).expect("documents have text keys, so they have a form in JSON");
    bytes.push(b'\n');
    bytes
}
