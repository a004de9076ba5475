//! `acb doctor`: an experiment and this machine, checked before a run.

use super::plan::{Prepared, jobs, load, prepare};
use super::{Exit, print, print_json};
use crate::cli::DoctorArgs;
use crate::gates::GateStatus;
use crate::interrupt::Interrupt;
use miette::IntoDiagnostic;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The findings as `--json` prints them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorDocument {
    /// `ok`, `warning` or `error`: the worst finding.
    pub status: &'static str,
    /// Cells of the plan.
    pub planned_runs: u64,
    /// Requests over all cells.
    pub planned_requests: u64,
    /// GPU hours on real servers; null for a plan that needs none.
    pub estimated_gpu_hours: Option<f64>,
    /// What was checked and found in order.
    pub passed: Vec<String>,
    /// Findings that don't stop a run.
    pub warnings: Vec<String>,
    /// Findings that stop it.
    pub errors: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When the experiment has faults.
pub fn command(args: &DoctorArgs) -> miette::Result<Exit> {
    let interrupt = Interrupt::on_signals().into_diagnostic()?;
    let Some(spec) = load(&args.experiment, args.json)? else { return Ok(Exit::Usage) };
    let plan = prepare(spec, &args.experiment, jobs(None), &interrupt)?;
    let document = examine(&plan);
    match args.json {
        true => print_json(&document)?,
        false => print(&text(&document))?,
    }
    Ok(if document.errors.is_empty() { Exit::Done } else { Exit::Failed })
}

fn examine(plan: &Prepared) -> DoctorDocument {
    let (mut passed, mut warnings, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for verdict in &plan.verdicts {
        let finding = format!("gate {}: {}", verdict.gate, verdict.finding);
        match verdict.status {
            GateStatus::Pass => passed.push(finding),
            GateStatus::Note | GateStatus::Allowed => warnings.push(finding),
            GateStatus::Refuse => errors.push(finding),
        }
    }
    match writable(&plan.output_dir) {
        Ok(()) => passed.push(format!("{} can be written", plan.output_dir.display())),
        Err(error) => errors.push(error),
    }
    passed.push(format!(
        "{} processors; the plan takes about {:.0} s and {:.0} MB",
        plan.estimate.jobs,
        plan.estimate.wall_s.ceil(),
        (plan.estimate.disk_bytes * 1e-6).ceil()
    ));
    if !plan.experiment.levels.iter().all(|level| level.spec.cluster.profile_label().1) {
        warnings.push("the latency profile is uncalibrated: results reach rung L1 and no further".to_owned());
    }
    DoctorDocument {
        status: match (errors.is_empty(), warnings.is_empty()) {
            (false, _) => "error",
            (true, false) => "warning",
            (true, true) => "ok",
        },
        planned_runs: plan.estimate.runs,
        planned_requests: plan.estimate.requests,
        estimated_gpu_hours: plan.estimate.gpu_hours,
        passed,
        warnings,
        errors,
    }
}

/// Whether run folders can be made below `folder`: a file is made and removed in its nearest parent that exists.
fn writable(folder: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let existing =
        absolute.ancestors().find(|parent| parent.exists()).map_or_else(PathBuf::new, Path::to_path_buf);
    let probe = existing.join(format!(".acb-doctor-{}", std::process::id()));
    std::fs::write(&probe, b"probe").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
        format!("{}: can't be written ({error}); choose another --output-dir", existing.display())
    })
}

fn text(document: &DoctorDocument) -> String {
    let mut out = format!(
        "verdict: {} ({} runs, {} requests planned)\n",
        document.status, document.planned_runs, document.planned_requests
    );
    let all = [("error", &document.errors), ("warning", &document.warnings), ("ok", &document.passed)];
    for (word, findings) in all {
        for finding in findings {
            // Writing to a String can't fail.
            let _ = writeln!(out, "{word}: {finding}");
        }
    }
    out
}
