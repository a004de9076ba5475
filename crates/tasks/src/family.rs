//! The four task families and their fixed texts.

use crate::tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The value of one key of the document.
    Qa,
    /// Two keys' values as one JSON object.
    Json,
    /// The section titles of the document in order: an extract with one right answer.
    Summary,
    /// The result of an integer expression that the document lists as a program.
    Code,
}

impl Family {
    /// All four, in the order of the original harness.
    pub const ALL: [Self; 4] = [Self::Qa, Self::Json, Self::Summary, Self::Code];

    /// The name that specs and records use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qa => "qa",
            Self::Json => "json",
            Self::Summary => "summary",
            Self::Code => "code",
        }
    }

    /// The instruction, the same for every question of the family.
    #[must_use]
    pub fn instruction(self) -> &'static str {
        match self {
            Self::Qa => "\nAnswer with the value only, no other words.",
            Self::Json => "\nReply with one JSON object of integers and nothing else.",
            Self::Summary => "\nReply with one title per line and nothing else.",
            Self::Code => "\nCompute the result and reply with the integer only.",
        }
    }

    /// Tokens of the instruction.
    #[must_use]
    pub fn instruction_tokens(self) -> u32 {
        tokenizer::count(self.instruction()) as u32
    }

    /// Tokens of a question: the same for every question of the family, because numbers have a fixed width.
    #[must_use]
    pub fn question_tokens(self) -> u32 {
        match self {
            Self::Qa => 12,
            Self::Json => 18,
            Self::Summary => 11,
            Self::Code => 12,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of the four.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a task family; there are qa, json, summary and code")]
pub struct UnknownFamily(pub String);

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        let found = Self::ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownFamily(name.to_owned()))
    }
}
