//! What became of a request: its row for the analysis, and its row with everything that was seen.

use crate::check::Held;
use crate::{Connection, Ending, Observation};
use acb_routing::Decision;
use acb_types::{
    AbsentReason, Adapters, Nanos, Outcome, RECORD_VERSION, Record, ReplicaId, Request, RequestId, Source,
    Truth,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Which part of a run a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Due while caches and connections warm up: recorded, and no part of any figure.
    Warmup,
    /// Due after that.
    Measured,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// What was asked.
    pub request: Request,
    /// What the workload drew for its answer.
    pub truth: Truth,
    /// What served it, where and why.
    pub decision: Decision,
    /// When the router decided.
    pub dispatched_ns: Nanos,
    /// Whether it waited for a place in flight.
    pub held: Held,
    /// Which part of the run it belongs to.
    pub phase: Phase,
    /// Every exchange about it, in order; more than one only where retries were asked for. Never empty.
    pub attempts: Vec<Observation>,
}

/// Words that every record of a run repeats.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Task names by id.
    pub tasks: &'a [String],
    /// Adapter names by id.
    pub adapters: &'a Adapters,
    /// Runtime and version, as far as known.
    pub engine: &'a str,
}

/// One line of `observations.jsonl`: one exchange, with the stamp of every token event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObservationRow<'a> {
    /// Version of the row's fields.
    pub v: u32,
    /// Which request.
    pub request: RequestId,
    /// Number of the exchange about it, from 1.
    pub attempt: u32,
    /// Part of the run.
    pub phase: Phase,
    /// Adapter name, or `base`.
    pub adapter: &'a str,
    /// Where it was sent.
    pub replica: ReplicaId,
    /// When it was due.
    pub due_ns: Nanos,
    /// When the router decided.
    pub dispatched_ns: Nanos,
    /// Whether it waited for a place in flight.
    pub held: Held,
    /// Tokens in, as the workload counts them.
    pub prompt_tokens: u32,
    /// What the client saw.
    #[serde(flatten)]
    pub seen: &'a Observation,
}

impl Served {
    /// The exchange that counts.
    ///
    /// # Panics
    /// When there is none, which only our own bug can cause.
    #[must_use]
    pub fn last(&self) -> &Observation {
        self.attempts.last().expect("a request that ended was attempted")
    }

    /// When its first byte left, at the first attempt; when that never happened, when a connection was looked for.
    ///
    /// # Panics
    /// When there is no attempt, which only our own bug can cause.
    #[must_use]
    pub fn sent_ns(&self) -> Nanos {
        let first = self.attempts.first().expect("a request that ended was attempted");
        first.sent_ns.unwrap_or(first.begun_ns)
    }

    /// Its send, for the check of the run.
    #[must_use]
    pub fn send(&self) -> crate::check::Send {
        let connecting = match self.attempts.first().map(|first| first.connection) {
            Some(Connection::New { connecting_ns }) => connecting_ns,
            _ => Nanos::ZERO,
        };
        let (number, due) = (self.request.id.0, self.request.due);
        crate::check::Send { number, due, sent: self.sent_ns(), connecting, held: self.held }
    }

    /// The outcome as records name it. A server that says it has no room (429, 503) sheds; one that refuses what was
    /// asked (400, 413, 422) rejects.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match &self.last().ending {
            Ending::Ok => Outcome::Ok,
            Ending::HttpError { status: 429 | 503, .. } => Outcome::Shed,
            Ending::HttpError { status: 400 | 413 | 422, .. } => Outcome::Rejected,
            Ending::TimedOut => Outcome::TimedOut,
            Ending::Cancelled => Outcome::Unfinished,
            _ => Outcome::Failed,
        }
    }

    /// Tokens out: the server's count, or without one what its events say, an event of unknown size as one.
    #[must_use]
    pub fn output_tokens(&self) -> u32 {
        let seen = self.last();
        let events = seen.token_events.iter().map(|event| event.tokens.map_or(1, std::num::NonZeroU32::get));
        seen.output_tokens().unwrap_or_else(|| events.sum())
    }

    /// Its line of `requests.jsonl`. The source is `simulated` when the server said so.
    ///
    /// # Panics
    /// When a name is missing, which only our own bug can cause.
    #[must_use]
    pub fn record<'a>(&'a self, names: &Names<'a>) -> Record<'a> {
        let (request, seen) = (&self.request, self.last());
        let usage = seen.usage.unwrap_or_default();
        Record {
            v: RECORD_VERSION,
            request: request.id,
            ask: request.ask,
            session: request.session,
            turn: request.turn,
            tenant: request.tenant,
            trust_group: request.trust_group,
            task: Cow::Borrowed(&names.tasks[request.task.index()]),
            source: if seen.simulated { Source::Simulated } else { Source::Client },
            engine: Cow::Borrowed(names.engine),
            adapter: Cow::Borrowed(names.adapters.label(self.decision.adapter)),
            replica: Some(self.decision.replica),
            reason: Cow::Borrowed(self.decision.reason.as_str()),
            outcome: self.outcome(),
            due_ns: request.due,
            sent_ns: self.sent_ns(),
            admitted_ns: None,
            first_token_ns: seen.first_token_ns(),
            last_token_ns: seen.last_token_ns(),
            ended_ns: seen.ended_ns,
            itl_max_ns: seen.gaps().map(|gap| gap.gap_ns).max(),
            prompt_tokens: usage.prompt_tokens.unwrap_or_else(|| request.prompt.tokens()),
            output_tokens: self.output_tokens(),
            simulated_prefix_hit_tokens: None,
            server_prefix_hit_tokens: usage.cached_tokens,
            adapter_load: None,
            preemptions: 0,
            overtaken: 0,
            quality: None,
            quality_source: Cow::Borrowed("not_scored"),
            absent: self.absences(),
        }
    }

    /// Why each null of the record is null.
    fn absences(&self) -> BTreeMap<Cow<'static, str>, AbsentReason> {
        let seen = self.last();
        let cached = seen.usage.and_then(|usage| usage.cached_tokens);
        let gone = if seen.is_ok() { AbsentReason::NotApplicable } else { AbsentReason::RequestFailed };
        let unsaid = if seen.is_ok() { AbsentReason::NotReported } else { AbsentReason::RequestFailed };
        let nulls = [
            ("admitted_ns", true, AbsentReason::NotReported),
            ("first_token_ns", seen.first_token_ns().is_none(), gone),
            ("last_token_ns", seen.last_token_ns().is_none(), gone),
            ("itl_max_ns", seen.gaps().next().is_none(), gone),
            ("simulated_prefix_hit_tokens", true, AbsentReason::NotApplicable),
            ("server_prefix_hit_tokens", cached.is_none(), unsaid),
            ("adapter_load", true, AbsentReason::NotReported),
            ("quality", true, AbsentReason::NotMeasured),
        ];
        nulls.into_iter().filter(|null| null.1).map(|(name, _, why)| (Cow::Borrowed(name), why)).collect()
    }

    /// Its lines of `observations.jsonl`.
    pub fn observations<'a>(&'a self, names: &Names<'a>) -> impl Iterator<Item = ObservationRow<'a>> {
        let adapter = names.adapters.label(self.decision.adapter);
        (1..).zip(&self.attempts).map(move |(attempt, seen)| ObservationRow {
            v: RECORD_VERSION,
            request: self.request.id,
            attempt,
            phase: self.phase,
            adapter,
            replica: self.decision.replica,
            due_ns: self.request.due,
            dispatched_ns: self.dispatched_ns,
            held: self.held,
            prompt_tokens: self.request.prompt.tokens(),
            seen,
        })
    }
}
