//! A sweep: all cells of a plan over all processors, with a lock, a status, resume and interruption.

use crate::clock::{Stopwatch, unix_ms};
use crate::execute::{CellEnd, CellError, Job, execute};
use crate::experiment::Experiment;
use crate::folder::{FolderError, Found, inspect};
use crate::interrupt::Interrupt;
use crate::live::LiveError;
use crate::live::fleet::Fleet;
use crate::plan::{Cell, sweep_plan};
use crate::progress::Progress;
use crate::spec::runtime::RuntimeSpec;
use acb_evidence::{
    Divergence, EvidenceError, Lock, LogEvent, Preregistration, Registered, RunLog, RunLogError, RunState,
    Status, SweepPlan, Versioned, read_json, write_atomically, write_json,
};
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Why a sweep can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Another process holds the sweep.
    #[error("{}: another process is running this sweep; wait for it, or choose another --sweep-name", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The sweep was started with another experiment: runs of two experiments are never compared.
    #[error(
        "{}: this sweep was started with another experiment (see config_resolved.yaml there); undo the change, or choose another --sweep-name or --output-dir",
        path.display()
    )]
    Foreign {
        /// The sweep's folder.
        path: PathBuf,
    },
    /// A file or folder of the sweep or of a planned run.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The servers can't be used.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The log of runs.
    #[error(transparent)]
    Log(#[from] RunLogError),
    /// The file says that there will be servers, and not which.
    #[error(
        "runtime `server` only plans: name the servers in `runtime` (kind vllm, sglang, llamacpp or openai), use --dry-run, or `--set runtime=simulated`"
    )]
    OnlyPlanned,
}

impl From<EvidenceError> for SweepError {
    fn from(error: EvidenceError) -> Self {
        Self::Folder(error.into())
    }
}

/// How to run a sweep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the run folders.
    pub output_dir: PathBuf,
    /// Name of the sweep.
    pub name: String,
    /// What to do with cells that were started before.
    pub started: StartedCells,
    /// What a failed cell does to the others.
    pub on_error: OnError,
    /// Cells run side by side.
    pub jobs: usize,
    /// Printed above every table of the runs.
    pub labels: Vec<String>,
    /// The preregistration that they are run under.
    pub registration: Option<Registration>,
}

/// A preregistration, and the program that runs under it.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The preregistration.
    pub lock: Lock,
    /// What runs carry of it.
    pub carried: Registered,
}

/// What to do with cells that were started before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedCells {
    /// Refuse the sweep.
    Refuse,
    /// Skip the complete ones, run the others again.
    Resume,
}

/// What a failed cell does to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// No further cell is started.
    Stop,
    /// They run all the same.
    Continue,
}

/// Where a sweep stands: `_sweeps/NAME/sweep_status.json`, replaced atomically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepStatus {
    /// Version of this document.
    pub v: u32,
    /// Name of the sweep.
    pub sweep: String,
    /// `running`, `complete`, `failed` or `interrupted`.
    pub state: SweepState,
    /// When the writer was last alive, ms since 1970.
    pub heartbeat_unix_ms: u64,
    /// Runs planned.
    pub planned: usize,
    /// Runs completed now.
    pub completed: usize,
    /// Runs skipped because they were complete under the same configuration, data and program version.
    pub skipped: usize,
    /// Runs that failed, with the reason.
    pub failed: Vec<FailedRun>,
}

impl Versioned for SweepStatus {
    const FILE: &'static str = "sweep_status.json";
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRun {
    /// The run.
    pub run_id: String,
    /// Why.
    pub message: String,
}

/// State of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepState {
    /// Going on, or killed since the last heartbeat.
    Running,
    /// Every run is complete.
    Complete,
    /// A run failed.
    Failed,
    /// The user asked to stop.
    Interrupted,
}

/// Folder of a sweep's own documents.
#[must_use]
pub fn sweep_folder(output_dir: &Path, name: &str) -> PathBuf {
    output_dir.join("_sweeps").join(name)
}

