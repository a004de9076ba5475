//! What an imported run of the original harness becomes: `legacy.json`.

use super::Obstacle;
use crate::{FILE_VERSION, Versioned};
use acb_types::{Digest, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run of the original harness as far as its folder tells: context, never evidence of this project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegacyRun {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Says that this is no run of this program.
    pub kind: Kind,
    /// Name of the run.
    pub run_id: String,
    /// Which form of the harness's files it has.
    pub form: Form,
    /// How it ended, and what its own status says.
    pub lifecycle: Lifecycle,
    /// What answered: `mock`, `transformers`, `vllm` or `openai_compatible`; `null` where no file says.
    pub backend: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Name of the workload.
    pub workload: Option<String>,
    /// Name of the routing policy.
    pub policy: Option<String>,
    /// The cache condition; real only for the harness's own cache model.
    pub cache_condition: Option<String>,
    /// Commit of the harness.
    pub git_commit: Option<String>,
    /// When the manifest was written, in milliseconds since 1970.
    pub created_unix_ms: Option<u64>,
    /// Hash of `requests.jsonl`; `null` when there is none.
    pub rows_digest: Option<Digest>,
    /// Requests planned; `null` where no file says.
    pub planned_requests: Option<u64>,
    /// Rows with an answer.
    pub answers: u64,
    /// Rows with an error.
    pub failures: u64,
    /// Questions with a text as their answer: how many there are, and of how many the answer stands in the prompt.
    pub answers_in_prompt: Option<(u64, u64)>,
    /// Bound on TTFT in milliseconds.
    pub slo_ttft_ms: Option<f64>,
    /// The time that rates are over.
    pub duration: Option<Duration>,
    /// Which definition its published quality-adjusted goodput follows, found by computing both.
    pub qag_definition: QagDefinition,
    /// Numbers of the summary that are the harness's cache model's, whatever the backend.
    pub simulated: BTreeMap<String, f64>,
    /// Counters that a server reported.
    pub server: BTreeMap<String, ServerCount>,
    /// The old definitions computed from the rows, beside the published values and ours; only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<Vec<CompatRow>>,
    /// The rung that it stands on: 0 or 3.
    pub rung: u8,
    /// Why it can't stand higher.
    pub obstacles: Vec<Obstacle>,
}

impl Versioned for LegacyRun {
    const FILE: &'static str = "legacy.json";
    const VERSION: u32 = FILE_VERSION;
}

/// The mark of an imported run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A run of the original harness.
    LegacyRun,
}

/// Which form of files a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Cached tokens without the word `simulated`, and a summary without cache condition and workload structure.
    Older,
    /// The form of July 2026.
    Newer,
}

/// How a run ended, as its rows show it, beside what its status claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lifecycle {
    /// The word in `status.json`; `null` when there is no such file.
    pub claimed: Option<String>,
    /// What the files show.
    pub found: Ended,
    /// Why that is so, when it isn't what the status claims or the run is not whole.
    pub why: Option<String>,
}

/// How a legacy run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every planned request has a row, and the status says complete.
    Whole,
    /// It was stopped or killed, whatever the status says.
    Interrupted,
    /// It ended by an error, or with requests that failed.
    Failed,
    /// It has no status: nobody can say.
    Unknown,
}

/// A length of time and where it is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Duration {
    /// Seconds.
    pub seconds: f64,
    /// Where it is from.
    pub from: String,
}

/// Definitions of quality-adjusted goodput in the original harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QagDefinition {
    /// Goodput times the mean quality of all answers, late ones included: until June 2026.
    GoodputTimesMeanQuality,
    /// Sum of the qualities of on-time answers over time: from July 2026, and ours.
    SumOnTime,
    /// Both give the published value.
    Either,
    /// None gives the published value.
    Neither,
    /// There is no value, or not what is needed to compute it.
    Unknown,
}

/// A counter of a server over a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCount {
    /// By how much it rose; `null` is not zero.
    pub value: Option<f64>,
    /// Why it is absent.
    pub reason: Option<String>,
}

/// One number of a summary: as published, by its old definition, and by ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompatRow {
    /// Its name in the old summary.
    pub metric: String,
    /// Its old definition in words.
    pub definition: String,
    /// Unit of the three numbers.
    pub unit: String,
    /// Who saw what it is made of.
    pub source: Source,
    /// What `summary.json` says.
    pub published: Option<f64>,
    /// What the rows give by the old definition.
    pub recomputed: Option<f64>,
    /// Whether the two agree to one part in a million; `null` when one is absent.
    pub agrees: Option<bool>,
    /// Our metric that answers the same question; `null` when we have none.
    pub our_metric: Option<String>,
    /// What the rows give by ours.
    pub ours: Option<f64>,
    /// Why ours is absent.
    pub reason: Option<String>,
}
