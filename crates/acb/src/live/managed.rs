//! Servers that this program starts: one process group each, whose leader is `acb runtime keep`, which ends the group
//! when it is told to, or when whoever started it is gone.

use super::LiveError;
use super::servers::targets;
use crate::clock::Stopwatch;
use crate::interrupt::Interrupt;
use crate::spec::runtime::LiveSpec;
use acb_live::drivers::{Driver, RuntimeKind};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Between two looks at a server that starts or ends.
const LOOK: Duration = Duration::from_millis(100);
/// How much longer than its server a keeper may take.
const KEEPER: Duration = Duration::from_secs(2);
/// Lines of a log that an error shows.
const TAIL_LINES: usize = 15;

/// Whether servers end with the process that started them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// They do, however that process ends.
    WithStarter,
    /// They stand until they are told to end.
    UntilTold,
}

/// One started server.
#[derive(Debug)]
pub struct Started {
    /// Its URL.
    pub url: String,
    /// Its process group.
    pub group: i32,
    /// What it prints.
    pub log: PathBuf,
    keeper: Child,
}

/// Servers that end when this is dropped, if they live with their starter.
#[derive(Debug)]
pub struct Managed {
    /// The servers, one for each replica, in order.
    pub started: Vec<Started>,
    life: Life,
    stop_within: Duration,
}

impl Managed {
    /// Starts a server for each replica; logs go to `folder`. Nothing is awaited.
    ///
    /// # Errors
    /// When a port, a log or a process can't be had; what was started is ended.
    pub fn start(live: &LiveSpec, replicas: u32, folder: &Path, life: Life) -> Result<Self, LiveError> {
        let made = fs::create_dir_all(folder);
        made.map_err(LiveError::system(format!("{}: can't be made", folder.display())))?;
        let stop_within = Duration::from_secs_f64(live.stop_within_s);
        let mut managed = Self { started: Vec::new(), life, stop_within };
        for (replica, port) in ports(live, replicas)?.into_iter().enumerate() {
            let log = folder.join(format!("replica-{replica}.log"));
            let started = start_one(live, (replica, port), log, life);
            managed.started.push(started.inspect_err(|_| managed.end_all())?);
        }
        Ok(managed)
    }

    /// Their URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.started.iter().map(|started| started.url.clone()).collect()
    }

    /// Waits until every server lists its models.
    ///
    /// # Errors
    /// When one ends, or takes too long, or the user asks to stop: all are ended then.
    pub fn await_ready(
        &mut self,
        kind: RuntimeKind,
        live: &LiveSpec,
        interrupt: &Interrupt,
    ) -> Result<(), LiveError> {
        let watch = Stopwatch::start();
        let awaited = (0..self.started.len())
            .try_for_each(|at| await_one(&mut self.started[at], (at, kind), live, (&watch, interrupt)));
        awaited.inspect_err(|_| self.end_all())
    }

    /// Ends every server, with its bound.
    fn end_all(&self) {
        self.started.iter().for_each(|started| tell(started.group));
        for (replica, started) in self.started.iter().enumerate() {
            // An error is told by the state that the next command finds; there is nobody here to tell it to.
            let _ = end_group(replica, started.group, self.stop_within);
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if self.life == Life::WithStarter {
            self.end_all();
        }
        // A keeper that has ended is not left behind as a zombie.
        self.started.iter_mut().for_each(|started| drop(started.keeper.try_wait()));
    }
}

fn ports(live: &LiveSpec, replicas: u32) -> Result<Vec<u16>, LiveError> {
    if !live.ports.is_empty() {
        return Ok(live.ports.clone());
    }
    // All are held until the last is found, so that no port is found twice.
    let held: io::Result<Vec<TcpListener>> =
        (0..replicas).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let ports = held.and_then(|held| held.iter().map(|free| Ok(free.local_addr()?.port())).collect());
    ports.map_err(LiveError::system("no free port on 127.0.0.1: free some, or give runtime.ports"))
}

/// The words of the command with port and replica filled in.
fn words(live: &LiveSpec, replica: usize, port: u16) -> Vec<String> {
    let fill =
        |word: &String| word.replace("{port}", &port.to_string()).replace("{replica}", &replica.to_string());
    live.command.iter().map(fill).collect()
}

fn start_one(
    live: &LiveSpec,
    (replica, port): (usize, u16),
    log: PathBuf,
    life: Life,
) -> Result<Started, LiveError> {
    let open = || {
        let file = File::create(&log)?;
        Ok((file.try_clone()?, file))
    };
    let (out, err) = open().map_err(LiveError::system(format!("{}: can't be written", log.display())))?;
    let myself = std::env::current_exe().map_err(LiveError::system("this program's own path"))?;
    let mut command = Command::new(myself);
    command.args(["runtime", "keep", "--stop-within", &live.stop_within_s.to_string()]);
    if life == Life::WithStarter {
        command.arg("--with-starter");
    }
    let stdin = if life == Life::WithStarter { Stdio::piped() } else { Stdio::null() };
    command.arg("--").args(words(live, replica, port)).envs(&live.env);
    command.stdin(stdin).stdout(out).stderr(err).process_group(0);
    let keeper = command.spawn().map_err(LiveError::system(format!("replica {replica} can't be started")))?;
    Ok(Started { url: format!("http://127.0.0.1:{port}"), group: keeper.id().cast_signed(), log, keeper })
}

