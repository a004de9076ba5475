//! `specialists`: the treatment. For every candidate (base, the task's specialist, multitask) on every replica it
//! expects a time to first token from live state, and takes the candidate with the highest
//! `quality * P(TTFT within the SLO) - price_per_server_second * server seconds`.
//!
//! - `TTFT [ms] = queue + load + slot wait + prefill + one step`, each from the [`CostModel`]:
//!   - queue: prompt tokens ahead (scraped, less what the replica has worked off since, plus what was sent after the
//!     scrape) times `ms_per_prefill_token`, plus the wait for a place when `max_running` are in flight;
//!   - load: 0 in a GPU slot, else `load_ms_cpu` or `load_ms_disk`;
//!   - slot wait: when other adapters in flight hold all `gpu_slots`, until enough of them are done;
//!   - prefill: tokens not cached in the adapter's own namespace, by the router's prefix index.
//! - `P`: the true TTFT is the expected one times a lognormal error of median 1 and log-standard deviation `ttft_sigma`;
//!   what has passed since the due time is off the budget. An E2E objective less a usual residence
//!   (`output_tokens_mean * step_ms`) is one more budget, and the tighter counts. With neither, `P` is 1.
//! - server seconds: `prefill + load`, what the choice takes from all other requests of the replica.
//!
//! Ties: shorter TTFT, then lowest adapter (base lowest), then lowest replica. When no candidate reaches
//! `on_time_floor`, nothing can be saved: it takes the adapter of the highest `quality - price * server seconds` on its
//! quickest replica (`best_effort`).
//!
//! Sees state scraped every `scrape_interval_ms` (0: true state) and its own history, which fills in for what a runtime
//! does not say: residency then is what the last adapters sent there would leave in the slots.
//!
//! Lacks: decode interference and the TPOT objective; KV memory pressure; other routers' requests since the
//! scrape; the future worth of an adapter once loaded (price it low when loads amortise).

use super::choice::candidates;
use super::parameter::{Parameter, check_interval, scraped_every};
use crate::lru::Lru;
use crate::spec::Parameters;
use crate::{
    CostModel, Decision, DispatchState, Information, PrefixUse, Reason, ReplicaView, RouterContext,
    RoutingError, RoutingPolicy,
};
use acb_types::{AdapterId, Nanos, QualityTable, ReplicaId, Request, Slo, Stream, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How it weighs time against quality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpecialistsSpec {
    /// Milliseconds between scrapes of every server; 0 is the state as it is, which only a simulator can give.
    pub scrape_interval_ms: f64,
    /// Standard deviation of the logarithm of (true / expected) TTFT; 0 trusts the expectation.
    pub ttft_sigma: f64,
    /// Quality, 0 to 1, that one second of a replica's time is worth to other requests.
    pub price_per_server_second: f64,
    /// Chance of being on time, 0 to 1, below which no candidate counts as likely to be on time.
    pub on_time_floor: f64,
}

impl Default for SpecialistsSpec {
    fn default() -> Self {
        Self { scrape_interval_ms: 50.0, ttft_sigma: 0.3, price_per_server_second: 0.1, on_time_floor: 0.05 }
    }
}

impl Parameters for SpecialistsSpec {
    fn name(&self) -> &'static str {
        "specialists"
    }
    fn summary(&self) -> &'static str {
        "highest expected on-time quality over (base, specialist, multitask) x replica, from live state and cached prefixes"
    }
    fn information(&self) -> Information {
        scraped_every(self.scrape_interval_ms)
    }
    fn check(&self) -> Result<(), RoutingError> {
        let own = |parameter, value| Parameter { owner: self.name(), parameter, value };
        check_interval(own("scrape_interval_ms", self.scrape_interval_ms))?;
        own("ttft_sigma", self.ttft_sigma).at_least_zero()?;
        own("price_per_server_second", self.price_per_server_second).at_least_zero()?;
        own("on_time_floor", self.on_time_floor).share()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        Ok(Box::new(Specialists::new(self, context)))
    }
}

struct Specialists {
    spec: SpecialistsSpec,
    prior: Arc<QualityTable>,
    costs: CostModel,
    /// Milliseconds from the due time within which the first token is on time; none without an objective.
    budget_ms: Option<f64>,
    history: Vec<Residency>,
    matches: Vec<u32>,
    /// Replicas by requests in flight, then id; kept to save the allocation.
    order: Vec<usize>,
    queues_ms: Vec<f64>,
}

