//! The live half: an open-loop load generator for OpenAI-compatible servers, and the drivers that know each server.
//!
//! Time is read here, at the edge, and handed to the same [`Router`](acb_routing::Router) that the simulator uses. This crate
//! does not know what an experiment is, and it computes no statistics beyond the check of its own run.

mod call;
pub mod check;
mod client;
mod clock;
mod cpu;
mod delta;
pub mod drivers;
pub mod load;
mod measures;
mod observation;
mod pacer;
mod recorder;
mod sse;
mod stream;
mod target;
mod template;

pub use call::Call;
pub use client::{Client, ClientError, ClientOptions};
pub use clock::Clock;
pub use cpu::{process_cpu, thread_cpu};
pub use measures::Gap;
pub use observation::{Channel, ConnectFault, Connection, Ending, Observation, TokenEvent, Usage};
pub use sse::{EVENT_LIMIT, EventTooLong, SseDecoder, SseEvent};
pub use stream::{BodyEnd, StreamReader, TOKEN_EVENT_LIMIT, Text, Wanted};
pub use target::{Authorities, Protocol, Secret, Target, TargetError};

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod testing;
