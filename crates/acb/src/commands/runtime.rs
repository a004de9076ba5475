//! `acb runtime`: the servers of an experiment whose file says how to start them.

use super::plan::load;
use super::{Exit, print, print_json, say};
use crate::cli::{ExperimentArgs, KeepArgs, RuntimeArgs, RuntimeCommand};
use crate::interrupt::Interrupt;
use crate::live::LiveError;
use crate::live::managed::{Life, Managed, end_group, is_alive, keep};
use crate::live::servers::{Servers, live_of};
use crate::live::state::{self, UpState};
use crate::spec::ExperimentSpec;
use crate::spec::runtime::LiveSpec;
use miette::IntoDiagnostic;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `acb runtime status --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuntimeDocument {
    /// The servers that `acb runtime up` started, in order of replicas; empty when none are up.
    pub servers: Vec<ServerStatus>,
}

/// One server.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ServerStatus {
    /// Its URL.
    pub url: String,
    /// Its process group.
    pub group: i32,
    /// What it prints.
    pub log: PathBuf,
    /// Whether its processes are there.
    pub running: bool,
    /// Whether it lists its models.
    pub answers: bool,
}

/// Runs the command. Exit status 1 when `status` finds a server that is not up.
///
/// # Errors
/// When the experiment has faults or no command to start servers with, or servers don't start or end.
pub fn command(command: &RuntimeCommand) -> miette::Result<Exit> {
    match command {
        RuntimeCommand::Up(args) => with_spec(args, up),
        RuntimeCommand::Down(args) => with_spec(args, down),
        RuntimeCommand::Status(args) => with_spec(args, status),
        RuntimeCommand::Keep(args) => kept(args),
    }
}

type Act = fn(&ExperimentSpec, &Path, &RuntimeArgs) -> Result<Exit, LiveError>;

fn with_spec(args: &RuntimeArgs, act: Act) -> miette::Result<Exit> {
    let Some(spec) = load(&args.experiment, args.json)? else { return Ok(Exit::Usage) };
    act(&spec, &output_dir(&spec, &args.experiment), args).into_diagnostic()
}

fn output_dir(spec: &ExperimentSpec, args: &ExperimentArgs) -> PathBuf {
    args.output_dir.clone().unwrap_or_else(|| PathBuf::from(&spec.output_dir))
}

/// The settings of servers that the file says how to start.
fn managed_by(spec: &ExperimentSpec) -> Result<&LiveSpec, LiveError> {
    let (_, live) = live_of(&spec.runtime)?;
    if live.is_managed() { Ok(live) } else { Err(LiveError::NotManaged) }
}

fn up(spec: &ExperimentSpec, output_dir: &Path, args: &RuntimeArgs) -> Result<Exit, LiveError> {
    let live = managed_by(spec)?;
    if UpState::read(output_dir)?.is_some_and(|state| state.servers.iter().any(|one| is_alive(one.group))) {
        return Err(LiveError::Up { path: state::path(output_dir) });
    }
    let interrupt = Interrupt::on_signals()
        .map_err(|error| LiveError::system("signals")(std::io::Error::other(error)))?;
    let managed = Managed::start(live, spec.cluster.replicas, &state::folder(output_dir), Life::UntilTold)?;
    // Written before anything is awaited: whatever happens now, `down` finds them.
    UpState::of(&managed, state::settings(live, spec.cluster.replicas)).write(output_dir)?;
    let mut managed = managed;
    let (kind, _) = live_of(&spec.runtime)?;
    say(&format!("started {} servers; waiting until they answer", managed.started.len()));
    if let Err(error) = managed.await_ready(kind, live, &interrupt) {
        UpState::remove(output_dir)?;
        return Err(error);
    }
    let urls: String = managed.urls().iter().map(|url| format!("{url}\n")).collect();
    if args.json {
        print_status(spec, output_dir, args)?;
    } else {
        let _ = print(&urls);
    }
    Ok(Exit::Done)
}

fn down(spec: &ExperimentSpec, output_dir: &Path, _args: &RuntimeArgs) -> Result<Exit, LiveError> {
    let live = managed_by(spec)?;
    let Some(state) = UpState::read(output_dir)? else {
        say("no servers of this experiment are up");
        return UpState::remove(output_dir).map(|()| Exit::Done);
    };
    let bound = Duration::from_secs_f64(live.stop_within_s);
    let ended =
        state.servers.iter().enumerate().map(|(replica, server)| end_group(replica, server.group, bound));
    // Each is told, whatever the one before did.
    let ended: Vec<_> = ended.collect();
    ended.into_iter().collect::<Result<(), _>>()?;
    UpState::remove(output_dir)?;
    say(&format!("ended {} servers", state.servers.len()));
    Ok(Exit::Done)
}

fn status(spec: &ExperimentSpec, output_dir: &Path, args: &RuntimeArgs) -> Result<Exit, LiveError> {
    managed_by(spec)?;
    print_status(spec, output_dir, args)
}

fn print_status(spec: &ExperimentSpec, output_dir: &Path, args: &RuntimeArgs) -> Result<Exit, LiveError> {
    let state = UpState::read(output_dir)?;
    let servers: Vec<ServerStatus> = state
        .iter()
        .flat_map(|state| &state.servers)
        .map(|server| ServerStatus {
            url: server.url.clone(),
            group: server.group,
            log: server.log.clone(),
            running: is_alive(server.group),
            answers: Servers::at(&spec.runtime, std::slice::from_ref(&server.url)).is_ok(),
        })
        .collect();
    let all_up = !servers.is_empty() && servers.iter().all(|server| server.running && server.answers);
    let text = |server: &ServerStatus| {
        let running = if server.running { "running" } else { "ended" };
        let answers = if server.answers { "answers" } else { "does not answer" };
        format!("{}  {running}, {answers}  group {}  {}\n", server.url, server.group, server.log.display())
    };
    // A reader that went away changes nothing about the servers.
    let _ = match (args.json, servers.is_empty()) {
        (true, _) => print_json(&RuntimeDocument { servers }),
        (false, true) => print("no servers of this experiment are up\n"),
        (false, false) => print(&servers.iter().map(text).collect::<String>()),
    };
    Ok(if all_up { Exit::Done } else { Exit::Failed })
}

/// The process that stands before one server.
fn kept(args: &KeepArgs) -> miette::Result<Exit> {
    let life = if args.with_starter { Life::WithStarter } else { Life::UntilTold };
    let code = keep(&args.command, Duration::from_secs_f64(args.stop_within), life).into_diagnostic()?;
    Ok(if code == 0 { Exit::Done } else { Exit::Failed })
}
