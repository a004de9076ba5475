//! Experiment files: YAML that is read strictly, with the place of every fault.
//!
//! The flow is text -> tree with places ([`parse`]) -> merged tree ([`merge`]) -> checked against the JSON schema of
//! the types that read it ([`validate`]) -> [`ExperimentSpec`] -> checks across fields ([`check`]).
//! Nothing here decides what an experiment does; the only files read are the experiment's own.

pub mod catalogue;
pub mod check;
pub mod emit;
pub mod experiment;
pub mod fault;
mod levels;
pub mod load;
pub mod merge;
pub mod model;
pub mod parse;
pub mod pattern;
mod policies;
pub mod preregistration;
mod remedy;
pub mod resolve;
pub mod rule;
pub mod runtime;
pub mod scalar;
pub mod schema;
pub mod source;
pub mod tree;
pub mod truth;
pub mod validate;
pub mod words;

pub use check::check;
pub use experiment::{ArmSpec, ExperimentSpec, PriorKind, RoleSpec, SeedRange, SeedsSpec, SloSpec};
pub use fault::{Fault, FaultRow, Faults, Located, Report};
pub use resolve::Finding;
pub use source::{Position, Source, SourceId, Sources, Span};
