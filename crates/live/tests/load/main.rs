//! The load generator over real sockets, against a scripted server.
#![allow(clippy::unwrap_used, reason = "tests may unwrap, and what serves them too")]

mod course;
mod routing;
mod support;
mod traps;
