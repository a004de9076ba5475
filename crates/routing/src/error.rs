//! What a user, or a log from a file, can get wrong.

use crate::Decision;
use acb_types::{ReplicaId, RequestId};

/// Why a router can't be made, or a log doesn't replay.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RoutingError {
    /// A cluster of nothing.
    #[error("there is no replica to route to; give the cluster at least one")]
    NoReplicas,
    /// A parameter outside what is possible.
    #[error("{owner}: {parameter} is {value}, which is not {allowed}")]
    Parameter {
        /// The policy, or `costs`, or `prefix`.
        owner: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// What it was.
        value: f64,
        /// What would be possible.
        allowed: &'static str,
    },
    /// The catalogue has no multitask adapter.
    #[error(
        "policy {policy} serves with the multitask adapter and the catalogue has none; add one or drop the arm"
    )]
    NoMultitask {
        /// Who needs it.
        policy: &'static str,
    },
    /// The catalogue has no adapter that the policy could offer.
    #[error("policy {policy} chooses among adapters and none is offered; add adapters or drop the arm")]
    NoAdapters {
        /// Who needs them.
        policy: &'static str,
    },
    /// The oracle was not told the truth.
    #[error("policy oracle sees the outcomes and was given none; run it where outcomes are known in advance")]
    NoTruth,
    /// The prior covers fewer adapters than there are.
    #[error("the prior covers {covered} adapters and the catalogue has {adapters}; give a prior for each")]
    PriorTooSmall {
        /// Adapters in the prior.
        covered: usize,
        /// Adapters in the catalogue.
        adapters: usize,
    },
    /// A row decides about a request that the workload does not have.
    #[error(
        "row {row}: request {request} is not in the workload; the log and the workload are of different runs"
    )]
    UnknownRequest {
        /// Which row, from 1.
        row: u64,
        /// Which request.
        request: RequestId,
    },
    /// A row tells of a request that is not in flight.
    #[error("row {row}: request {request} is not in flight; the log lacks a row or has one twice")]
    NotInFlight {
        /// Which row, from 1.
        row: u64,
        /// Which request.
        request: RequestId,
    },
    /// A row dispatches a request that is in flight already.
    #[error(
        "row {row}: request {request} is dispatched while in flight; the log lacks a row or has one twice"
    )]
    AlreadyInFlight {
        /// Which row, from 1.
        row: u64,
        /// Which request.
        request: RequestId,
    },
    /// A row scrapes a replica that the cluster does not have.
    #[error("row {row}: there is no replica {replica}; the log and the cluster are of different runs")]
    UnknownReplica {
        /// Which row, from 1.
        row: u64,
        /// Which replica.
        replica: ReplicaId,
    },
    /// The replay decided otherwise than the log says.
    #[error("row {row}: request {request} was logged as {logged:?}, and the policy decides {replayed:?}")]
    DecisionDiffers {
        /// Which row, from 1.
        row: u64,
        /// Which request.
        request: RequestId,
        /// What the log says.
        logged: Decision,
        /// What the policy decides.
        replayed: Decision,
    },
    /// The replay saw the cluster otherwise than the log says.
    #[error("row {row}: request {request} was decided on other views than the events before it give")]
    ViewsDiffer {
        /// Which row, from 1.
        row: u64,
        /// Which request.
        request: RequestId,
    },
}
