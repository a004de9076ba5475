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
        PrefixUse::PerAdapter
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
