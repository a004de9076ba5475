//! Routing: which adapter serves a request (*what*) on which replica (*where*).
//!
//! A policy is a state machine that is told what happened and never asks: no clock, no I/O, no global chance.
//! The simulator and the live load generator run the same policies through the same [`Router`].
//!
//! This crate does not know engines: what a policy may see of a replica is a [`ReplicaView`].

mod event;
mod policy;
mod state;

pub use event::{ReplicaSnapshot, RouterEvent};
pub use policy::{Decision, Information, Reason, RoutingPolicy};
pub use state::{DispatchState, ReplicaView, Scraped};
