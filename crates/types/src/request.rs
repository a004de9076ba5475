//! What a real router can see of a request, and what it can't.

use crate::{AdapterId, DocumentId, Nanos, Prompt, RequestId, SessionId, TaskId, TenantId, TrustGroupId};
use serde::{Deserialize, Serialize};

/// A request as a router sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number within the cell.
    pub id: RequestId,
    /// What is asked, whatever the order in which requests come: the same in every arm of a block, where ids follow the
    /// order of arrival and turns and closed loops wait for answers.
    pub ask: u64,
    /// When it is due to be sent. Latency counts from here, so that lateness is data and never silence.
    pub due: Nanos,
    /// The conversation that it belongs to.
    pub session: SessionId,
    /// Position in the conversation, from 0.
    pub turn: u32,
    /// Who pays.
    pub tenant: TenantId,
    /// Who may share its cached state.
    pub trust_group: TrustGroupId,
    /// What it asks for, as a classifier would say. Index into the experiment's task names.
    pub task: TaskId,
    /// The document that it is about, when there is one.
    pub document: Option<DocumentId>,
    /// Its tokens.
    pub prompt: Prompt,
    /// Most tokens that the answer may have.
    pub max_output_tokens: u32,
    /// Cache salt sent with it: state is shared only under the same salt.
    pub cache_salt: Option<u64>,
    /// The adapter that the client named, when the client and not the router decides *what* serves it.
    pub required_adapter: Option<AdapterId>,
}

/// What no router can see: held by the engine, scoring, and the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The request that it is about.
    pub request: RequestId,
    /// Tokens that the answer will have, at most the request's `max_output_tokens`.
    pub output_tokens: u32,
}
