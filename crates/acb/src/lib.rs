//! From an experiment file to paired evidence: spec, plan, gates, runs and commands.
//!
//! The flow: [`spec`] reads the file, [`experiment`] sets it up, [`plan`] lists its cells, [`gates`] ask whether they
//! can answer the question, [`sweep`] runs them through [`execute`], and `acb-evidence` compares what they leave.

pub mod bench;
pub mod bundle;
pub mod calibrate;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod estimate;
pub mod execute;
pub mod experiment;
pub mod files;
pub mod folder;
pub mod gates;
pub mod historical;
pub mod interrupt;
pub mod live;
pub mod plan;
pub mod preregister;
pub mod presets;
pub mod progress;
pub mod quality;
pub mod replay;
pub mod rows;
pub mod sink;
pub mod spec;
pub mod sweep;
pub mod table;
pub mod ticker;
pub mod validate;
pub mod watched;
