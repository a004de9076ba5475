//! Results of the original Python harness: read, marked as legacy, and never promoted.
//!
//! Two things come in: run folders ([`read_legacy_run`]) and published tables that are kept as data
//! ([`HistoricalSet`]). Both get the rung that they stand on and every reason why they can't stand higher. Nothing is
//! filled in: what such a run did not write down stays absent, and its rows never become records of ours, because they
//! hold lengths of time and no times.

mod compat;
mod document;
mod files;
mod folder;
mod historical;
mod lifecycle;
mod obstacle;
mod qag;
mod rows;
mod run;

pub use document::{
    CompatRow, Duration, Ended, Form, Kind, LegacyRun, Lifecycle, QagDefinition, ServerCount,
};
pub use folder::{LegacyFolder, legacy_folders};
pub use historical::{Backing, Column, Conditions, HistoricalSet, Provenance, ServerReset, System};
pub use obstacle::{Obstacle, Reason};
pub use run::{Compat, RunReading, read_legacy_run};
