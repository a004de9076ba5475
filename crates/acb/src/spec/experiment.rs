//! What an experiment is, exactly as its file says it.

use super::catalogue::AdaptersSpec;
use super::model::ModelSpec;
use super::pattern::NAME;
use super::rule::{AaSpec, BudgetSpec, DecisionRule, RecordsSpec};
use super::runtime::RuntimeSpec;
use super::truth::QualitySpec;
use acb_evidence::PreregistrationSection;
use acb_routing::PolicySpec;
use acb_sim::ClusterSpec;
use acb_types::{Nanos, Slo};
use acb_workload::WorkloadSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// An experiment: a question, the arms that could answer it, and everything that they share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// Name of its folder: lower-case letters, digits, `_` and `-`.
    #[schemars(regex(pattern = NAME))]
    pub name: String,
    /// The question that it answers, for its readers.
    #[schemars(length(min = 1))]
    pub question: String,
    /// The answer that is expected, and why.
    #[serde(default)]
    pub hypothesis: Option<String>,
    /// The policies that are compared, on the same requests.
    #[schemars(length(min = 1))]
    pub arms: Vec<ArmSpec>,
    /// The adapters that may serve.
    pub adapters: AdaptersSpec,
    /// The base model.
    pub model: ModelSpec,
    /// The requests.
    pub workload: WorkloadSpec,
    /// The servers.
    pub cluster: ClusterSpec,
    /// What answers are worth, and what routers believe of it.
    #[serde(default)]
    pub quality: QualitySpec,
    /// Values that are varied: dotted path of a field, and its values; all combinations are run, in the order of the paths.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<Level>>")]
    pub factors: BTreeMap<String, Vec<Json>>,
    /// One seed per block: arms of a block meet the same requests.
    pub seeds: SeedsSpec,
    /// Seed of what is drawn once for the whole experiment: hidden quality, calibration, order of arms.
    #[serde(default = "one")]
    pub experiment_seed: u64,
    /// Bounds of a good request.
    pub slo: SloSpec,
    /// The metric that decides (`acb list metrics`).
    #[serde(default = "primary_metric")]
    pub primary_metric: String,
    /// Metrics that are reported beside it.
    #[serde(default)]
    pub secondary_metrics: Vec<String>,
    /// What is compared, and when a difference counts.
    #[serde(default)]
    pub decision_rule: DecisionRule,
    /// Limits of the whole plan; it is refused before anything starts when it exceeds one.
    #[serde(default)]
    pub budget: BudgetSpec,
    /// Where requests go.
    #[serde(default)]
    pub runtime: RuntimeSpec,
    /// Folder that results go into, relative to the working directory.
    #[serde(default = "output_dir")]
    #[schemars(length(min = 1))]
    pub output_dir: String,
    /// What is written beside one record per request.
    #[serde(default)]
    pub records: RecordsSpec,
    /// The arm that is run twice, so that a comparison of equals is seen.
    #[serde(default)]
    pub aa: AaSpec,
    /// What is fixed before the first run, beyond the experiment itself (`acb prereg lock`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preregistration: Option<PreregistrationSection>,
}

/// One value of a factor.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Level {
    /// Truth.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// One arm: a policy and what it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmSpec {
    /// Its name in folders and tables.
    #[schemars(regex(pattern = NAME))]
    pub name: String,
    /// How it routes (`acb list policies`).
    pub policy: PolicySpec,
    /// What it is there for; when absent, what the decision rule and the policy make of it.
    #[serde(default)]
    pub role: Option<RoleSpec>,
    /// What it is told of the adapters' quality.
    #[serde(default)]
    pub prior: PriorKind,
    /// The adapters that it is offered; all of them when absent.
    #[serde(default)]
    pub adapters: Option<Vec<String>>,
}

/// What an arm is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleSpec {
    /// What is compared against.
    Baseline,
    /// What is hoped to be better.
    Treatment,
    /// What shows that an effect has the claimed cause.
    Control,
    /// What shows the cost of adapters apart from their use: it is offered adapters of role `placebo` alone.
    Placebo,
    /// What no policy can beat.
    Bound,
}

