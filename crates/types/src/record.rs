//! The record of one request: one line of `requests.jsonl`.

use crate::{AbsentReason, Nanos, ReplicaId, RequestId, SessionId, Source, TenantId, Tier, TrustGroupId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Version of the record's fields; a reader refuses versions that it does not know.
pub const RECORD_VERSION: u32 = 1;

/// How a request ended. Only `ok` enters latency figures; all are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered in full.
    Ok,
    /// The server refused it at once: the prompt is longer than the context, or can never fit the KV memory.
    Rejected,
    /// Dropped by an explicit limit (queue length).
    Shed,
    /// Not answered within the time limit.
    TimedOut,
    /// The server or the connection failed.
    Failed,
    /// Still running when the run ended.
    Unfinished,
}

/// The load that a request's admission caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterLoad {
    /// Where the weights were.
    pub from: Tier,
    /// How long the engine or the request waited for them.
    pub stall_ns: Nanos,
}

/// One request, start to end. Times are ns since run start; a `null` has its reason in `absent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// [`RECORD_VERSION`].
    pub v: u32,
    /// Number within the cell, in order of arrival.
    pub request: RequestId,
    /// What was asked: the same in every arm of a block, also where turns or a closed loop change the numbering.
    pub ask: u64,
    /// Conversation.
    pub session: SessionId,
    /// Position in the conversation.
    pub turn: u32,
    /// Who pays.
    pub tenant: TenantId,
    /// Who may share its cached state.
    pub trust_group: TrustGroupId,
    /// Task name.
    #[serde(borrow)]
    pub task: Cow<'a, str>,
    /// Who saw the times in this row.
    pub source: Source,
    /// Runtime and version, such as `vllm-0.33.0 (simulated)`.
    #[serde(borrow)]
    pub engine: Cow<'a, str>,
    /// Adapter name, or `base`.
    #[serde(borrow)]
    pub adapter: Cow<'a, str>,
    /// Replica chosen; `null` for the oracle's bound, which uses none.
    pub replica: Option<ReplicaId>,
    /// Why the router chose so, as a word.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was due.
    pub due_ns: Nanos,
    /// When it was sent to the replica.
    pub sent_ns: Nanos,
    /// When the engine first scheduled it.
    pub admitted_ns: Option<Nanos>,
    /// When its first token came.
    pub first_token_ns: Option<Nanos>,
    /// When its last token came.
    pub last_token_ns: Option<Nanos>,
    /// When it ended for its client, well or badly.
    pub ended_ns: Nanos,
    /// Longest gap between two of its tokens.
    pub itl_max_ns: Option<Nanos>,
    /// Tokens in.
    pub prompt_tokens: u32,
    /// Tokens out.
    pub output_tokens: u32,
    /// Prompt tokens that the simulated prefix cache held at first admission.
    pub simulated_prefix_hit_tokens: Option<u32>,
    /// Prompt tokens that a real server says it had cached.
    pub server_prefix_hit_tokens: Option<u32>,
    /// The adapter load that its admission caused, if any.
    pub adapter_load: Option<AdapterLoad>,
    /// Times that it lost its KV memory and started again.
    pub preemptions: u32,
    /// Requests that came to the same replica later and were admitted earlier.
    pub overtaken: u32,
    /// What the answer is worth, 0 to 1; a failed request is worth 0.
    pub quality: Option<f64>,
    /// Where the quality comes from: `synthetic_table`, `outcome_table`, `scored`; `not_scored` where there is none.
    #[serde(borrow)]
    pub quality_source: Cow<'a, str>,
    /// Why each `null` above is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<Cow<'a, str>, AbsentReason>,
}

impl Record<'_> {
    /// Time to first token from the due time.
    #[must_use]
    pub fn ttft(&self) -> Option<Nanos> {
        self.first_token_ns.map(|at| at.since(self.due_ns))
    }

    /// Due time to last token.
    #[must_use]
    pub fn e2e(&self) -> Option<Nanos> {
        self.last_token_ns.map(|at| at.since(self.due_ns))
    }

    /// Mean time per output token after the first; absent for one-token answers.
    #[must_use]
    pub fn tpot_ns(&self) -> Option<f64> {
        let (first, last) = (self.first_token_ns?, self.last_token_ns?);
        (self.output_tokens > 1).then(|| last.since(first).0 as f64 / f64::from(self.output_tokens - 1))
    }
}