/// Runs all cells that are not complete.
///
/// # Errors
/// When the sweep can't start. A cell that fails is in the status, not an error.
pub fn run(
    experiment: &Experiment,
    cells: &[Cell],
    divergence: &Divergence,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<SweepStatus, SweepError> {
    if matches!(experiment.spec.runtime, RuntimeSpec::Server(_)) {
        return Err(SweepError::OnlyPlanned);
    }
    let folder = sweep_folder(&options.output_dir, &options.name);
    fs::create_dir_all(&folder).map_err(|source| FolderError::Io { path: folder.clone(), source })?;
    let _lock = lock(&folder)?;
    same_experiment(&folder, experiment)?;
    let todo = todo(cells, options)?;
    let fleet = match experiment.spec.runtime.live() {
        Some(_) if !todo.is_empty() => Some(fleet(experiment, options, &folder, interrupt)?),
        _ => None,
    };
    write_json(&folder, &sweep_plan(experiment, &options.name, cells))?;
    write_json(&folder, divergence)?;
    write_atomically(&folder.join("config_resolved.yaml"), experiment.spec.resolved_yaml().as_bytes())?;
    let log = RunLog::of(&options.output_dir);
    if let Some(registration) = options.registration.as_ref().filter(|_| !todo.is_empty()) {
        register(&log, &folder, &registration.lock)?;
    }
    let servers = fleet.as_ref().map(|fleet| &fleet.servers);
    let registered = options.registration.as_ref().map(|registration| &registration.carried);
    let job = Job { experiment, labels: &options.labels, registered, servers, interrupt };
    Work { job, cells, todo: &todo, options, folder: &folder, log }.run()
}

/// Puts a preregistration into the log, ahead of the first run under it, and its text beside the plan.
fn register(log: &RunLog, folder: &Path, lock: &Lock) -> Result<(), SweepError> {
    lock.write(&folder.join(Preregistration::FILE))?;
    let entered = |event: &LogEvent| matches!(event, LogEvent::Locked { preregistration, .. } if *preregistration == lock.sha256);
    if !log.read()?.iter().any(|entry| entered(&entry.event)) {
        let experiment = lock.preregistration.name.clone();
        let locked = LogEvent::Locked { experiment, preregistration: lock.sha256.clone() };
        log.append(unix_ms(), locked)?;
    }
    Ok(())
}

fn fleet(
    experiment: &Experiment,
    options: &Options,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Fleet, LiveError> {
    Fleet::open(&experiment.spec, &options.output_dir, &folder.join("servers"), interrupt)
}

/// The sweep's lock: held by the process, released by the system however the process ends.
fn lock(folder: &Path) -> Result<File, SweepError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|source| FolderError::Io { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SweepError::Locked { path }),
        Err(TryLockError::Error(source)) => Err(FolderError::Io { path, source }.into()),
    }
}

/// Whether what was begun in this folder is this experiment. A cell may be the same in two experiments that differ in
/// their seeds or their rule, but what they claim is not.
fn same_experiment(folder: &Path, experiment: &Experiment) -> Result<(), SweepError> {
    if !folder.join(SweepPlan::FILE).exists() {
        return Ok(());
    }
    let begun: SweepPlan = read_json(folder)?;
    match begun.experiment_digest == experiment.digest {
        true => Ok(()),
        false => Err(SweepError::Foreign { path: folder.to_path_buf() }),
    }
}

/// Positions of the cells that have to run. Looks at every folder before the first is written.
fn todo(cells: &[Cell], options: &Options) -> Result<Vec<usize>, SweepError> {
    let mut todo = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let path = options.output_dir.join(&cell.run_id);
        match (inspect(&path, &cell.digest)?, options.started) {
            (Found::ToDo { started: false }, _) | (Found::ToDo { .. }, StartedCells::Resume) => todo.push(at),
            (Found::Complete, StartedCells::Resume) => {}
            (Found::ToDo { started: true } | Found::Complete, StartedCells::Refuse) => {
                return Err(FolderError::Exists { path }.into());
            }
        }
    }
    Ok(todo)
}

struct Work<'a> {
    job: Job<'a>,
    cells: &'a [Cell],
    todo: &'a [usize],
    options: &'a Options,
    folder: &'a Path,
    log: RunLog,
}

