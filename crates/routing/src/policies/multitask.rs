//! `multitask`: the multitask adapter always, on the replica with the fewest requests in flight.
//!
//! Sees own history. No parameters. One adapter is resident everywhere and one namespace is cached, at the price of the
//! specialists' quality.

use super::AdapterChoice;
use super::least_in_flight::LeastInFlight;
use crate::spec::Parameters;
use crate::{Information, RouterContext, RoutingError, RoutingPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultitaskSpec {}

impl Parameters for MultitaskSpec {
    fn name(&self) -> &'static str {
        "multitask"
    }
    fn summary(&self) -> &'static str {
        "multitask adapter always; replica with the fewest requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        let choice = AdapterChoice::Multitask;
        choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(LeastInFlight { name: self.name(), choice }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::context;
    use crate::{PolicySpec, Router};
    use acb_types::{AdapterRole, Adapters, TaskId};

    #[test]
    fn a_catalogue_without_a_multitask_adapter_is_refused() {
        let only = [("qa".to_owned(), 8, 1, AdapterRole::Specialist(TaskId(0)))];
        let context = RouterContext { adapters: Adapters::new(only).unwrap().into(), ..context(1) };
        let refused = Router::new(&PolicySpec::Multitask(MultitaskSpec {}), context).err();
        assert_eq!(refused, Some(RoutingError::NoMultitask { policy: "multitask" }));
    }
}