fn await_one(
    started: &mut Started,
    (replica, kind): (usize, RuntimeKind),
    live: &LiveSpec,
    (watch, interrupt): (&Stopwatch, &Interrupt),
) -> Result<(), LiveError> {
    let target = targets(live, std::slice::from_ref(&started.url))?.remove(0);
    let driver = Driver::new(kind, target, live.model.as_deref().unwrap_or_default())?;
    let runtime = super::servers::async_runtime()?;
    loop {
        let asked =
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(2), driver.models()).await });
        let last = match asked {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it accepts connections and does not answer".to_owned(),
        };
        if let Ok(Some(status)) = started.keeper.try_wait() {
            let (log, tail) = (started.log.clone(), tail(&started.log));
            return Err(LiveError::Died { replica, status: status.to_string(), log, tail });
        }
        if interrupt.requested() {
            return Err(LiveError::Interrupted);
        }
        if watch.elapsed().as_secs_f64() > live.ready_within_s {
            let (seconds, log) = (live.ready_within_s, started.log.clone());
            return Err(LiveError::NotReady { replica, seconds, last, log });
        }
        pause(LOOK);
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Tells the keeper of a group to end it.
fn tell(group: i32) {
    if let Some(pid) = Pid::from_raw(group) {
        // It may have ended already.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Whether anything of a process group is left that still runs.
#[must_use]
pub fn is_alive(group: i32) -> bool {
    let exists = Pid::from_raw(group).is_some_and(|pid| test_kill_process_group(pid).is_ok());
    // A process that has ended and that nobody has asked about yet still has its number.
    exists && fs::read_dir("/proc").map_or(true, |all| all.flatten().any(|one| runs_in(&one.path(), group)))
}

/// Whether a folder of `/proc` is of a process of this group that has not ended.
fn runs_in(process: &Path, group: i32) -> bool {
    // `PID (NAME) STATE PARENT GROUP ...`; a name may hold anything, brackets too.
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ended = matches!(fields.next(), None | Some("Z" | "X"));
    !ended && fields.nth(1).and_then(|own| own.parse().ok()) == Some(group)
}

/// Tells a group to end, waits for it within the bound, then kills it.
///
/// # Errors
/// When it is still there after that.
pub fn end_group(replica: usize, group: i32, stop_within: Duration) -> Result<(), LiveError> {
    tell(group);
    if waited_for_end(group, stop_within + KEEPER) {
        return Ok(());
    }
    if let Some(pid) = Pid::from_raw(group) {
        // It may have ended just now.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    match waited_for_end(group, KEEPER) {
        true => Ok(()),
        false => Err(LiveError::Immortal { replica, group }),
    }
}

fn waited_for_end(group: i32, patience: Duration) -> bool {
    let watch = Stopwatch::start();
    while is_alive(group) {
        if watch.elapsed() > patience {
            return false;
        }
        pause(LOOK);
    }
    true
}

fn pause(time: Duration) {
    let (_open, never) = channel::<()>();
    let _ = never.recv_timeout(time);
}

/// Runs a server and ends it when told to by a signal, or with `life` of the starter when stdin closes; its exit code.
///
/// # Errors
/// When it can't be started, or no signal can be waited for.
pub fn keep(words: &[String], stop_within: Duration, life: Life) -> Result<i32, LiveError> {
    let (tell, told) = channel();
    let by_signal = tell.clone();
    let handled = ctrlc::set_handler(move || {
        let _ = by_signal.send(());
    });
    handled.map_err(|error| LiveError::system("signals can't be waited for")(io::Error::other(error)))?;
    let (program, arguments) = words.split_first().expect("the command line asks for at least one word");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let mut server = command
        .spawn()
        .map_err(LiveError::system(format!("runtime.command: `{program}` can't be started")))?;
    if life == Life::WithStarter {
        // Ends with the pipe's other end, however that goes.
        std::thread::spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = tell.send(());
        });
    }
    loop {
        if let Ok(Some(status)) = server.try_wait() {
            return Ok(status.code().unwrap_or(1));
        }
        match told.recv_timeout(LOOK) {
            Ok(()) => return end_kept(&mut server, stop_within),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// Ends the group of this process, the server's workers too: politely, and after the bound by force, which takes this process along.
fn end_kept(server: &mut Child, stop_within: Duration) -> Result<i32, LiveError> {
    let group = rustix::process::getpgrp();
    // This process hears it too, and has its own handler.
    let _ = kill_process_group(group, Signal::TERM);
    let watch = Stopwatch::start();
    while watch.elapsed() <= stop_within {
        if let Ok(Some(status)) = server.try_wait() {
            return Ok(status.code().unwrap_or(0));
        }
        pause(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
    Ok(1)
}
