//! How the runs of a sweep stand to a preregistration: whether there is one, whether it came before the first of them in
//! the log, and whether every run was made under it.

use crate::compare::NOT_REGISTERED;
use crate::preregistration::{Deviation, Lock, Preregistration};
use crate::run_log::{LogEntry, LogEvent, RunLog, RunLogError};
use crate::{EvidenceError, SweepPlan};
use std::collections::BTreeMap;
use std::path::Path;

/// What a sweep's folder and the log of runs beside it say of its preregistration.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The lock that lies beside the plan.
    pub lock: Option<Lock>,
    /// What keeps the runs from being preregistered, as what is missing; empty when they are.
    pub gaps: Vec<String>,
    /// What a reader should know besides, a sentence each.
    pub remarks: Vec<String>,
}

impl Default for Registration {
    /// None at all.
    fn default() -> Self {
        Self { lock: None, gaps: vec![NOT_REGISTERED.to_owned()], remarks: Vec::new() }
    }
}

impl Registration {
    /// Reads the lock beside a sweep's plan, and the log of runs of its output folder.
    ///
    /// # Errors
    /// When there is a lock that can't be read. A log that is broken is a gap and no error.
    pub fn of_sweep(folder: &Path, plan: &SweepPlan) -> Result<Self, EvidenceError> {
        let path = folder.join(Preregistration::FILE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let lock = Lock::read(&path)?;
        let mut gaps = not_planned(&lock.preregistration, plan);
        let mut remarks = Vec::new();
        match RunLog::of(&folder.join("../..")).read() {
            Err(error) => gaps.push(format!("a log of runs whose chain holds ({})", in_words(&error))),
            Ok(entries) => {
                gaps.extend(out_of_order(&lock.sha256, plan, &entries));
                remarks.extend(begun_again(plan, &entries));
            }
        }
        Ok(Self { lock: Some(lock), gaps, remarks })
    }

    /// SHA-256 of the lock, hex.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        self.lock.as_ref().map(|lock| lock.sha256.as_str())
    }

    /// Every change since the first lock.
    #[must_use]
    pub fn deviations(&self) -> &[Deviation] {
        self.lock.as_ref().map_or(&[], |lock| &lock.preregistration.deviations)
    }
}

/// What is wrong with a log, without the folder that it lies in today.
fn in_words(error: &RunLogError) -> String {
    match error {
        RunLogError::Io { source, .. } => source.to_string(),
        RunLogError::Torn { bytes, .. } => format!("the last {bytes} bytes are an unfinished line"),
        RunLogError::Broken { line, what, .. } => format!("line {line}: {what}"),
    }
}

/// Where the plan departs from the lock in what decides about claims.
fn not_planned(lock: &Preregistration, plan: &SweepPlan) -> Vec<String> {
    let rule = &lock.experiment["decision_rule"];
    let agreed = [
        ("experiment", lock.name == plan.experiment),
        ("primary_metric", lock.experiment["primary_metric"] == plan.primary_metric.as_str()),
        (
            "secondary_metrics",
            lock.experiment["secondary_metrics"] == serde_json::json!(plan.secondary_metrics),
        ),
        ("decision_rule.alpha", rule["alpha"].as_f64() == Some(plan.alpha)),
        ("decision_rule.min_effect_ratio", rule["min_effect_ratio"].as_f64() == Some(plan.min_effect_ratio)),
    ];
    let broken = agreed.into_iter().filter(|(_, agree)| !agree);
    broken.map(|(field, _)| format!("a plan that is the registered one ({field} differs)")).collect()
}

