//! `dynamo_cost`: the KV router of NVIDIA Dynamo 1.6.1 for replicas that both prefill and decode: the lowest cost in KV
//! blocks, drawn by a softmax when `temperature` is above 0.
//!
//! `cost = prefill_load_scale * max(0, (active prefill tokens + prompt tokens) / block - overlap_credit * overlap)
//! + decode blocks + active_request_weight * requests in flight`, where
//! - active prefill tokens: prompt tokens less cached ones of requests without a first token;
//! - overlap: the prompt's blocks that are cached under its adapter;
//! - decode blocks: distinct blocks of the prompts in flight, this one's included.
//!
//! At temperature 0 the lowest, ties drawn; else one with a chance in proportion to
//! `exp(-(cost - min) / ((max - min) * temperature))`. Of an adapter's requests only replicas that hold the adapter, on
//! the GPU or in host memory, are candidates; all of them when nobody does (the filter is soft).
//!
//! Sees own history and, for the filter, state scraped every `scrape_interval_ms` (50; 0: true state). Read in
//! ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/reference.rs and lora_filter.rs, lib/kv-router/src/sequences.
//!
//! Kept faults: independent requests that share a system prompt starve the replicas that haven't seen it (as issue 7836
//! reports; a part of that was a registration fault, mended in 7919); equal costs, as of a cold cluster, are drawn (3581);
//! the filter sends an adapter to its one holder however long the queue there, until somebody else loads it.
//!
//! Approximations: cached blocks are what was sent, as without cache events, and are forgotten when the index is full and
//! not after 120 s; host and disk tiers, shared caches, decay of the credit, and blocks of answers (off by default) have
//! no counterpart; the holders, which workers announce, are those of the last scrape.

use super::AdapterChoice;
use super::epp::scraped;
use super::parameter::{Parameter, check_interval, scraped_every};
use super::pick::draw;
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixKey, PrefixRules, PrefixUse, Reason, ReplicaView,
    RouterContext, RouterEvent, RoutingError, RoutingPolicy,
};
use acb_types::{AdapterId, ReplicaId, Request, RequestId, Stream};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const KEY: PrefixKey = PrefixKey::Adapter;

/// Weights of the cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DynamoCostSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Milliseconds between scrapes of every server; 0 is the state as it is, which only a simulator can give.
    pub scrape_interval_ms: f64,
    /// Prefill blocks that one cached block saves, at least 0.
    pub overlap_credit: f64,
    /// Times that a prefill block counts as much as a decode block, at least 0.
    pub prefill_load_scale: f64,
    /// Blocks that a request in flight counts as, at least 0.
    pub active_request_weight: f64,
    /// Temperature of the softmax over costs that are scaled to a range of 1; 0 takes the lowest.
    pub temperature: f64,
}

impl Default for DynamoCostSpec {
    fn default() -> Self {
        Self {
            adapter_choice: AdapterChoice::default(),
            scrape_interval_ms: 50.0,
            overlap_credit: 1.0,
            prefill_load_scale: 1.0,
            active_request_weight: 0.0,
            temperature: 0.0,
        }
    }
}

impl Parameters for DynamoCostSpec {
    fn name(&self) -> &'static str {
        "dynamo_cost"
    }
    fn summary(&self) -> &'static str {
        "NVIDIA Dynamo KV router: lowest prefill plus decode blocks among the adapter's holders, or a softmax over it"
    }
    fn information(&self) -> Information {
        scraped_every(self.scrape_interval_ms)
    }
    fn check(&self) -> Result<(), RoutingError> {
        let own = |parameter, value| Parameter { owner: self.name(), parameter, value };
        check_interval(own("scrape_interval_ms", self.scrape_interval_ms))?;
        own("overlap_credit", self.overlap_credit).at_least_zero()?;
        own("prefill_load_scale", self.prefill_load_scale).at_least_zero()?;
        own("active_request_weight", self.active_request_weight).at_least_zero()?;
        own("temperature", self.temperature).at_least_zero()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        Ok(Box::new(DynamoCost {
            spec: self.clone(),
            block_tokens: context.prefix.block_tokens,
            active: Active::new(context.replicas),
            matches: Vec::new(),
            candidates: Vec::new(),
            costs: Vec::new(),
            cheapest: Vec::new(),
        }))
    }
}

