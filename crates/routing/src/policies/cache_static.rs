//! `cache_static`: the adapter that the prior thinks best for the task (of base, specialist, multitask) on the replica
//! with the longest cached prefix in that adapter's namespace, ties to the lowest id.
//!
//! Sees own history: what it sent where. No parameters. It has no load term, on purpose: once prompts share their first
//! block, everything goes to one replica and stays there. That failure is known of prefix routing in the field (the
//! unbounded hot spots of prefix-aware routers without a load term), and this arm shows its price.

use super::choice::best_by_prior;
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixUse, Reason, RouterContext, RoutingError, RoutingPolicy,
};
use acb_types::{QualityTable, ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// No parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheStaticSpec {}

impl Parameters for CacheStaticSpec {
    fn name(&self) -> &'static str {
        "cache_static"
    }
    fn summary(&self) -> &'static str {
        "best adapter by prior; replica with the longest cached prefix, whatever the load"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        Ok(Box::new(CacheStatic { spec: self.clone(), prior: context.prior.clone(), matches: Vec::new() }))
    }
}

struct CacheStatic {
    spec: CacheStaticSpec,
    prior: Arc<QualityTable>,
    matches: Vec<u32>,
}

impl RoutingPolicy for CacheStatic {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        PrefixUse::PER_ADAPTER
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let adapter = best_by_prior(request, &state.adapters, &self.prior);
        state.prefix_match_all(adapter, request, &mut self.matches);
        let (mut replica, mut longest) = (0, 0);
        for (id, &tokens) in self.matches.iter().enumerate() {
            if tokens > longest {
                (replica, longest) = (id, tokens);
            }
        }
        let reason = if longest > 0 { Reason::PrefixMatch } else { Reason::PrefixMiss };
        Decision { replica: ReplicaId(replica as u32), adapter, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;
    use crate::testing::{prompt, request, router};
    use acb_types::{AdapterId, Nanos};

    #[test]
    fn prompts_that_share_their_first_block_all_go_to_one_replica() {
        let mut router = router(PolicySpec::CacheStatic(CacheStaticSpec {}), 4);
        for id in 0..100 {
            let shared = Request { prompt: prompt(&[(1, 16), (100 + id, 500)]), ..request(id, 0, 1) };
            let decision = router.dispatch(Nanos::ZERO, &shared);
            let reason = if id == 0 { Reason::PrefixMiss } else { Reason::PrefixMatch };
            assert_eq!((decision.replica, decision.reason), (ReplicaId(0), reason));
        }
        assert_eq!(router.state().replicas[0].in_flight, 100);
    }

    #[test]
    fn the_prior_says_what_serves_even_when_it_is_wrong() {
        let mut context = crate::testing::context(1);
        let adversarial = QualityTable::from_fn(4, 5, |_, a| if a == Some(AdapterId(3)) { 0.1 } else { 0.5 });
        context.prior = Arc::new(adversarial.unwrap());
        let mut router = crate::Router::new(&PolicySpec::CacheStatic(CacheStaticSpec {}), context).unwrap();
        assert_eq!(router.dispatch(Nanos::ZERO, &request(0, 3, 10)).adapter, None, "ties go to base");
    }
}