impl Work<'_> {
    fn run(&self) -> Result<SweepStatus, SweepError> {
        let status = Mutex::new(SweepStatus {
            v: 1,
            sweep: self.options.name.clone(),
            state: SweepState::Running,
            heartbeat_unix_ms: unix_ms(),
            planned: self.cells.len(),
            completed: 0,
            skipped: self.cells.len() - self.todo.len(),
            failed: Vec::new(),
        });
        self.write(&status.lock().expect("nothing has run yet"))?;
        let progress = Progress::of_runs(self.todo.len() as u64);
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let written = Mutex::new((Stopwatch::start(), Ok(())));
        std::thread::scope(|scope| {
            // Runs on servers would disturb each other: one at a time.
            let jobs = if self.job.servers.is_some() { 1 } else { self.options.jobs };
            for _ in 0..jobs.clamp(1, self.todo.len().max(1)) {
                scope.spawn(|| {
                    while let Some(cell) = self.next(&next, &stop) {
                        let end = self.cell(cell);
                        self.note(cell, end, &status, &stop);
                        progress.one_done();
                        self.beat(&status, &written);
                    }
                });
            }
        });
        progress.finish();
        written.into_inner().expect("a worker panicked").1?;
        let mut status = status.into_inner().expect("a worker panicked");
        status.state = match (status.failed.is_empty(), status.completed + status.skipped == status.planned) {
            (false, _) => SweepState::Failed,
            (true, true) => SweepState::Complete,
            (true, false) => SweepState::Interrupted,
        };
        status.failed.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        status.heartbeat_unix_ms = unix_ms();
        self.write(&status)?;
        Ok(status)
    }

    fn next(&self, next: &AtomicUsize, stop: &AtomicBool) -> Option<&Cell> {
        if stop.load(Ordering::SeqCst) || self.job.interrupt.requested() {
            return None;
        }
        let at = next.fetch_add(1, Ordering::SeqCst);
        self.todo.get(at).map(|&cell| &self.cells[cell])
    }

    /// Runs a cell. The log knows of it before its folder is touched.
    fn cell(&self, cell: &Cell) -> Result<CellEnd, CellError> {
        let folder = self.options.output_dir.join(&cell.run_id);
        let started = LogEvent::Started {
            run_id: cell.run_id.clone(),
            experiment_digest: self.job.experiment.digest.clone(),
            cell_digest: cell.digest.clone(),
            preregistration: self.job.registered.map(|registered| registered.sha256.clone()),
        };
        self.log.append(unix_ms(), started)?;
        let end = execute(&self.job, cell, &folder);
        let logged = self.log.append(unix_ms(), ended(cell, &end));
        // The cell's own fault matters more than a log that can't be written.
        end.and_then(|end| Ok(logged.map(|_| end)?))
    }

    fn note(
        &self,
        cell: &Cell,
        end: Result<CellEnd, CellError>,
        status: &Mutex<SweepStatus>,
        stop: &AtomicBool,
    ) {
        let mut status = status.lock().expect("a worker panicked");
        match end {
            Ok(CellEnd::Complete(_)) => status.completed += 1,
            Ok(CellEnd::Interrupted) => {}
            Err(error) => {
                let failed = FailedRun { run_id: cell.run_id.clone(), message: error.to_string() };
                status.failed.push(failed);
                stop.fetch_or(self.options.on_error == OnError::Stop, Ordering::SeqCst);
            }
        }
    }

    /// Writes the status at most once a second.
    fn beat(&self, status: &Mutex<SweepStatus>, written: &Mutex<(Stopwatch, Result<(), SweepError>)>) {
        let mut written = written.lock().expect("a worker panicked");
        if written.0.elapsed().as_secs() < 1 || written.1.is_err() {
            return;
        }
        let mut now = status.lock().expect("a worker panicked").clone();
        now.heartbeat_unix_ms = unix_ms();
        *written = (Stopwatch::start(), self.write(&now));
    }

    fn write(&self, status: &SweepStatus) -> Result<(), SweepError> {
        Ok(write_json(self.folder, status)?)
    }
}

/// How a cell ended, for the log.
fn ended(cell: &Cell, end: &Result<CellEnd, CellError>) -> LogEvent {
    let run_id = cell.run_id.clone();
    let (state, record_digest, message) = match end {
        Ok(CellEnd::Complete(digest)) => (RunState::Complete, Some(digest.clone()), None),
        Ok(CellEnd::Interrupted) => (RunState::Interrupted, None, None),
        Err(error) => (RunState::Failed, None, Some(error.to_string().chars().take(2000).collect())),
    };
    LogEvent::Ended { run_id, state, record_digest, message }
}

/// Hash over the record hashes of all cells in plan order: equal for equal results, however they came about.
///
/// # Errors
/// When a cell's status can't be read.
pub fn record_digest(output_dir: &Path, cells: &[Cell]) -> Result<Digest, EvidenceError> {
    let mut all = String::new();
    for cell in cells {
        let status: Status = read_json(&output_dir.join(&cell.run_id))?;
        // Writing to a String can't fail.
        let _ =
            writeln!(all, "{} {}", cell.run_id, status.record_digest.as_ref().map_or("none", Digest::as_str));
    }
    Ok(Digest::of(all.as_bytes()))
}
