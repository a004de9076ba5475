//! Routing: which adapter serves a request (*what*) on which replica (*where*).
//!
//! A policy is a state machine that is told what happened and never asks: no clock, no I/O, no global chance.
//! The simulator and the live load generator run the same policies through the same [`Router`].
//!
//! This crate does not know engines: what a policy may see of a replica is a [`ReplicaView`].

mod context;
mod error;
mod event;
mod hash;
#[cfg(test)]
mod laws;
mod lru;
mod policies;
mod policy;
mod prefix;
mod replay;
mod router;
mod row;
mod spec;
mod state;
#[cfg(test)]
mod testing;

pub use context::{CostModel, PrefixIndexSpec, RouterContext};
pub use error::RoutingError;
pub use event::{ReplicaSnapshot, RouterEvent};
pub use policies::{
    AdapterChoice, AdapterHashBoundedSpec, AibrixIndex, AibrixPrefixSpec, BaseSpec, CacheStaticSpec,
    DynamoCostSpec, EppWeightedSpec, IsolationScope, LeastInFlightSpec, LoraCapacity, LoraLoadStateSpec,
    MultitaskSpec, OracleSpec, PowerOfTwoSpec, PrebleE2Spec, ProductionStackPrefixSpec, RandomSpec,
    RayPrefixAwareSpec, RoundRobinSpec, SeedCacheModel, SeedCandidates, SeedMode, SeedScoreSpec,
    SemanticSpec, SglangCacheAwareSpec, SglangMiss, SpecialistsSpec, StaticPartitionSpec, StickySessionSpec,
};
pub use policy::{Decision, Information, Reason, RoutingPolicy};
pub use prefix::{PrefixIndex, PrefixKey, PrefixRules, PrefixUse};
pub use replay::replay;
pub use router::{Router, RowLog};
pub use row::{RoutingRow, Views};
pub use spec::PolicySpec;
pub use state::{DispatchState, ReplicaView, Scraped};
