//! One cell on servers.

use super::LiveError;
use super::servers::Servers;
use super::sink::{LiveSink, Words};
use super::watch::{Files, Looks, faults, watch};
use crate::execute::{CellError, Job};
use crate::experiment::Level;
use crate::folder::RunFolder;
use crate::interrupt::Interrupt;
use crate::plan::Cell;
use crate::spec::rule::RoutingRecords;
use crate::spec::runtime::{ApiSpec, CacheBeforeRun, LiveSpec, PromptSpec};
use crate::watched::Watched;
use acb_evidence::{LiveFacts, ServerFacts, write_atomically};
use acb_live::check::{GapLaw, RunCheck, Thresholds};
use acb_live::drivers::{RuntimeKind, WatchEnd};
use acb_live::load::{
    AnswerLength, Answers, Api, Bodies, Control, Limits, Load, LoadEnd, PromptForm, Rate, Retries, run,
};
use acb_live::{ClientOptions, Text};
use acb_routing::Information;
use acb_types::{Digest, Nanos, Seed, Source};
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tokio::sync::{mpsc::unbounded_channel, oneshot};

/// Between two looks at the run.
const LOOK: Duration = Duration::from_millis(200);
/// Threads that send and receive.
const THREADS: u32 = 1;

/// What a live cell leaves besides its rows.
pub struct LiveEnd {
    /// Hash of the records.
    pub digest: Digest,
    /// What the workload turned out to be.
    pub workload: serde_json::Value,
    /// Who saw the times.
    pub source: Source,
    /// Runtime and version, as the servers say.
    pub engine: String,
    /// Servers and client.
    pub facts: LiveFacts,
    /// Why the run is not whole; its rows are there all the same.
    pub broken: Option<Broken>,
}

/// Why a live run is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The user stopped it.
    Stopped,
    /// The servers or the disk did not hold out.
    Spoiled(String),
}

