//! Gates: a plan can answer its question, or it is refused with the reason.
//!
//! A gate that the user allows by name becomes a label: it is printed above every table of the runs.

mod aliased_factors;
mod budget;
mod distinct_arms;
mod merged_replicas;
mod served_requests;
mod tasks;
mod unit_floor;

use crate::cli::GateName;
use crate::estimate::Estimate;
use crate::experiment::{Experiment, SetUpError};
use crate::replay::Replay;
use schemars::JsonSchema;
use serde::Serialize;

/// Verdict of one gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// Name of the gate.
    pub gate: &'static str,
    /// What follows from its finding.
    pub status: GateStatus,
    /// What it found, in sentences.
    pub finding: String,
    /// What would help; absent when it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What follows from a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// Nothing in the way.
    Pass,
    /// Worth reading; does not refuse.
    Note,
    /// The plan is refused.
    Refuse,
    /// It would be refused, but the user allows it by name.
    Allowed,
}

impl GateStatus {
    /// The word in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Note => "note",
            Self::Refuse => "REFUSE",
            Self::Allowed => "ALLOWED",
        }
    }
}

/// What the gates look at.
pub struct Evidence<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// What it would cost.
    pub estimate: &'a Estimate,
    /// How its arms decide.
    pub replay: &'a Replay,
}

/// All verdicts.
///
/// # Errors
/// When the workload can't be generated.
pub fn verdicts(seen: &Evidence<'_>, allowed: &[GateName]) -> Result<Vec<Verdict>, SetUpError> {
    Ok(vec![
        allow(distinct_arms::verdict(seen), allowed, GateName::IndistinctArms),
        allow(aliased_factors::verdict(seen.experiment)?, allowed, GateName::AliasedFactors),
        allow(unit_floor::verdict(seen.experiment), allowed, GateName::UnitFloor),
        tasks::verdict(seen.experiment)?,
        allow(served_requests::verdict(seen), allowed, GateName::UnservedRequests),
        merged_replicas::verdict(seen),
        budget::verdict(seen),
    ])
}

fn allow(verdict: Verdict, allowed: &[GateName], name: GateName) -> Verdict {
    match verdict.status {
        GateStatus::Refuse if allowed.contains(&name) => Verdict { status: GateStatus::Allowed, ..verdict },
        _ => verdict,
    }
}

/// Sentences to print above every table: what was found by gates that the user overruled.
#[must_use]
pub fn labels(verdicts: &[Verdict]) -> Vec<String> {
    let overruled = verdicts.iter().filter(|v| v.status == GateStatus::Allowed);
    overruled.map(|v| format!("gate {} overruled: {}", v.gate, v.finding)).collect()
}

fn pass(gate: &'static str, finding: impl Into<String>) -> Verdict {
    Verdict { gate, status: GateStatus::Pass, finding: finding.into(), remedy: None }
}

fn refuse(gate: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Verdict {
    Verdict { gate, status: GateStatus::Refuse, finding: finding.into(), remedy: Some(remedy.into()) }
}

fn note(gate: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Verdict {
    Verdict { gate, status: GateStatus::Note, finding: finding.into(), remedy: Some(remedy.into()) }
}
