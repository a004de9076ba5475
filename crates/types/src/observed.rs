//! Numbers that say where they come from, and absences that say why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who saw a number. Numbers of different sources are never averaged and never share a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A simulator made it.
    Simulated,
    /// The load generator measured it.
    Client,
    /// A server reported it.
    Server,
}

/// A value and who saw it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed<T> {
    /// What was seen.
    pub value: T,
    /// Who saw it.
    pub source: Source,
}

/// Why a number is absent. Absent is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsentReason {
    /// The request never got so far.
    RequestFailed,
    /// The quantity does not exist for this request (the gap between tokens of a one-token answer).
    NotApplicable,
    /// Nobody looked.
    NotMeasured,
    /// The server does not say.
    NotReported,
}
