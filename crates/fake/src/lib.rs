//! A fake server: the engine model of `acb-sim` in real time behind the HTTP that vLLM and SGLang speak.
//!
//! It is a stand-in for tests and rehearsals and says so in every answer. Nothing that it serves is a measurement.

mod clock;
mod error;
mod host;
mod net;
pub mod shapes;
mod trace;

pub use clock::Clock;
pub use error::FakeError;
pub use net::{SIMULATED_HEADER, TlsIdentity};
pub use trace::{EngineTruth, Trace, TraceRow};