/// What of the order in the log is not lock first, runs after, each under the lock.
fn out_of_order(sha256: &str, plan: &SweepPlan, entries: &[LogEntry]) -> Vec<String> {
    let locked = |entry: &&LogEntry| matches!(&entry.event, LogEvent::Locked { preregistration, .. } if preregistration == sha256);
    let Some(locked) = entries.iter().find(locked) else {
        return vec!["the lock's entry in the log of runs".to_owned()];
    };
    let mut last: BTreeMap<&str, (u64, Option<&str>)> = BTreeMap::new();
    let mut early = 0;
    for entry in entries {
        if let LogEvent::Started { run_id, preregistration, experiment_digest, .. } = &entry.event {
            last.insert(run_id, (entry.n, preregistration.as_deref()));
            early += u64::from(entry.n < locked.n && *experiment_digest == plan.experiment_digest);
        }
    }
    let under = |run: &&crate::PlannedRun| match last.get(run.run_id.as_str()) {
        Some((n, Some(hash))) => *n > locked.n && *hash == sha256,
        _ => false,
    };
    let (planned, kept) = (plan.runs.len(), plan.runs.iter().filter(under).count());
    let mut gaps = Vec::new();
    if kept < planned {
        gaps.push(format!("every run begun under the lock ({} of {planned} are not)", planned - kept));
    }
    if early > 0 {
        gaps.push(format!(
            "a lock ahead of the first run ({early} runs of this experiment were begun before it)"
        ));
    }
    gaps
}

