//! `acb prereg`: fix an experiment before its first run, and hold it against what was fixed.

use super::{Exit, print, print_json};
use crate::cli::{PreregArgs, PreregLockArgs, PreregShowArgs};
use crate::experiment::Experiment;
use crate::preregister::{RegistrationError, agree, inexact, lock_path, preregistration};
use crate::spec::preregistration::blanks;
use crate::spec::words::lines;
use crate::spec::{ExperimentSpec, Report};
use acb_evidence::{Lock, Preregistration};
use miette::{IntoDiagnostic, miette};
use std::fmt::Write;
use std::path::PathBuf;

/// Locks an experiment.
///
/// # Errors
/// When it has faults or blanks, is locked as something else and no reason is given, or the file can't be written.
pub fn lock(args: &PreregLockArgs) -> miette::Result<Exit> {
    let files = &args.experiment.files;
    let (path, now) = (path_of(files)?, registered(files)?);
    let before = path.is_file().then(|| Lock::read(&path)).transpose().into_diagnostic()?;
    let (lock, what) = match (before, args.reason.as_deref().map(str::trim)) {
        (None, None) => (now.lock(), "locked"),
        (None, Some(_)) => {
            let words = "there is nothing to depart from; lock without --reason first";
            return Err(miette!("{}: is not there: {words}", path.display()));
        }
        (Some(lock), reason) if lock.changes(&now).is_empty() => {
            agree(&lock, &now, (&path, &files[0])).into_diagnostic()?;
            let needless = if reason.is_some() { "; --reason is for a changed one" } else { "" };
            say_locked(&path, &lock, &format!("locked already, and the experiment is unchanged{needless}"))?;
            return Ok(Exit::Done);
        }
        (Some(lock), None | Some("")) => {
            let changes = lock.changes(&now);
            let changed = RegistrationError::Changed { path, file: files[0].clone(), changes };
            return Err(changed).into_diagnostic();
        }
        (Some(lock), Some(reason)) => (lock.deviate(now, reason), "locked again, as a deviation"),
    };
    lock.write(&path).into_diagnostic()?;
    say_locked(&path, &lock, what)?;
    Ok(Exit::Done)
}

fn say_locked(path: &std::path::Path, lock: &Lock, what: &str) -> miette::Result<()> {
    let changes = lock.preregistration.deviations.last().map(|deviation| lines(&deviation.changes));
    let changes =
        changes.map(|changes| format!("changed at the last lock:\n{changes}\n")).unwrap_or_default();
    print(&format!("{}: {what}\nsha256 {}\n{changes}", path.display(), lock.sha256))
}

/// Prints what a lock registers.
///
/// # Errors
/// When there is no lock, or it can't be read.
pub fn show(args: &PreregShowArgs) -> miette::Result<Exit> {
    let path = path_of(&args.experiment.files)?;
    let lock = Lock::read(&path).into_diagnostic()?;
    match args.json {
        true => print_json(&lock.preregistration)?,
        false => print(&shown(&lock))?,
    }
    Ok(Exit::Done)
}

fn shown(lock: &Lock) -> String {
    let Preregistration { name, experiment, data, program, deviations, .. } = &lock.preregistration;
    let mut out = format!(
        "{name}\nsha256 {}\nlocked by acb {}, sha256 {}\n",
        lock.sha256, program.version, program.sha256
    );
    let fields = [
        "question",
        "hypothesis",
        "primary_metric",
        "secondary_metrics",
        "slo",
        "decision_rule",
        "seeds",
        "aa",
    ];
    let section = experiment["preregistration"].as_object().into_iter().flatten();
    let of_section = section.map(|(key, value)| (format!("preregistration.{key}"), value));
    for (field, value) in fields.into_iter().map(|key| (key.to_owned(), &experiment[key])).chain(of_section) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // Writing to a String can't fail.
        let _ = writeln!(out, "{field}: {text}");
    }
    for (file, digest) in data {
        let _ = writeln!(out, "data: {file} blake3 {digest}");
    }
    for (at, deviation) in deviations.iter().enumerate() {
        let _ = writeln!(out, "deviation {}: {}\n{}", at + 1, deviation.reason, lines(&deviation.changes));
    }
    out
}

/// Holds an experiment against its lock.
///
/// # Errors
/// When the experiment has faults or blanks, or there is no lock.
pub fn check_lock(args: &PreregArgs) -> miette::Result<Exit> {
    let path = path_of(&args.files)?;
    let (lock, now) = (Lock::read(&path).into_diagnostic()?, registered(&args.files)?);
    if let Err(error) = agree(&lock, &now, (&path, &args.files[0])) {
        print(&format!("{error}\n"))?;
        return Ok(Exit::Failed);
    }
    let deviations = lock.preregistration.deviations.len();
    print(&format!(
        "{}: registers this experiment\nsha256 {}\ndeviations: {deviations}\n",
        path.display(),
        lock.sha256
    ))?;
    Ok(Exit::Done)
}

fn path_of(files: &[PathBuf]) -> miette::Result<PathBuf> {
    lock_path(files).ok_or_else(|| miette!("name the experiment's file"))
}

/// What would be registered of these files now; refused when anything is blank.
fn registered(files: &[PathBuf]) -> miette::Result<Preregistration> {
    let (experiment, located) =
        ExperimentSpec::load_checked(None, files, &[], blanks).map_err(Report::from)?;
    let experiment = Experiment::new(experiment).into_diagnostic()?;
    let now = preregistration(&experiment).into_diagnostic()?;
    match located.faults(inexact(&now)) {
        Some(faults) => Err(Report::from(faults).into()),
        None => Ok(now),
    }
}