struct DynamoCost {
    spec: DynamoCostSpec,
    block_tokens: u32,
    active: Active,
    matches: Vec<u32>,
    candidates: Vec<ReplicaId>,
    /// Of each candidate.
    costs: Vec<f64>,
    cheapest: Vec<ReplicaId>,
}

/// Distinct blocks of the prompts in flight.
struct Active {
    /// How many requests hold a block, by replica.
    holders: Vec<FxHashMap<u64, u32>>,
    requests: FxHashMap<RequestId, (ReplicaId, Vec<u64>)>,
    /// Lists of requests that ended, kept for their memory.
    spare: Vec<Vec<u64>>,
}

impl RoutingPolicy for DynamoCost {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        PrefixUse::Kept(PrefixRules::keyed_by(KEY))
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let blocks = self.active.blocks_of(request, adapter, self.block_tokens);
        self.filter(adapter, state);
        self.weigh(request, adapter, &blocks, state);
        let (replica, reason) = self.pick(rng);
        self.active.start(request.id, replica, blocks);
        Decision { replica, adapter, reason }
    }
    fn observe(&mut self, event: &RouterEvent) {
        if let RouterEvent::Finished { request, .. } = event {
            self.active.end(*request);
        }
    }
}

impl DynamoCost {
    /// Leaves the adapter's holders in `candidates`, or all replicas when there is none.
    fn filter(&mut self, adapter: Option<AdapterId>, state: &DispatchState) {
        let ids = |view: &ReplicaView| view.id;
        self.candidates.clear();
        if let Some(adapter) = adapter {
            let holders = state.replicas.iter().filter(|view| holds(view, adapter));
            self.candidates.extend(holders.map(ids));
        }
        if self.candidates.is_empty() {
            self.candidates.extend(state.replicas.iter().map(ids));
        }
    }

    fn weigh(
        &mut self,
        request: &Request,
        adapter: Option<AdapterId>,
        blocks: &[u64],
        state: &DispatchState,
    ) {
        state.prefix_match_all(adapter, request, &mut self.matches);
        let block_tokens = f64::from(self.block_tokens);
        self.costs.clear();
        for &replica in &self.candidates {
            let view = &state.replicas[replica.index()];
            let tokens = view.pending_prefill_tokens + u64::from(request.prompt.tokens());
            let overlap = f64::from(self.matches[replica.index()]) / block_tokens;
            let prefill = tokens as f64 / block_tokens - self.spec.overlap_credit * overlap;
            self.costs.push(
                self.spec.prefill_load_scale * prefill.max(0.0)
                    + self.active.with(replica, blocks) as f64
                    + self.spec.active_request_weight * f64::from(view.in_flight),
            );
        }
    }

    fn pick(&mut self, rng: &mut Stream) -> (ReplicaId, Reason) {
        if self.spec.temperature > 0.0 {
            return (self.candidates[softmax(&self.costs, self.spec.temperature, rng)], Reason::DrawnByCost);
        }
        let costs = self.candidates.iter().zip(&self.costs);
        let lowest = costs.clone().map(|(_, &cost)| cost).fold(f64::INFINITY, f64::min);
        self.cheapest.clear();
        self.cheapest.extend(costs.filter(|(_, cost)| **cost == lowest).map(|(replica, _)| *replica));
        (draw(&self.cheapest, rng), Reason::LeastCost)
    }
}

