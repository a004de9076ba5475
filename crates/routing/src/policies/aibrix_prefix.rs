//! `aibrix_prefix`: AIBrix's `prefix-cache` routing: the replica of the highest match that isn't busier than others by
//! more than a standard deviation, else the fewest requests in flight.
//!
//! - When `max - min > imbalance_abs` in requests in flight, only the least loaded replicas may be matched.
//! - Among replicas with a match, by falling percentage of the prompt and then by rising load, the first whose load is
//!   at most the mean plus `standard_deviation_factor` standard deviations (of the whole cluster).
//! - Else the least loaded. Ties are drawn.
//!
//! Sees own history: what it sent, and requests in flight. Read in vllm-project/aibrix, pkg/plugins/gateway/algorithms/
//! prefix_cache.go and pkg/utils/prefixcacheindexer. A later version calls loads apart when
//! `max > 2 * (mean + 1)` and `max - min >= 8`; this arm keeps the rule before it. That the deviation is the
//! population's was not verified.
//!
//! Kept faults: the key is the model's name, which is the adapter's, without the salt; with `index: kv_sync` the LoRA id
//! is a constant, so that adapters alias. A match of 1 % is followed as one of 100 % is.
//!
//! Approximations: blocks of 16 tokens (4 bytes of text in the original's default); its 200,000 blocks are shared by all
//! replicas there and are each replica's own here; entries of 20 minutes' age aren't dropped. `kv_sync` reads the
//! servers' cache events in the original and what was sent here.

use super::AdapterChoice;
use super::parameter::Parameter;
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

const SIZE: PrefixIndexSpec = PrefixIndexSpec { block_tokens: 16, capacity_blocks: 200_000 };

/// Which of the router's two indexes is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AibrixIndex {
    /// The router's own, keyed by the adapter's name.
    #[default]
    Local,
    /// The one that is fed by cache events, in which adapters alias.
    KvSync,
}

/// The router's own options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AibrixPrefixSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Requests by which the highest load must exceed the lowest for only the least loaded to be matched.
    pub imbalance_abs: u32,
    /// Standard deviations above the mean load that a matched replica may have, at least 0.
    pub standard_deviation_factor: f64,
    /// Which of the router's two indexes is used.
    pub index: AibrixIndex,
}

impl Default for AibrixPrefixSpec {
    fn default() -> Self {
        Self {
            adapter_choice: AdapterChoice::default(),
            imbalance_abs: 8,
            standard_deviation_factor: 1.0,
            index: AibrixIndex::default(),
        }
    }
}

impl Parameters for AibrixPrefixSpec {
    fn name(&self) -> &'static str {
        "aibrix_prefix"
    }
    fn summary(&self) -> &'static str {
        "AIBrix: highest prefix match within one standard deviation of the mean load, else the least loaded"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn check(&self) -> Result<(), RoutingError> {
        let (owner, value) = (self.name(), self.standard_deviation_factor);
        Parameter { owner, parameter: "standard_deviation_factor", value }.at_least_zero()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(AibrixPrefix { spec: self.clone(), matches: Vec::new(), tied: Vec::new() }))
    }
}

struct AibrixPrefix {
    spec: AibrixPrefixSpec,
    matches: Vec<u32>,
    tied: Vec<ReplicaId>,
}

/// Requests in flight over the cluster.
struct Loads {
    min: u32,
    max: u32,
    mean: f64,
    deviation: f64,
}

impl RoutingPolicy for AibrixPrefix {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        let key = match self.spec.index {
            AibrixIndex::Local => PrefixKey::Adapter,
            AibrixIndex::KvSync => PrefixKey::Text,
        };
        PrefixUse::Kept(PrefixRules { size: Some(SIZE), ..PrefixRules::keyed_by(key) })
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        state.prefix_match_all(adapter, request, &mut self.matches);
        let (loads, ids) = (Loads::of(state), || state.replicas.iter().map(|view| view.id));
        let load = |r: ReplicaId| state.replicas[r.index()].in_flight;
        let apart = loads.max - loads.min > self.spec.imbalance_abs;
        let bound = loads.mean + self.spec.standard_deviation_factor * loads.deviation;
        let matches = &self.matches;
        let matched = |r: &ReplicaId| matches[r.index()] > 0 && (!apart || load(*r) == loads.min);
        let percent = |r: ReplicaId| u64::from(matches[r.index()]) * 100 / u64::from(request.prompt.tokens());
        let followed = ids().filter(matched).filter(|&r| f64::from(load(r)) <= bound);
        lowest_by(followed, |r| (Reverse(percent(r)), load(r)), &mut self.tied);
        let reason = match self.tied.is_empty() {
            false => Reason::PrefixMatch,
            true if ids().any(|r| matched(&r)) => Reason::PrefixDeclined,
            true if apart => Reason::LoadImbalance,
            true => Reason::PrefixMiss,
        };
        if self.tied.is_empty() {
            lowest_by(ids(), load, &mut self.tied);
        }
        Decision { replica: draw(&self.tied, rng), adapter, reason }
    }
}

