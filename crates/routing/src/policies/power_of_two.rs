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
        let replica = Self::draw(state, rng);
        Decision { replica, adapter, reason: Reason::PowerOfTwo }
    }
}

impl PowerOfTwo {
    fn draw(state: &DispatchState, rng: &mut Stream) -> ReplicaId {
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
}
