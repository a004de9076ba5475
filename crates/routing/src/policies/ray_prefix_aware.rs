//! `ray_prefix_aware`: Ray Serve's `PrefixCacheAffinityRouter`: among the replicas of the longest match, the shortest
//! queue; when less than a tenth of the prompt is matched, among those with the smallest tree.
//!
//! - Loads are too far apart when `max - min > imbalanced_threshold` in requests in flight. Then it falls back to the
//!   less loaded of two drawn replicas.
//! - Else the replicas of the longest match, when it is at least `match_rate_threshold` of the prompt;
//! - else the replicas with the smallest tree. Of several, the fewest requests in flight, ties to the lowest id.
//!
//! Sees own history: what it sent, and requests in flight. Read in ray-project/ray, python/ray/llm/_internal/serve/
//! routing_policies/prefix_aware/prefix_aware_router.py and prefix_tree.py.
//!
//! Kept faults: the threshold is infinite by default, so that it never falls back and a shared prefix makes an unbounded
//! hot spot; eviction is off by default, so that memory grows with the prompts sent; the key is the text, so that adapters,
//! base and salts alias.
//!
//! Not modelled: `max_ongoing_requests`, above which Ray waits and tries again; multiplexed model ids, by which it prefers
//! the replicas that loaded the adapter; queue lengths that are older than the last dispatch. Approximation: the tree
//! holds tokens in blocks of 16, where the original holds characters.

use super::AdapterChoice;
use super::parameter::Parameter;
use super::pick::lowest_by;
use super::power_of_two::less_loaded_of_two;
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixIndexSpec, PrefixKey, PrefixRules, PrefixUse, Reason,
    RouterContext, RoutingError, RoutingPolicy,
};
use acb_types::{ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

const UNBOUNDED: PrefixIndexSpec = PrefixIndexSpec { block_tokens: 16, capacity_blocks: u64::MAX };

/// The router's own options, under its own names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RayPrefixAwareSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Requests by which the highest load must exceed the lowest for loads to be too far apart; null, the router's own
    /// default, never.
    pub imbalanced_threshold: Option<u32>,
    /// Share of the prompt, 0 to 1, that must be matched for the match to be followed.
    pub match_rate_threshold: f64,
}

impl Default for RayPrefixAwareSpec {
    fn default() -> Self {
        Self {
            adapter_choice: AdapterChoice::default(),
            imbalanced_threshold: None,
            match_rate_threshold: 0.1,
        }
    }
}

impl Parameters for RayPrefixAwareSpec {
    fn name(&self) -> &'static str {
        "ray_prefix_aware"
    }
    fn summary(&self) -> &'static str {
        "Ray Serve: longest text prefix, else the smallest tree; never rebalances by default"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn check(&self) -> Result<(), RoutingError> {
        let (owner, value) = (self.name(), self.match_rate_threshold);
        Parameter { owner, parameter: "match_rate_threshold", value }.share()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(RayPrefixAware { spec: self.clone(), matches: Vec::new(), chosen: Vec::new() }))
    }
}

struct RayPrefixAware {
    spec: RayPrefixAwareSpec,
    matches: Vec<u32>,
    chosen: Vec<ReplicaId>,
}

impl RoutingPolicy for RayPrefixAware {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        PrefixUse::Kept(PrefixRules { size: Some(UNBOUNDED), ..PrefixRules::keyed_by(PrefixKey::Text) })
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        if self.too_far_apart(state) {
            let replica = less_loaded_of_two(state, rng);
            return Decision { replica, adapter, reason: Reason::PowerOfTwo };
        }
        let reason = self.narrow(request, state);
        let shortest = self.chosen.iter().min_by_key(|r| (state.replicas[r.index()].in_flight, **r));
        Decision { replica: *shortest.expect("a cluster has a replica"), adapter, reason }
    }
}

