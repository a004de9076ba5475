//! What a calibration asks of a server and what it gets back. Nothing here knows of a simulator or of HTTP.

use acb_types::{Nanos, Source};

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// So long after the plan began.
    At(Nanos),
    /// So long after the end of another request, which comes earlier in the plan.
    After {
        /// Its place in the plan.
        ask: usize,
        /// Time from its last token.
        wait: Nanos,
    },
}

/// One request of a plan. Its answer has exactly `output_tokens` tokens (temperature 0, `ignore_eos`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// When it is sent.
    pub start: Start,
    /// What the prompt starts with: prompts of one text share their common length, and those of two share nothing.
    pub text: u64,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Answer tokens.
    pub output_tokens: u32,
    /// The adapter that it names, by its place in the catalogue.
    pub adapter: Option<u32>,
}

/// What a client saw of one request. Times are since the server's first plan began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When it was sent.
    pub sent: Nanos,
    /// When its first token came.
    pub first: Nanos,
    /// When its last token came.
    pub last: Nanos,
    /// When each token came; absent when the client can't tell.
    pub tokens: Option<Vec<Nanos>>,
    /// Prompt tokens that the server says it had cached (`usage.prompt_tokens_details.cached_tokens`).
    pub cached_tokens: Option<u32>,
}

/// What a server's metrics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrape {
    /// Tokens that the KV memory holds (vLLM: `num_gpu_blocks` times `block_size` of `vllm:cache_config_info`; SGLang:
    /// `sglang:max_total_num_tokens`).
    pub kv_tokens: Option<u64>,
}

/// Why a server gave no observations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// A request did not end well.
    #[error(
        "request {ask} of the plan ({prompt_tokens} prompt tokens) ended as {outcome}; calibrate an idle server with enough memory"
    )]
    Incomplete {
        /// Its place.
        ask: usize,
        /// Its prompt.
        prompt_tokens: u32,
        /// How it ended.
        outcome: String,
    },
    /// The server can't be used at all.
    #[error("{0}")]
    Unusable(String),
}

/// A server that can be measured: a plan of requests in, what a client saw of each out. What it has cached and loaded
/// stays from one plan to the next.
pub trait Server {
    /// Who saw the times.
    fn source(&self) -> Source;
    /// Sends the requests and waits for all of them. Replies are in the order of the plan.
    ///
    /// # Errors
    /// When a request does not end with its whole answer.
    fn serve(&mut self, plan: &[Ask]) -> Result<Vec<Reply>, ServerError>;
    /// Reads the server's metrics.
    ///
    /// # Errors
    /// When it has none.
    fn scrape(&mut self) -> Result<Scrape, ServerError>;
}

/// An adapter that the server can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFile {
    /// Its name.
    pub name: String,
    /// Its rank.
    pub rank: u32,
    /// Its weights, bytes.
    pub bytes: u64,
}
