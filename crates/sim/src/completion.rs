//! What a run gives: one completion per request, rows of server state, totals.

use crate::exact::Stretch;
use acb_routing::Decision;
use acb_types::{AdapterLoad, Nanos, Outcome, ReplicaId, Request, ServerRow};
use std::ops::ControlFlow;

/// How one request went. Times are since run start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion<'a> {
    /// The request.
    pub request: &'a Request,
    /// What the router decided.
    pub decision: Decision,
    /// The replica that served it; `None` in [`crate::Service::Uncontended`].
    pub replica: Option<ReplicaId>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was sent to the replica.
    pub sent: Nanos,
    /// When it was first admitted to a step; `None` when it never was.
    pub admitted: Option<Nanos>,
    /// When its first token came, if one did.
    pub first_token: Option<Nanos>,
    /// When the last of its tokens so far came, if one did.
    pub last_token: Option<Nanos>,
    /// Longest gap between two of its tokens, rounded up; `None` with fewer than two.
    pub itl_max: Option<Nanos>,
    /// Answer tokens that came.
    pub output_tokens: u32,
    /// Prompt tokens that the prefix cache held at first admission; `None` when never admitted or never asked.
    pub prefix_hit_tokens: Option<u32>,
    /// The adapter load that its admission caused, if any.
    pub adapter_load: Option<AdapterLoad>,
    /// Times that it lost its KV memory.
    pub preemptions: u32,
    /// Requests that came to the same replica later and were first admitted earlier.
    pub overtaken: u32,
    /// When it ended for its client.
    pub ended_at: Nanos,
}

/// Takes what a run gives, as it happens.
pub trait Sink {
    /// One request ended. `Break` stops the run; what is in flight then counts as unfinished and is not given.
    fn completed(&mut self, completion: &Completion<'_>) -> ControlFlow<()>;
    /// One replica's state at an interval, and at the end.
    fn server(&mut self, _row: &ServerRow) {}
    /// Whether [`Sink::steps`] is called; asked once, when the run starts.
    fn watches_steps(&self) -> bool {
        false
    }
    /// Steps of one replica that ended, before the completions that they brought.
    fn steps(&mut self, _steps: &EndedSteps) {}
}

/// Steps of one replica, one after the other, that have ended. From them follows when each token of a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSteps {
    /// The replica.
    pub replica: ReplicaId,
    /// Whether every request that has its first token and lost no memory got one more from each.
    pub decodes: bool,
    pub(crate) stretch: Stretch,
}

impl EndedSteps {
    /// When the first of them started.
    #[must_use]
    pub fn from(&self) -> Nanos {
        self.stretch.from.floor()
    }

    /// When each of them ended, in order.
    pub fn ends(&self) -> impl Iterator<Item = Nanos> + '_ {
        (1..=self.stretch.steps).map(|steps| self.stretch.after(steps).floor())
    }
}

/// Counts of a run. Arrived = completed + failed + shed + timed out + unfinished + rejected, asserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RunTotals {
    /// Requests taken from the source.
    pub arrived: u64,
    /// Answered in full.
    pub completed: u64,
    /// Failed; a simulated server never does.
    pub failed: u64,
    /// Dropped because the queue was full.
    pub shed: u64,
    /// Given up after the time limit.
    pub timed_out: u64,
    /// In flight when the run ended.
    pub unfinished: u64,
    /// Refused at once.
    pub rejected: u64,
    /// When the last thing happened.
    pub end: Nanos,
    /// Engine steps of all replicas.
    pub steps: u64,
    /// Events that the simulator handled, arrivals included.
    pub events: u64,
}

impl RunTotals {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Ok => &mut self.completed,
            Outcome::Rejected => &mut self.rejected,
            Outcome::Shed => &mut self.shed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Failed => &mut self.failed,
            Outcome::Unfinished => &mut self.unfinished,
        } += 1;
    }

    pub(crate) fn assert_conserved(&self) {
        let ended =
            self.completed + self.failed + self.shed + self.timed_out + self.unfinished + self.rejected;
        assert_eq!(self.arrived, ended, "every request that arrived has exactly one outcome");
    }
}
