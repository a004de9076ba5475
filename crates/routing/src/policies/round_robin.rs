//! `round_robin`: replicas in turn, from the lowest id.
//!
//! Sees nothing. Parameter: `adapter_choice`. Balances counts of requests, not their work.

use super::AdapterChoice;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What serves a request; where is the policy's own rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoundRobinSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
}

impl Parameters for RoundRobinSpec {
    fn name(&self) -> &'static str {
        "round_robin"
    }
    fn summary(&self) -> &'static str {
        "replicas in turn, from the lowest id"
    }
    fn information(&self) -> Information {
        Information::Nothing
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(RoundRobin { spec: self.clone(), next: 0 }))
    }
}

struct RoundRobin {
    spec: RoundRobinSpec,
    next: usize,
}

impl RoutingPolicy for RoundRobin {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let replica = ReplicaId(self.next as u32);
        self.next = (self.next + 1) % state.replicas.len();
        Decision { replica, adapter, reason: Reason::RoundRobin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{request, router};
    use acb_types::Nanos;

    #[test]
    fn replicas_take_turns() {
        let mut router = router(PolicySpec::RoundRobin(RoundRobinSpec::default()), 3);
        let turns = (0..5).map(|id| router.dispatch(Nanos::ZERO, &request(id, 0, 1)).replica.0);
        assert_eq!(turns.collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }
}
