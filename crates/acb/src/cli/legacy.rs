//! Arguments of `acb import` and `acb evidence`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What can be imported.
#[derive(Clone, Debug, Subcommand)]
pub enum ImportCommand {
    /// Run folders of the original Python harness, marked as legacy.
    ///
    /// Reads plain files in the folders only: links are refused. Each run is judged by its rows, not by its status: the
    /// harness wrote `complete` when it was stopped by Ctrl-C. Exit status 1 when a folder was refused.
    Legacy(ImportLegacyArgs),
}

/// Arguments of `acb import legacy`.
#[derive(Clone, Debug, Args)]
pub struct ImportLegacyArgs {
    /// A folder of run folders, or one run folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Write `RUN/legacy.json` for each run below this folder. An existing file is not overwritten.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Compute the harness's own metric definitions from the rows, beside what it published and beside ours.
    #[arg(long)]
    pub compat: bool,
    /// Print JSON (`acb schema import`).
    #[arg(long)]
    pub json: bool,
}

/// Commands on evidence.
#[derive(Clone, Debug, Subcommand)]
pub enum EvidenceCommand {
    /// Results of the original harness, the rung on which each stands, and why it can't be promoted.
    ///
    /// Lists the published tables that ship with the program and the imported runs below the paths given.
    Review(ReviewArgs),
}

/// Arguments of `acb evidence review`.
#[derive(Clone, Debug, Args)]
pub struct ReviewArgs {
    /// Folders that `acb import legacy --out` wrote.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print the numbers of one published table, with its provenance.
    #[arg(long, value_name = "ID", conflicts_with = "json")]
    pub show: Option<String>,
    /// Print JSON (`acb schema review`).
    #[arg(long)]
    pub json: bool,
}
