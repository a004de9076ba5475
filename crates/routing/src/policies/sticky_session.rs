//! `sticky_session`: a session keeps its replica and adapter while the adapter suits the task; otherwise the task's
//! specialist (else multitask, else base) on the replica with the fewest requests in flight.
//!
//! Sees own history. Parameters: `suits_at_prior` (expected quality, 0 to 1), `sessions_remembered` (sessions). When the
//! client names an adapter, that one serves, and the session keeps its replica. Lacks a load term: a busy replica
//! keeps its sessions.

use super::AdapterChoice;
use crate::lru::Lru;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{AdapterId, QualityTable, ReplicaId, Request, SessionId, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// When a session keeps its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StickySessionSpec {
    /// Lowest prior quality, 0 to 1, at which the session's adapter still suits a task. The original harness: 0.70.
    pub suits_at_prior: f64,
    /// Sessions remembered; the one that was quiet longest is forgotten first.
    pub sessions_remembered: u64,
}

impl Default for StickySessionSpec {
    fn default() -> Self {
        Self { suits_at_prior: 0.70, sessions_remembered: 100_000 }
    }
}

impl Parameters for StickySessionSpec {
    fn name(&self) -> &'static str {
        "sticky_session"
    }
    fn summary(&self) -> &'static str {
        "a session keeps replica and adapter while the adapter suits the task; else the task's specialist, least in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn check(&self) -> Result<(), RoutingError> {
        if !(0.0..=1.0).contains(&self.suits_at_prior) {
            return Err(RoutingError::Parameter {
                owner: self.name(),
                parameter: "suits_at_prior",
                value: self.suits_at_prior,
                allowed: "between 0 and 1",
            });
        }
        Ok(())
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        Ok(Box::new(StickySession {
            spec: self.clone(),
            prior: context.prior.clone(),
            places: Lru::new(self.sessions_remembered),
        }))
    }
}

struct StickySession {
    spec: StickySessionSpec,
    prior: Arc<QualityTable>,
    places: Lru<SessionId, (ReplicaId, Option<AdapterId>)>,
}

impl StickySession {
    fn keeps(&self, request: &Request, adapter: Option<AdapterId>) -> bool {
        request.required_adapter.is_some()
            || self.prior.expected(request.task, adapter) >= self.spec.suits_at_prior
    }
}

impl RoutingPolicy for StickySession {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let place = self.places.get(request.session).copied();
        let decision = match place {
            Some((replica, adapter)) if self.keeps(request, adapter) => {
                let adapter = request.required_adapter.or(adapter);
                Decision { replica, adapter, reason: Reason::Sticky }
            }
            _ => {
                let adapter = AdapterChoice::Specialist.of(request, &state.adapters);
                Decision { replica: state.least_in_flight(), adapter, reason: Reason::StickyMoved }
            }
        };
        self.places.touch(request.session, (decision.replica, decision.adapter));
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{request, router};
    use acb_types::{Nanos, RequestId};

    fn turn(id: u64, session: u64, task: u32) -> Request {
        Request { id: RequestId(id), session: SessionId(session), ..request(id, task, 50) }
    }

    #[test]
    fn a_session_keeps_its_place_while_the_adapter_suits_the_task() {
        let mut router = router(PolicySpec::StickySession(StickySessionSpec::default()), 2);
        let mut route = |id, session, task| {
            let decision = router.dispatch(Nanos::ZERO, &turn(id, session, task));
            (decision.replica.0, decision.adapter.map(|a| a.0), decision.reason)
        };
        assert_eq!(route(0, 7, 1), (0, Some(1), Reason::StickyMoved));
        assert_eq!(route(1, 8, 1), (1, Some(1), Reason::StickyMoved));
        assert_eq!(route(2, 9, 1), (0, Some(1), Reason::StickyMoved));
        assert_eq!(route(3, 7, 1), (0, Some(1), Reason::Sticky), "though replica 1 is less loaded");
        assert_eq!(route(4, 7, 2), (1, Some(2), Reason::StickyMoved), "0.46 does not suit");
        assert_eq!(route(5, 7, 2), (1, Some(2), Reason::Sticky));
    }

    #[test]
    fn an_adapter_at_the_threshold_still_suits() {
        let reason = |suits_at_prior| {
            let spec = StickySessionSpec { suits_at_prior, ..Default::default() };
            let mut router = router(PolicySpec::StickySession(spec), 1);
            router.dispatch(Nanos::ZERO, &turn(0, 7, 1));
            router.dispatch(Nanos::ZERO, &turn(1, 7, 1)).reason
        };
        assert_eq!((reason(0.92), reason(0.93)), (Reason::Sticky, Reason::StickyMoved));
    }

    #[test]
    fn a_session_that_was_quiet_longest_is_forgotten() {
        let spec = StickySessionSpec { sessions_remembered: 1, ..Default::default() };
        let mut router = router(PolicySpec::StickySession(spec), 1);
        let reasons = [(0, 7), (1, 7), (2, 8), (3, 7)]
            .map(|(id, session)| router.dispatch(Nanos::ZERO, &turn(id, session, 0)).reason);
        assert_eq!(reasons, [Reason::StickyMoved, Reason::Sticky, Reason::StickyMoved, Reason::StickyMoved]);
    }
}
