//! One measured time and what the engine computed in it: an equation in the constants.

use serde::Serialize;

/// The micro-benchmarks, in the order of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// One request decodes.
    DecodeAlone,
    /// Many decode, with short and long contexts.
    DecodeBatch,
    /// Prompts of many lengths are computed.
    Prefill,
    /// Prompts on an idle server, seen from the client.
    FrontEnd,
    /// Requests of one adapter beside those of the base model.
    FirstAdapter,
    /// Requests of several adapters.
    MoreAdapters,
    /// Requests wait for a slot while others run.
    Waiting,
    /// Adapters that are not in a slot.
    Loads,
}

/// What one step computes; means over several steps may be fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests that compute a part of their prompt.
    pub prefills: f64,
    /// Prompt tokens.
    pub prefill_tokens: f64,
    /// (query, key) pairs of prefill attention.
    pub prefill_pairs: f64,
    /// Prompt tokens under an adapter.
    pub lora_prefill_tokens: f64,
    /// Requests that decode.
    pub rows: f64,
    /// Of these, under an adapter.
    pub lora_rows: f64,
    /// Tokens of context that they read.
    pub context_tokens: f64,
    /// Distinct adapters.
    pub adapters: f64,
    /// Waiting requests that the scheduler passes over, since all slots are used and their adapter is in none.
    pub skipped: f64,
}

impl Counts {
    /// Adds `requests` prompts that each compute `tokens` after `computed`.
    pub fn add_prefill(&mut self, requests: u32, computed: u32, tokens: u32) {
        let (q, c, n) = (f64::from(requests), f64::from(computed), f64::from(tokens));
        self.prefills += q;
        self.prefill_tokens += q * n;
        self.prefill_pairs += q * n * (c + n / 2.0);
    }
}

/// An adapter that a step waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Its size, 10^6 bytes.
    pub megabytes: f64,
    /// Whether it was read from disk, before it was copied into a slot.
    pub from_disk: bool,
}

/// Adapter slots of a started server, and their rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotCounts {
    /// Slots.
    pub slots: f64,
    /// Rank that each is sized for.
    pub max_rank: f64,
}

/// A time that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    /// Which benchmark measured it.
    pub stage: Stage,
    /// The server's slots.
    pub slots: SlotCounts,
    /// The steps in it.
    pub steps: Vec<Counts>,
    /// The load in it.
    pub load: Option<Load>,
    /// Its length, ns: the mean when it was measured often.
    pub measured_ns: f64,
    /// How many times went into the mean.
    pub times: f64,
}

/// Times beyond which a mean is not trusted more: what errs always in the same way stays.
const MOST_TIMES: f64 = 1000.0;

impl Equation {
    /// Weight of its error, so that relative errors count.
    pub fn weight(&self) -> f64 {
        self.times.min(MOST_TIMES).sqrt() / self.measured_ns
    }

    /// Whether an adapter is in it.
    pub fn has_adapter(&self) -> bool {
        self.steps.iter().any(|step| step.adapters > 0.0)
    }
}
