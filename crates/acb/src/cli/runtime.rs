//! Arguments of `acb runtime`.

use super::ExperimentArgs;
use clap::{Args, Subcommand};

/// Commands on servers.
#[derive(Clone, Debug, Subcommand)]
pub enum RuntimeCommand {
    /// Start a server for each replica, wait until they answer, and leave them up.
    Up(RuntimeArgs),
    /// End the servers that are up: politely, and by force after `runtime.stop_within_s`.
    Down(RuntimeArgs),
    /// Say which servers are up. Exit status 1 when one is not.
    Status(RuntimeArgs),
    /// Run one server, and end it with this process.
    #[command(hide = true)]
    Keep(KeepArgs),
}

/// Which experiment's servers.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Print the servers as JSON (`acb schema runtime`).
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the process that stands before a server.
#[derive(Clone, Debug, Args)]
pub struct KeepArgs {
    /// Longest time that the server has to end, s.
    #[arg(long, value_name = "SECONDS")]
    pub stop_within: f64,
    /// End it when stdin closes.
    #[arg(long)]
    pub with_starter: bool,
    /// The server.
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}