/// What the last adapters sent to a replica would leave in its slots, if each tier forgot the least recently used.
struct Residency {
    gpu: Lru<AdapterId, ()>,
    cpu: Lru<AdapterId, ()>,
}

/// What one candidate is expected to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    ttft_ms: f64,
    server_ms: f64,
}

/// What was found so far.
struct Found {
    /// Milliseconds left of the TTFT objective; none without one.
    budget_ms: Option<f64>,
    likely: bool,
    by_value: Option<Best>,
    by_effort: Option<Best>,
}

/// The best candidate so far.
#[derive(Clone, Copy)]
struct Best {
    worth: f64,
    ttft_ms: f64,
    decision: Decision,
}

impl RoutingPolicy for Specialists {
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
        let decision = self.decide(request, state);
        if let Some(adapter) = decision.adapter {
            let history = &mut self.history[decision.replica.index()];
            history.gpu.touch(adapter, ());
            history.cpu.touch(adapter, ());
        }
        decision
    }
}

impl Specialists {
    fn new(spec: &SpecialistsSpec, context: &RouterContext) -> Self {
        let history = |_| Residency {
            gpu: Lru::new(context.costs.gpu_slots.into()),
            cpu: Lru::new(context.costs.cpu_slots.into()),
        };
        Self {
            spec: spec.clone(),
            prior: context.prior.clone(),
            costs: context.costs,
            budget_ms: budget_ms(context.slo, &context.costs),
            history: (0..context.replicas).map(history).collect(),
            matches: Vec::new(),
            order: Vec::new(),
            queues_ms: Vec::new(),
        }
    }

    fn decide(&mut self, request: &Request, state: &DispatchState) -> Decision {
        self.queues_ms.clear();
        self.queues_ms.extend(state.replicas.iter().map(|view| queue_ms(&self.costs, view, state.now)));
        let waited_ms = state.now.since(request.due).as_millis_f64();
        let budget_ms = self.budget_ms.map(|budget| budget - waited_ms);
        let mut found = Found { budget_ms, likely: false, by_value: None, by_effort: None };
        let mut matches = std::mem::take(&mut self.matches);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..state.replicas.len());
        order.sort_unstable_by_key(|&at| (state.replicas[at].in_flight, at));
        for adapter in candidates(request, &state.adapters) {
            state.prefix_match_all(adapter, request, &mut matches);
            let able = order.iter().filter(|&&at| state.replicas[at].serves(adapter));
            let replicas = able.map(|&at| {
                let view = &state.replicas[at];
                (view.id, self.cost(view, adapter, request.prompt.tokens() - matches[at]))
            });
            let quality = self.prior.expected(request.task, adapter);
            self.weigh(adapter, quality, replicas, &mut found);
        }
        self.matches = matches;
        self.order = order;
        let best = if found.likely { found.by_value } else { found.by_effort };
        best.map_or_else(|| nowhere(request, state), |best| best.decision)
    }

    /// Weighs one adapter on all replicas, those with fewer requests in flight first: of equal places they are taken.
    fn weigh(
        &self,
        adapter: Option<AdapterId>,
        quality: f64,
        replicas: impl Iterator<Item = (ReplicaId, Cost)>,
        found: &mut Found,
    ) {
        let mut quickest: Option<(Cost, ReplicaId)> = None;
        for (replica, cost) in replicas {
            // Of one adapter, a place that is no earlier and no cheaper than another can't be better.
            if quickest.is_some_and(|(q, _)| cost.ttft_ms >= q.ttft_ms && cost.server_ms >= q.server_ms) {
                continue;
            }
            if quickest.is_none_or(|(q, _)| cost.ttft_ms < q.ttft_ms) {
                quickest = Some((cost, replica));
            }
            let sigma = self.spec.ttft_sigma;
            let on_time = found.budget_ms.map_or(1.0, |budget| on_time(cost.ttft_ms, budget, sigma));
            found.likely |= on_time >= self.spec.on_time_floor;
            let decision = Decision { replica, adapter, reason: Reason::BestValue };
            let worth = quality * on_time - self.price(cost);
            keep(&mut found.by_value, Best { worth, ttft_ms: cost.ttft_ms, decision });
        }
        if let Some((cost, replica)) = quickest {
            let decision = Decision { replica, adapter, reason: Reason::BestEffort };
            let worth = quality - self.price(cost);
            keep(&mut found.by_effort, Best { worth, ttft_ms: cost.ttft_ms, decision });
        }
    }

    fn cost(&self, view: &ReplicaView, adapter: Option<AdapterId>, uncached: u32) -> Cost {
        let costs = &self.costs;
        let prefill_ms = f64::from(uncached) * costs.ms_per_prefill_token;
        let queue_ms = self.queues_ms[view.id.index()];
        let Some(adapter) = adapter else {
            return Cost { ttft_ms: queue_ms + prefill_ms + costs.step_ms, server_ms: prefill_ms };
        };
        let prefill_ms = prefill_ms * costs.adapter_slowdown;
        let load_ms = match self.tier(view, adapter) {
            Tier::Gpu => 0.0,
            Tier::Cpu => costs.load_ms_cpu,
            Tier::Disk | Tier::Remote => costs.load_ms_disk,
        };
        let slot_ms = slot_wait_ms(costs, view, adapter);
        Cost {
            ttft_ms: queue_ms + load_ms + slot_ms + prefill_ms + costs.step_ms,
            server_ms: prefill_ms + load_ms,
        }
    }

    /// Where the adapter lies on this replica, as far as is known. An adapter in flight is loaded or about to be.
    fn tier(&self, view: &ReplicaView, adapter: AdapterId) -> Tier {
        if view.in_flight_under(Some(adapter)) > 0 || view.merged == Some(adapter) {
            return Tier::Gpu;
        }
        let snapshot = view.scraped.as_ref().map(|s| &s.snapshot);
        let history = &self.history[view.id.index()];
        let listed = |list: Option<&Vec<AdapterId>>, own: &Lru<AdapterId, ()>| match list {
            Some(list) => list.binary_search(&adapter).is_ok(),
            None => own.contains(adapter),
        };
        if listed(snapshot.and_then(|s| s.gpu_adapters.as_ref()), &history.gpu) {
            Tier::Gpu
        } else if listed(snapshot.and_then(|s| s.cpu_adapters.as_ref()), &history.cpu) {
            Tier::Cpu
        } else {
            Tier::Disk
        }
    }

    fn price(&self, cost: Cost) -> f64 {
        self.spec.price_per_server_second * cost.server_ms * 1e-3
    }
}

