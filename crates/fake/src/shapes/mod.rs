//! A scripted server without an engine: each answer is a list of writes at set times, in any shape that a stream can have.
//!
//! A client's definitions are tested against it, since the right values are known: they are what the script says. The
//! script is the server's, or a request's own in the header `x-acb-shape` (see [`Script::apply`]).

mod body;
mod plan;
mod script;
mod server;
mod words;

pub use script::{Channel, Done, Fault, Finish, Flush, Framing, Head, Pieces, Role, Script, Text, Usage};
pub use server::{Freeze, ShapeOptions, ShapeServer};
pub use words::{SHAPE_HEADER, ShapeError, ShapeInfo, shapes};

#[cfg(test)]
mod tests;
