//! `production_stack_prefix`: the `prefixaware` routing of vLLM's production-stack: a replica drawn from those that were
//! sent the longest prefix of this prompt; from all of them when nobody was.
//!
//! Sees own history: what it sent. Parameter: `adapter_choice`. Read in vllm-project/production-stack,
//! src/vllm_router/prefix/hashtrie.py and src/vllm_router/routers/routing_logic.py (`PrefixAwareRouter`).
//!
//! Kept faults: no load term, so that prompts with one system prompt make an unbounded hot spot; no eviction, so that it
//! follows prefixes that servers forgot long ago, and its memory grows with the prompts sent; no model name in the key, so
//! that adapters, base and salts alias. Later forks add model names, a load term or a least match; they aren't modelled.
//!
//! Approximations: chunks of 128 characters are blocks of 32 tokens; the last, partial chunk isn't hashed, so that a
//! prompt below 32 tokens is never remembered.

use super::AdapterChoice;
use super::pick::{draw, lowest_by};
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixIndexSpec, PrefixKey, PrefixRules, PrefixUse, Reason,
    RouterContext, RoutingError, RoutingPolicy,
};
use acb_types::{ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

const UNBOUNDED: PrefixIndexSpec = PrefixIndexSpec { block_tokens: 32, capacity_blocks: u64::MAX };

/// What serves a request; where is the policy's own rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProductionStackPrefixSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
}

impl Parameters for ProductionStackPrefixSpec {
    fn name(&self) -> &'static str {
        "production_stack_prefix"
    }
    fn summary(&self) -> &'static str {
        "vLLM production-stack: drawn from the replicas that were sent the longest text prefix, whatever the load"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(ProductionStackPrefix { spec: self.clone(), matches: Vec::new(), holders: Vec::new() }))
    }
}

struct ProductionStackPrefix {
    spec: ProductionStackPrefixSpec,
    matches: Vec<u32>,
    holders: Vec<ReplicaId>,
}

impl RoutingPolicy for ProductionStackPrefix {
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
        state.prefix_match_all(None, request, &mut self.matches);
        let (matches, holders) = (&self.matches, &mut self.holders);
        lowest_by(state.replicas.iter().map(|v| v.id), |r| Reverse(matches[r.index()]), holders);
        let replica = draw(holders, rng);
        let matched = matches[replica.index()] > 0;
        let reason = if matched { Reason::PrefixMatch } else { Reason::PrefixMiss };
        Decision { replica, adapter, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{prompt, request, router};
    use crate::{PolicySpec, Router};
    use acb_types::Nanos;

    fn prefix_router(replicas: u32) -> Router {
        router(PolicySpec::ProductionStackPrefix(Default::default()), replicas)
    }

    fn shared(id: u64, task: u32) -> Request {
        Request { prompt: prompt(&[(1, 32), (100 + id, 500)]), ..request(id, task, 1) }
    }

    #[test]
    fn one_shared_chunk_sends_everything_to_one_replica_without_bound() {
        let mut router = prefix_router(8);
        let first = router.dispatch(Nanos::ZERO, &shared(0, 0));
        assert_eq!(first.reason, Reason::PrefixMiss);
        for id in 1..300 {
            let next = router.dispatch(Nanos::ZERO, &shared(id, 0));
            assert_eq!((next.replica, next.reason), (first.replica, Reason::PrefixMatch));
        }
        assert_eq!(router.state().replicas[first.replica.index()].in_flight, 300);
    }

    #[test]
    fn adapters_and_base_alias() {
        let mut router = prefix_router(8);
        let under_adapter = router.dispatch(Nanos::ZERO, &shared(0, 0));
        let under_another = router.dispatch(Nanos::ZERO, &shared(1, 3));
        assert_ne!(under_adapter.adapter, under_another.adapter);
        assert_eq!(under_another.replica, under_adapter.replica, "no server shares this prefix between them");
        assert_eq!(under_another.reason, Reason::PrefixMatch);
    }

    #[test]
    fn prompts_that_share_nothing_are_spread_by_chance() {
        let mut router = prefix_router(4);
        let mut counts = [0; 4];
        for id in 0..4_000 {
            counts[router.dispatch(Nanos::ZERO, &request(id, 0, 64)).replica.index()] += 1;
        }
        assert!(counts.iter().all(|n| (900..1_100).contains(n)), "{counts:?}");
    }
}