/// What to do with a request that no replica can serve, however it is served: the server will say so.
fn nowhere(request: &Request, state: &DispatchState) -> Decision {
    Decision {
        replica: state.least_in_flight(),
        adapter: request.required_adapter,
        reason: Reason::BestEffort,
    }
}

/// Keeps the higher worth, then the shorter TTFT, then the earlier in order of adapter and replica.
fn keep(best: &mut Option<Best>, candidate: Best) {
    let better = best.is_none_or(|b| {
        candidate.worth > b.worth || (candidate.worth == b.worth && candidate.ttft_ms < b.ttft_ms)
    });
    if better {
        *best = Some(candidate);
    }
}

/// The tighter of the TTFT objective and the E2E objective less a usual residence.
fn budget_ms(slo: Slo, costs: &CostModel) -> Option<f64> {
    let ttft_ms = slo.ttft_ns.map(Nanos::as_millis_f64);
    let e2e_ms = slo.e2e_ns.map(|e2e| e2e.as_millis_f64() - costs.residence_ms());
    ttft_ms.into_iter().chain(e2e_ms).reduce(f64::min)
}

/// Milliseconds of prefill work ahead, and of waiting for a place in the batch.
fn queue_ms(costs: &CostModel, view: &ReplicaView, now: Nanos) -> f64 {
    let own_ms = view.pending_prefill_tokens as f64 * costs.ms_per_prefill_token;
    let known = view.scraped.as_ref().and_then(|s| Some((s.observed_at, s.snapshot.pending_prefill_tokens?)));
    let prefill_ms = known.map_or(own_ms, |(observed_at, tokens)| {
        let seen_ms = tokens as f64 * costs.ms_per_prefill_token;
        let left_ms = (seen_ms - now.since(observed_at).as_millis_f64()).max(0.0);
        left_ms + view.unscraped_prefill_tokens as f64 * costs.ms_per_prefill_token
    });
    prefill_ms + release_ms(costs, view.in_flight, costs.max_running)
}

