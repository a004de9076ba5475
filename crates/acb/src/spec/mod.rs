//! Experiment files: YAML that is read strictly, with the place of every fault.
//!
//! The flow is text -> tree with places ([`parse`]) -> merged tree ([`merge`]) -> checked against the JSON schema of
//! the types that read it ([`validate`]) -> a value of the type -> checks across fields.
//! Nothing here decides what an experiment does; the only files read are the experiment's own.

pub mod fault;
pub mod load;
pub mod merge;
pub mod parse;
pub mod scalar;
pub mod schema;
pub mod source;
pub mod tree;
pub mod validate;
pub mod words;

pub use fault::{Fault, FaultRow, Faults, Located, Report};
pub use source::{Source, SourceId, Sources, Span};
