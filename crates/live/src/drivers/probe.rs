//! Small questions to a server whose answers are known in advance, at least in part.

use super::{Driver, DriverError, Naming, RuntimeKind, llamacpp, sglang, vllm};
use serde_json::json;

/// Words of a long prompt: several blocks in any engine, and little work.
const LONG_WORDS: usize = 256;

/// A greedy question.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// What answers it; `None`: base.
    pub adapter: Option<&'a str>,
    /// The prompt.
    pub prompt: &'a str,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
}

/// An answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The text.
    pub text: String,
    /// The model that the server says has answered; `None`: it doesn't say.
    pub model: Option<String>,
    /// Tokens of the prompt; `None`: the server doesn't say.
    pub prompt_tokens: Option<u32>,
    /// Those that the prefix cache held; `None`: the server doesn't say.
    pub cached_tokens: Option<u32>,
}

/// That a reset took: cached tokens of one prompt before and after. (After is 0, or there would be an error.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetProof {
    /// Cached tokens of a prompt that had been asked already, just before the reset.
    pub before: u32,
    /// Cached tokens of the same prompt just after.
    pub after: u32,
}

impl Driver {
    /// Asks greedily, and takes the answer whole.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn probe(&self, probe: &Probe<'_>) -> Result<ProbeAnswer, DriverError> {
        let listed = match self.kind() {
            RuntimeKind::Llamacpp => self.models().await?.adapters,
            RuntimeKind::Vllm | RuntimeKind::Sglang | RuntimeKind::Openai => Vec::new(),
        };
        let naming = self.naming(probe.adapter, &listed)?;
        self.ask(naming, probe).await
    }

    pub(super) async fn ask(&self, naming: Naming, probe: &Probe<'_>) -> Result<ProbeAnswer, DriverError> {
        let mut body = json!({
            "model": naming.model, "prompt": probe.prompt, "max_tokens": probe.max_tokens,
            "temperature": 0, "stream": true, "stream_options": {"include_usage": true},
        });
        if let Some(lora) = naming.lora {
            body["lora"] = lora;
        }
        let seen = self.server.complete(&body).await?;
        let usage = seen.usage.unwrap_or_default();
        Ok(ProbeAnswer {
            text: seen.text.unwrap_or_default(),
            model: seen.model.map(Into::into),
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
        })
    }

    /// Empties the prefix cache of an idle server, and proves it: a prompt that was cached before is not any more.
    ///
    /// # Errors
    /// When the runtime can't, the server refuses, nothing is seen to be cached, or something still is.
    pub async fn reset_cache(&self) -> Result<ResetProof, DriverError> {
        if self.kind() == RuntimeKind::Openai {
            return Err(self.no_reset());
        }
        let before = self.warmed(None, "reset").await?;
        self.reset().await?;
        match self.cached(None, "reset").await? {
            0 => {
                // The proof has left its own prompt there.
                self.reset().await?;
                Ok(ResetProof { before, after: 0 })
            }
            after => {
                Err(DriverError::NotReset { server: self.server.name(), after, remedy: self.what_outlives() })
            }
        }
    }

    async fn reset(&self) -> Result<(), DriverError> {
        match self.kind() {
            RuntimeKind::Vllm => vllm::reset(&self.server).await,
            RuntimeKind::Sglang => sglang::reset(&self.server).await,
            RuntimeKind::Llamacpp => llamacpp::reset(&self.server).await,
            RuntimeKind::Openai => Err(self.no_reset()),
        }
    }

    fn no_reset(&self) -> DriverError {
        self.unsupported("reset its cache", "restart it, or send other prompts")
    }

    /// Cached tokens of a long prompt of this word that was asked just before: more than none.
    pub(super) async fn warmed(&self, adapter: Option<&str>, word: &str) -> Result<u32, DriverError> {
        self.cached(adapter, word).await?;
        match self.cached(adapter, word).await? {
            0 => Err(DriverError::Unproven {
                server: self.server.name(),
                reason: "a prompt that was asked twice was not cached either".to_owned(),
                remedy: "start it with its prefix cache on",
            }),
            cached => Ok(cached),
        }
    }

    /// Cached tokens of a long prompt of this word.
    pub(super) async fn cached(&self, adapter: Option<&str>, word: &str) -> Result<u32, DriverError> {
        let prompt = [word; LONG_WORDS].join(" ");
        let probe = Probe { adapter, prompt: &prompt, max_tokens: 1 };
        self.probe(&probe).await?.cached_tokens.ok_or_else(|| DriverError::Unproven {
            server: self.server.name(),
            reason: "its answers don't say how many tokens were cached".to_owned(),
            remedy: match self.kind() {
                RuntimeKind::Vllm => "start it with --enable-prompt-tokens-details",
                RuntimeKind::Sglang => "start it with --enable-cache-report",
                RuntimeKind::Llamacpp | RuntimeKind::Openai => "use a version that reports cached tokens",
            },
        })
    }

    fn what_outlives(&self) -> &'static str {
        match self.kind() {
            RuntimeKind::Llamacpp => "its host cache brings them back: start it with --cache-ram 0",
            RuntimeKind::Vllm | RuntimeKind::Sglang | RuntimeKind::Openai => {
                "does another client ask the same, or does a second cache bring them back?"
            }
        }
    }
}
