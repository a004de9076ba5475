//! Proof that a logged policy made the logged decisions: everything is decided again from the log's events.

use crate::{PolicySpec, Router, RouterContext, RouterEvent, RoutingError, RoutingRow, Views};
use acb_types::{Request, RequestId};
use std::collections::BTreeMap;

/// Decides everything again and returns how many decisions were checked.
///
/// `requests` is the workload in the order of ids; `rows` is the log in the order written.
///
/// # Errors
/// With the first row whose decision or views differ, or that can't follow the rows before it.
pub fn replay(
    spec: &PolicySpec,
    context: RouterContext,
    requests: &mut dyn Iterator<Item = Request>,
    rows: &mut dyn Iterator<Item = RoutingRow>,
) -> Result<u64, RoutingError> {
    let mut router = Router::new(spec, context)?;
    let mut requests = Requests { source: requests, passed: BTreeMap::new() };
    let mut checked = 0;
    for (row, entry) in (1..).zip(rows) {
        match entry {
            RoutingRow::Decision { at, request, views, decision } => {
                if router.is_in_flight(request) {
                    return Err(RoutingError::AlreadyInFlight { row, request });
                }
                if Views::of(router.state()) != views {
                    return Err(RoutingError::ViewsDiffer { row, request });
                }
                let full = requests.take(request).ok_or(RoutingError::UnknownRequest { row, request })?;
                let replayed = router.dispatch(at, &full);
                if replayed != decision {
                    return Err(RoutingError::DecisionDiffers { row, request, logged: decision, replayed });
                }
                checked += 1;
            }
            RoutingRow::FirstToken { at, request } => {
                apply(&mut router, row, &RouterEvent::FirstToken { at, request })?;
            }
            RoutingRow::Finished { at, request } => {
                apply(&mut router, row, &RouterEvent::Finished { at, request })?;
            }
            RoutingRow::Scraped { at, replica, snapshot } => {
                apply(&mut router, row, &RouterEvent::Scraped { at, replica, snapshot })?;
            }
        }
    }
    Ok(checked)
}

fn apply(router: &mut Router, row: u64, event: &RouterEvent) -> Result<(), RoutingError> {
    match *event {
        RouterEvent::FirstToken { request, .. } | RouterEvent::Finished { request, .. } => {
            if !router.is_in_flight(request) {
                return Err(RoutingError::NotInFlight { row, request });
            }
        }
        RouterEvent::Scraped { replica, .. } => {
            if replica.index() >= router.state().replicas.len() {
                return Err(RoutingError::UnknownReplica { row, replica });
            }
        }
    }
    router.apply(event);
    Ok(())
}

/// The workload, read as far as needed; requests that were passed over wait for their decision.
struct Requests<'a> {
    source: &'a mut dyn Iterator<Item = Request>,
    passed: BTreeMap<RequestId, Request>,
}

impl Requests<'_> {
    fn take(&mut self, id: RequestId) -> Option<Request> {
        if let Some(request) = self.passed.remove(&id) {
            return Some(request);
        }
        for request in &mut *self.source {
            if request.id == id {
                return Some(request);
            }
            self.passed.insert(request.id, request);
        }
        None
    }
}
