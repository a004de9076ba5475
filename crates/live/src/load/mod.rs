//! Load: requests of any source, sent when they are due, through the same router as in the simulator.
//!
//! Open loop by default: nothing waits for an answer but what depends on it (a turn of a session, a user of a closed loop).
//! Where a limit of requests in flight holds something back, the run's check says that it was not open.

mod body;
mod desk;
mod retries;
mod run;
mod served;
mod stages;

pub use body::{AnswerLength, Answers, Api, Bodies, Dialect, PromptForm, Texts, token_ids, words};
pub use retries::Retries;
pub use run::{Control, LoadEnd, LoadError, Progress, run};
pub use served::{Names, ObservationRow, Phase, Served};
pub use stages::{Rate, Stage, Staged, StagesError};

use crate::check::{GapLaw, Thresholds};
use crate::{ClientOptions, Target, Text};
use acb_routing::{Router, RouterEvent, RoutingRow};
use acb_types::Nanos;
use std::io;
use tokio::sync::mpsc::UnboundedReceiver;

/// Everything that a run sends, and how.
pub struct Load<S> {
    /// Where requests come from.
    pub source: S,
    /// Which law the source's due times follow, for the check of the run.
    pub law: GapLaw,
    /// Decides what serves each request, and where.
    pub router: Router,
    /// The replicas, in id order.
    pub targets: Vec<Target>,
    /// How connections are made.
    pub client: ClientOptions,
    /// How requests are written.
    pub bodies: Bodies,
    /// Whether the sink is handed what the model wrote.
    pub text: Text,
    /// Bounds.
    pub limits: Limits,
    /// What is tried again.
    pub retries: Retries,
    /// Server state for a policy that looks at it, each with the time at which it was true.
    pub scrapes: Option<UnboundedReceiver<RouterEvent>>,
    /// Threads that send and receive, at least 1.
    pub threads: u32,
    /// What makes the run invalid.
    pub thresholds: Thresholds,
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests due from here on are not sent; `None`: the source's end is the end.
    pub duration: Option<Nanos>,
    /// Requests in all; `None`: as many as the source has.
    pub requests: Option<u64>,
    /// Requests in flight; `None`: no limit but the machine's.
    pub max_in_flight: Option<u32>,
    /// Requests due before this are the warm-up: recorded, and part of no figure.
    pub warmup: Nanos,
    /// Longest time from sending to the end of an answer.
    pub timeout: Nanos,
    /// How long answers may still come after the last request was sent, or the run was stopped, before they are given up.
    pub grace: Nanos,
}

impl Default for Limits {
    /// No bound on duration, requests or requests in flight; no warm-up; 10 minutes for an answer, 30 s of grace.
    fn default() -> Self {
        Self {
            duration: None,
            requests: None,
            max_in_flight: None,
            warmup: Nanos::ZERO,
            timeout: Nanos(600_000_000_000),
            grace: Nanos(30_000_000_000),
        }
    }
}

/// Where the rows of a run go. Called on a thread of its own; the first error ends the run, and what was written stays.
pub trait Sink: Send + 'static {
    /// A request has ended.
    ///
    /// # Errors
    /// When its rows can't be written.
    fn served(&mut self, served: &Served) -> io::Result<()>;

    /// The router was told or decided something.
    ///
    /// # Errors
    /// When the row can't be written.
    fn routed(&mut self, row: &RoutingRow) -> io::Result<()>;
}
