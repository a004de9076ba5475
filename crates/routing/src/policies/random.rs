//! `random`: a replica drawn uniformly from the router's stream.
//!
//! Sees nothing. Parameter: `adapter_choice`. A sanity arm: any policy that sees something should beat it under load.

use super::AdapterChoice;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What serves a request; where is the policy's own rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RandomSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
}

impl Parameters for RandomSpec {
    fn name(&self) -> &'static str {
        "random"
    }
    fn summary(&self) -> &'static str {
        "a replica drawn uniformly at random"
    }
    fn information(&self) -> Information {
        Information::Nothing
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(Random { spec: self.clone() }))
    }
}

struct Random {
    spec: RandomSpec,
}

impl RoutingPolicy for Random {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let replica = ReplicaId(rng.below(state.replicas.len() as u64) as u32);
        Decision { replica, adapter, reason: Reason::Random }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{request, router};
    use acb_types::Nanos;

    #[test]
    fn replicas_are_drawn_about_equally_often() {
        let mut router = router(PolicySpec::Random(RandomSpec::default()), 4);
        let mut counts = [0; 4];
        for id in 0..4_000 {
            counts[router.dispatch(Nanos::ZERO, &request(id, 0, 1)).replica.index()] += 1;
        }
        assert!(counts.iter().all(|n| (900..1_100).contains(n)), "{counts:?}");
    }
}
