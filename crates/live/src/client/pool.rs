//! Connections that wait for a request: the last one used is the first to be used again.

use super::connection::Connection;
use acb_types::Nanos;
use std::sync::{Mutex, PoisonError};

/// Idle connections to one target.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    connection: Connection,
    since_ns: Nanos,
}

impl Pool {
    /// The connection that has waited least, if it has waited less than `limit_ns`. Those that waited longer are closed.
    pub fn take(&self, now: Nanos, limit_ns: Nanos) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let last = idle.pop()?;
        if now.since(last.since_ns) < limit_ns {
            return Some(last.connection);
        }
        // The others have waited longer still.
        idle.clear();
        None
    }

    /// Takes back a connection that has brought its answer whole.
    pub fn put(&self, connection: Connection, now: Nanos) {
        let idle = Idle { connection, since_ns: now };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
    }
}
