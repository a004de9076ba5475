//! From an experiment file to paired evidence: spec, plan, gates, runs and commands.

pub mod spec;
