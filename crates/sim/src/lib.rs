//! A deterministic simulator of a cluster that serves one base model with many LoRA adapters.
//!
//! Requests come from a [`RequestSource`](acb_workload::RequestSource), a [`Router`](acb_routing::Router) sends them,
//! replicas with the semantics of vLLM's V1 engine or of SGLang serve them in simulated time, and a [`Sink`] takes what happened.
//! Scheduling, memory and caches are exact; how long a step takes comes from a [`Profile`], which is a model.
//!
//! This crate reads no clock and no file, and knows nothing of experiments, arms or quality.

mod adapters;
mod agenda;
mod cards;
mod check;
mod cluster;
mod completion;
mod costs;
mod decode;
mod error;
mod exact;
mod jobs;
mod kv;
mod latency;
mod line;
mod loads;
mod memory;
mod overtakes;
mod prefixes;
mod profile;
mod profiles;
mod queue;
mod replica;
mod rules;
mod run;
mod server;
mod sglang;
mod sglang_spec;
mod spec;
mod stepped;
mod tiers;
mod uncontended;
mod what_if;

pub use cards::{Card, card, cards};
pub use cluster::Cluster;
pub use completion::{Completion, EndedSteps, RunTotals, Sink};
pub use error::SimError;
pub use memory::{Memory, MemoryPlan};
pub use profile::Profile;
pub use profiles::{ProfileInfo, profile, profiles};
pub use run::{Run, Service};
pub use sglang_spec::{LoraEvictionPolicy, RadixEvictionPolicy, SchedulePolicy, SglangSpec, SglangVersion};
pub use spec::{
    CacheCondition, ClusterSpec, EngineSpec, KvMemory, KvSpec, Limits, ProfileSpec, ScrapeShows, VllmSpec,
    VllmVersion,
};
pub use stepped::{Refusal, Served, StepEvent, Stepped, Submission};
pub use tiers::{AdapterTiers, Prefetch, RemoteTier};
pub use what_if::{Alora, MergedReplica, WhatIf};

#[cfg(test)]
mod tests;
