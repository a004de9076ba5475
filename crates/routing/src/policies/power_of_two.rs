//! `power_of_two`: two different replicas drawn uniformly; the one with fewer requests in flight, ties to the lower id.
//!
//! Sees own history. Parameter: `adapter_choice`. d = 2 choices (Mitzenmacher, IEEE TPDS 2001): nearly as level as
//! asking everyone, for the price of asking two. Only the counts of the two are used.

use super::AdapterChoice;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What serves a request; where is the policy's own rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PowerOfTwoSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
}

impl Parameters for PowerOfTwoSpec {
    fn name(&self) -> &'static str {
        "power_of_two"
    }
    fn summary(&self) -> &'static str {
        "the one of two drawn replicas with fewer requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(PowerOfTwo { spec: self.clone() }))
    }
}

struct PowerOfTwo {
    spec: PowerOfTwoSpec,
}

impl RoutingPolicy for PowerOfTwo {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let replica = less_loaded_of_two(state, rng);
        Decision { replica, adapter, reason: Reason::PowerOfTwo }
    }
}

/// Two different replicas drawn uniformly; the one with fewer requests in flight, ties to the lower id.
pub(super) fn less_loaded_of_two(state: &DispatchState, rng: &mut Stream) -> ReplicaId {
    let replicas = state.replicas.len() as u64;
    let first = rng.below(replicas);
    if replicas == 1 {
        return ReplicaId(first as u32);
    }
    let second = (first + 1 + rng.below(replicas - 1)) % replicas;
    let (low, high) = (first.min(second) as usize, first.max(second) as usize);
    let spill = state.replicas[high].in_flight < state.replicas[low].in_flight;
    state.replicas[if spill { high } else { low }].id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{request, router};
    use acb_types::Nanos;

    #[test]
    fn of_two_replicas_it_always_takes_the_less_loaded() {
        let mut router = router(PolicySpec::PowerOfTwo(PowerOfTwoSpec::default()), 2);
        let places = (0..6).map(|id| router.dispatch(Nanos::ZERO, &request(id, 0, 1)).replica.0);
        assert_eq!(places.collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1], "ties go to the lower id");
    }

    #[test]
    fn the_gap_between_replicas_stays_small_without_asking_all() {
        let mut router = router(PolicySpec::PowerOfTwo(PowerOfTwoSpec::default()), 16);
        for id in 0..1_600 {
            router.dispatch(Nanos::ZERO, &request(id, 0, 1));
        }
        let loads: Vec<_> = router.state().replicas.iter().map(|v| v.in_flight).collect();
        let (low, high) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        assert!(
            high - low <= 8,
            "log2 log2 of 16 is 2, and one draw would leave a gap of about 40: {loads:?}"
        );
    }
}
