//! `acb trace info`: what a trace file holds.

use super::Exit;
use crate::cli::TraceInfoArgs;
use schemars::JsonSchema;
use serde::Serialize;

/// The findings as `--json` prints them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TraceDocument {}

/// Runs the command.
///
/// # Errors
/// When the file can't be read as a trace.
pub fn info(args: &TraceInfoArgs) -> miette::Result<Exit> {
    let _ = args;
    Ok(Exit::Done)
}
