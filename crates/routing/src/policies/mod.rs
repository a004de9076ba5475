//! The policies, one file each. A file's head says the rule, what it sees, and what it bounds or lacks.

mod adapter_hash_bounded;
mod base;
mod cache_static;
mod choice;
mod least_in_flight;
mod multitask;
mod oracle;
mod parameter;
mod pick;
mod power_of_two;
mod production_stack_prefix;
mod random;
mod round_robin;
mod seed_score;
mod semantic;
mod sglang_cache_aware;
mod specialists;
mod sticky_session;

pub use adapter_hash_bounded::AdapterHashBoundedSpec;
pub use base::BaseSpec;
pub use cache_static::CacheStaticSpec;
pub use choice::AdapterChoice;
pub use least_in_flight::LeastInFlightSpec;
pub use multitask::MultitaskSpec;
pub use oracle::OracleSpec;
pub use power_of_two::PowerOfTwoSpec;
pub use production_stack_prefix::ProductionStackPrefixSpec;
pub use random::RandomSpec;
pub use round_robin::RoundRobinSpec;
pub use seed_score::{IsolationScope, SeedCacheModel, SeedCandidates, SeedMode, SeedScoreSpec};
pub use semantic::SemanticSpec;
pub use sglang_cache_aware::{SglangCacheAwareSpec, SglangMiss};
pub use specialists::SpecialistsSpec;
pub use sticky_session::StickySessionSpec;
