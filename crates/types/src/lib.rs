//! The vocabulary that every other crate speaks: ids, time, prompts, requests, adapters, records,
//! and named random streams.
//!
//! This crate decides nothing and does no I/O. It reads no clock: a caller owns time and passes [`Nanos`].

mod adapter;
mod digest;
mod engine;
mod ids;
mod observed;
mod prompt;
mod quality;
mod record;
mod request;
mod server;
mod slo;
mod stream;
mod time;

pub use adapter::{Adapter, AdapterRole, Adapters, AdaptersError};
pub use digest::{Digest, NotADigest};
pub use engine::Tier;
pub use ids::{
    AdapterId, ContentId, DocumentId, ReplicaId, RequestId, SessionId, TaskId, TenantId, TrustGroupId,
};
pub use observed::{AbsentReason, Observed, Source};
pub use prompt::{BlockRun, Prompt, Segment, block_runs};
pub use quality::{Outcomes, QualityTable, QualityTableError};
pub use record::{AdapterLoad, Outcome, RECORD_VERSION, Record};
pub use request::{Request, Truth};
pub use server::{ServerCounters, ServerRow};
pub use slo::Slo;
pub use stream::{Seed, Stream};
pub use time::Nanos;
