//! `base`: the base model always, on the replica with the fewest requests in flight.
//!
//! Sees own history. No parameters. The floor of quality and of serving cost: no adapter is ever loaded.

use super::AdapterChoice;
use super::least_in_flight::LeastInFlight;
use crate::spec::Parameters;
use crate::{Information, RouterContext, RoutingError, RoutingPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaseSpec {}

impl Parameters for BaseSpec {
    fn name(&self) -> &'static str {
        "base"
    }
    fn summary(&self) -> &'static str {
        "base model always; replica with the fewest requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, _: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        let choice = AdapterChoice::Base;
        Ok(Box::new(LeastInFlight { name: self.name(), choice }))
    }
}
