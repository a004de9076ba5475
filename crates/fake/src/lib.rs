//! A fake server: the engine model of `acb-sim` in real time behind the HTTP that vLLM and SGLang speak.
//!
//! It is a stand-in for tests and rehearsals and says so in every answer. Nothing that it serves is a measurement.

mod answer;
mod ask;
mod clock;
mod dialect;
mod engine;
mod error;
mod fake;
mod faults;
mod flight;
mod handler;
mod host;
mod metrics;
mod net;
mod roster;
mod routes;
pub mod shapes;
mod tokens;
mod trace;

pub use acb_sim::{ClusterSpec, EngineSpec, SglangSpec};
pub use clock::Clock;
pub use dialect::Dialect;
pub use error::FakeError;
pub use fake::{FakeAdapter, FakeOptions, FakeServer};
pub use faults::Faults;
pub use handler::OUTPUT_TOKENS_HEADER;
pub use net::{SIMULATED_HEADER, TlsIdentity};
pub use trace::{EngineTruth, Trace, TraceRow};