/// Milliseconds until this adapter can have a slot: 0 when it holds one, or when one is free of requests.
fn slot_wait_ms(costs: &CostModel, view: &ReplicaView, adapter: AdapterId) -> f64 {
    let held = &view.in_flight_by_adapter;
    let under_base = u32::from(held.first().is_some_and(|(a, _)| a.is_none()));
    let mut others = held.len() as u32 - under_base;
    let scraped = view.scraped.as_ref().and_then(|s| s.snapshot.active_adapters.as_ref());
    if scraped.is_some_and(|active| active.binary_search(&adapter).is_ok())
        || view.in_flight_under(Some(adapter)) > 0
    {
        return 0.0;
    }
    others = others.max(scraped.map_or(0, |active| active.len() as u32));
    if others < costs.gpu_slots {
        return 0.0;
    }
    let under_adapters: u32 = held.iter().filter(|(a, _)| a.is_some()).map(|(_, requests)| requests).sum();
    let each = f64::from(under_adapters.max(others)) / f64::from(others);
    // A slot is free when all requests of its adapter have ended: the longest of `each` residual times.
    let newcomer = f64::from(others - costs.gpu_slots + 1) / (f64::from(costs.gpu_slots) + 1.0);
    newcomer.powf(1.0 / each).max(newcomer) * costs.residence_ms()
}

/// Expected milliseconds until one of `places` is free for a newcomer when `holders` hold or wait for them: with
/// residual times uniform over a residence, the k-th of n ends after k / (n + 1) residences.
fn release_ms(costs: &CostModel, holders: u32, places: u32) -> f64 {
    if holders < places {
        return 0.0;
    }
    f64::from(holders - places + 1) / (f64::from(places) + 1.0) * costs.residence_ms()
}