/// Whether the replica is known to hold the adapter.
fn holds(view: &ReplicaView, adapter: AdapterId) -> bool {
    let listed = |list: Option<&Vec<AdapterId>>| list.is_some_and(|l| l.binary_search(&adapter).is_ok());
    scraped(view).is_some_and(|s| listed(s.gpu_adapters.as_ref()) || listed(s.cpu_adapters.as_ref()))
}

/// An index drawn with a chance in proportion to `exp(-cost / (range * temperature))`.
fn softmax(costs: &[f64], temperature: f64, rng: &mut Stream) -> usize {
    let (min, max) = costs
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &cost| (low.min(cost), high.max(cost)));
    let weight = |cost: f64| if max > min { ((min - cost) / ((max - min) * temperature)).exp() } else { 1.0 };
    let mut left = rng.unit() * costs.iter().map(|&cost| weight(cost)).sum::<f64>();
    for (at, &cost) in costs.iter().enumerate() {
        left -= weight(cost);
        if left < 0.0 {
            return at;
        }
    }
    costs.len() - 1
}

impl Active {
    fn new(replicas: u32) -> Self {
        let holders = vec![FxHashMap::default(); replicas as usize];
        Self { holders, requests: FxHashMap::default(), spare: Vec::new() }
    }

    fn blocks_of(&mut self, request: &Request, adapter: Option<AdapterId>, block_tokens: u32) -> Vec<u64> {
        let mut blocks = self.spare.pop().unwrap_or_default();
        blocks.clear();
        blocks.extend(request.prompt.block_hashes(KEY.namespace(adapter, request), block_tokens));
        blocks
    }

    /// Distinct blocks on this replica if these were there too.
    fn with(&self, replica: ReplicaId, blocks: &[u64]) -> usize {
        let holders = &self.holders[replica.index()];
        let shared = blocks.iter().take_while(|block| holders.contains_key(block)).count();
        holders.len() + blocks.len() - shared
    }

    fn start(&mut self, request: RequestId, replica: ReplicaId, blocks: Vec<u64>) {
        for &block in &blocks {
            *self.holders[replica.index()].entry(block).or_insert(0) += 1;
        }
        self.requests.insert(request, (replica, blocks));
    }

