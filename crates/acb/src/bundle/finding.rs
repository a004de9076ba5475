//! What a check found that does not hold.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// The check that found it.
    pub check: Check,
    /// The file, by its path in the bundle.
    pub file: String,
    /// Where in the file: a line, a JSON pointer, a row; null for the file as a whole.
    pub place: Option<String>,
    /// What was expected there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Finding {
    /// A finding about a file as a whole.
    pub(crate) fn of(
        check: Check,
        file: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { check, file: file.into(), place: None, expected: expected.into(), found: found.into() }
    }

    /// The same with a place within the file.
    pub(crate) fn at(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, expected, found, .. } = self;
        let place = place.as_ref().map(|place| format!(" {place}")).unwrap_or_default();
        write!(f, "{file}{place}: {found}; expected {expected}")
    }
}

/// The checks, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Archive, names and files can be read, and nothing hostile is among them.
    Form,
    /// Every file has the sum in `SHA256SUMS`, and none is missing or added.
    Sums,
    /// Every file is a leaf of the tree, and the leaves have its root.
    Merkle,
    /// The log of runs is a whole chain.
    Chain,
    /// Every run that was begun is there as the log says.
    Runs,
    /// Every lock was written before the first run under it.
    Order,
    /// Plan, divergence and manifests follow from the configuration.
    Plan,
    /// Every number of every summary follows from the rows.
    Summaries,
    /// Every logged routing decision is decided again alike.
    Routing,
    /// Every other document, with the tables, follows from all that.
    Documents,
    /// The statements are signed and say what was found.
    Signature,
}

impl Check {
    /// All, in their order.
    pub const ALL: [Self; 11] = [
        Self::Form,
        Self::Sums,
        Self::Merkle,
        Self::Chain,
        Self::Runs,
        Self::Order,
        Self::Plan,
        Self::Summaries,
        Self::Routing,
        Self::Documents,
        Self::Signature,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Sums => "sums",
            Self::Merkle => "merkle",
            Self::Chain => "chain",
            Self::Runs => "runs",
            Self::Order => "order",
            Self::Plan => "plan",
            Self::Summaries => "summaries",
            Self::Routing => "routing",
            Self::Documents => "documents",
            Self::Signature => "signature",
        }
    }
}
