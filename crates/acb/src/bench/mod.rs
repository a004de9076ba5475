//! `acb bench`: the load generator by itself, without an experiment file.
//!
//! Flow: [`plan`] turns arguments into a load, `acb-live` runs it, [`sink`] keeps rows and feeds the [`summary`], and
//! [`table`] prints it.

mod model;
pub mod plan;
pub mod recount;
mod rows;
pub mod sink;
mod source;
pub mod summary;
pub mod table;
