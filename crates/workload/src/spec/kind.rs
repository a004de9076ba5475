//! The kinds of workload, by the names of the original harness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Questions (qa) about a few shared documents.
    SharedDocQa,
    /// All four tasks about one document.
    MixedTasksSameDoc,
    /// Sessions of dependent turns whose prompts grow by what was said before.
    AgentSession,
    /// A new document for every request: nothing to share.
    LowOverlapControl,
    /// A document of which a set share of the tokens is common to all requests.
    ControlledOverlap,
    /// Two tasks (qa, json) about one document in both layouts, layout and task independent.
    PromptLayoutAblation,
    /// Tasks, documents and sessions all alike.
    RegimeUniform,
    /// Few tasks, documents and sessions take most of the load.
    RegimeZipfian,
    /// Sessions of several turns in quick succession.
    RegimeBurstySession,
    /// Tasks and documents change halfway through.
    RegimePhaseShift,
    /// The task changes with every request, and every request brings a new document.
    RegimeAdversarialChurn,
    /// Rows of a file of questions.
    JsonlEval,
    /// The adapters' tasks under a popularity law: up to thousands of adapters.
    MultiLora,
    /// Lengths and prefix blocks of a recorded trace, with the adapters' tasks laid over it by a popularity law.
    Trace,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::SharedDocQa,
        Self::MixedTasksSameDoc,
        Self::AgentSession,
        Self::LowOverlapControl,
        Self::ControlledOverlap,
        Self::PromptLayoutAblation,
        Self::RegimeUniform,
        Self::RegimeZipfian,
        Self::RegimeBurstySession,
        Self::RegimePhaseShift,
        Self::RegimeAdversarialChurn,
        Self::JsonlEval,
        Self::MultiLora,
        Self::Trace,
    ];

    /// The name that specs use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedDocQa => "shared_doc_qa",
            Self::MixedTasksSameDoc => "mixed_tasks_same_doc",
            Self::AgentSession => "agent_session",
            Self::LowOverlapControl => "low_overlap_control",
            Self::ControlledOverlap => "controlled_overlap",
            Self::PromptLayoutAblation => "prompt_layout_ablation",
            Self::RegimeUniform => "regime_uniform",
            Self::RegimeZipfian => "regime_zipfian",
            Self::RegimeBurstySession => "regime_bursty_session",
            Self::RegimePhaseShift => "regime_phase_shift",
            Self::RegimeAdversarialChurn => "regime_adversarial_churn",
            Self::JsonlEval => "jsonl_eval",
            Self::MultiLora => "multi_lora",
            Self::Trace => "trace",
        }
    }

    /// One line for lists.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::SharedDocQa => "qa about a few shared documents",
            Self::MixedTasksSameDoc => "four tasks about one document",
            Self::AgentSession => "dependent turns whose prompts grow by what was said before",
            Self::LowOverlapControl => "a new document for every request: nothing to share",
            Self::ControlledOverlap => "a set share of every document is common to all requests",
            Self::PromptLayoutAblation => "qa and json about one document in both layouts",
            Self::RegimeUniform => "tasks, documents and sessions all alike",
            Self::RegimeZipfian => "few tasks, documents and sessions take most of the load",
            Self::RegimeBurstySession => "sessions of 4 to 8 turns in quick succession",
            Self::RegimePhaseShift => "tasks and documents change halfway through",
            Self::RegimeAdversarialChurn => "another task and a new document with every request",
            Self::JsonlEval => "rows of a file of questions",
            Self::MultiLora => "the adapters' tasks under a popularity law, up to thousands of adapters",
            Self::Trace => "a recorded trace with the adapters' tasks laid over it",
        }
    }

    /// Whether the tasks are those of the experiment's adapters and not the four families.
    #[must_use]
    pub fn asks_for_adapters_tasks(self) -> bool {
        matches!(self, Self::MultiLora | Self::Trace)
    }

    /// Whether prompts are a document, an instruction and a question that this crate makes.
    #[must_use]
    pub fn has_documents(self) -> bool {
        !matches!(self, Self::MultiLora | Self::Trace | Self::JsonlEval)
    }

    /// Whether requests draw from a set of documents, whose number `documents` gives.
    pub(crate) fn draws_documents(self) -> bool {
        self.has_documents() && !matches!(self, Self::LowOverlapControl | Self::RegimeAdversarialChurn)
    }

    /// Whether the kind itself says how often each task is asked for.
    pub(crate) fn fixes_tasks(self) -> bool {
        matches!(
            self,
            Self::SharedDocQa
                | Self::PromptLayoutAblation
                | Self::RegimePhaseShift
                | Self::RegimeAdversarialChurn
                | Self::JsonlEval
        )
    }
}
