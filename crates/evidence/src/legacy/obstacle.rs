//! Why a legacy result can't stand on a higher rung of the claim ladder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason and the first rung that it bars.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Obstacle {
    /// The kind of reason.
    pub reason: Reason,
    /// The lowest rung that it keeps the result from: 3 or 4.
    pub bars: u8,
    /// The reason in words.
    pub why: String,
}

/// Kinds of reason, in the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No raw rows are at hand, so that no number can be computed again.
    NoRows,
    /// The run has no lifecycle file.
    NoStatus,
    /// The run was interrupted or failed.
    NotWhole,
    /// Nothing was served: a mock that takes no time.
    Mock,
    /// The headline metric follows another definition.
    OldMetric,
    /// The answers don't follow from the prompts.
    Unanswerable,
    /// The server was not reset before the run.
    NoReset,
    /// Nothing was preregistered and the arms were not run in blocks.
    NotBlocked,
}

impl Reason {
    /// An obstacle of this kind.
    #[must_use]
    pub fn because(self, why: impl Into<String>) -> Obstacle {
        let bars = if self == Self::NotBlocked { 4 } else { 3 };
        Obstacle { reason: self, bars, why: why.into() }
    }

    /// The kind in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoRows => "no raw rows",
            Self::NoStatus => "no status.json",
            Self::NotWhole => "not a whole run",
            Self::Mock => "mock backend",
            Self::OldMetric => "old metric definition",
            Self::Unanswerable => "unanswerable workload",
            Self::NoReset => "no reset",
            Self::NotBlocked => "not preregistered, no blocks",
        }
    }
}

/// The rung under these obstacles: what was measured on a server stands on rung 3 or, where anything bars that, on 0.
/// A result in which nothing is simulated has no place on the rungs between.
pub(super) fn rung(obstacles: &[Obstacle]) -> u8 {
    if obstacles.iter().any(|obstacle| obstacle.bars <= 3) { 0 } else { 3 }
}

pub(super) const MOCK: &str =
    "the mock takes no time, knows no load, and draws quality from the router's own table";
pub(super) const OLD_METRIC: &str =
    "quality-adjusted goodput is goodput times mean quality, late answers included";
pub(super) const NOT_BLOCKED: &str =
    "nothing was preregistered, and the arms were not run in blocks of random order";