/// How an arm's belief about quality relates to the calibration sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PriorKind {
    /// As estimated.
    #[default]
    Calibrated,
    /// Each task's values permuted at random.
    Shuffled,
    /// Each task's mean everywhere.
    Flat,
    /// Each task's best and worst exchanged.
    Adversarial,
    /// The original harness's fixed table by task and adapter name, which no calibration made.
    SeedFixed,
}

/// Seeds: a list, or a run of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SeedsSpec {
    /// One by one.
    List(Vec<u64>),
    /// Consecutive.
    Range(SeedRange),
}

/// Consecutive seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeedRange {
    /// The first.
    pub first: u64,
    /// How many.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
}

impl SeedsSpec {
    /// All seeds in order.
    #[must_use]
    pub fn list(&self) -> Vec<u64> {
        match self {
            Self::List(list) => list.clone(),
            Self::Range(range) => {
                (0..u64::from(range.count)).map(|at| range.first.wrapping_add(at)).collect()
            }
        }
    }
}

/// Bounds of a good request; at least one is given, absent ones are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SloSpec {
    /// Time to first token from the due time, ms.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1e12))]
    pub ttft_ms: Option<f64>,
    /// Mean time per output token after the first, ms.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1e12))]
    pub tpot_ms: Option<f64>,
    /// Due time to last token, ms.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1e12))]
    pub e2e_ms: Option<f64>,
}

impl SloSpec {
    /// The same in integer time.
    #[must_use]
    pub fn slo(&self) -> Slo {
        let time = |bound: Option<f64>| bound.map(Nanos::from_millis_f64);
        Slo { ttft_ns: time(self.ttft_ms), tpot_ns: time(self.tpot_ms), e2e_ns: time(self.e2e_ms) }
    }
}

impl ExperimentSpec {
    /// The arm with this name.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<&ArmSpec> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// What an arm is there for: as its spec says, else a bound if it is the oracle, else its side of a contrast,
    /// else a control.
    #[must_use]
    pub fn role(&self, arm: &ArmSpec) -> RoleSpec {
        let contrasts = &self.decision_rule.contrasts;
        arm.role.unwrap_or_else(|| match &arm.policy {
            PolicySpec::Oracle(_) => RoleSpec::Bound,
            _ if contrasts.iter().any(|contrast| contrast.treatment == arm.name) => RoleSpec::Treatment,
            _ if contrasts.iter().any(|contrast| contrast.against.contains(&arm.name)) => RoleSpec::Baseline,
            _ => RoleSpec::Control,
        })
    }

    /// What is compared, as (treatment, baseline): the rule's contrasts, else every treatment against every baseline.
    #[must_use]
    pub fn contrasts(&self) -> Vec<(&str, &str)> {
        let named = |role: RoleSpec| self.arms.iter().filter(move |arm| self.role(arm) == role);
        let contrasts = &self.decision_rule.contrasts;
        if contrasts.is_empty() {
            let pairs = named(RoleSpec::Treatment)
                .flat_map(|treatment| named(RoleSpec::Baseline).map(move |other| (treatment, other)));
            return pairs.map(|(treatment, other)| (treatment.name.as_str(), other.name.as_str())).collect();
        }
        let pairs = contrasts.iter().flat_map(|contrast| {
            contrast.against.iter().map(move |other| (contrast.treatment.as_str(), other.as_str()))
        });
        pairs.collect()
    }

    /// The arm that is run twice: the one named, else the first treatment, else the first arm; `None` when that is off.
    #[must_use]
    pub fn aa_arm(&self) -> Option<&ArmSpec> {
        match &self.aa {
            AaSpec::Off => None,
            AaSpec::Arm(chosen) => self.arm(&chosen.name),
            AaSpec::Auto => {
                let treatment = self.arms.iter().find(|arm| self.role(arm) == RoleSpec::Treatment);
                treatment.or(self.arms.first())
            }
        }
    }
}

fn primary_metric() -> String {
    "quality_adjusted_slo_goodput".to_string()
}

fn output_dir() -> String {
    "artifacts/runs".to_string()
}

fn one() -> u64 {
    1
}
