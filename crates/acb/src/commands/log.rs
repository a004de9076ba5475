//! `acb log`: every run that was ever begun in an output folder.

use super::{Exit, print};
use crate::cli::LogArgs;
use crate::clock::unix_ms;
use acb_evidence::{LogEntry, LogEvent, RunCounts, RunLog, audit, run_counts};
use miette::{IntoDiagnostic, miette};
use std::fmt::Write;

/// Checks the chain and holds it against the run folders.
///
/// # Errors
/// When there is no log, it is broken or unfinished, or a folder can't be read.
pub fn check(args: &LogArgs) -> miette::Result<Exit> {
    let log = found(args)?;
    let entries = log.read().into_diagnostic()?;
    let findings = audit(&args.folder, &entries).into_diagnostic()?;
    let RunCounts { started, complete, failed, interrupted, never_ended } = run_counts(&entries);
    let mut text = format!(
        "{}: {} lines, the chain holds\n{started} runs begun: {complete} complete, {failed} failed, {interrupted} \
         interrupted, {never_ended} never ended\n",
        log.path().display(),
        entries.len()
    );
    text.push_str(&locks(&entries));
    for finding in &findings {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{finding}");
    }
    print(&text)?;
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Every preregistration in the log, with the runs that were begun under it and where each stands in the chain.
fn locks(entries: &[LogEntry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let LogEvent::Locked { experiment, preregistration } = &entry.event else { continue };
        let under = entries.iter().filter(|other| match &other.event {
            LogEvent::Started { preregistration: Some(hash), .. } => hash == preregistration,
            _ => false,
        });
        let lines: Vec<u64> = under.map(|other| other.n).collect();
        let first = lines.first().map_or_else(|| "none yet".to_owned(), |n| format!("the first in line {n}"));
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{experiment}: locked in line {} as sha256 {preregistration}; {} runs begun under it, {first}",
            entry.n,
            lines.len()
        );
    }
    text
}

/// Sets an unfinished last line aside.
///
/// # Errors
/// When there is no log, or it is broken elsewhere.
pub fn mend(args: &LogArgs) -> miette::Result<Exit> {
    let log = found(args)?;
    let text = match log.mend(unix_ms()).into_diagnostic()? {
        Some(bytes) => format!("{}: {bytes} bytes of an unfinished line set aside\n", log.path().display()),
        None => format!("{}: the last line is whole, nothing to mend\n", log.path().display()),
    };
    print(&text)?;
    Ok(Exit::Done)
}

/// The log of a folder that has one: asking must not make one.
fn found(args: &LogArgs) -> miette::Result<RunLog> {
    let log = RunLog::of(&args.folder);
    match log.path().is_file() {
        true => Ok(log),
        false => Err(miette!("{}: no such log; name the output folder of a run", log.path().display())),
    }
}
