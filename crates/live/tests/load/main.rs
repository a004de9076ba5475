//! The load generator over real sockets, against a scripted server.

mod course;
mod routing;
mod support;
