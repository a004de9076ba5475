//! `static_partition`: each adapter is assigned to `replicas_per_adapter` replicas once and for all, by chance, and a
//! request goes to one of its adapter's replicas, drawn uniformly. Base is assigned to all.
//!
//! Sees nothing. Parameters: `adapter_choice`, `replicas_per_adapter`. The usual placement by hand, with affinity and
//! without thought: adapters in an order drawn from the seed are dealt to replicas in an order drawn from the seed, so
//! that replicas hold equally many adapters to within one.
//!
//! Known fault, kept: it deals adapters and not their load. The replica of a popular adapter is buried while the others
//! idle, and nobody ever moves.

use super::AdapterChoice;
use super::parameter::Parameter;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{AdapterId, ReplicaId, Request, Seed, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How widely adapters are placed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StaticPartitionSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Replicas that each adapter is assigned to, at least 1; all of them when there are fewer.
    pub replicas_per_adapter: u32,
}

impl Default for StaticPartitionSpec {
    fn default() -> Self {
        Self { adapter_choice: AdapterChoice::default(), replicas_per_adapter: 1 }
    }
}

impl Parameters for StaticPartitionSpec {
    fn name(&self) -> &'static str {
        "static_partition"
    }
    fn summary(&self) -> &'static str {
        "each adapter is assigned to its own replicas once and for all; drawn among them"
    }
    fn information(&self) -> Information {
        Information::Nothing
    }
    fn check(&self) -> Result<(), RoutingError> {
        let (owner, value) = (self.name(), self.replicas_per_adapter.into());
        Parameter { owner, parameter: "replicas_per_adapter", value }.positive_count()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        let copies = self.replicas_per_adapter.min(context.replicas);
        let deal = Deal::new(context.adapters.len() as u32, context.replicas, context.seed);
        Ok(Box::new(StaticPartition { spec: self.clone(), copies, deal }))
    }
}

struct StaticPartition {
    spec: StaticPartitionSpec,
    copies: u32,
    deal: Deal,
}

/// Two drawn orders.
struct Deal {
    /// For each adapter, its position in the order in which adapters are dealt.
    positions: Vec<usize>,
    /// Replicas in the order in which they are dealt to.
    replicas: Vec<ReplicaId>,
}

impl Deal {
    fn new(adapters: u32, replicas: u32, seed: Seed) -> Self {
        let mut stream = seed.child("routing").stream("static_partition placement");
        let mut positions: Vec<usize> = (0..adapters as usize).collect();
        let mut replicas: Vec<ReplicaId> = (0..replicas).map(ReplicaId).collect();
        stream.shuffle(&mut positions);
        stream.shuffle(&mut replicas);
        Self { positions, replicas }
    }

    /// The `copy`-th replica of the adapter when each has so many `copies`.
    fn replica(&self, adapter: AdapterId, copies: u32, copy: u64) -> ReplicaId {
        let dealt = self.positions[adapter.index()] * copies as usize + copy as usize;
        self.replicas[dealt % self.replicas.len()]
    }
}

impl RoutingPolicy for StaticPartition {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let replica = match adapter {
            None => self.deal.replicas[rng.below(state.replicas.len() as u64) as usize],
            Some(adapter) => self.deal.replica(adapter, self.copies, rng.below(self.copies.into())),
        };
        Decision { replica, adapter, reason: Reason::Partition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{request, router};
    use crate::{PolicySpec, Router};
    use acb_types::Nanos;
    use std::collections::BTreeSet;

    fn partition(replicas_per_adapter: u32, adapter_choice: AdapterChoice, replicas: u32) -> Router {
        let spec = StaticPartitionSpec { replicas_per_adapter, adapter_choice };
        router(PolicySpec::StaticPartition(spec), replicas)
    }

    fn places(router: &mut Router, task: u32, from: u64) -> BTreeSet<ReplicaId> {
        let place = |id| router.dispatch(Nanos::ZERO, &request(id, task, 1)).replica;
        (from..from + 100).map(place).collect()
    }

    #[test]
    fn an_adapter_stays_on_its_own_replicas_however_many_requests_wait_there() {
        let mut router = partition(1, AdapterChoice::Specialist, 4);
        let homes: Vec<_> = (0..4).map(|task| places(&mut router, task, u64::from(task) * 100)).collect();
        assert!(homes.iter().all(|home| home.len() == 1), "{homes:?}");
        let hottest = *homes[0].first().unwrap();
        assert_eq!(places(&mut router, 0, 400), homes[0]);
        assert!(router.state().replicas[hottest.index()].in_flight >= 200);
        assert!(router.state().replicas.iter().any(|view| view.in_flight <= 100), "nobody moves");
    }

    #[test]
    fn replicas_hold_equally_many_adapters_to_within_one() {
        for (adapters, replicas, copies) in [(5, 4, 1), (5, 3, 2), (64, 7, 3), (2, 8, 1)] {
            let deal = Deal::new(adapters, replicas, Seed(3));
            let mut held = vec![BTreeSet::new(); replicas as usize];
            for adapter in (0..adapters).map(AdapterId) {
                for copy in 0..copies {
                    held[deal.replica(adapter, copies, copy.into()).index()].insert(adapter);
                }
            }
            let counts: Vec<_> = held.iter().map(BTreeSet::len).collect();
            let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert_eq!(counts.iter().sum::<usize>(), (adapters * copies) as usize, "copies lie apart");
            assert!(high - low <= 1, "{counts:?}");
        }
    }

    #[test]
    fn base_and_an_adapter_with_more_copies_than_replicas_are_everywhere() {
        let everywhere: BTreeSet<_> = (0..3).map(ReplicaId).collect();
        assert_eq!(places(&mut partition(1, AdapterChoice::Base, 3), 0, 0), everywhere);
        assert_eq!(places(&mut partition(9, AdapterChoice::Specialist, 3), 0, 0), everywhere);
    }
}