/// Runs that were begun more than once, which an honest sweep has only after an interruption.
fn begun_again(plan: &SweepPlan, entries: &[LogEntry]) -> Option<String> {
    let mut begun: BTreeMap<&str, usize> = plan.runs.iter().map(|run| (run.run_id.as_str(), 0)).collect();
    for entry in entries {
        if let LogEvent::Started { run_id, .. } = &entry.event
            && let Some(count) = begun.get_mut(run_id.as_str())
        {
            *count += 1;
        }
    }
    let again = begun.values().filter(|count| **count > 1).count();
    (again > 0)
        .then(|| format!("{again} runs were begun more than once; `acb log check` shows how each ended"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preregistration::Program;
    use crate::testing::{manifest, sweep_plan};
    use crate::{ArmRole, RunState};
    use serde_json::json;
    use std::fs;

    struct Folder {
        root: tempfile::TempDir,
        plan: SweepPlan,
        lock: Lock,
    }

    fn folder() -> Folder {
        let root = tempfile::tempdir().unwrap();
        let manifests = [manifest("a", ArmRole::Baseline, 0), manifest("a", ArmRole::Baseline, 1)];
        let experiment = json!({
            "primary_metric": "quality_adjusted_slo_goodput", "secondary_metrics": [],
            "decision_rule": {"alpha": 0.05, "min_effect_ratio": 1.0},
        });
        let program = Program { version: "0.1.0".into(), sha256: "00".into() };
        let lock = Preregistration::new("toy", experiment, BTreeMap::new(), program).lock();
        fs::create_dir_all(root.path().join("_sweeps/toy")).unwrap();
        lock.write(&root.path().join("_sweeps/toy").join(Preregistration::FILE)).unwrap();
        Folder { root, plan: sweep_plan(&manifests), lock }
    }

    impl Folder {
        fn log(&self, event: LogEvent) {
            RunLog::of(self.root.path()).append(0, event).unwrap();
        }

        fn locked(&self) {
            self.log(LogEvent::Locked {
                experiment: "toy".into(),
                preregistration: self.lock.sha256.clone(),
            });
        }

        fn run(&self, block: usize, hash: Option<&str>) {
            let run = &self.plan.runs[block];
            let (run_id, cell_digest) = (run.run_id.clone(), run.cell_digest.clone());
            let experiment_digest = self.plan.experiment_digest.clone();
            let preregistration = hash.map(str::to_owned);
            self.log(LogEvent::Started {
                run_id: run_id.clone(),
                experiment_digest,
                cell_digest,
                preregistration,
            });
            self.log(LogEvent::Ended {
                run_id,
                state: RunState::Complete,
                record_digest: None,
                message: None,
            });
        }

        fn gaps(&self) -> Vec<String> {
            Registration::of_sweep(&self.root.path().join("_sweeps/toy"), &self.plan).unwrap().gaps
        }
    }

    #[test]
    fn a_lock_ahead_of_all_its_runs_leaves_nothing_to_ask_for() {
        let folder = folder();
        folder.locked();
        (0..2).for_each(|block| folder.run(block, Some(&folder.lock.sha256)));
        assert_eq!(folder.gaps(), Vec::<String>::new());
    }

    #[test]
    fn a_run_ahead_of_the_lock_or_without_it_is_counted() {
        let folder = folder();
        folder.run(0, None);
        folder.locked();
        folder.run(1, Some("another"));
        let gaps = folder.gaps();
        assert_eq!(gaps[0], "every run begun under the lock (2 of 2 are not)");
        assert!(gaps[1].contains("1 runs of this experiment were begun before it"), "{gaps:?}");
        // Run again under the lock: what was seen before it stays seen.
        (0..2).for_each(|block| folder.run(block, Some(&folder.lock.sha256)));
        assert_eq!(folder.gaps().len(), 1);
        let registration =
            Registration::of_sweep(&folder.root.path().join("_sweeps/toy"), &folder.plan).unwrap();
        assert!(registration.remarks[0].starts_with("2 runs were begun more than once"));
    }

    #[test]
    fn a_broken_log_a_plan_of_another_rule_and_no_entry_at_all_are_gaps() {
        let mut folder = folder();
        assert_eq!(folder.gaps(), ["the lock's entry in the log of runs"]);
        folder.plan.alpha = 0.1;
        fs::write(folder.root.path().join(RunLog::FILE), "{\"v\":1,").unwrap();
        let gaps = folder.gaps();
        assert_eq!(gaps[0], "a plan that is the registered one (decision_rule.alpha differs)");
        assert!(gaps[1].starts_with("a log of runs whose chain holds"), "{gaps:?}");
    }

    #[test]
    fn runs_of_another_sweep_or_under_another_lock_are_not_registered_by_this_one() {
        let folder = folder();
        folder.locked();
        (0..2).for_each(|block| folder.run(block, Some(&folder.lock.sha256)));
        let path = folder.root.path().join("_sweeps/toy");
        let registration = Registration::of_sweep(&path, &folder.plan).unwrap();
        let sweep = crate::Sweep { folder: path, plan: folder.plan.clone(), divergence: None, registration };
        let mut runs: Vec<_> =
            (0..2).map(|block| crate::testing::run("a", ArmRole::Baseline, block, 1.0)).collect();
        let gaps = |runs: &[crate::Run], sweeps: Vec<crate::Sweep>| {
            let loaded = crate::Loaded { runs: runs.to_vec(), skipped: vec![], sweeps };
            crate::ComparisonRule::of_loaded(&loaded).registration_gaps
        };
        let sha256 = folder.lock.sha256.clone();
        runs[0].manifest.preregistration = Some(crate::Registered { sha256, program_sha256: "00".into() });
        let said = gaps(&runs, vec![sweep.clone()]);
        assert_eq!(said, ["every run made under the lock (1 carry another hash or none)"]);
        let registered = runs[0].manifest.preregistration.clone();
        runs[1].manifest.preregistration = registered;
        assert_eq!(gaps(&runs, vec![sweep.clone()]), Vec::<String>::new());
        let other = crate::Sweep { registration: Registration::default(), ..sweep.clone() };
        assert_eq!(gaps(&runs, vec![sweep, other]), [NOT_REGISTERED]);
        assert_eq!(gaps(&runs, vec![]), [NOT_REGISTERED]);
    }

    #[test]
    fn without_a_lock_there_is_no_registration() {
        let folder = folder();
        fs::remove_file(folder.root.path().join("_sweeps/toy").join(Preregistration::FILE)).unwrap();
        assert_eq!(folder.gaps(), [NOT_REGISTERED]);
    }
}
