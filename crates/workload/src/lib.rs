//! Workloads: a seeded list of requests, generated as the run consumes it.
//!
//! A workload is an arrival process, the people who send (sessions, tenants, trust groups), what they ask for
//! (popularity of tasks), and the words and lengths of it, each from random draws of its own name. It knows neither
//! servers nor routers, and reads no files but the trace or dataset that its spec names.

mod aliasing;
mod asks;
mod content;
mod draw;
mod error;
mod jsonl;
mod people;
mod popularity;
mod prompts;
mod sample;
mod source;
mod spec;
mod starts;
mod structure;
pub mod trace;
mod validate;
mod workload;

pub use aliasing::{Aliasing, Axis, CramersV};
pub use error::WorkloadError;
pub use sample::{layout_of, sample_of};
pub use source::{Arrival, RequestSource};
pub use spec::{
    Arrivals, CountLaw, Drift, Gaps, Isolation, Kind, LayoutChoice, NamedBy, Popularity, PopularityOrder,
    WorkloadSpec,
};
pub use structure::{RealisedPopularity, Structure, StructureReport};
pub use workload::{Workload, WorkloadContext};
