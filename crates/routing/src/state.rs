//! What a policy sees when it decides. (The router that keeps it current is in `router.rs`.)

use crate::ReplicaSnapshot;
use acb_types::{AdapterId, Adapters, Nanos, ReplicaId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A scrape and when it was true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scraped {
    /// When the numbers were true.
    pub observed_at: Nanos,
    /// The numbers.
    pub snapshot: ReplicaSnapshot,
}

/// One replica as the router sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaView {
    /// Which.
    pub id: ReplicaId,
    /// Requests that this router sent and that have not ended: always known, always current.
    pub in_flight: u32,
    /// Prompt tokens, less the router's estimate of cached ones, of in-flight requests without a first token yet.
    pub pending_prefill_tokens: u64,
    /// In-flight requests by adapter (`None`: base), ascending.
    pub in_flight_by_adapter: Vec<(Option<AdapterId>, u32)>,
    /// The last scrape; `None` when the policy does not look or none has come yet.
    pub scraped: Option<Scraped>,
}

/// Everything that a policy may see besides the request.
#[derive(Clone, Debug)]
pub struct DispatchState {
    /// Time of the decision.
    pub now: Nanos,
    /// One view per replica, in id order.
    pub replicas: Vec<ReplicaView>,
    /// The catalogue.
    pub adapters: Arc<Adapters>,
}