/// Chance that the true TTFT is within the budget, for a lognormal error of median 1.
fn on_time(ttft_ms: f64, budget_ms: f64, sigma: f64) -> f64 {
    if budget_ms <= 0.0 {
        return 0.0;
    }
    let margin = (budget_ms / ttft_ms).ln();
    if sigma == 0.0 || ttft_ms == 0.0 {
        return if margin >= 0.0 { 1.0 } else { 0.0 };
    }
    0.5 * statrs::function::erf::erfc(-margin / sigma * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, prompt, request, scraped};
    use crate::{PolicySpec, ReplicaSnapshot, Router, RouterEvent};
    use acb_types::RequestId;
    use proptest::prelude::*;

    const MULTITASK: Option<AdapterId> = Some(AdapterId(4));
    const SPECIALIST: Option<AdapterId> = Some(AdapterId(0));

    fn router(replicas: u32, ttft_ms: u64) -> Router {
        let slo = Slo { ttft_ns: Some(Nanos::from_millis(ttft_ms)), tpot_ns: None, e2e_ns: None };
        let spec = PolicySpec::Specialists(SpecialistsSpec::default());
        Router::new(&spec, RouterContext { slo, ..context(replicas) }).unwrap()
    }

    fn snapshot(gpu: &[u32], pending: u64) -> ReplicaSnapshot {
        let gpu: Vec<_> = gpu.iter().copied().map(AdapterId).collect();
        ReplicaSnapshot {
            gpu_adapters: Some(gpu.clone()),
            cpu_adapters: Some(gpu),
            pending_prefill_tokens: Some(pending),
            ..ReplicaSnapshot::default()
        }
    }

    fn close(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-4, "{seen} is not {expected}");
    }

    #[test]
    fn a_cold_specialist_loses_to_the_resident_multitask_adapter_when_the_objective_is_tight() {
        // Prefill 1000 * 0.05 = 50 ms, a step 12 ms, a load from disk 200 ms. Resident: 62 ms, cold: 262 ms.
        // Within 150 ms: 0.82 * P(62) - 0.1 * 0.05 = 0.81 against 0.92 * P(262) - 0.1 * 0.25 = 0.00.
        // Within 500 ms: 0.82 - 0.005 = 0.815 against 0.92 * 0.984 - 0.025 = 0.880.
        let chosen = |ttft_ms| {
            let mut router = router(1, ttft_ms);
            router.apply(&scraped(Nanos::ZERO, 0, snapshot(&[4], 0)));
            router.dispatch(Nanos::ZERO, &request(0, 0, 1000)).adapter
        };
        assert_eq!(chosen(150), MULTITASK);
        assert_eq!(chosen(500), SPECIALIST);
    }

    #[test]
    fn a_long_queue_beats_a_cached_prefix_and_a_short_one_does_not() {
        let chosen = |queued_tokens| {
            let mut router = router(2, 500);
            let document = Request { prompt: prompt(&[(1, 4000)]), ..request(0, 0, 1) };
            router.apply(&scraped(Nanos::ZERO, 0, snapshot(&[0], 0)));
            router.apply(&scraped(Nanos::ZERO, 1, snapshot(&[0], 0)));
            let first = router.dispatch(Nanos::ZERO, &document);
            assert_eq!((first.replica.0, first.adapter), (0, SPECIALIST));
            let at = Nanos::from_millis(1);
            router.apply(&RouterEvent::Finished { at, request: RequestId(0) });
            router.apply(&scraped(at, 0, snapshot(&[0], queued_tokens)));
            router.apply(&scraped(at, 1, snapshot(&[0], 0)));
            let again = Request { id: RequestId(1), due: at, ..document };
            router.dispatch(at, &again).replica.0
        };
        // Replica 0: queue + nearly nothing to compute. Replica 1: 4000 tokens = 200 ms.
        assert_eq!(chosen(1_000), 0, "50 ms of queue");
        assert_eq!(chosen(20_000), 1, "1000 ms of queue");
    }

    #[test]
    fn when_nothing_is_likely_on_time_quality_alone_counts() {
        let mut router = router(2, 500);
        let late = Nanos::from_millis(600);
        router.apply(&scraped(late, 0, snapshot(&[0, 4], 10_000)));
        router.apply(&scraped(late, 1, snapshot(&[0, 4], 0)));
        let decision = router.dispatch(late, &request(0, 0, 100));
        let expected = Decision { replica: ReplicaId(1), adapter: SPECIALIST, reason: Reason::BestEffort };
        assert_eq!(decision, expected, "due at 0, dispatched after the objective had passed");
    }

    #[test]
    fn unknown_residency_is_what_was_sent_there() {
        let mut router = router(2, 500);
        let unknown = ReplicaSnapshot::default();
        router.apply(&scraped(Nanos::ZERO, 0, unknown.clone()));
        router.apply(&scraped(Nanos::ZERO, 1, unknown));
        let first = router.dispatch(Nanos::ZERO, &request(0, 0, 100));
        assert_eq!((first.replica.0, first.adapter), (0, SPECIALIST));
        router.apply(&RouterEvent::Finished { at: Nanos::ZERO, request: RequestId(0) });
        let busy = router.dispatch(Nanos::ZERO, &request(1, 1, 100));
        assert_eq!(busy.replica.0, 0, "loads cost the same everywhere; ties go to the lowest id");
        let back = router.dispatch(Nanos::ZERO, &request(2, 0, 100));
        assert_eq!(back.replica.0, 0, "5 ms of queue cost less than a load of 200 ms");
    }

    #[test]
    fn of_replicas_alike_the_lowest_is_chosen_and_base_before_adapters_of_equal_worth() {
        let mut context = context(3);
        context.prior = Arc::new(QualityTable::from_fn(4, 5, |_, _| 0.5).unwrap());
        context.costs = CostModel { load_ms_cpu: 0.0, load_ms_disk: 0.0, ..context.costs };
        let spec = PolicySpec::Specialists(SpecialistsSpec::default());
        let decision = Router::new(&spec, context).unwrap().dispatch(Nanos::ZERO, &request(0, 0, 10));
        assert_eq!((decision.replica, decision.adapter), (ReplicaId(0), None));
    }

    #[test]
    fn a_scraped_queue_is_worked_off_with_time_and_credited_with_what_was_sent() {
        let costs = CostModel::default();
        let mut view = router(1, 500).state().replicas[0].clone();
        view.sent(None, 300);
        close(queue_ms(&costs, &view, Nanos::ZERO), 15.0);
        let snapshot = snapshot(&[], 2000);
        view.scraped = Some(crate::Scraped { observed_at: Nanos::ZERO, snapshot });
        close(queue_ms(&costs, &view, Nanos::ZERO), 115.0);
        close(queue_ms(&costs, &view, Nanos::from_millis(40)), 75.0);
        close(queue_ms(&costs, &view, Nanos::from_millis(400)), 15.0);
        // One place, and it is taken: half a residence of 1536 ms.
        let full = CostModel { max_running: 1, ..costs };
        close(queue_ms(&full, &view, Nanos::from_millis(400)), 783.0);
    }

    fn policy(costs: CostModel) -> (Specialists, DispatchState) {
        let context = RouterContext { costs, ..context(1) };
        let state = DispatchState::new(&context, PrefixUse::PER_ADAPTER);
        (Specialists::new(&SpecialistsSpec::default(), &context), state)
    }

    #[test]
    fn a_candidate_costs_its_prefill_its_load_and_one_step() {
        let costs = CostModel { adapter_slowdown: 1.5, ..CostModel::default() };
        let (mut policy, state) = policy(costs);
        policy.queues_ms = vec![7.0];
        let view = &state.replicas[0];
        assert_eq!(policy.cost(view, None, 1000), Cost { ttft_ms: 69.0, server_ms: 50.0 });
        assert_eq!(policy.cost(view, SPECIALIST, 1000), Cost { ttft_ms: 294.0, server_ms: 275.0 });
    }

    #[test]
    fn where_an_adapter_lies_is_scraped_or_else_what_the_last_ones_sent_would_leave() {
        let (mut policy, mut state) =
            policy(CostModel { gpu_slots: 1, cpu_slots: 2, ..CostModel::default() });
        let mut stream = acb_types::Seed(1).stream("unused");
        for id in 0..3 {
            let named = Request { required_adapter: Some(AdapterId(id)), ..request(id.into(), 0, 10) };
            policy.route(&named, &state, &mut stream);
        }
        let tiers = |policy: &Specialists, state: &DispatchState| {
            [0, 1, 2].map(|id| policy.tier(&state.replicas[0], AdapterId(id)))
        };
        assert_eq!(tiers(&policy, &state), [Tier::Disk, Tier::Cpu, Tier::Gpu]);
        let scrape = crate::Scraped { observed_at: Nanos::ZERO, snapshot: snapshot(&[1], 0) };
        state.replicas[0].scraped = Some(scrape);
        assert_eq!(tiers(&policy, &state), [Tier::Disk, Tier::Gpu, Tier::Disk]);
        state.replicas[0].sent(Some(AdapterId(0)), 10);
        assert_eq!(
            tiers(&policy, &state),
            [Tier::Gpu, Tier::Gpu, Tier::Disk],
            "in flight: about to be loaded"
        );
    }

    proptest! {
        #[test]
        fn skipping_what_cannot_be_better_changes_nothing(
            costs in proptest::collection::vec((0u32..6, 0u32..6), 1..20),
            quality in 0.0..1.0, sigma in 0.0..1.0, price in 0.0..3.0, budget in proptest::option::of(0.0..60.0)
        ) {
            let spec = SpecialistsSpec { ttft_sigma: sigma, price_per_server_second: 100.0 * price, ..Default::default() };
            let policy = Specialists::new(&spec, &context(1));
            let cost = |&(ttft, server): &(u32, u32)| {
                Cost { ttft_ms: 10.0 * f64::from(ttft), server_ms: f64::from(server) }
            };
            let places = costs.iter().map(cost).enumerate().map(|(id, cost)| (ReplicaId(id as u32), cost));
            let mut found = Found { budget_ms: budget, likely: false, by_value: None, by_effort: None };
            policy.weigh(None, quality, places.clone(), &mut found);
            let worth = |cost: Cost| -> f64 {
                let chance = budget.map_or(1.0, |budget| on_time(cost.ttft_ms, budget, sigma));
                quality * chance - 0.1 * price * cost.server_ms
            };
            let order = |a: &(ReplicaId, Cost), b: &(ReplicaId, Cost)| {
                let worth = worth(b.1).total_cmp(&worth(a.1));
                worth.then(a.1.ttft_ms.total_cmp(&b.1.ttft_ms)).then(a.0.cmp(&b.0))
            };
            let best = places.clone().min_by(order).unwrap();
            let seen = found.by_value.unwrap();
            prop_assert!((seen.worth - worth(best.1)).abs() < 1e-9);
            let quickest = places.min_by(|a, b| a.1.ttft_ms.total_cmp(&b.1.ttft_ms).then(a.0.cmp(&b.0))).unwrap();
            prop_assert_eq!(found.by_effort.unwrap().decision.replica, quickest.0);
        }
    }

    #[test]
    fn of_equal_worth_the_earlier_first_token_wins() {
        let spec = SpecialistsSpec { price_per_server_second: 0.0, ..Default::default() };
        let policy = Specialists::new(&spec, &context(1));
        let mut found = Found { budget_ms: None, likely: false, by_value: None, by_effort: None };
        let places = [30.0, 20.0, 20.0].map(|ttft_ms| Cost { ttft_ms, server_ms: 1.0 });
        let places = (0..).map(ReplicaId).zip(places);
        policy.weigh(None, 0.5, places, &mut found);
        assert_eq!(found.by_value.unwrap().decision.replica, ReplicaId(1));
    }

    #[test]
    fn a_slot_is_waited_for_only_when_other_adapters_hold_all_of_them() {
        let costs = CostModel { gpu_slots: 2, ..CostModel::default() };
        let mut view = router(1, 500).state().replicas[0].clone();
        view.sent(None, 1);
        view.sent(Some(AdapterId(0)), 1);
        close(slot_wait_ms(&costs, &view, AdapterId(2)), 0.0);
        view.sent(Some(AdapterId(1)), 1);
        close(slot_wait_ms(&costs, &view, AdapterId(1)), 0.0);
        // 128 tokens at 12 ms are 1536 ms of residence; the first of two residual times ends after a third of it.
        close(slot_wait_ms(&costs, &view, AdapterId(2)), 512.0);
        view.sent(Some(AdapterId(3)), 1);
        close(slot_wait_ms(&costs, &view, AdapterId(2)), 1024.0);
    }

    #[test]
    fn the_chance_of_being_on_time_is_a_lognormal_tail() {
        close(on_time(100.0, 100.0, 0.3), 0.5);
        close(on_time(100.0, 100.0 * 0.3f64.exp(), 0.3), 0.841_345);
        close(on_time(100.0, 100.0 * (-0.6f64).exp(), 0.3), 0.022_750);
        close(on_time(100.0, 0.0, 0.3), 0.0);
        close(on_time(100.0, 100.0, 0.0), 1.0);
        close(on_time(100.0, 99.0, 0.0), 0.0);
        close(on_time(0.0, 1.0, 0.3), 1.0);
    }

    #[test]
    fn the_tighter_objective_is_the_budget() {
        let costs = CostModel { output_tokens_mean: 100.0, step_ms: 10.0, ..CostModel::default() };
        let budget = |ttft: Option<u64>, e2e: Option<u64>| {
            let (ttft_ns, e2e_ns) = (ttft.map(Nanos::from_millis), e2e.map(Nanos::from_millis));
            budget_ms(Slo { ttft_ns, tpot_ns: None, e2e_ns }, &costs)
        };
        assert_eq!(budget(Some(500), None), Some(500.0));
        assert_eq!(budget(Some(500), Some(1200)), Some(200.0));
        assert_eq!(budget(Some(100), Some(1200)), Some(100.0));
        assert_eq!(budget(None, None), None);
    }

    #[test]
    fn an_impossible_parameter_is_named() {
        let spec = SpecialistsSpec { ttft_sigma: f64::NAN, ..Default::default() };
        let refused = Router::new(&PolicySpec::Specialists(spec), context(1)).err().unwrap();
        assert_eq!(
            refused.to_string(),
            "specialists: ttft_sigma is NaN, which is not a finite number of at least 0"
        );
    }

    #[test]
    fn an_interval_of_zero_is_the_true_state() {
        let sees =
            |scrape_interval_ms| SpecialistsSpec { scrape_interval_ms, ..Default::default() }.information();
        assert_eq!(sees(0.0), Information::TrueState);
        assert_eq!((sees(-1.0), sees(f64::NAN)), (Information::TrueState, Information::TrueState));
        assert_eq!(sees(50.0), Information::Scraped { interval_ns: Nanos::from_millis(50) });
    }
}
