//! What goes wrong between an experiment and its servers.

use acb_live::TargetError;
use acb_live::drivers::{CanaryError, DriverError};
use acb_live::load::LoadError;
use std::io;
use std::path::PathBuf;

/// Why servers can't be used, or a live run could not start.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A server did not do what it was asked.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An adapter is not applied.
    #[error(transparent)]
    Canary(#[from] CanaryError),
    /// The load could not start.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A URL or a key can't be used.
    #[error("runtime: {0}")]
    Target(#[from] TargetError),
    /// The variable with the key is not there.
    #[error("runtime.api_key_env: there is no environment variable `{name}`, or it is no text; export it")]
    Key {
        /// Its name.
        name: String,
    },
    /// The file is of the simulator.
    #[error("the file's runtime has no servers: give `runtime` a kind with `command` or `replicas`")]
    NoServers,
    /// Servers that stand are not ours to start or stop.
    #[error(
        "the file names servers that stand (runtime.replicas): start and stop them yourself, or give runtime.command"
    )]
    NotManaged,
    /// The server lists several base models and the file names none.
    #[error("{server} lists {listed}: name the base model in runtime.model")]
    WhichModel {
        /// The server.
        server: String,
        /// What it lists.
        listed: String,
    },
    /// A started server ended before it was ready.
    #[error("replica {replica} ended before it was ready ({status}); the end of {}:\n{tail}", log.display())]
    Died {
        /// Which.
        replica: usize,
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines there.
        tail: String,
    },
    /// A started server was not ready in time.
    #[error(
        "replica {replica} was not ready within {seconds} s ({last}); raise runtime.ready_within_s or see {}",
        log.display()
    )]
    NotReady {
        /// Which.
        replica: usize,
        /// Seconds waited.
        seconds: f64,
        /// What it said last.
        last: String,
        /// Its log.
        log: PathBuf,
    },
    /// The user asked to stop while servers were starting.
    #[error("stopped by the user while servers were starting; they are stopped too")]
    Interrupted,
    /// Servers of this experiment are running already.
    #[error("{}: servers of this experiment are up already; `acb runtime down` stops them", path.display())]
    Up {
        /// The state file.
        path: PathBuf,
    },
    /// A started server went on after it was told to end and killed.
    #[error("process group {group} of replica {replica} is still there after it was killed; end it by hand")]
    Immortal {
        /// Which.
        replica: usize,
        /// Its process group.
        group: i32,
    },
    /// The state file is not what this program writes.
    #[error("{}: {reason}; end the servers by hand and remove it", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file, a program or a thread can't be had.
    #[error("{what}: {source}")]
    System {
        /// What was tried, with the remedy.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl LiveError {
    /// A fault of the system while something was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
