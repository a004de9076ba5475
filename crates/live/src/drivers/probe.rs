//! Small questions to a server whose answers are known in advance, at least in part.

use super::{Driver, DriverError, RuntimeKind, vllm};
use serde_json::json;

/// Words of the prompt that a reset is proved with: several blocks in any engine, and little work.
const RESET_WORDS: usize = 256;

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
        let naming = self.naming(probe.adapter, &[])?;
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
    /// When the runtime can't, the server refuses, or the cache is seen to live on.
    pub async fn reset_cache(&self) -> Result<ResetProof, DriverError> {
        let prompt = ["reset"; RESET_WORDS].join(" ");
        self.cached(&prompt).await?;
        let before = self.cached(&prompt).await?;
        match self.kind() {
            RuntimeKind::Vllm => vllm::reset(&self.server).await?,
            _ => return Err(self.unsupported("reset its cache", "restart it, or use other prompts")),
        }
        let after = self.cached(&prompt).await?;
        match (before, after) {
            (0, _) => Err(DriverError::Unproven {
                server: self.server.name(),
                reason: "a prompt asked twice was not cached either".to_owned(),
                remedy: "is prefix caching on?",
            }),
            (before, 0) => Ok(ResetProof { before, after }),
            (_, after) => Err(DriverError::NotReset {
                server: self.server.name(),
                after,
                remedy: "is another client asking the same?",
            }),
        }
    }

    async fn cached(&self, prompt: &str) -> Result<u32, DriverError> {
        let probe = Probe { adapter: None, prompt, max_tokens: 1 };
        self.probe(&probe).await?.cached_tokens.ok_or_else(|| DriverError::Unproven {
            server: self.server.name(),
            reason: "its answers don't say how many tokens were cached".to_owned(),
            remedy: "start it with --enable-prompt-tokens-details (vLLM) or --enable-cache-report (SGLang)",
        })
    }
}
