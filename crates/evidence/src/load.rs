//! Finds run folders and sweeps below a root.

use crate::files::{Versioned, document_bytes, read_json};
use crate::registration::Registration;
use crate::summary::summarise_hashed;
use crate::{Divergence, EvidenceError, Manifest, RunState, Status, Summary, SweepPlan};
use acb_types::Digest;
use std::fs;
use std::path::{Path, PathBuf};

/// A complete run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its folder.
    pub folder: PathBuf,
    /// What it is.
    pub manifest: Manifest,
    /// What came out.
    pub summary: Summary,
}

/// A run folder that is no evidence, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The folder.
    pub folder: PathBuf,
    /// Why it is left out.
    pub why: String,
}

/// A sweep: what was planned, and how its arms differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Its folder.
    pub folder: PathBuf,
    /// Its plan.
    pub plan: SweepPlan,
    /// Its divergence matrices, when the plan was gated on them.
    pub divergence: Option<Divergence>,
    /// How its runs stand to a preregistration.
    pub registration: Registration,
}

/// Everything below a root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Complete runs, by folder.
    pub runs: Vec<Run>,
    /// Folders of runs that are not complete or not readable, by folder.
    pub skipped: Vec<Skipped>,
    /// Sweeps, by folder.
    pub sweeps: Vec<Sweep>,
}

/// Reads every run folder directly below `root` and every sweep in `root/_sweeps`. `root` may itself be a run folder
/// or a sweep's folder; then that run, or the runs of that sweep's plan, are read. Folders that hold neither a
/// manifest nor a status are none of ours and are passed over; a run that isn't complete is named in `skipped`.
///
/// # Errors
/// When a folder can't be listed or a sweep's documents can't be read.
pub fn load_runs(root: &Path) -> Result<Loaded, EvidenceError> {
    let mut loaded = Loaded::default();
    if root.join(SweepPlan::FILE).is_file() {
        let sweep = load_sweep(root)?;
        let folders = sweep.plan.runs.iter().map(|run| root.join("../..").join(&run.run_id));
        let mut folders: Vec<PathBuf> = folders.collect();
        folders.sort();
        folders.into_iter().for_each(|folder| loaded.add_folder(folder));
        loaded.sweeps.push(sweep);
        return Ok(loaded);
    }
    if is_run(root) {
        loaded.add_folder(root.to_path_buf());
        return Ok(loaded);
    }
    folders_in(root)?
        .into_iter()
        .filter(|folder| is_run(folder))
        .for_each(|folder| loaded.add_folder(folder));
    let sweeps = root.join("_sweeps");
    if sweeps.is_dir() {
        for folder in folders_in(&sweeps)?.into_iter().filter(|folder| folder.join(SweepPlan::FILE).is_file())
        {
            loaded.sweeps.push(load_sweep(&folder)?);
        }
    }
    Ok(loaded)
}

impl Loaded {
    /// What lies below a root, taken apart by experiment: runs, sweeps and skipped folders of one experiment each,
    /// in order of the experiment's name. Folders of which nothing is known stay with every part.
    #[must_use]
    pub fn by_experiment(self) -> Vec<Self> {
        let of_run = |run: &Run| (run.manifest.experiment.clone(), run.manifest.experiment_digest.clone());
        let of_sweep = |sweep: &Sweep| (sweep.plan.experiment.clone(), sweep.plan.experiment_digest.clone());
        let keys: std::collections::BTreeSet<_> =
            self.runs.iter().map(of_run).chain(self.sweeps.iter().map(of_sweep)).collect();
        let part = |key: &(String, acb_types::Digest)| Self {
            runs: self.runs.iter().filter(|run| of_run(run) == *key).cloned().collect(),
            skipped: self.skipped.clone(),
            sweeps: self.sweeps.iter().filter(|sweep| of_sweep(sweep) == *key).cloned().collect(),
        };
        keys.iter().map(part).collect()
    }

    fn add_folder(&mut self, folder: PathBuf) {
        match load_run(&folder) {
            Ok(run) => self.runs.push(run),
            Err(why) => self.skipped.push(Skipped { folder, why }),
        }
    }
}

fn load_sweep(folder: &Path) -> Result<Sweep, EvidenceError> {
    let divergence = match folder.join(Divergence::FILE).is_file() {
        true => Some(read_json(folder)?),
        false => None,
    };
    let plan = read_json(folder)?;
    let registration = Registration::of_sweep(folder, &plan)?;
    Ok(Sweep { folder: folder.to_path_buf(), plan, divergence, registration })
}