    fn end(&mut self, request: RequestId) {
        let Some((replica, blocks)) = self.requests.remove(&request) else { return };
        let holders = &mut self.holders[replica.index()];
        for block in &blocks {
            let held = holders.get_mut(block).expect("a block of a request in flight is held");
            *held -= 1;
            if *held == 0 {
                holders.remove(block);
            }
        }
        self.spare.push(blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, finished, prompt, request, scraped};
    use crate::{PolicySpec, ReplicaSnapshot, Router};
    use acb_types::{Nanos, Seed};
    use std::collections::BTreeSet;

    fn dynamo(temperature: f64, replicas: u32) -> Router {
        let spec = DynamoCostSpec { temperature, ..Default::default() };
        Router::new(&PolicySpec::DynamoCost(spec), context(replicas)).unwrap()
    }

    /// 160 tokens (10 blocks) that all such prompts begin with, and 160 of its own.
    fn shared(id: u64) -> Request {
        Request { prompt: prompt(&[(1, 160), (100 + id, 160)]), ..request(id, 0, 1) }
    }

    fn first_token(id: u64) -> RouterEvent {
        RouterEvent::FirstToken { at: Nanos::ZERO, request: RequestId(id) }
    }

    #[test]
    fn cached_blocks_count_until_the_load_outweighs_them() {
        let mut router = dynamo(0.0, 2);
        let warm = router.dispatch(Nanos::ZERO, &shared(0)).replica;
        router.apply(&first_token(0));
        // Warm: prefill 20 - 10, decode 20 + 10. Cold: prefill 20, decode 20.
        let tied: BTreeSet<_> = (0..20)
            .map(|seed| {
                let cluster = RouterContext { seed: Seed(seed), ..context(2) };
                let spec = PolicySpec::DynamoCost(DynamoCostSpec::default());
                let mut router = Router::new(&spec, cluster).unwrap();
                let warm = router.dispatch(Nanos::ZERO, &shared(0)).replica;
                router.apply(&first_token(0));
                router.dispatch(Nanos::ZERO, &shared(1)).replica == warm
            })
            .collect();
        assert_eq!(tied.len(), 2, "40 against 40 is drawn");
        router.apply(&finished(0));
        // Warm: prefill 20 - 10, decode 20. Cold: prefill 20, decode 20.
        assert_eq!(router.dispatch(Nanos::ZERO, &shared(2)).replica, warm, "30 against 40");
        // Warm: prefill (160 + 320) / 16 - 10, decode 20 + 10. Cold: 20 + 20.
        assert_ne!(router.dispatch(Nanos::ZERO, &shared(3)).replica, warm, "50 against 40");
    }

    #[test]
    fn independent_requests_with_one_system_prompt_starve_all_replicas_but_one() {
        let mut router = dynamo(0.0, 5);
        let places: BTreeSet<_> = (0..100)
            .map(|id| {
                let replica = router.dispatch(Nanos::ZERO, &shared(id)).replica;
                router.apply(&finished(id));
                replica
            })
            .collect();
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn the_filter_is_soft_and_sends_an_adapter_to_its_one_holder_whatever_the_queue() {
        let mut router = dynamo(0.0, 3);
        let mut taken = BTreeSet::new();
        for id in 0..3 {
            taken.insert(router.dispatch(Nanos::ZERO, &request(id, 0, 160)).replica);
        }
        assert_eq!(taken.len(), 3, "nobody holds it: all are candidates");
        let holder = ReplicaSnapshot { cpu_adapters: Some(vec![AdapterId(0)]), ..Default::default() };
        router.apply(&scraped(Nanos::ZERO, 2, holder));
        for id in 3..50 {
            assert_eq!(router.dispatch(Nanos::ZERO, &request(id, 0, 160)).replica, ReplicaId(2));
        }
        let other = router.dispatch(Nanos::ZERO, &request(50, 1, 160)).replica;
        assert_ne!(other, ReplicaId(2), "another adapter has no holder and goes to the least loaded");
    }

    #[test]
    fn equal_costs_are_drawn() {
        let mut counts = [0; 4];
        for seed in 0..400 {
            let cluster = RouterContext { seed: Seed(seed), ..context(4) };
            let spec = PolicySpec::DynamoCost(DynamoCostSpec::default());
            let mut router = Router::new(&spec, cluster).unwrap();
            counts[router.dispatch(Nanos::ZERO, &shared(0)).replica.index()] += 1;
        }
        assert!(counts.iter().all(|n| (70..130).contains(n)), "{counts:?}");
    }

    #[test]
    fn the_softmax_is_over_costs_of_range_one() {
        let mut rng = Seed(4).stream("softmax");
        let mut first = 0;
        for _ in 0..10_000 {
            first += u32::from(softmax(&[10.0, 30.0], 0.5, &mut rng) == 0);
        }
        // exp(0) against exp(-1 / 0.5): 0.881.
        assert!((8_700..8_910).contains(&first), "{first}");
        assert_eq!(dynamo(0.5, 2).dispatch(Nanos::ZERO, &shared(0)).reason, Reason::DrawnByCost);
    }

    #[test]
    fn what_ended_holds_no_blocks() {
        let mut active = Active::new(1);
        let blocks = active.blocks_of(&shared(0), None, 16);
        active.start(RequestId(0), ReplicaId(0), blocks.clone());
        let other = active.blocks_of(&shared(1), None, 16);
        assert_eq!(active.with(ReplicaId(0), &other), 30, "ten are shared");
        active.start(RequestId(1), ReplicaId(0), other.clone());
        active.end(RequestId(0));
        assert_eq!(active.with(ReplicaId(0), &other), 20);
        assert_eq!(active.with(ReplicaId(0), &blocks), 30);
    }
}
