//! How an experiment decides, what it may cost, and what it leaves behind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is compared, and when a difference counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DecisionRule {
    /// What is compared; every treatment against every baseline when empty.
    pub contrasts: Vec<ContrastSpec>,
    /// Probability of claiming a difference where there is none, over all contrasts together.
    #[schemars(range(min = 1e-6, max = 0.5))]
    pub alpha: f64,
    /// Smallest difference that matters, as a ratio of the better to the worse: 1 for any, 1.05 for five percent. A
    /// smaller one is said to be too small, however certain.
    #[schemars(range(min = 1.0, max = 1e6))]
    pub min_effect_ratio: f64,
    /// How several contrasts share `alpha`.
    pub multiplicity: MultiplicitySpec,
}

impl Default for DecisionRule {
    fn default() -> Self {
        Self {
            contrasts: Vec::new(),
            alpha: 0.05,
            min_effect_ratio: 1.01,
            multiplicity: MultiplicitySpec::Holm,
        }
    }
}

/// One arm against others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContrastSpec {
    /// The arm that is hoped to be better.
    pub treatment: String,
    /// The arms that it is compared with.
    #[schemars(length(min = 1))]
    pub against: Vec<String>,
}

/// How several contrasts share the probability of a false claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MultiplicitySpec {
    /// Holm's step-down rule over the contrasts of the primary metric; secondary metrics are exploratory.
    Holm,
    /// The primary metric as above; then, while every test so far is significant, the secondary metrics one by one in the
    /// order in which they are named, Holm within each.
    Gatekeeping,
}

/// Limits of a plan; absent ones are not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSpec {
    /// Runs.
    #[schemars(range(min = 1))]
    pub max_runs: Option<u64>,
    /// Requests over all runs.
    #[schemars(range(min = 1))]
    pub max_requests: Option<u64>,
    /// Prompt and output tokens over all runs.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Estimated wall time, s.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub max_wall_seconds: Option<f64>,
    /// Estimated GPU time of a server plan, hours.
    #[schemars(range(min = 0.0))]
    pub max_gpu_hours: Option<f64>,
    /// Estimated size of the results, MB (10^6 bytes).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub max_disk_mb: Option<f64>,
}

/// What is written beside one record per request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecordsSpec {
    /// Router inputs and decisions (`routing.jsonl`).
    pub routing: RoutingRecords,
}

/// Which routing rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingRecords {
    /// None.
    #[default]
    None,
    /// All, enough to replay every decision.
    All,
}

/// The arm that is run twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AaSpec {
    /// The first treatment, else the first arm.
    #[default]
    Auto,
    /// None.
    Off,
    /// This one.
    Arm(AaArm),
}

/// An arm by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AaArm {
    /// Its name.
    pub name: String,
}