/// A complete run, or why it is none.
fn load_run(folder: &Path) -> Result<Run, String> {
    let said = |error: EvidenceError| error.to_string();
    if !folder.is_dir() {
        return Err("planned, but it has no folder".to_owned());
    }
    let status: Status = read_json(folder).map_err(said)?;
    match status.state {
        RunState::Complete => {}
        RunState::Planned => return Err("not started".to_owned()),
        RunState::Running => return Err("still running, or killed".to_owned()),
        RunState::Failed => return Err(with_message("failed", status.message)),
        RunState::Interrupted => return Err(with_message("interrupted", status.message)),
    }
    let manifest: Manifest = read_json(folder).map_err(said)?;
    let read = summarise_hashed(folder, &manifest).map_err(unreadable)?;
    check_rows(&status, read.digest.as_ref())?;
    let summary = summary_of(folder, read.summary.map_err(said)?)?;
    if summary.run_id != manifest.run_id || status.run_id != manifest.run_id {
        let (a, b, c) = (&manifest.run_id, &status.run_id, &summary.run_id);
        return Err(format!("manifest, status and summary are of different runs: {a}, {b}, {c}"));
    }
    Ok(Run { folder: folder.to_path_buf(), manifest, summary })
}

fn with_message(state: &str, message: Option<String>) -> String {
    message.map_or_else(|| state.to_owned(), |message| format!("{state}: {message}"))
}

fn unreadable(error: EvidenceError) -> String {
    match error {
        EvidenceError::Io { source, .. } => format!("requests.jsonl: {source}"),
        other => other.to_string(),
    }
}

/// The records are those that the run wrote, and as many as it planned.
fn check_rows(status: &Status, hash: Option<&Digest>) -> Result<(), String> {
    if hash.is_none() || status.record_digest.as_ref() != hash {
        return Err(
            "requests.jsonl is not as the run left it (its hash is not the one in status.json)".to_owned()
        );
    }
    let (recorded, planned) = (status.recorded_requests, status.planned_requests);
    match recorded == planned {
        true => Ok(()),
        false => Err(format!("cut short by a limit: {recorded} of {planned} planned requests have a record")),
    }
}

