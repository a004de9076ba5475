//! Parameters of policies, which each policy checks itself when it is built: built here once in a small made-up cluster.

use super::ArmSpec;
use super::resolve::Finding;
use acb_routing::{CostModel, PrefixIndexSpec, RouterContext, RoutingError};
use acb_types::{AdapterRole, Adapters, Nanos, Outcomes, QualityTable, Seed, Slo, TaskId};
use std::sync::Arc;

/// The first parameter of an arm's policy that is impossible.
pub(super) fn check_parameters(at: usize, arm: &ArmSpec) -> Option<Finding> {
    match arm.policy.build(&made_up()) {
        Err(RoutingError::Parameter { parameter, value, allowed, .. }) => {
            let pointer = format!("/arms/{at}/policy/{parameter}");
            Some((
                pointer,
                format!("`{parameter}` of `{}` must be {allowed}, not `{value}`", arm.policy.name()),
            ))
        }
        _ => None,
    }
}

fn made_up() -> RouterContext {
    let entries = [("specialist", AdapterRole::Specialist(TaskId(0))), ("multitask", AdapterRole::Multitask)];
    let adapters = Adapters::new(entries.map(|(name, role)| (name.to_string(), 8, 1, role)))
        .expect("two names and one specialist");
    let prior = QualityTable::from_fn(1, adapters.len(), |_, _| 0.5).expect("one half is a quality");
    RouterContext {
        merged: Default::default(),
        replicas: 2,
        adapters: Arc::new(adapters),
        prior: Arc::new(prior.clone()),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(1)), tpot_ns: None, e2e_ns: None },
        costs: CostModel::default(),
        prefix: PrefixIndexSpec::default(),
        seed: Seed(0),
        truth: Some(Outcomes::new(prior, Seed(0))),
    }
}
