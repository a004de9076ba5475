//! Between an experiment and its preregistration: what is registered of it, and where its lock file is.

use crate::experiment::Experiment;
use crate::plan::program_version;
use crate::spec::rule::{AaArm, AaSpec, ContrastSpec};
use crate::spec::words::lines;
use crate::spec::{ExperimentSpec, Finding};
use crate::sweep::Registration;
use acb_bundle::Hash;
use acb_evidence::{Change, EvidenceError, Lock, Preregistration, Program, Registered};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Why a lock and an experiment don't go together.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// A file.
    #[error(transparent)]
    File(#[from] EvidenceError),
    /// The program can't find or read itself.
    #[error("the program's own file can't be read, so it can't be named in a preregistration: {0}")]
    Program(String),
    /// The experiment is not the registered one.
    #[error(
        "{}: the experiment is not the one that was registered:\n{}\nundo the change; or lock again with `acb prereg \
         lock {} --reason \"why\"`, which makes it a deviation that every report lists; or explore with --exploratory",
        path.display(), lines(changes), file.display()
    )]
    Changed {
        /// The lock file.
        path: PathBuf,
        /// The experiment file.
        file: PathBuf,
        /// What differs.
        changes: Vec<Change>,
    },
    /// The lock file is not the text that was locked.
    #[error(
        "{}: the file is not the text that `acb prereg lock` wrote, though it registers the same experiment; take it back \
         from version control, or remove it and lock anew",
        path.display()
    )]
    Edited {
        /// The lock file.
        path: PathBuf,
    },
}

/// The lock file of an experiment that is read from these files: beside the first, `x.yaml` has `x.lock.json`.
#[must_use]
pub fn lock_path(files: &[PathBuf]) -> Option<PathBuf> {
    Some(files.first()?.with_extension("lock.json"))
}

/// What is registered of an experiment, by this program, with no history yet.
///
/// # Errors
/// When the program can't read its own file.
pub fn preregistration(experiment: &Experiment) -> Result<Preregistration, RegistrationError> {
    let data: BTreeMap<String, _> =
        experiment.data.iter().map(|(path, digest)| (path.display().to_string(), digest.clone())).collect();
    Ok(Preregistration::new(&experiment.spec.name, registered(&experiment.spec), data, program()?))
}

/// The experiment with roles, contrasts and the repeated arm written out; limits and output folder say nothing about
/// what is compared.
fn registered(spec: &ExperimentSpec) -> serde_json::Value {
    let mut whole = spec.clone();
    for (arm, own) in whole.arms.iter_mut().zip(&spec.arms) {
        arm.role = Some(spec.role(own));
    }
    whole.decision_rule.contrasts = contrasts(spec);
    whole.aa = match spec.aa_arm() {
        Some(arm) => AaSpec::Arm(AaArm { name: arm.name.clone() }),
        None => AaSpec::Off,
    };
    let mut json = whole.json();
    if let Some(map) = json.as_object_mut() {
        map.remove("budget");
        map.remove("output_dir");
    }
    json
}

fn contrasts(spec: &ExperimentSpec) -> Vec<ContrastSpec> {
    let mut contrasts: Vec<ContrastSpec> = Vec::new();
    for (treatment, other) in spec.contrasts() {
        match contrasts.iter_mut().find(|contrast| contrast.treatment == treatment) {
            Some(contrast) => contrast.against.push(other.to_owned()),
            None => {
                contrasts
                    .push(ContrastSpec { treatment: treatment.to_owned(), against: vec![other.to_owned()] });
            }
        }
    }
    contrasts
}

fn program() -> Result<Program, RegistrationError> {
    let hashed = std::env::current_exe().and_then(File::open).and_then(Hash::of_reader);
    let sha256 = hashed.map_err(|error| RegistrationError::Program(error.to_string()))?;
    Ok(Program { version: program_version().to_owned(), sha256: sha256.to_string() })
}

/// A fault of an experiment that a lock could not hold exactly.
#[must_use]
pub fn inexact(now: &Preregistration) -> Option<Finding> {
    let field = now.inexact_integer()?;
    let message =
        format!("`{field}` has an integer above 2^53, which JSON does not keep exactly: use smaller ones");
    Some((format!("/{}", field.replace('.', "/")), message))
}

/// The registration that an experiment is run under; `None` where it has no lock file.
///
/// # Errors
/// When the lock file can't be read, is not what was locked, or registers something else.
pub fn registration(
    experiment: &Experiment,
    files: &[PathBuf],
) -> Result<Option<Registration>, RegistrationError> {
    let Some(path) = lock_path(files).filter(|path| path.is_file()) else { return Ok(None) };
    let (lock, now) = (Lock::read(&path)?, preregistration(experiment)?);
    agree(&lock, &now, (&path, &files[0]))?;
    let carried = Registered { sha256: lock.sha256.clone(), program_sha256: now.program.sha256 };
    Ok(Some(Registration { lock, carried }))
}

/// Whether a lock registers this experiment, and is the text that was locked.
///
/// # Errors
/// When not.
pub fn agree(
    lock: &Lock,
    now: &Preregistration,
    (path, file): (&Path, &Path),
) -> Result<(), RegistrationError> {
    let changes = lock.changes(now);
    if !changes.is_empty() {
        return Err(RegistrationError::Changed {
            path: path.to_path_buf(),
            file: file.to_path_buf(),
            changes,
        });
    }
    match lock.is_text_of(now) {
        true => Ok(()),
        false => Err(RegistrationError::Edited { path: path.to_path_buf() }),
    }
}
