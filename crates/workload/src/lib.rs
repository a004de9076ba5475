//! Workloads: a seeded list of requests, generated as the run consumes it.

mod source;

pub use source::{Arrival, RequestSource};
