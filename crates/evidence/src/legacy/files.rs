//! The files of the original harness, as far as they are read. Keys that are not named here are passed over: the harness
//! had several versions, and none of them is written by this program.

use serde::Deserialize;
use std::collections::BTreeMap;

/// `status.json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OldStatus {
    pub status: String,
    #[serde(default)]
    pub planned_request_count: Option<u64>,
    #[serde(default)]
    pub completed_request_count: Option<u64>,
    #[serde(default)]
    pub failed_request_count: Option<u64>,
    #[serde(default)]
    pub exception_message: Option<String>,
}

/// `manifest.json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OldManifest {
    #[serde(default)]
    pub run_id: Option<String>,
    #[serde(default)]
    pub created_at_unix_ms: Option<u64>,
    #[serde(default)]
    pub backend: Option<String>,
    #[serde(default)]
    pub backend_model: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub workload: Option<String>,
    #[serde(default)]
    pub router_policy: Option<String>,
    #[serde(default)]
    pub cache_condition: Option<String>,
    #[serde(default)]
    pub request_count: Option<u64>,
    #[serde(default)]
    pub max_concurrency: Option<u64>,
    #[serde(default)]
    pub wall_duration_s: Option<f64>,
    #[serde(default)]
    pub git_commit: Option<String>,
}

/// What tells a manifest of this program from one of the original harness.
#[derive(Debug, Deserialize)]
pub(super) struct OurManifest {
    #[serde(default)]
    pub experiment_digest: Option<String>,
}

/// `summary.json`: numbers by name, and the few words among them.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OldSummary {
    #[serde(default)]
    pub run_id: Option<String>,
    #[serde(default)]
    pub backend_kind: Option<String>,
    #[serde(default)]
    pub backend_model: Option<String>,
    #[serde(default)]
    pub router_policy: Option<String>,
    #[serde(default)]
    pub workload: Option<String>,
    #[serde(default)]
    pub cache_condition: Option<String>,
    #[serde(default)]
    pub workload_structure: Option<serde_json::Value>,
    #[serde(default)]
    pub backend_metrics: BTreeMap<String, serde_json::Value>,
    /// Everything else, numbers among it.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

impl OldSummary {
    /// A number of the summary.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.rest.get(name).and_then(serde_json::Value::as_f64)
    }
}

/// A line of `requests.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct OldRow {
    pub request: OldRequest,
    #[serde(default)]
    pub response: Option<OldResponse>,
    #[serde(default)]
    pub error: Option<OldError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldRequest {
    pub request_id: String,
    #[serde(default)]
    pub prompt: Option<String>,
    #[serde(default)]
    pub ground_truth: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldError {
    #[serde(default, rename = "type")]
    pub _kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldResponse {
    pub metrics: OldTimes,
    #[serde(default)]
    pub quality: Option<OldQuality>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldTimes {
    pub ttft_ms: f64,
    pub e2e_ms: f64,
    #[serde(default)]
    pub itl_ms: Option<f64>,
    #[serde(default)]
    pub tpot_ms: Option<f64>,
    #[serde(default)]
    pub output_tokens: Option<f64>,
    /// Tells the newer form from the older.
    #[serde(default)]
    pub simulated_cached_prompt_tokens: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OldQuality {
    pub score: f64,
}
