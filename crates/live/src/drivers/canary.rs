//! The canary before a run: does each adapter answer, and not base in its place?

use super::{Driver, DriverError, Naming, Probe, RuntimeKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prompts that are asked: an adapter has to differ on one of them.
pub const CANARY_PROMPTS: [&str; 3] =
    ["The quick brown fox", "1 2 3 4 5 6 7", "Translate to French: Where is the station?"];
/// Tokens of each answer.
const TOKENS: u32 = 16;

/// What base and adapters answered, prompt by prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryReport {
    /// Answers of base.
    pub base: Vec<String>,
    /// Answers by adapter.
    pub adapters: BTreeMap<String, Vec<String>>,
}

/// The canary died.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanaryError {
    /// A question failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An adapter answers as base does.
    #[error(
        "{server}: `{sent}` answers word for word as the base model: adapter `{adapter}` is not applied; {remedy}"
    )]
    SilentBase {
        /// The server.
        server: String,
        /// The adapter.
        adapter: String,
        /// `model` as it was sent.
        sent: String,
        /// Which name should be used, or what else to look at.
        remedy: String,
    },
    /// The answer names another model.
    #[error(
        "{server}: `{sent}` was asked and `{answered}` says that it answered; check the names of models and adapters"
    )]
    OtherModel {
        /// The server.
        server: String,
        /// `model` as it was sent.
        sent: String,
        /// `model` as it came back.
        answered: String,
    },
    /// Two adapters answer alike.
    #[error(
        "{server}: adapters `{first}` and `{second}` answer word for word alike; do they have the same weights?"
    )]
    Alike {
        /// The server.
        server: String,
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// An answer is another one than was recorded.
    #[error("{who} answers {found:?} where {recorded:?} was recorded; is it the same model and runtime?")]
    NotAsRecorded {
        /// Base or the adapter.
        who: String,
        /// The recorded answers.
        recorded: Vec<String>,
        /// The answers now.
        found: Vec<String>,
    },
}

impl Driver {
    /// Asks base and each adapter greedily. An adapter that is meant to change nothing (a placebo) is not to be named here.
    ///
    /// # Errors
    /// When an adapter isn't listed, isn't applied, answers under another name or as another does.
    pub async fn canary(&self, adapters: &[&str]) -> Result<CanaryReport, CanaryError> {
        self.require(adapters).await?;
        let base = self.canary_answers(None).await?;
        let mut report = CanaryReport { base, adapters: BTreeMap::new() };
        for adapter in adapters {
            let answers = self.canary_answers(Some(adapter)).await?;
            if answers == report.base {
                return Err(self.silent_base(adapter, &report.base).await);
            }
            if let Some((first, _)) = report.adapters.iter().find(|(_, others)| **others == answers) {
                let (first, second) = (first.clone(), (*adapter).to_owned());
                return Err(CanaryError::Alike { server: self.server.name(), first, second });
            }
            report.adapters.insert((*adapter).to_owned(), answers);
        }
        Ok(report)
    }

    async fn canary_answers(&self, adapter: Option<&str>) -> Result<Vec<String>, CanaryError> {
        let mut answers = Vec::new();
        for prompt in CANARY_PROMPTS {
            let answer = self.probe(&Probe { adapter, prompt, max_tokens: TOKENS }).await?;
            let sent = self.sent_name(adapter);
            if let Some(answered) = answer.model.filter(|answered| !self.agrees(&sent, answered)) {
                return Err(CanaryError::OtherModel { server: self.server.name(), sent, answered });
            }
            answers.push(answer.text);
        }
        Ok(answers)
    }

    fn sent_name(&self, adapter: Option<&str>) -> String {
        match self.kind() {
            // llama.cpp names no adapter in `model`.
            RuntimeKind::Llamacpp => self.base_model().to_owned(),
            _ => {
                self.naming(adapter, &[]).map_or_else(|_| self.base_model().to_owned(), |naming| naming.model)
            }
        }
    }

    /// A server of an unknown kind may add a date to a model's name.
    fn agrees(&self, sent: &str, answered: &str) -> bool {
        answered == sent || (self.kind() == RuntimeKind::Openai && answered.starts_with(sent))
    }

    /// Finds out whether another name would have reached the adapter.
    async fn silent_base(&self, adapter: &str, base: &[String]) -> CanaryError {
        let sent = self.sent_name(Some(adapter));
        let full = format!("{}:{adapter}", self.base_model());
        let probe = Probe { adapter: None, prompt: CANARY_PROMPTS[0], max_tokens: TOKENS };
        let naming = Naming { model: full.clone(), lora: None };
        let other = self.ask(naming, &probe).await;
        let reached = full != sent && other.is_ok_and(|answer| Some(&answer.text) != base.first());
        let remedy = if reached {
            format!("it answers under the name `{full}`: this is SGLang, so say that the runtime is sglang")
        } else {
            "look whether the server has loaded it, and whether its weights are for this model".to_owned()
        };
        CanaryError::SilentBase { server: self.server.name(), adapter: adapter.to_owned(), sent, remedy }
    }
}

impl CanaryReport {
    /// Whether the answers are those of a record, for all that the record has.
    ///
    /// # Errors
    /// At the first difference; one that wasn't asked now is one.
    pub fn check_against(&self, recorded: &Self) -> Result<(), CanaryError> {
        let differs = |who: &str, recorded: &[String], found: &[String]| CanaryError::NotAsRecorded {
            who: who.to_owned(),
            recorded: recorded.to_vec(),
            found: found.to_vec(),
        };
        if self.base != recorded.base {
            return Err(differs("base", &recorded.base, &self.base));
        }
        for (adapter, answers) in &recorded.adapters {
            let found = self.adapters.get(adapter).map_or(&[][..], Vec::as_slice);
            if found != answers {
                return Err(differs(adapter, answers, found));
            }
        }
        Ok(())
    }
}