/// Prepares the servers and sends the cell's requests. `recorded` counts the records.
///
/// # Errors
/// When the servers are not ready for it, or the load can't start. Whatever happens to a request is a record.
pub fn run_live(
    (job, servers): (&Job<'_>, &Servers),
    cell: &Cell,
    folder: &mut RunFolder,
    recorded: &mut u64,
) -> Result<LiveEnd, CellError> {
    let level = &job.experiment.levels[cell.level];
    let facts = servers.prepare(level)?;
    let engine = engine(&facts);
    let (source, answers) = match facts.iter().any(|server| server.simulated) {
        true => (Source::Simulated, Answers::ToldToFake),
        false => (Source::Client, Answers::Untold),
    };
    let mut load = load((job, servers), cell, answers)?;
    let looks = looks(level, servers, &mut load);
    let outcomes = level.outcomes(cell.block);
    let words = Words { names: level.names.clone(), engine: engine.clone(), outcomes, source };
    let sink = sink(words, level, folder)?;
    let files = Files { rows: folder.rows("server.jsonl")?, raw: folder.rows("scrapes.jsonl")? };
    let (end, watched) = sent((load, sink), (looks, files), folder, job.interrupt)?;
    *recorded = end.sink.requests.rows();
    if let Some(fault) = end.source.fault() {
        return Err(CellError::Source(fault.to_string()));
    }
    let (files, watched) = watched.map_err(write(folder.path()))?;
    files.rows.finish().map_err(write(folder.path()))?;
    files.raw.finish().map_err(write(folder.path()))?;
    write_check(folder.path(), &end.check)?;
    let broken = broken(&end, servers);
    let workload = end.source.structure();
    let digest = finish(end.sink, folder.path())?;
    let own_prompts = servers.spec.cache_before_run == CacheBeforeRun::OtherPrompts;
    let facts = LiveFacts { watch_faults: faults(&watched), own_prompts, ..live_facts(facts, &end.check) };
    Ok(LiveEnd { digest, workload, source, engine, facts, broken })
}

fn sink(words: Words, level: &Level, folder: &RunFolder) -> Result<LiveSink, CellError> {
    let routing = match level.spec.records.routing {
        RoutingRecords::None => None,
        RoutingRecords::All => Some(folder.rows("routing.jsonl")?),
    };
    let (requests, observations) = (folder.rows("requests.jsonl")?, folder.rows("observations.jsonl")?);
    Ok(LiveSink { words, requests, observations, routing })
}

fn write(folder: &Path) -> impl Fn(io::Error) -> CellError {
    let path = folder.to_path_buf();
    move |source| CellError::Write { path: path.clone(), source }
}

/// Gives the row files their names.
fn finish(sink: LiveSink, folder: &Path) -> Result<Digest, CellError> {
    let write = write(folder);
    if let Some(routing) = sink.routing {
        routing.finish().map_err(&write)?;
    }
    sink.observations.finish().map_err(&write)?;
    sink.requests.finish().map_err(&write)
}

fn write_check(folder: &Path, check: &RunCheck) -> Result<(), CellError> {
    let text = serde_json::to_vec_pretty(check).map_err(io::Error::other);
    let written = text.map(|text| write_atomically(&folder.join("client_check.json"), &text));
    Ok(written.map_err(write(folder))?.map_err(crate::folder::FolderError::from)?)
}

/// What keeps the run from being whole.
fn broken(end: &LoadEnd<Watched, LiveSink>, servers: &Servers) -> Option<Broken> {
    if let Some(message) = &end.check.host.record_error {
        return Some(Broken::Spoiled(format!(
            "recording stopped: {message}; {} rows are lost; free space, then --resume",
            end.check.host.rows_lost
        )));
    }
    if end.check.host.stopped {
        return Some(Broken::Stopped);
    }
    servers.gone().map(|gone| Broken::Spoiled(format!("{gone}; start the servers again, then --resume")))
}

fn live_facts(servers: Vec<ServerFacts>, check: &RunCheck) -> LiveFacts {
    LiveFacts {
        servers,
        client_faults: check.faults.iter().map(ToString::to_string).collect(),
        client_remarks: check.remarks.iter().map(ToString::to_string).collect(),
        watch_faults: Vec::new(),
        own_prompts: false,
    }
}

/// Runtime and version of the servers, each once.
fn engine(servers: &[ServerFacts]) -> String {
    let words = |server: &ServerFacts| {
        let version = server.version.as_ref().map(|version| format!("-{version}")).unwrap_or_default();
        let simulated = if server.simulated { " (simulated)" } else { "" };
        format!("{}{version}{simulated}", server.runtime)
    };
    let all: std::collections::BTreeSet<String> = servers.iter().map(words).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

fn load(
    (job, servers): (&Job<'_>, &Servers),
    cell: &Cell,
    answers: Answers,
) -> Result<Load<Watched>, CellError> {
    let level = &job.experiment.levels[cell.level];
    let live = &servers.spec;
    Ok(Load {
        source: Watched::new(level.workload(cell.block)?),
        law: law(level),
        router: level.router(&level.arms[cell.arm], cell.block)?,
        targets: servers.targets.clone(),
        client: ClientOptions::default(),
        bodies: Bodies { answers, ..bodies(level, servers, &cell.run_id) },
        limits: limits(live),
        text: Text::Dropped,
        retries: Retries { most: 0, backoff: Nanos::ZERO },
        scrapes: None,
        threads: THREADS,
        thresholds: Thresholds::default(),
    })
}

/// Gaps of an open loop of single requests follow a law; turns and traces have only their schedule.
fn law(level: &Level) -> GapLaw {
    let gaps = level.spec.workload.gaps();
    let rate = gaps.rate_rps.and_then(|rps| Rate::steady(rps).ok());
    GapLaw { cv: gaps.cv.filter(|_| rate.is_some()), rate, open_loop: gaps.open_loop }
}

fn limits(live: &LiveSpec) -> Limits {
    Limits {
        timeout: Nanos::from_secs_f64(live.request_timeout_s),
        grace: Nanos::from_secs_f64(live.grace_s),
        ..Limits::default()
    }
}

fn bodies(level: &Level, servers: &Servers, run_id: &str) -> Bodies {
    Bodies {
        api: match servers.spec.api {
            ApiSpec::Completions => Api::Completions,
            ApiSpec::Chat => Api::Chat,
        },
        dialect: servers.kind.dialect(),
        model: servers.model.as_str().into(),
        adapters: level.names.adapters.clone(),
        form: match servers.spec.prompt {
            PromptSpec::TokenIds => PromptForm::default(),
            PromptSpec::Words => PromptForm::Words,
        },
        length: AnswerLength::AsDrawn,
        nonce: match servers.spec.cache_before_run {
            CacheBeforeRun::Reset => None,
            CacheBeforeRun::OtherPrompts => Some(Seed(0).child(run_id).0),
        },
        answers: Answers::Untold,
        texts: None,
    }
}

/// Whom to look at, as often as the policy wants to see it, or as the file says of `server.jsonl`.
fn looks(level: &Level, servers: &Servers, load: &mut Load<Watched>) -> Looks {
    let mut interval = Duration::from_millis(level.spec.cluster.server_interval_ms);
    let mut events = None;
    if let Information::Scraped { interval_ns } = load.router.information() {
        let (tell, told) = unbounded_channel();
        (events, load.scrapes) = (Some(tell), Some(told));
        interval = interval.min(Duration::from_nanos(interval_ns.0));
    }
    // A server of an unknown kind says nothing of its load.
    let drivers = if servers.kind == RuntimeKind::Openai { Vec::new() } else { servers.drivers.clone() };
    Looks { drivers, adapters: level.names.adapters.clone(), interval, events }
}

/// How a live run and the looks at its servers ended.
type Sent = (LoadEnd<Watched, LiveSink>, io::Result<(Files, WatchEnd)>);

/// Sends the load and looks at the servers, while this thread keeps the heartbeat and listens for the user.
fn sent(
    (load, sink): (Load<Watched>, LiveSink),
    (looks, files): (Looks, Files),
    folder: &mut RunFolder,
    interrupt: &Interrupt,
) -> Result<Sent, LiveError> {
    let control = Control::default();
    std::thread::scope(|scope| {
        let (done, ended) = channel();
        let (drained, draining) = oneshot::channel();
        let at_work = &control;
        let watching = scope.spawn(move || watch(looks, files, at_work, draining));
        let working = scope.spawn(move || {
            let end = run(load, sink, at_work);
            // Whoever waits for these also sees a panic, by the senders that go.
            let _ = drained.send(());
            let _ = done.send(());
            end
        });
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            // A heartbeat that can't be written shows as stale; the row files report a full disk themselves.
            let _ = folder.heartbeat(control.progress().ended);
            if interrupt.requested() {
                control.stop();
            }
        }
        let end = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let watched = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((end?, watched))
    })
}
