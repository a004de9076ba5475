//! What a policy sees when it decides. (The router that keeps it current is in `router.rs`.)

use crate::{PrefixIndex, PrefixUse, ReplicaSnapshot, RouterContext};
use acb_types::{AdapterId, Adapters, Nanos, ReplicaId, Request};
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
    /// The only adapter that it serves, merged into its weights; `None`: it serves base and any adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<AdapterId>,
    /// Requests that this router sent and that have not ended: always known, always current.
    pub in_flight: u32,
    /// Prompt tokens, less the router's estimate of cached ones, of in-flight requests without a first token yet.
    pub pending_prefill_tokens: u64,
    /// The part of `pending_prefill_tokens` that was sent after the last scrape was true, so that the scrape can't
    /// show it. All of it before the first scrape.
    pub unscraped_prefill_tokens: u64,
    /// In-flight requests by adapter (`None`: base), ascending.
    pub in_flight_by_adapter: Vec<(Option<AdapterId>, u32)>,
    /// The last scrape; `None` when the policy does not look or none has come yet.
    pub scraped: Option<Scraped>,
}

impl ReplicaView {
    /// Whether it can serve requests for this adapter (none: base).
    #[must_use]
    pub fn serves(&self, adapter: Option<AdapterId>) -> bool {
        self.merged.is_none_or(|merged| adapter == Some(merged))
    }

    /// In-flight requests under this adapter.
    #[must_use]
    pub fn in_flight_under(&self, adapter: Option<AdapterId>) -> u32 {
        self.place(adapter).map_or(0, |at| self.in_flight_by_adapter[at].1)
    }

    pub(crate) fn sent(&mut self, adapter: Option<AdapterId>, prefill_tokens: u64) {
        self.in_flight += 1;
        self.pending_prefill_tokens += prefill_tokens;
        self.unscraped_prefill_tokens += prefill_tokens;
        match self.place(adapter) {
            Ok(at) => self.in_flight_by_adapter[at].1 += 1,
            Err(at) => self.in_flight_by_adapter.insert(at, (adapter, 1)),
        }
    }

    pub(crate) fn ended(&mut self, adapter: Option<AdapterId>) {
        let at = self.place(adapter).expect("an in-flight request is counted under its adapter");
        self.in_flight -= 1;
        self.in_flight_by_adapter[at].1 -= 1;
        if self.in_flight_by_adapter[at].1 == 0 {
            self.in_flight_by_adapter.remove(at);
        }
    }

    fn place(&self, adapter: Option<AdapterId>) -> Result<usize, usize> {
        self.in_flight_by_adapter.binary_search_by_key(&adapter, |&(a, _)| a)
    }
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
    pub(crate) prefixes: Option<PrefixIndex>,
}

impl DispatchState {
    pub(crate) fn new(context: &RouterContext, prefixes: PrefixUse) -> Self {
        let view = |id| ReplicaView {
            id: ReplicaId(id),
            merged: context.merged.get(&ReplicaId(id)).copied(),
            in_flight: 0,
            pending_prefill_tokens: 0,
            unscraped_prefill_tokens: 0,
            in_flight_by_adapter: Vec::new(),
            scraped: None,
        };
        Self {
            now: Nanos::ZERO,
            replicas: (0..context.replicas).map(view).collect(),
            adapters: context.adapters.clone(),
            prefixes: match prefixes {
                PrefixUse::Unused => None,
                PrefixUse::Kept(rules) => Some(PrefixIndex::new(rules, context.prefix, context.replicas)),
            },
        }
    }

    /// The replica with the fewest requests in flight, ties to the lowest id.
    #[must_use]
    pub fn least_in_flight(&self) -> ReplicaId {
        let least = self.replicas.iter().min_by_key(|v| v.in_flight);
        least.expect("a cluster has a replica").id
    }

    /// The replica with the fewest requests in flight of those that serve this adapter (none: base), ties to the lowest id;
    /// of all replicas when none serves it.
    #[must_use]
    pub fn least_in_flight_serving(&self, adapter: Option<AdapterId>) -> ReplicaId {
        let able = self.replicas.iter().filter(|view| view.serves(adapter));
        able.min_by_key(|view| view.in_flight).map_or_else(|| self.least_in_flight(), |view| view.id)
    }

    /// Tokens of the request's prompt that the router believes cached on this replica under this adapter.
    ///
    /// # Panics
    /// When the policy did not declare that it looks at prefixes ([`crate::RoutingPolicy::prefixes`]).
    #[must_use]
    pub fn prefix_match_tokens(
        &self,
        replica: ReplicaId,
        adapter: Option<AdapterId>,
        request: &Request,
    ) -> u32 {
        self.prefix_index().match_tokens(replica, adapter, request)
    }

    /// As [`Self::prefix_match_tokens`] for every replica at once, in id order; `tokens` is overwritten.
    ///
    /// # Panics
    /// When the policy did not declare that it looks at prefixes.
    pub fn prefix_match_all(&self, adapter: Option<AdapterId>, request: &Request, tokens: &mut Vec<u32>) {
        self.prefix_index().match_all(adapter, request, tokens);
    }

    /// Prompt tokens that the router remembers to have sent to this replica: the size of its tree.
    ///
    /// # Panics
    /// When the policy did not declare that it looks at prefixes.
    #[must_use]
    pub fn prefix_held_tokens(&self, replica: ReplicaId) -> u64 {
        self.prefix_index().held_tokens(replica)
    }

    fn prefix_index(&self) -> &PrefixIndex {
        self.prefixes.as_ref().expect("a policy that looks at prefixes declares it")
    }
}
