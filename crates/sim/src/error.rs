//! What can be wrong with a cluster.

use acb_types::Nanos;

/// Why a cluster can't be built or run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A value of the spec is impossible.
    #[error("cluster{pointer}: {message}")]
    Spec {
        /// JSON pointer below `cluster`.
        pointer: String,
        /// What is wrong and what would be valid.
        message: String,
    },
    /// The source gave a request that is due before the one it gave last.
    #[error(
        "the workload gave a request due at {due} after one due at {before}; due times must not decrease"
    )]
    SourceOutOfOrder {
        /// Due time of the offending request.
        due: Nanos,
        /// Due time of the request before it.
        before: Nanos,
    },
}
