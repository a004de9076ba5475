//! `semantic`: the specialist of the request's task, else the multitask adapter, else base; on the replica with the
//! fewest requests in flight.
//!
//! Sees own history. No parameters. What a quality-only classifier in front of a load balancer does: it lacks any thought
//! of where adapters and prefixes lie. The same rule as `least_in_flight` with its default adapter choice.

use super::AdapterChoice;
use super::least_in_flight::LeastInFlight;
use crate::spec::Parameters;
use crate::{Information, RouterContext, RoutingError, RoutingPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticSpec {}

impl Parameters for SemanticSpec {
    fn name(&self) -> &'static str {
        "semantic"
    }
    fn summary(&self) -> &'static str {
        "the task's specialist, else multitask, else base; replica with the fewest requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, _: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        let choice = AdapterChoice::Specialist;
        Ok(Box::new(LeastInFlight { name: self.name(), choice }))
    }
}
