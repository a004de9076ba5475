//! The *what* of policies that only decide *where*, and the candidates of those that weigh both.

use crate::RoutingError;
use acb_types::{AdapterId, Adapters, QualityTable, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which adapter serves a request when the policy only chooses the replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterChoice {
    /// The task's specialist, else the multitask adapter, else the base model.
    #[default]
    Specialist,
    /// The multitask adapter.
    Multitask,
    /// The base model.
    Base,
}

impl AdapterChoice {
    /// The adapter for a request (none: base); the one that the client named comes first.
    pub(crate) fn of(self, request: &Request, adapters: &Adapters) -> Option<AdapterId> {
        request.required_adapter.or_else(|| match self {
            Self::Specialist => adapters.specialist(request.task).or(adapters.multitask()),
            Self::Multitask => adapters.multitask(),
            Self::Base => None,
        })
    }

    /// # Errors
    /// When the choice needs a multitask adapter and there is none.
    pub(crate) fn check(self, policy: &'static str, adapters: &Adapters) -> Result<(), RoutingError> {
        match self {
            Self::Multitask if adapters.multitask().is_none() => Err(RoutingError::NoMultitask { policy }),
            _ => Ok(()),
        }
    }
}

/// What may serve a request: base, the task's specialist and the multitask adapter in ascending order, or only the
/// adapter that the client named.
pub(crate) fn candidates(request: &Request, adapters: &Adapters) -> impl Iterator<Item = Option<AdapterId>> {
    let list = match request.required_adapter {
        Some(required) => [Some(Some(required)), None, None],
        None => {
            let (a, b) = (adapters.specialist(request.task), adapters.multitask());
            let (low, high) = if b < a && b.is_some() || a.is_none() { (b, a) } else { (a, b) };
            [Some(None), low.map(Some), high.map(Some)]
        }
    };
    list.into_iter().flatten()
}

/// The candidate that the prior thinks best; ties go to the lowest, base lowest of all.
pub(crate) fn best_by_prior(
    request: &Request,
    adapters: &Adapters,
    prior: &QualityTable,
) -> Option<AdapterId> {
    let mut best: Option<(f64, Option<AdapterId>)> = None;
    for adapter in candidates(request, adapters) {
        let quality = prior.expected(request.task, adapter);
        if best.is_none_or(|(highest, _)| quality > highest) {
            best = Some((quality, adapter));
        }
    }
    best.expect("there is always a candidate").1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{adapters, request};

    #[test]
    fn candidates_are_base_then_adapters_in_ascending_order() {
        let adapters = adapters(2);
        let seen: Vec<_> = candidates(&request(0, 1, 10), &adapters).collect();
        assert_eq!(seen, [None, Some(AdapterId(1)), Some(AdapterId(2))]);
    }

    #[test]
    fn a_multitask_adapter_that_comes_first_in_the_catalogue_is_the_first_candidate() {
        use acb_types::{AdapterRole, TaskId};
        let roles = [AdapterRole::Multitask, AdapterRole::Specialist(TaskId(0))];
        let named = roles.iter().enumerate().map(|(i, &role)| (i.to_string(), 8, 1, role));
        let seen: Vec<_> = candidates(&request(0, 0, 10), &Adapters::new(named).unwrap()).collect();
        assert_eq!(seen, [None, Some(AdapterId(0)), Some(AdapterId(1))]);
    }

    #[test]
    fn a_task_without_a_specialist_falls_to_the_multitask_adapter() {
        let adapters = adapters(2);
        let orphan = request(0, 9, 10);
        assert_eq!(AdapterChoice::Specialist.of(&orphan, &adapters), adapters.multitask());
        assert_eq!(candidates(&orphan, &adapters).collect::<Vec<_>>(), [None, adapters.multitask()]);
    }

    #[test]
    fn the_adapter_that_the_client_named_is_the_only_candidate() {
        let mut named = request(0, 0, 10);
        named.required_adapter = Some(AdapterId(1));
        assert_eq!(candidates(&named, &adapters(2)).collect::<Vec<_>>(), [Some(AdapterId(1))]);
        assert_eq!(AdapterChoice::Base.of(&named, &adapters(2)), Some(AdapterId(1)));
    }
}
