//! What goes wrong between a driver and its server.

use super::RuntimeKind;
use crate::ClientError;

/// A driver could not do what it was asked, or the server did something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// No client could be made for the target.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No answer came.
    #[error("{server}: {ask}: {reason}")]
    NoAnswer {
        /// The server.
        server: String,
        /// Method and path.
        ask: String,
        /// What happened.
        reason: String,
    },
    /// The server said no.
    #[error("{server}: {ask} was refused with status {status}: {message}{remedy}")]
    Refused {
        /// The server.
        server: String,
        /// Method and path.
        ask: String,
        /// The answer's status.
        status: u16,
        /// The server's words.
        message: String,
        /// What to do about it, after a semicolon; empty where the server's words say it.
        remedy: &'static str,
    },
    /// The answer is not what this runtime writes.
    #[error("{server}: the answer to {ask} can't be read: {reason}; is this a {runtime} server?")]
    Unreadable {
        /// The server.
        server: String,
        /// Method and path.
        ask: String,
        /// What is wrong with it.
        reason: String,
        /// What was expected.
        runtime: RuntimeKind,
    },
    /// The runtime has no such thing.
    #[error("{runtime} can't {what}: {remedy}")]
    Unsupported {
        /// The runtime.
        runtime: RuntimeKind,
        /// What was asked for, as words after "can't".
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The deadline passed before the server was ready.
    #[error(
        "{server} was not ready within {waited_s} s: {last}; look at its log, or give it longer to start"
    )]
    NotReady {
        /// The server.
        server: String,
        /// Seconds waited.
        waited_s: u64,
        /// What the last try brought.
        last: String,
    },
    /// The server is ready, and has no such base model.
    #[error("{server} does not serve the model `{model}`; it lists {listed}: correct the model's name")]
    NoSuchModel {
        /// The server.
        server: String,
        /// The name given.
        model: String,
        /// The names that it lists.
        listed: String,
    },
    /// A name of no listed adapter.
    #[error("{server} lists no adapter `{adapter}`; it lists {listed}: load it, or correct the name")]
    NoSuchAdapter {
        /// The server.
        server: String,
        /// The name given.
        adapter: String,
        /// The names that it lists.
        listed: String,
    },
    /// An adapter is not in the place that the catalogue gives it.
    #[error(
        "{server}: adapter `{adapter}` must be number {place} of the adapters it is started with; it lists {listed}: start it with the adapters in the catalogue's order"
    )]
    Place {
        /// The server.
        server: String,
        /// The adapter.
        adapter: String,
        /// Its number in the catalogue, from 0.
        place: u32,
        /// The names that the server lists, in its order.
        listed: String,
    },
    /// An answer to a probe failed.
    #[error("{server}: the probe of `{model}` failed: {reason}")]
    Probe {
        /// The server.
        server: String,
        /// The model named in the probe.
        model: String,
        /// How it ended.
        reason: String,
    },
    /// The cache was reset, and still answers.
    #[error("{server}: {after} tokens of a prompt are still cached after the reset; {remedy}")]
    NotReset {
        /// The server.
        server: String,
        /// Cached tokens after the reset.
        after: u32,
        /// What keeps the cache alive on this runtime.
        remedy: &'static str,
    },
    /// There is no sign by which a reset could be proved.
    #[error("{server}: a reset can't be proved, since {reason}; {remedy}")]
    Unproven {
        /// The server.
        server: String,
        /// Which sign is missing.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
}