impl Loads {
    fn of(state: &DispatchState) -> Self {
        let loads = || state.replicas.iter().map(|view| view.in_flight);
        let n = state.replicas.len() as f64;
        let mean = loads().map(f64::from).sum::<f64>() / n;
        let variance = loads().map(|load| (f64::from(load) - mean).powi(2)).sum::<f64>() / n;
        let (min, max) = (loads().min().unwrap_or(0), loads().max().unwrap_or(0));
        Self { min, max, mean, deviation: variance.sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{prompt, request, router};
    use crate::{PolicySpec, Router};
    use acb_types::{AdapterId, Nanos};

    fn aibrix(spec: AibrixPrefixSpec, replicas: u32) -> Router {
        router(PolicySpec::AibrixPrefix(spec), replicas)
    }

    fn shared(id: u64, task: u32, shared: u32) -> Request {
        Request { prompt: prompt(&[(1, shared), (100 + id, 160)]), ..request(id, task, 1) }
    }

    fn dispatch(router: &mut Router, request: &Request) -> (u32, Reason) {
        let decision = router.dispatch(Nanos::ZERO, request);
        (decision.replica.0, decision.reason)
    }

    #[test]
    fn a_holder_is_followed_until_it_is_a_deviation_above_the_mean() {
        let mut router = aibrix(AibrixPrefixSpec::default(), 3);
        let (home, reason) = dispatch(&mut router, &shared(0, 0, 160));
        assert_eq!(reason, Reason::PrefixMiss);
        // Loads of 1, 0, 0: the mean is 1/3 and the deviation sqrt(2)/3, so 1 is above 0.80.
        let (second, reason) = dispatch(&mut router, &shared(1, 0, 160));
        assert_eq!(reason, Reason::PrefixDeclined);
        assert_ne!(second, home);
        // Loads of 1, 1, 0: the mean is 2/3 and the deviation sqrt(2)/3, so 1 is within 1.14.
        assert_eq!(dispatch(&mut router, &shared(2, 0, 160)).1, Reason::PrefixMatch);
    }

    #[test]
    fn of_equal_matches_the_less_loaded_is_followed_and_a_match_of_five_percent_beats_idle_replicas() {
        let spec = AibrixPrefixSpec { standard_deviation_factor: 100.0, ..Default::default() };
        let mut router = aibrix(spec, 4);
        let (home, _) = dispatch(&mut router, &shared(0, 0, 16));
        for id in 1..9 {
            assert_eq!(dispatch(&mut router, &shared(id, 0, 16)), (home, Reason::PrefixMatch), "16 of 176");
        }
        // 9 against 0: only the idle ones may be matched, and none of them holds it.
        let (other, reason) = dispatch(&mut router, &shared(9, 0, 16));
        assert_eq!(reason, Reason::LoadImbalance);
        assert_ne!(other, home);
        // Still 9 against 0, and the other holder has one in flight, which is not the least.
        assert_eq!(dispatch(&mut router, &shared(10, 0, 16)).1, Reason::LoadImbalance);
    }

    #[test]
    fn adapters_alias_only_when_the_index_is_fed_by_cache_events() {
        for (index, reason) in
            [(AibrixIndex::Local, Reason::PrefixMiss), (AibrixIndex::KvSync, Reason::PrefixMatch)]
        {
            let spec = AibrixPrefixSpec { index, standard_deviation_factor: 9.0, ..Default::default() };
            let mut router = aibrix(spec, 2);
            dispatch(&mut router, &shared(0, 0, 160));
            let decision = router.dispatch(Nanos::ZERO, &shared(1, 1, 160));
            assert_eq!((decision.adapter, decision.reason), (Some(AdapterId(1)), reason));
        }
    }

    #[test]
    fn without_a_match_ties_are_drawn() {
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let context = crate::RouterContext { seed: acb_types::Seed(seed), ..crate::testing::context(4) };
            let spec = PolicySpec::AibrixPrefix(AibrixPrefixSpec::default());
            let mut router = Router::new(&spec, context).unwrap();
            firsts.insert(dispatch(&mut router, &request(0, 0, 100)).0);
        }
        assert!(firsts.len() > 1, "{firsts:?}");
    }
}
