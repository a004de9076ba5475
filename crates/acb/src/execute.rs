//! One cell: from a plan's line to a complete run folder.

use crate::clock::unix_ms;
use crate::experiment::{Experiment, SetUpError};
use crate::folder::{FolderError, RunFolder};
use crate::interrupt::Interrupt;
use crate::live::LiveError;
use crate::live::cell::{Broken, LiveEnd, run_live};
use crate::live::servers::Servers;
use crate::plan::{Cell, cell_config, program_version};
use crate::sink::{CellSink, RoutingLog};
use crate::spec::rule::RoutingRecords;
use crate::watched::Watched;
use acb_evidence::{
    AdapterRef, EvidenceError, FILE_VERSION, Manifest, ProfileRef, Registered, RunState, summarise_folder,
    write_json,
};
use acb_sim::{Run, RunTotals, SimError};
use acb_types::{Digest, Source};
use std::io;
use std::path::{Path, PathBuf};

/// Why a cell failed.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The cell can't be set up.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// Its folder can't be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its rows can't be read back.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The log of runs.
    #[error(transparent)]
    Log(#[from] acb_evidence::RunLogError),
    /// The simulation broke off.
    #[error("simulation: {0}")]
    Sim(#[from] SimError),
    /// The servers, or the load on them.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The servers did not hold out; every record is there.
    #[error("{0}")]
    Spoiled(String),
    /// The workload's file changed under the run.
    #[error("workload: {0}; a data file changed while it was read")]
    Source(String),
    /// A row file can't be written.
    #[error("{}: {source}; free space or choose another --output-dir, then --resume", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How a cell ended, when nothing failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellEnd {
    /// Whole, with the hash of its records.
    Complete(Digest),
    /// The user asked to stop.
    Interrupted,
}

/// What every cell of a sweep is run with.
pub struct Job<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Printed above every table of the runs.
    pub labels: &'a [String],
    /// The preregistration that they are run under.
    pub registered: Option<&'a Registered>,
    /// The servers; `None`: the embedded simulator.
    pub servers: Option<&'a Servers>,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// Runs a cell into `folder`.
///
/// # Errors
/// When it fails; the folder's status then says `failed` and why, as far as the folder can be written.
pub fn execute(job: &Job<'_>, cell: &Cell, folder: &Path) -> Result<CellEnd, CellError> {
    let manifest = manifest(job, cell);
    let folder = RunFolder::start(folder, &manifest, &cell_config(job.experiment, cell), cell.requests)?;
    match job.servers {
        None => in_simulator(job, cell, (folder, manifest)),
        Some(servers) => on_servers((job, servers), cell, (folder, manifest)),
    }
}

fn in_simulator(
    job: &Job<'_>,
    cell: &Cell,
    (mut folder, manifest): (RunFolder, Manifest),
) -> Result<CellEnd, CellError> {
    let mut recorded = 0;
    let simulated = simulate(job.experiment, cell, &mut folder, &mut recorded, job.interrupt);
    match simulated.and_then(|simulated| conclude(&folder, manifest, simulated)) {
        Ok(None) => {
            folder.stop(RunState::Interrupted, recorded, STOPPED.to_owned())?;
            Ok(CellEnd::Interrupted)
        }
        Ok(Some(digest)) => {
            folder.complete(recorded, digest.clone())?;
            Ok(CellEnd::Complete(digest))
        }
        Err(error) => failed(folder, recorded, error),
    }
}

fn on_servers(
    (job, servers): (&Job<'_>, &Servers),
    cell: &Cell,
    (mut folder, manifest): (RunFolder, Manifest),
) -> Result<CellEnd, CellError> {
    let mut recorded = 0;
    let ended = run_live((job, servers), cell, &mut folder, &mut recorded);
    let concluded = ended.and_then(|end| {
        let LiveEnd { digest, workload, source, engine, facts, broken } = end;
        // A server's profile is its own: none is claimed for it.
        let live = Manifest { source, engine, latency_profile: None, live: Some(facts), ..manifest };
        conclude(&folder, live, Some((digest, workload))).map(|digest| (digest, broken))
    });
    match concluded {
        Err(error) => failed(folder, recorded, error),
        Ok((_, Some(Broken::Stopped))) => {
            folder.keep(RunState::Interrupted, recorded, STOPPED.to_owned())?;
            Ok(CellEnd::Interrupted)
        }
        Ok((_, Some(Broken::Spoiled(why)))) => {
            folder.keep(RunState::Failed, recorded, why.clone())?;
            Err(CellError::Spoiled(why))
        }
        Ok((digest, None)) => {
            let digest = digest.expect("a live cell that is whole has a digest");
            folder.complete(recorded, digest.clone())?;
            Ok(CellEnd::Complete(digest))
        }
    }
}

/// The status of an interrupted run.
const STOPPED: &str = "stopped by the user; --resume runs the cell again";

fn failed(folder: RunFolder, recorded: u64, error: CellError) -> Result<CellEnd, CellError> {
    // The cell's own fault matters more than a status that can't be written on a full disk.
    let _ = folder.stop(RunState::Failed, recorded, error.to_string());
    Err(error)
}

/// Hash of the records and what the workload turned out to be; `None` when the user stopped it.
type Simulated = Option<(Digest, serde_json::Value)>;

/// Writes what is only known at the end.
fn conclude(
    folder: &RunFolder,
    manifest: Manifest,
    simulated: Simulated,
) -> Result<Option<Digest>, CellError> {
    let Some((digest, workload)) = simulated else { return Ok(None) };
    let manifest = Manifest { workload, ..manifest };
    let summary = summarise_folder(folder.path(), &manifest)?;
    write_json(folder.path(), &manifest).map_err(FolderError::from)?;
    write_json(folder.path(), &summary).map_err(FolderError::from)?;
    Ok(Some(digest))
}

fn simulate(
    experiment: &Experiment,
    cell: &Cell,
    folder: &mut RunFolder,
    recorded: &mut u64,
    interrupt: &Interrupt,
) -> Result<Simulated, CellError> {
    let level = &experiment.levels[cell.level];
    let arm = &level.arms[cell.arm];
    let path = folder.path().to_path_buf();
    let write = |source| CellError::Write { path: path.clone(), source };
    let outcomes = level.outcomes(cell.block);
    let mut source = Watched::new(level.workload(cell.block)?);
    let mut router = level.router(arm, cell.block)?;
    let routing = match level.spec.records.routing {
        RoutingRecords::None => None,
        RoutingRecords::All => Some(RoutingLog::new(folder.rows("routing.jsonl")?)),
    };
    if let Some(log) = &routing {
        router = router.with_log(log.writer());
    }
    let (requests, server) = (folder.rows("requests.jsonl")?, folder.rows("server.jsonl")?);
    let mut beat = |rows| {
        // A heartbeat that can't be written shows as stale; the row files report a full disk themselves.
        let _ = folder.heartbeat(rows);
    };
    let mut sink = CellSink {
        names: &level.names,
        outcomes: &outcomes,
        requests,
        server,
        interrupt,
        progress: &mut beat,
        failure: None,
    };
    let mode = arm.service();
    let run =
        Run { cluster: &level.cluster, source: &mut source, router: &mut router, sink: &mut sink, mode };
    let totals = run.run()?;
    drop(router);
    *recorded = sink.requests.rows();
    let CellSink { requests, server, failure, .. } = sink;
    if let Some(source) = failure {
        return Err(write(source));
    }
    if interrupt.requested() {
        return Ok(None);
    }
    if let Some(fault) = source.fault() {
        return Err(CellError::Source(fault.to_string()));
    }
    assert_recorded(&totals, *recorded);
    server.finish().map_err(write)?;
    if let Some(log) = routing {
        log.into_file().and_then(crate::rows::RowFile::finish).map_err(write)?;
    }
    let digest = requests.finish().map_err(write)?;
    Ok(Some((digest, source.structure())))
}

/// Every request that arrived has exactly one record.
fn assert_recorded(totals: &RunTotals, recorded: u64) {
    assert_eq!(totals.arrived, recorded, "a request arrived and left no record, or left two");
}

/// What a cell's manifest says before its first request.
#[must_use]
pub fn manifest(job: &Job<'_>, cell: &Cell) -> Manifest {
    let Job { experiment, labels, registered, .. } = job;
    let level = &experiment.levels[cell.level];
    let arm = &level.arms[cell.arm];
    let (name, calibrated) = level.spec.cluster.profile_label();
    let adapters = level.names.adapters.iter();
    Manifest {
        v: FILE_VERSION,
        run_id: cell.run_id.clone(),
        experiment: experiment.spec.name.clone(),
        experiment_digest: experiment.digest.clone(),
        cell_digest: cell.digest.clone(),
        arm: arm.name.clone(),
        role: arm.role.clone(),
        policy: arm.policy.name().to_owned(),
        information: arm.policy.information().to_string(),
        block: cell.block,
        levels: level.values.clone(),
        source: Source::Simulated,
        engine: level.names.engine.clone(),
        latency_profile: Some(ProfileRef { name, calibrated }),
        slo: level.spec.slo.slo(),
        primary_metric: experiment.spec.primary_metric.clone(),
        adapters: adapters
            .map(|a| AdapterRef { name: a.name.clone(), rank: a.rank, bytes: a.bytes })
            .collect(),
        replicas: level.spec.cluster.replicas,
        quality_source: level.names.quality_source.to_owned(),
        labels: labels.to_vec(),
        workload: serde_json::Value::Null,
        program_version: program_version().to_owned(),
        created_unix_ms: unix_ms(),
        seed: cell.block,
        live: None,
        preregistration: registered.cloned(),
    }
}
