//! Evidence: run folders in, tables out. Records become metrics, metrics become paired comparisons between arms,
//! comparisons carry their interval, their method and the rung of evidence that they stand on.
//!
//! This crate reads run folders only. It knows neither the simulator nor the load generator, and it never fills in
//! a number that is not there: an absent value stays absent and says why.

mod audit;
mod canonical;
mod claims;
mod compare;
mod drift;
mod error;
mod files;
mod groups;
mod keyed;
mod legacy;
mod lines;
mod load;
mod metrics;
mod preregistration;
mod registration;
mod report;
mod rows;
mod run_log;
mod sample;
mod scan;
mod seen;
mod summary;
#[cfg(test)]
mod testing;
mod write;

pub use audit::{Disagreement, DisagreementKind, audit};
pub use canonical::{canonical_json, sha256_hex};
pub use claims::{
    Claim, Claims, ClaimsDocument, EvidenceRef, Finding, FourWay, Judged, Scope, claims, claims_document,
};
pub use compare::{
    ArmRow, ComparisonRule, Comparisons, Contrast, Effect, LevelComparison, Missing, Pair, Range, Rung, Step,
    Verdict, compare,
};
pub use error::{EvidenceError, LineFault};
pub use files::{
    AdapterRef, ArmRole, Divergence, DivergenceLevel, FILE_VERSION, GroupRow, Levels, LiveFacts, Manifest,
    Metric, Multiplicity, PlannedRun, ProfileRef, Registered, ResetFacts, RunState, ServerFacts, Status,
    Summary, SweepArm, SweepPlan, Versioned, Wall, document_bytes, read_json, write_json,
};
pub use legacy::{
    Backing, Column, Compat, CompatRow, Conditions, Duration, Ended, Form, HistoricalSet, Kind, LegacyFolder,
    LegacyRun, Lifecycle, Obstacle, Provenance, QagDefinition, Reason, RunReading, ServerCount, ServerReset,
    System, legacy_folders, read_legacy_run,
};
pub use lines::{Lines, MAX_LINE_BYTES};
pub use load::{Loaded, Run, Skipped, Sweep, load_runs};
pub use metrics::{Better, MetricInfo, SourceRule, metric, metrics, metrics_markdown};
pub use preregistration::{
    Change, Deviation, FalsificationRule, Lock, Preregistration, PreregistrationSection, Program,
    PromotionRule, SampleSize,
};
pub use registration::Registration;
pub use report::{render_claims, render_divergence, render_markdown, render_terminal};
pub use rows::{Records, ServerRows};
pub use run_log::{LogEntry, LogEvent, RunCounts, RunLog, RunLogError, run_counts};
pub use summary::{Summariser, summarise, summarise_folder};
pub use write::write_atomically;
