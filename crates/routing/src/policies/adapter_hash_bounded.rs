//! `adapter_hash_bounded`: a consistent hash of the adapter with bounded loads: the first replica on the ring, from the
//! adapter's place on, that has room.
//!
//! Sees own history. Room is `in_flight < ceil(load_factor * (m + 1) / n)` with `m` requests in flight over `n` replicas
//! (Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with Bounded Loads", SODA 2018), so that somebody always has
//! room. Parameters: `load_factor` (times the mean load, at least 1), `ring_points` (points per replica: 128 keep the
//! arcs of two replicas within about 9 % of each other, one standard deviation), `adapter_choice`. Base is hashed as if
//! it were one more adapter. Lacks any thought of what is really resident.

use super::AdapterChoice;
use super::parameter::Parameter;
use crate::hash::mix;
use crate::spec::Parameters;
use crate::{Decision, DispatchState, Information, Reason, RouterContext, RoutingError, RoutingPolicy};
use acb_types::{AdapterId, ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ring and its bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterHashBoundedSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Highest load of a replica, as a multiple of the mean load; at least 1.
    pub load_factor: f64,
    /// Points of each replica on the ring, at least 1.
    #[schemars(range(min = 1, max = 65_536))]
    pub ring_points: u32,
}

impl Default for AdapterHashBoundedSpec {
    fn default() -> Self {
        Self { adapter_choice: AdapterChoice::default(), load_factor: 1.25, ring_points: 128 }
    }
}

impl Parameters for AdapterHashBoundedSpec {
    fn name(&self) -> &'static str {
        "adapter_hash_bounded"
    }
    fn summary(&self) -> &'static str {
        "consistent hash of the adapter; a full replica spills to the next on the ring"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn check(&self) -> Result<(), RoutingError> {
        let own = |parameter, value| Parameter { owner: self.name(), parameter, value };
        own("load_factor", self.load_factor).at_least_one()?;
        own("ring_points", self.ring_points.into()).positive_count()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(AdapterHashBounded {
            spec: self.clone(),
            ring: ring(context.replicas, self.ring_points),
        }))
    }
}

/// Points and their replicas, ascending.
fn ring(replicas: u32, points: u32) -> Vec<(u64, ReplicaId)> {
    let point = |replica: u32, point: u32| mix(mix(u64::from(replica)) ^ u64::from(point));
    let of = |r| (0..points).map(move |p| (point(r, p), ReplicaId(r)));
    let mut ring: Vec<_> = (0..replicas).flat_map(of).collect();
    ring.sort_unstable();
    ring
}

struct AdapterHashBounded {
    spec: AdapterHashBoundedSpec,
    ring: Vec<(u64, ReplicaId)>,
}

impl AdapterHashBounded {
    fn place(&self, adapter: Option<AdapterId>, state: &DispatchState) -> (ReplicaId, Reason) {
        let in_flight: u64 = state.replicas.iter().map(|v| u64::from(v.in_flight)).sum();
        let mean = (in_flight + 1) as f64 / state.replicas.len() as f64;
        let bound = (self.spec.load_factor * mean).ceil();
        // The adapter's own key must not be the key of a replica's point.
        let key = mix(!adapter.map_or(0, |a| 1 + u64::from(a.0)));
        let first = self.ring.partition_point(|&(point, _)| point < key);
        let (after, before) = (&self.ring[first..], &self.ring[..first]);
        for (step, &(_, replica)) in after.iter().chain(before).enumerate() {
            if f64::from(state.replicas[replica.index()].in_flight) < bound {
                return (replica, if step == 0 { Reason::Hash } else { Reason::HashSpilled });
            }
        }
        unreachable!("not every replica can be above a bound that is at least the mean")
    }
}

impl RoutingPolicy for AdapterHashBounded {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let (replica, reason) = self.place(adapter, state);
        Decision { replica, adapter, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{request, router};
    use acb_types::Nanos;

    fn bounded(load_factor: f64) -> PolicySpec {
        PolicySpec::AdapterHashBounded(AdapterHashBoundedSpec { load_factor, ..Default::default() })
    }

    #[test]
    fn an_adapter_stays_on_its_replica_until_the_bound_and_then_spills() {
        let mut router = router(bounded(1.25), 4);
        let mut route = |id| {
            let decision = router.dispatch(Nanos::ZERO, &request(id, 0, 1));
            (decision.replica, decision.reason)
        };
        let (home, reason) = route(0);
        assert_eq!(reason, Reason::Hash);
        // Bound for the second: ceil(1.25 * 2 / 4) = 1, and home has 1.
        let (next, reason) = route(1);
        assert_eq!(reason, Reason::HashSpilled);
        assert_ne!(next, home);
        // For the third: ceil(1.25 * 3 / 4) = 1; for the fourth: ceil(1.25 * 4 / 4) = 2, so home has room again.
        assert_eq!(route(2).1, Reason::HashSpilled);
        assert_eq!(route(3), (home, Reason::Hash));
    }

    #[test]
    fn no_replica_ever_holds_more_than_the_bound() {
        for (load_factor, ring_points) in [(1.0, 1), (1.0, 128), (1.25, 128), (2.0, 128)] {
            let spec = AdapterHashBoundedSpec { load_factor, ring_points, ..Default::default() };
            let mut router = router(PolicySpec::AdapterHashBounded(spec), 7);
            for id in 0..500 {
                router.dispatch(Nanos::ZERO, &request(id, (id % 3) as u32, 1));
                let bound = (load_factor * (id + 1) as f64 / 7.0).ceil();
                assert!(router.state().replicas.iter().all(|v| f64::from(v.in_flight) <= bound));
            }
        }
    }

    #[test]
    fn the_arcs_of_the_ring_are_about_equal() {
        let (replicas, points) = (8, 128);
        let ring = ring(replicas, points);
        let mut shares = vec![0.0; replicas as usize];
        let mut before = ring[ring.len() - 1].0;
        for (point, replica) in ring {
            shares[replica.index()] += point.wrapping_sub(before) as f64 / 2f64.powi(64);
            before = point;
        }
        assert!(shares.iter().all(|s| (0.125 * 0.65..0.125 * 1.35).contains(s)), "{shares:?}");
    }
}
