//! The built program through its front door: what a user types, what lies on disk afterwards, and what the program says.

#![allow(clippy::unwrap_used, reason = "tests may unwrap, and what serves them too")]

mod bad_input;
mod bench;
mod bound;
mod bundle;
mod calibrate;
mod documents;
mod gates;
mod import;
mod interruption;
mod live;
mod load;
mod plan;
mod prereg;
mod presets;
mod resume;
mod run;
mod run_log;
mod schema;
mod serve_fake;