impl RayPrefixAware {
    fn too_far_apart(&self, state: &DispatchState) -> bool {
        let loads = || state.replicas.iter().map(|view| view.in_flight);
        let gap = loads().max().unwrap_or(0) - loads().min().unwrap_or(0);
        self.spec.imbalanced_threshold.is_some_and(|threshold| gap > threshold)
    }

    /// Leaves in `chosen` the replicas among which the shortest queue decides.
    fn narrow(&mut self, request: &Request, state: &DispatchState) -> Reason {
        let ids = || state.replicas.iter().map(|view| view.id);
        state.prefix_match_all(None, request, &mut self.matches);
        let longest = self.matches.iter().max().copied().unwrap_or(0);
        let least = self.spec.match_rate_threshold * f64::from(request.prompt.tokens());
        if longest > 0 && f64::from(longest) >= least {
            lowest_by(ids(), |r| Reverse(self.matches[r.index()]), &mut self.chosen);
            return Reason::PrefixMatch;
        }
        lowest_by(ids(), |r| state.prefix_held_tokens(r), &mut self.chosen);
        Reason::PrefixMiss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{finished, prompt, request, router};
    use crate::{PolicySpec, Router};
    use acb_types::Nanos;

    fn ray(imbalanced_threshold: Option<u32>, replicas: u32) -> Router {
        let spec = RayPrefixAwareSpec { imbalanced_threshold, ..Default::default() };
        router(PolicySpec::RayPrefixAware(spec), replicas)
    }

    fn shared(id: u64, task: u32, shared: u32) -> Request {
        Request { prompt: prompt(&[(1, shared), (100 + id, 288)]), ..request(id, task, 1) }
    }

    fn dispatch(router: &mut Router, request: &Request) -> (u32, Reason) {
        let decision = router.dispatch(Nanos::ZERO, request);
        (decision.replica.0, decision.reason)
    }

    #[test]
    fn by_default_a_shared_prefix_is_never_rebalanced() {
        let mut router = ray(None, 4);
        assert_eq!(dispatch(&mut router, &shared(0, 0, 32)), (0, Reason::PrefixMiss));
        for id in 1..500 {
            assert_eq!(
                dispatch(&mut router, &shared(id, 0, 32)),
                (0, Reason::PrefixMatch),
                "32 of 320 is a tenth"
            );
        }
    }

    #[test]
    fn above_a_finite_threshold_it_falls_back_to_the_less_loaded_of_two() {
        let mut router = ray(Some(2), 2);
        let taken: Vec<_> = (0..5).map(|id| dispatch(&mut router, &shared(id, 0, 64))).collect();
        assert_eq!(taken[..3].iter().map(|t| t.0).collect::<Vec<_>>(), [0, 0, 0]);
        assert_eq!(taken[3], (1, Reason::PowerOfTwo), "3 against 0");
        assert_eq!(
            taken[4],
            (1, Reason::PrefixMatch),
            "3 against 1; both hold it, and 1 has the shorter queue"
        );
    }

    #[test]
    fn below_a_tenth_the_smallest_tree_decides_and_of_equal_trees_the_shorter_queue() {
        let mut router = ray(None, 3);
        assert_eq!(dispatch(&mut router, &request(0, 0, 800)).0, 0);
        assert_eq!(dispatch(&mut router, &request(1, 0, 80)).0, 1);
        assert_eq!(dispatch(&mut router, &request(2, 0, 160)).0, 2);
        router.apply(&finished(0));
        assert_eq!(dispatch(&mut router, &request(3, 0, 80)).0, 1, "though 0 is idle");
        assert_eq!(
            dispatch(&mut router, &request(4, 0, 16)).0,
            2,
            "trees of 160 each: 1 has two in flight, 2 has one"
        );
    }

    #[test]
    fn adapters_alias() {
        let mut router = ray(None, 3);
        dispatch(&mut router, &shared(0, 0, 320));
        assert_eq!(dispatch(&mut router, &shared(1, 2, 320)), (0, Reason::PrefixMatch));
    }
}
