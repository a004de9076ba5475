//! `acb run`: plan, run every cell, report.

use super::plan::{Prepared, document, jobs, load, prepare, render};
use super::{Exit, print, print_json, say};
use crate::cli::RunArgs;
use crate::folder::FolderError;
use crate::interrupt::Interrupt;
use crate::preregister::registration;
use crate::sweep::{
    OnError, Options, StartedCells, SweepState, SweepStatus, record_digest, run, sweep_folder,
};
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunDocument {
    /// Where the sweep stands.
    pub status: SweepStatus,
    /// Hash over the record hashes of all runs in plan order; null while the sweep is not complete.
    pub record_digest: Option<String>,
    /// The report; null while the sweep is not complete.
    pub report: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When the experiment has faults, a gate refuses, or the sweep can't start.
pub fn command(args: &RunArgs) -> miette::Result<Exit> {
    let interrupt = Interrupt::on_signals().into_diagnostic()?;
    let Some(spec) = load(&args.experiment, args.json)? else { return Ok(Exit::Usage) };
    let jobs = jobs(args.jobs);
    let prepared = prepare(spec, &args.experiment, jobs, &interrupt)?;
    if args.dry_run || prepared.refused() {
        match args.json {
            true => print_json(&document(&prepared))?,
            false => print(&render(&prepared))?,
        }
        return Ok(if prepared.refused() { Exit::Failed } else { Exit::Done });
    }
    let registration = match args.exploratory {
        true => None,
        false => registration(&prepared.experiment, &args.experiment.files).into_diagnostic()?,
    };
    let standing = match &registration {
        Some(registration) => format!("preregistered as sha256 {}", registration.lock.sha256),
        None => "not preregistered".to_owned(),
    };
    let options = Options {
        output_dir: prepared.output_dir.clone(),
        name: prepared.sweep.clone(),
        started: if args.resume { StartedCells::Resume } else { StartedCells::Refuse },
        on_error: if args.continue_on_error { OnError::Continue } else { OnError::Stop },
        jobs,
        labels: prepared.labels(),
        registration,
    };
    if let Some(preset) = args.experiment.preset {
        say(&preset.head());
    }
    say(&format!("{}; {standing}", super::plan::headline(&prepared)));
    let status =
        run(&prepared.experiment, &prepared.cells, &prepared.replay.divergence, &options, &interrupt)
            .into_diagnostic()?;
    conclude(args, &prepared, status)
}

fn conclude(args: &RunArgs, prepared: &Prepared, status: SweepStatus) -> miette::Result<Exit> {
    let folder = sweep_folder(&prepared.output_dir, &prepared.sweep);
    let failed = status.failed.clone();
    for run in &failed {
        say(&format!("failed: {}: {}", run.run_id, run.message));
    }
    let exit = match status.state {
        SweepState::Complete => Exit::Done,
        SweepState::Interrupted => {
            let done = status.completed + status.skipped;
            say(&format!("interrupted after {done} of {} runs; --resume goes on", status.planned));
            Exit::Failed
        }
        SweepState::Failed | SweepState::Running => Exit::Failed,
    };
    if exit == Exit::Failed {
        let document = RunDocument { status, record_digest: None, report: None };
        if args.json {
            print_json(&document)?;
        }
        return Ok(exit);
    }
    let analysis = super::report::analyse(std::slice::from_ref(&folder))?;
    analysis.write_derived(&folder).map_err(FolderError::from).into_diagnostic()?;
    let path = folder.join(super::report::REPORT);
    let report = path.to_str().ok_or_else(|| miette!("{}: not UTF-8", path.display()))?.to_owned();
    let digest = record_digest(&prepared.output_dir, &prepared.cells).into_diagnostic()?.to_string();
    match args.json {
        true => {
            print_json(&RunDocument { status, record_digest: Some(digest), report: Some(report) })?;
        }
        false => {
            print(&analysis.terminal(super::report::columns()))?;
            print(&format!("\nrecord digest: {digest}\nreport: {report}\n"))?;
        }
    }
    Ok(exit)
}
