//! `least_in_flight`: the replica with the fewest requests in flight, ties to the lowest id.
//!
//! Sees own history. Parameter: `adapter_choice`. With the default choice it is the same rule as `semantic`. Counts
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
        Decision { replica: state.least_in_flight(), adapter, reason: Reason::LeastInFlight }
    }
}
