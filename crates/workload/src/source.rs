//! The one way in which a run consumes requests.

use acb_types::{Nanos, Request, RequestId, Truth};

/// A request and the truth about it, which the consumer must keep from routers.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// What a router may see.
    pub request: Request,
    /// What it may not.
    pub truth: Truth,
}

/// A source of requests in due order. Open-loop sources know every due time in advance; closed-loop sources and
/// sessions (a turn waits for the one before) learn it when an earlier request ends.
pub trait RequestSource {
    /// Due time of the next request that is already certain; `None` when there is none now (there may be one after
    /// [`RequestSource::ended`]).
    fn next_due(&self) -> Option<Nanos>;
    /// Takes that request. Due times never decrease. Ids count up from 0 in the order taken.
    fn take(&mut self) -> Option<Arrival>;
    /// Is told that a request ended, well or badly, at `at`.
    fn ended(&mut self, request: RequestId, at: Nanos);
}
