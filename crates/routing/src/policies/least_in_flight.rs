//! `least_in_flight`: the replica with the fewest requests in flight, ties to the lowest id.
//!
//! Sees own history, and passes over replicas that can't serve the adapter. Parameter: `adapter_choice`. With the default choice it is the same rule as `semantic`. Counts
//! requests, not their work, and lacks any thought of adapters and prefixes.

use super::AdapterChoice;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What serves a request; where is the policy's own rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LeastInFlightSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
}

impl Parameters for LeastInFlightSpec {
    fn name(&self) -> &'static str {
        "least_in_flight"
    }
    fn summary(&self) -> &'static str {
        "replica with the fewest requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(LeastInFlight { name: self.name(), choice: self.adapter_choice }))
    }
}

/// One *what* for all requests on the least loaded replica: `base`, `semantic` and `multitask` too.
pub(super) struct LeastInFlight {
    pub(super) name: &'static str,
    pub(super) choice: AdapterChoice,
}

impl RoutingPolicy for LeastInFlight {
    fn name(&self) -> &'static str {
        self.name
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let adapter = self.choice.of(request, &state.adapters);
        Decision { replica: state.least_in_flight_serving(adapter), adapter, reason: Reason::LeastInFlight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{finished, request, router};
    use acb_types::{AdapterId, Nanos, ReplicaId};

    #[test]
    fn the_replica_whose_request_ended_is_next() {
        let mut router = router(PolicySpec::LeastInFlight(LeastInFlightSpec::default()), 3);
        let places = (0..3).map(|id| router.dispatch(Nanos::ZERO, &request(id, 0, 1)).replica.0);
        assert_eq!(places.collect::<Vec<_>>(), [0, 1, 2]);
        router.apply(&finished(1));
        assert_eq!(router.dispatch(Nanos::ZERO, &request(3, 0, 1)).replica, ReplicaId(1));
    }

    #[test]
    fn the_arms_that_share_its_rule_differ_in_what_serves() {
        let served = |spec| router(spec, 2).dispatch(Nanos::ZERO, &request(0, 2, 1)).adapter;
        assert_eq!(served(PolicySpec::Base(Default::default())), None);
        assert_eq!(served(PolicySpec::Semantic(Default::default())), Some(AdapterId(2)));
        assert_eq!(served(PolicySpec::Multitask(Default::default())), Some(AdapterId(4)));
        assert_eq!(served(PolicySpec::LeastInFlight(Default::default())), Some(AdapterId(2)));
    }
}
