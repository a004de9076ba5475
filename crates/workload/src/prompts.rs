//! What a request says: the tokens of its prompt and the length of its answer.

mod document;
mod recorded;
mod synthetic;

pub(crate) use document::Documents;
pub(crate) use recorded::Recorded;
pub(crate) use synthetic::Synthetic;

use crate::WorkloadError;
use crate::jsonl::Rows;
use crate::spec::{CountLaw, Plan};
use acb_types::{DocumentId, Prompt, Seed, TaskId};

/// Where a request stands: what its prompt may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of its session's (or its own) start.
    pub start: u64,
    /// Turn since that start.
    pub turn: u32,
    /// Whether the second half of the requests has begun.
    pub second_half: bool,
    /// What it asks for.
    pub task: TaskId,
}

/// A prompt and what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub document: Option<DocumentId>,
    pub prompt: Prompt,
    /// The bound on the answer that the source states.
    pub max_output: Option<u32>,
    /// Recorded answer tokens, where the source has them.
    pub recorded_output: Option<u32>,
}

/// A maker of prompts.
pub(crate) enum Prompts {
    /// A document, an instruction and a question.
    Documents(Documents),
    /// A system prompt of the task and text of its own.
    Synthetic(Synthetic),
    /// The rows of a trace.
    Recorded(Box<Recorded>),
    /// The rows of a file of questions.
    Rows(Box<Rows>),
}

impl Prompts {
    /// What the request at this place says; none when a trace is at its end.
    pub fn at(&mut self, place: Place) -> Result<Option<Said>, WorkloadError> {
        match self {
            Self::Documents(documents) => Ok(Some(documents.at(place))),
            Self::Synthetic(synthetic) => Ok(Some(synthetic.at(place))),
            Self::Recorded(recorded) => recorded.next(place),
            Self::Rows(rows) => Ok(Some(rows.said(place.start))),
        }
    }
}

/// Lengths of answers.
pub(crate) struct Outputs {
    law: Option<CountLaw>,
    max: Option<u32>,
    seed: Seed,
}

impl Outputs {
    pub fn new(plan: &Plan, seed: Seed) -> Self {
        Self { law: plan.output_tokens, max: plan.max_output_tokens, seed: seed.child("outputs") }
    }

    /// The bound and the true length of the answer to the request of this counter. The spec's bound comes before the
    /// source's, the source's before the length itself.
    pub fn at(&self, key: u64, stated_max: Option<u32>, recorded: Option<u32>) -> (u32, u32) {
        let length = match (&self.law, recorded) {
            (Some(law), _) => law.draw(self.seed, key),
            (None, recorded) => recorded.unwrap_or(1),
        };
        let max = self.max.or(stated_max).unwrap_or(length).max(1);
        (max, length.clamp(1, max))
    }
}
