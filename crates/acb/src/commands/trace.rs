//! `acb trace info`: what a trace file holds.

use super::{Exit, print, print_json};
use crate::cli::{TraceFormatArg, TraceInfoArgs};
use acb_workload::trace::{TraceFormat, TraceInfo, TraceSpec, info as trace_info};
use miette::{IntoDiagnostic, miette};

/// Runs the command.
///
/// # Errors
/// When the file can't be read as a trace.
pub fn info(args: &TraceInfoArgs) -> miette::Result<Exit> {
    let format = match args.format {
        Some(TraceFormatArg::Azure) => TraceFormat::Azure,
        Some(TraceFormatArg::Mooncake) => TraceFormat::Mooncake,
        None => TraceFormat::guess(&args.file).ok_or_else(|| {
            miette!(
                "{}: the name does not tell the format; say --format azure (CSV) or --format mooncake (JSON lines)",
                args.file.display()
            )
        })?,
    };
    let found: TraceInfo = trace_info(&TraceSpec::strict(args.file.clone(), format)).into_diagnostic()?;
    match args.json {
        true => print_json(&found)?,
        false => print(&found.to_string())?,
    }
    Ok(Exit::Done)
}
