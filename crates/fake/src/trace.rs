//! What a server itself knows of each request: the truth that a client's records are held against.

use crate::clock::Clock;
use acb_types::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Newest requests that are kept.
const MOST_ROWS: usize = 200_000;

/// One request. Times are since the server's start; a write is stamped when its bytes are handed to the connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// Order of arrival, from 0; the answer's header `x-acb-request` says the same.
    pub id: u64,
    /// Path asked for.
    pub path: String,
    /// Model asked for, as written.
    pub model: String,
    /// Header `x-acb-shape`, if any, or what the server does by itself.
    pub shape: String,
    /// When the request's head had been read.
    pub received_ns: Nanos,
    /// When the first byte of a body was written; absent: none was.
    pub first_write_ns: Option<Nanos>,
    /// When the last byte so far was written.
    pub last_write_ns: Option<Nanos>,
    /// When the first token was written; absent: none was.
    pub first_token_ns: Option<Nanos>,
    /// When the last token so far was written.
    pub last_token_ns: Option<Nanos>,
    /// When the body ended, in whatever way; absent: it has not.
    pub closed_ns: Option<Nanos>,
    /// Tokens written.
    pub tokens: u32,
    /// HTTP status; absent: nothing answered yet.
    pub status: Option<u16>,
    /// Whether the client went away before the body's end.
    pub aborted: bool,
    /// What the engine knows; absent where no engine serves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub engine: Option<EngineTruth>,
}

/// What the engine model knows of a request. Times are of the engine, since its start, in its own (scaled) time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineTruth {
    /// Adapter that served it; absent: the base model.
    pub adapter: Option<String>,
    /// When it was submitted.
    pub submitted_ns: Nanos,
    /// When it was first admitted to a step; absent: never.
    pub admitted_ns: Option<Nanos>,
    /// When its first token was computed; absent: never.
    pub first_token_ns: Option<Nanos>,
    /// When its last token so far was computed.
    pub last_token_ns: Option<Nanos>,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Prompt tokens that the prefix cache held at first admission; absent: never admitted, or never asked.
    pub hit_tokens: Option<u32>,
    /// Tokens computed so far.
    pub output_tokens: u32,
    /// How it ended; absent: it has not.
    pub outcome: Option<acb_types::Outcome>,
}

/// All of them, and what else the server counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The server's start, ns since 1970.
    pub origin_unix_ns: u64,
    /// When this was written, since the start.
    pub now_ns: Nanos,
    /// Connections accepted.
    pub connections: u64,
    /// Oldest requests that are no longer kept.
    pub dropped: u64,
    /// The kept requests, in order of arrival.
    pub requests: Vec<TraceRow>,
}

/// Keeps the rows.
#[derive(Debug)]
pub(crate) struct TraceLog {
    clock: Clock,
    connections: AtomicU64,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Id of the first kept row.
    first: u64,
    kept: VecDeque<TraceRow>,
}

impl TraceLog {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, connections: AtomicU64::new(0), rows: Mutex::new(Rows::default()) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A request came.
    pub(crate) fn open(self: &Arc<Self>, row: TraceRow) -> Ticket {
        let mut rows = self.rows();
        let id = rows.first + rows.kept.len() as u64;
        rows.kept.push_back(TraceRow { id, ..row });
        if rows.kept.len() > MOST_ROWS {
            rows.kept.pop_front();
            rows.first += 1;
        }
        Ticket { log: self.clone(), id, open: true }
    }

    /// Everything so far.
    pub(crate) fn trace(&self) -> Trace {
        let rows = self.rows();
        Trace {
            origin_unix_ns: self.clock.origin_unix_ns(),
            now_ns: self.clock.now(),
            connections: self.connections.load(Ordering::Relaxed),
            dropped: rows.first,
            requests: rows.kept.iter().cloned().collect(),
        }
    }
}

/// One request's right to write its row; a ticket that is dropped while open is a client that went away.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<TraceLog>,
    id: u64,
    open: bool,
}

impl Ticket {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Changes the row, if it is still kept.
    pub(crate) fn update(&self, change: impl FnOnce(&mut TraceRow)) {
        let mut rows = self.log.rows();
        let at = self.id.checked_sub(rows.first).map(|at| at as usize);
        if let Some(row) = at.and_then(|at| rows.kept.get_mut(at)) {
            change(row);
        }
    }

    /// Bytes with so many tokens were written at `at`.
    pub(crate) fn wrote(&self, at: Nanos, tokens: u32) {
        self.update(|row| {
            row.first_write_ns.get_or_insert(at);
            row.last_write_ns = Some(at);
            if tokens > 0 {
                row.first_token_ns.get_or_insert(at);
                row.last_token_ns = Some(at);
                row.tokens += tokens;
            }
        });
    }

    /// The body ended as it was meant to.
    pub(crate) fn close(&mut self, at: Nanos) {
        self.open = false;
        self.update(|row| row.closed_ns = Some(at));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.open {
            let at = self.log.clock.now();
            self.update(|row| (row.closed_ns, row.aborted) = (Some(at), true));
        }
    }
}
