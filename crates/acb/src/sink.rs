//! From simulated completions to rows on disk.

use crate::interrupt::Interrupt;
use crate::rows::RowFile;
use acb_routing::{RoutingRow, RowLog};
use acb_sim::{Completion, Sink};
use acb_types::{AbsentReason, Adapters, Outcome, Outcomes, RECORD_VERSION, Record, ServerRow, Source};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Words that every record of a cell repeats.
#[derive(Clone, Debug)]
pub struct RecordNames {
    /// Task names by id.
    pub tasks: Arc<[String]>,
    /// Adapter names by id.
    pub adapters: Arc<Adapters>,
    /// Runtime and version.
    pub engine: String,
    /// Where quality comes from.
    pub quality_source: &'static str,
}

/// The record of a completion.
#[must_use]
pub fn record<'a>(names: &'a RecordNames, outcomes: &Outcomes, done: &Completion<'_>) -> Record<'a> {
    let request = done.request;
    let quality = match done.outcome {
        Outcome::Ok => outcomes.quality(request, done.decision.adapter),
        _ => 0.0,
    };
    Record {
        v: RECORD_VERSION,
        request: request.id,
        ask: request.ask,
        session: request.session,
        turn: request.turn,
        tenant: request.tenant,
        trust_group: request.trust_group,
        task: Cow::Borrowed(&names.tasks[request.task.index()]),
        source: Source::Simulated,
        engine: Cow::Borrowed(&names.engine),
        adapter: Cow::Borrowed(names.adapters.label(done.decision.adapter)),
        replica: done.replica,
        reason: Cow::Borrowed(done.decision.reason.as_str()),
        outcome: done.outcome,
        due_ns: request.due,
        sent_ns: done.sent,
        admitted_ns: done.admitted,
        first_token_ns: done.first_token,
        last_token_ns: done.last_token,
        ended_ns: done.ended_at,
        itl_max_ns: done.itl_max,
        prompt_tokens: request.prompt.tokens(),
        output_tokens: done.output_tokens,
        simulated_prefix_hit_tokens: done.prefix_hit_tokens,
        server_prefix_hit_tokens: None,
        adapter_load: done.adapter_load,
        preemptions: done.preemptions,
        overtaken: done.overtaken,
        quality: Some(quality),
        quality_source: Cow::Borrowed(names.quality_source),
        absent: absences(done),
    }
}

/// Why each null of a simulated record is null.
fn absences(done: &Completion<'_>) -> BTreeMap<Cow<'static, str>, AbsentReason> {
    let gone = match done.outcome {
        Outcome::Ok => AbsentReason::NotApplicable,
        _ => AbsentReason::RequestFailed,
    };
    let nulls = [
        ("replica", done.replica.is_none(), AbsentReason::NotApplicable),
        ("admitted_ns", done.admitted.is_none(), gone),
        ("first_token_ns", done.first_token.is_none(), gone),
        ("last_token_ns", done.last_token.is_none(), gone),
        ("itl_max_ns", done.itl_max.is_none(), gone),
        ("simulated_prefix_hit_tokens", done.prefix_hit_tokens.is_none(), gone),
        ("server_prefix_hit_tokens", true, AbsentReason::NotApplicable),
        ("adapter_load", done.adapter_load.is_none(), AbsentReason::NotApplicable),
    ];
    nulls.into_iter().filter(|n| n.1).map(|(name, _, why)| (Cow::Borrowed(name), why)).collect()
}

/// Writes the rows of one cell, and stops the run when the user asks for it or a file can't be written.
pub struct CellSink<'a> {
    /// Words of the records.
    pub names: &'a RecordNames,
    /// What answers are worth.
    pub outcomes: &'a Outcomes,
    /// `requests.jsonl`.
    pub requests: RowFile,
    /// `server.jsonl`.
    pub server: RowFile,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
    /// Is called every few thousand records with their number: keeps the heartbeat.
    pub progress: &'a mut dyn FnMut(u64),
    /// The first write that failed.
    pub failure: Option<io::Error>,
}

/// Records between two calls of `progress`.
const PROGRESS_EVERY: u64 = 1024;

impl Sink for CellSink<'_> {
    fn completed(&mut self, done: &Completion<'_>) -> ControlFlow<()> {
        if let Err(error) = self.requests.push(&record(self.names, self.outcomes, done)) {
            self.failure.get_or_insert(error);
        }
        if self.requests.rows().is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.requests.rows());
        }
        match self.failure.is_some() || self.interrupt.requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn server(&mut self, row: &ServerRow) {
        if let Err(error) = self.server.push(row) {
            self.failure.get_or_insert(error);
        }
    }
}

/// `routing.jsonl`: shared with the router's log while the cell runs.
#[derive(Clone)]
pub struct RoutingLog(Arc<Mutex<io::Result<RowFile>>>);

impl RoutingLog {
    /// A log into this file.
    #[must_use]
    pub fn new(file: RowFile) -> Self {
        Self(Arc::new(Mutex::new(Ok(file))))
    }

    /// The closure that a router calls for every row. The first write that fails ends the file.
    #[must_use]
    pub fn writer(&self) -> RowLog {
        let shared = Arc::clone(&self.0);
        Box::new(move |row: &RoutingRow| {
            let mut file = shared.lock().expect("a writer of the routing log panicked");
            let failed = file.as_mut().ok().and_then(|file| file.push(row).err());
            if let Some(error) = failed {
                *file = Err(error);
            }
        })
    }

    /// The file, once the router is gone.
    ///
    /// # Errors
    /// The first write that failed.
    ///
    /// # Panics
    /// When the router still holds its end, which only our own bug can cause.
    pub fn into_file(self) -> io::Result<RowFile> {
        let shared = Arc::into_inner(self.0).expect("the router is dropped before its log is closed");
        shared.into_inner().expect("a writer of the routing log panicked")
    }
}