/// The summary computed from the rows; a `summary.json` of this version that says otherwise is a fault.
fn summary_of(folder: &Path, computed: Summary) -> Result<Summary, String> {
    match read_json::<Summary>(folder) {
        // Compared as text: reading a number from JSON may move it by the last bit.
        Ok(_) if fs::read(folder.join(Summary::FILE)).ok() != Some(document_bytes(&computed)) => {
            Err("summary.json does not follow from requests.jsonl and server.jsonl".to_owned())
        }
        Ok(_) | Err(EvidenceError::Version { .. }) => Ok(computed),
        Err(EvidenceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(computed)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn is_run(folder: &Path) -> bool {
    folder.join(Manifest::FILE).is_file() || folder.join(Status::FILE).is_file()
}

/// Folders directly below, ascending; `_` starts the name of one that holds no run.
pub(crate) fn folders_in(root: &Path) -> Result<Vec<PathBuf>, EvidenceError> {
    let list = || {
        let mut folders = Vec::new();
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    };
    list().map_err(|source| EvidenceError::Io { path: root.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{manifest, record, record_line, status, sweep_plan};
    use crate::{ArmRole, write_json};

    fn write_run(root: &Path, block: u64, state: RunState) -> PathBuf {
        let manifest = manifest("a", ArmRole::Baseline, block);
        let folder = root.join(&manifest.run_id);
        fs::create_dir_all(&folder).unwrap();
        let rows = record_line(&record(0)) + &record_line(&record(1));
        let record_digest = Some(Digest::of(rows.as_bytes()));
        let status = Status { state, record_digest, recorded_requests: 2, ..status(&manifest) };
        write_json(&folder, &status).unwrap();
        write_json(&folder, &manifest).unwrap();
        fs::write(folder.join("requests.jsonl"), rows).unwrap();
        folder
    }

    #[test]
    fn complete_runs_are_read_and_others_are_named() {
        let root = tempfile::tempdir().unwrap();
        let whole = write_run(root.path(), 0, RunState::Complete);
        write_run(root.path(), 1, RunState::Interrupted);
        let bad = write_run(root.path(), 2, RunState::Complete);
        fs::write(bad.join("requests.jsonl"), "{}\n").unwrap();
        let broken = write_run(root.path(), 3, RunState::Complete);
        fs::write(broken.join("manifest.json"), "{\"v\":1").unwrap();
        fs::create_dir(root.path().join("notes")).unwrap();
        let loaded = load_runs(root.path()).unwrap();
        assert_eq!(
            loaded.runs.iter().map(|run| run.folder.clone()).collect::<Vec<_>>(),
            std::slice::from_ref(&whole)
        );
        assert_eq!(loaded.runs[0].summary.requests, 2);
        let whys: Vec<_> = loaded.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
        assert_eq!(whys[0], "interrupted");
        assert!(whys[1].contains("requests.jsonl is not as the run left it"), "{whys:?}");
        assert!(whys[2].contains("manifest.json: EOF"), "{whys:?}");
        assert_eq!(load_runs(&whole).unwrap().runs, loaded.runs);
    }

    #[test]
    fn a_run_is_what_its_rows_say_or_it_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let folder = write_run(root.path(), 0, RunState::Complete);
        let why = || load_runs(root.path()).unwrap().skipped.remove(0).why;
        let whole: Status = read_json(&folder).unwrap();
        let rows = fs::read_to_string(folder.join("requests.jsonl")).unwrap();
        fs::write(folder.join("requests.jsonl"), rows.replace("\"quality\":1.0", "\"quality\":0.5")).unwrap();
        assert!(why().contains("not as the run left it"), "an edited record");
        fs::write(folder.join("requests.jsonl"), rows).unwrap();
        write_json(&folder, &Status { planned_requests: 3, ..whole.clone() }).unwrap();
        assert_eq!(why(), "cut short by a limit: 2 of 3 planned requests have a record");
        write_json(&folder, &Status { record_digest: None, ..whole }).unwrap();
        assert!(why().contains("not as the run left it"), "no hash, no evidence");
    }

    #[test]
    fn an_edited_summary_is_noticed_and_another_version_is_computed_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = write_run(root.path(), 0, RunState::Complete);
        let computed = load_runs(root.path()).unwrap().runs.remove(0).summary;
        write_json(&folder, &computed).unwrap();
        assert_eq!(load_runs(root.path()).unwrap().runs.len(), 1);
        write_json(&folder, &Summary { requests: 77, ..computed.clone() }).unwrap();
        let why = load_runs(root.path()).unwrap().skipped.remove(0).why;
        assert_eq!(why, "summary.json does not follow from requests.jsonl and server.jsonl");
        fs::write(folder.join("summary.json"), "{\"v\":99}").unwrap();
        assert_eq!(load_runs(root.path()).unwrap().runs[0].summary, computed);
    }

    #[test]
    fn a_sweep_names_its_runs_and_those_that_are_missing() {
        let root = tempfile::tempdir().unwrap();
        write_run(root.path(), 0, RunState::Complete);
        let other = manifest("other", ArmRole::Baseline, 0);
        let folder = root.path().join("_sweeps/toy");
        fs::create_dir_all(&folder).unwrap();
        let plan = sweep_plan(&[manifest("a", ArmRole::Baseline, 0), manifest("a", ArmRole::Baseline, 1)]);
        write_json(&folder, &plan).unwrap();
        fs::create_dir_all(root.path().join(&other.run_id)).unwrap();
        write_json(&root.path().join(&other.run_id), &status(&other)).unwrap();
        let loaded = load_runs(&folder).unwrap();
        assert_eq!((loaded.runs.len(), loaded.skipped.len(), loaded.sweeps.len()), (1, 1, 1));
        assert_eq!(loaded.skipped[0].why, "planned, but it has no folder");
        let all = load_runs(root.path()).unwrap();
        assert_eq!((all.sweeps.len(), all.sweeps[0].plan.clone(), all.skipped.len()), (1, plan, 1));
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let folder = write_run(root.path(), 0, RunState::Complete);
        fs::write(folder.join("status.json"), "{\"v\": 7, \"state\": \"complete\"}").unwrap();
        let why = load_runs(root.path()).unwrap().skipped.remove(0).why;
        assert!(why.contains("status.json: version 7 is not known"), "{why}");
        assert!(load_runs(&root.path().join("absent")).is_err());
    }
}
