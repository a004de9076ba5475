//! The one trait that every arm implements.

use crate::{DispatchState, PrefixUse, RouterEvent};
use acb_types::{AdapterId, Nanos, ReplicaId, Request, Stream};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a policy is allowed to see. Declared by every policy, shown with every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sees", rename_all = "snake_case")]
pub enum Information {
    /// The requests alone: neither where they went nor what came back.
    Nothing,
    /// The request, what the router itself sent, and what came back.
    OwnHistory,
    /// Own history, and server state scraped every `interval_ns`.
    Scraped {
        /// Time between scrapes: the staleness of what is seen.
        interval_ns: Nanos,
    },
    /// Own history, and server state as it is at the decision: only a simulator can give it.
    TrueState,
    /// Hidden truth: outcomes of answers not yet given. Only the oracle.
    Truth,
}

impl Information {
    /// Whether scraped server state is part of it.
    #[must_use]
    pub fn sees_scrapes(self) -> bool {
        match self {
            Self::Nothing | Self::OwnHistory | Self::Truth => false,
            Self::Scraped { .. } | Self::TrueState => true,
        }
    }
}

impl fmt::Display for Information {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::OwnHistory => f.write_str("own history"),
            Self::Scraped { interval_ns } => write!(f, "scraped every {interval_ns}"),
            Self::TrueState => f.write_str("true state"),
            Self::Truth => f.write_str("truth"),
        }
    }
}

/// Why a decision was taken: an enum, so that reasons can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Drawn at random.
    Random,
    /// Next in turn.
    RoundRobin,
    /// Fewest requests in flight.
    LeastInFlight,
    /// The less loaded of two drawn replicas.
    PowerOfTwo,
    /// The place that a hash gives.
    Hash,
    /// The hash's place was full: the next on the ring.
    HashSpilled,
    /// Where the session was before.
    Sticky,
    /// The session had no place yet, or its place no longer fits.
    StickyMoved,
    /// Longest cached prefix.
    PrefixMatch,
    /// No cached prefix anywhere.
    PrefixMiss,
    /// No cached prefix that was worth following among those of replicas that may take more.
    PrefixDeclined,
    /// Loads were too far apart: the least loaded, whatever is cached.
    LoadImbalance,
    /// Highest weighted sum of scores.
    BestScore,
    /// Lowest cost.
    LeastCost,
    /// Drawn, the cheaper the likelier.
    DrawnByCost,
    /// One of the replicas that the adapter is assigned to.
    Partition,
    /// Highest expected on-time quality.
    BestValue,
    /// Highest expected quality, though no choice is likely to be on time.
    BestEffort,
    /// Highest score of the original harness's formula.
    SeedScore,
    /// The oracle's choice.
    Oracle,
}

impl Reason {
    /// The word that records use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastInFlight => "least_in_flight",
            Self::PowerOfTwo => "power_of_two",
            Self::Hash => "hash",
            Self::HashSpilled => "hash_spilled",
            Self::Sticky => "sticky",
            Self::StickyMoved => "sticky_moved",
            Self::PrefixMatch => "prefix_match",
            Self::PrefixMiss => "prefix_miss",
            Self::PrefixDeclined => "prefix_declined",
            Self::LoadImbalance => "load_imbalance",
            Self::BestScore => "best_score",
            Self::LeastCost => "least_cost",
            Self::DrawnByCost => "drawn_by_cost",
            Self::Partition => "partition",
            Self::BestValue => "best_value",
            Self::BestEffort => "best_effort",
            Self::SeedScore => "seed_score",
            Self::Oracle => "oracle",
        }
    }
}

/// *What* serves a request and *where*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Where.
    pub replica: ReplicaId,
    /// What: an adapter, or the base model.
    pub adapter: Option<AdapterId>,
    /// Why.
    pub reason: Reason,
}

/// A routing policy. It has no clock, does no I/O, and draws only from the stream that it is handed.
/// Ties go to the lowest id, unless the rule is to draw. When `request.required_adapter` is set, the decision's adapter must be that one.
pub trait RoutingPolicy: Send {
    /// The name that specs and tables use.
    fn name(&self) -> &'static str;
    /// What it is allowed to see.
    fn information(&self) -> Information;
    /// Whether it looks at cached prefixes: an index is kept only for a policy that does.
    fn prefixes(&self) -> PrefixUse {
        PrefixUse::Unused
    }
    /// Chooses for one request.
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision;
    /// Is told what happened, after the state has taken it in. Scrapes come only to a policy that declares them.
    fn observe(&mut self, _event: &RouterEvent) {}
}
