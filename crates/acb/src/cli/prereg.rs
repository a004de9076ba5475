//! Arguments of `acb prereg`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What to do with a preregistration.
#[derive(Debug, Subcommand)]
pub enum PreregCommand {
    /// Fix an experiment as it stands: writes `x.lock.json` beside `x.yaml`.
    ///
    /// Refuses what is blank, field by field. When there is a lock already, a changed experiment needs `--reason`: the new
    /// lock then names the one before, what changed and why, and every report lists it.
    Lock(PreregLockArgs),
    /// Print what a lock registers.
    Show(PreregShowArgs),
    /// Hold an experiment against its lock. Exit status 1 when they differ.
    Check(PreregArgs),
}

/// Which experiment.
#[derive(Clone, Debug, Args)]
pub struct PreregArgs {
    /// Experiment files (YAML). Several merge left to right; the lock lies beside the first.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `acb prereg lock`.
#[derive(Clone, Debug, Args)]
pub struct PreregLockArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: PreregArgs,
    /// Why a registered experiment changes.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Arguments of `acb prereg show`.
#[derive(Clone, Debug, Args)]
pub struct PreregShowArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: PreregArgs,
    /// Print the registered document as JSON, indented.
    #[arg(long)]
    pub json: bool,
}
