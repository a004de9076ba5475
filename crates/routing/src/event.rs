//! What a router is told.

use acb_types::{AdapterId, Nanos, ReplicaId, RequestId};
use serde::{Deserialize, Serialize};

/// What a server says of itself when it is scraped. `None`: the runtime does not say, which is never zero.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSnapshot {
    /// Requests that hold KV memory and are being computed.
    pub running: Option<u32>,
    /// Requests that wait for admission.
    pub queued: Option<u32>,
    /// Prompt tokens still to be computed for running and queued requests, cache hits not yet taken off for queued ones.
    pub pending_prefill_tokens: Option<u64>,
    /// Tokens of KV memory that are free or evictable.
    pub free_kv_tokens: Option<u64>,
    /// Adapters in GPU slots, ascending.
    pub gpu_adapters: Option<Vec<AdapterId>>,
    /// Adapters in host memory (those in GPU slots included), ascending.
    pub cpu_adapters: Option<Vec<AdapterId>>,
    /// Adapters with a request in flight (what vLLM's `lora_requests_info` really shows), ascending.
    pub active_adapters: Option<Vec<AdapterId>>,
}

impl Clone for ReplicaSnapshot {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Keeps the lists' memory: a true-state policy takes in a scrape of every replica per dispatch.
    fn clone_from(&mut self, source: &Self) {
        self.running = source.running;
        self.queued = source.queued;
        self.pending_prefill_tokens = source.pending_prefill_tokens;
        self.free_kv_tokens = source.free_kv_tokens;
        self.gpu_adapters.clone_from(&source.gpu_adapters);
        self.cpu_adapters.clone_from(&source.cpu_adapters);
        self.active_adapters.clone_from(&source.active_adapters);
    }
}

/// Something that happened, with the time that the caller read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RouterEvent {
    /// The first token of a request came back.
    FirstToken {
        /// When.
        at: Nanos,
        /// Whose.
        request: RequestId,
    },
    /// A request ended, well or badly: it is no longer in flight.
    Finished {
        /// When.
        at: Nanos,
        /// Which.
        request: RequestId,
    },
    /// A server was scraped.
    Scraped {
        /// When the numbers were true.
        at: Nanos,
        /// Which server.
        replica: ReplicaId,
        /// The numbers.
        snapshot: ReplicaSnapshot,
    },
}
