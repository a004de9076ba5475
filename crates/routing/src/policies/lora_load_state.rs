//! `lora_load_state`: the endpoint picker of `epp_weighted` with the scorer that llm-d-router's pull request 2792
//! proposes, which reads residency.
//!
//! - The adapter's tier: 1.0 in a GPU slot, 0.7 in host memory, 0.6 when a slot is free, 0.3 when a resident adapter has
//!   no request in flight (it can be evicted), else 0; scaled to leave room for two small bonuses that only order within a
//!   tier: `placement_bonus` on one replica by a hash of the adapter, while it isn't in a slot there, and
//!   `headroom_bonus` times the share of free slots.
//! - A request for base: the share of slots that don't serve an adapter now.
//! - A server that says nothing of residency counts as holding nothing.
//!
//! Sees state scraped every `scrape_interval_ms` (50; 0: true state) and its own history. Read in llm-d/llm-d-router,
//! pull request 2792 (open in September 2026): tiers and bonuses are its defaults. `lora_weight` is 1 as that of
//! `lora-affinity`; its own example uses 2. Not modelled: pinned adapters, `loadHorizonSeconds` (off by default).
//!
//! Known fault, kept: a scorer can only prefer. Under load the other scores outvote it, the request goes where the adapter
//! isn't, and one more copy is loaded that evicts another adapter (which is why its authors add a filter).

use super::AdapterChoice;
use super::epp::{PREFIXES, Profile, Weights, scraped};
use super::parameter::{Parameter, check_interval, scraped_every};
use crate::hash::mix;
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixUse, Reason, ReplicaSnapshot, ReplicaView, RouterContext,
    RouterEvent, RoutingError, RoutingPolicy,
};
use acb_types::{AdapterId, ReplicaId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const GPU: f64 = 1.0;
const CPU: f64 = 0.7;
const FREE_SLOT: f64 = 0.6;
const EVICTABLE: f64 = 0.3;
const FULL: f64 = 0.0;

/// Weights of the scorers, and how often servers are scraped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraLoadStateSpec {
    /// Which adapter serves a request.
    pub adapter_choice: AdapterChoice,
    /// Milliseconds between scrapes of every server; 0 is the state as it is, which only a simulator can give.
    pub scrape_interval_ms: f64,
    /// Weight of the queue score, at least 0.
    pub queue_weight: f64,
    /// Weight of the KV score, at least 0.
    pub kv_weight: f64,
    /// Weight of the prefix score, at least 0.
    pub prefix_weight: f64,
    /// Weight of the residency score, at least 0.
    pub lora_weight: f64,
    /// Score, 0 to 0.1, of the replica that a hash of the adapter prefers, while the adapter isn't in a slot there.
    pub placement_bonus: f64,
    /// Score, 0 to 0.1, of a replica with all slots free; less in proportion.
    pub headroom_bonus: f64,
}

impl Default for LoraLoadStateSpec {
    fn default() -> Self {
        Self {
            adapter_choice: AdapterChoice::default(),
            scrape_interval_ms: 50.0,
            queue_weight: 2.0,
            kv_weight: 2.0,
            prefix_weight: 3.0,
            lora_weight: 1.0,
            placement_bonus: 0.03,
            headroom_bonus: 0.03,
        }
    }
}

impl Parameters for LoraLoadStateSpec {
    fn name(&self) -> &'static str {
        "lora_load_state"
    }
    fn summary(&self) -> &'static str {
        "llm-d endpoint picker with the proposed scorer of adapter residency: GPU, host memory, free slot, evictable, full"
    }
    fn information(&self) -> Information {
        scraped_every(self.scrape_interval_ms)
    }
    fn check(&self) -> Result<(), RoutingError> {
        let own = |parameter, value| Parameter { owner: self.name(), parameter, value };
        check_interval(own("scrape_interval_ms", self.scrape_interval_ms))?;
        own("queue_weight", self.queue_weight).at_least_zero()?;
        own("kv_weight", self.kv_weight).at_least_zero()?;
        own("prefix_weight", self.prefix_weight).at_least_zero()?;
        own("lora_weight", self.lora_weight).at_least_zero()?;
        let bonus = |parameter, value| own(parameter, value).within(0.0..=0.1, "between 0 and 0.1");
        bonus("placement_bonus", self.placement_bonus)?;
        bonus("headroom_bonus", self.headroom_bonus)?;
        // Together they must be smaller than the smallest gap between tiers, 0.1, once that is scaled.
        let both = self.placement_bonus + self.headroom_bonus;
        own("placement_bonus and headroom_bonus together", both).within(0.0..=0.09, "at most 0.09")
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        let weights = Weights { queue: self.queue_weight, kv: self.kv_weight, prefix: self.prefix_weight };
        let profile = Profile::new(weights, context.replicas);
        Ok(Box::new(LoraLoadState { spec: self.clone(), slots: context.costs.gpu_slots, profile }))
    }
}

struct LoraLoadState {
    spec: LoraLoadStateSpec,
    slots: u32,
    profile: Profile,
}

impl RoutingPolicy for LoraLoadState {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        PREFIXES
    }
    fn route(&mut self, request: &Request, state: &DispatchState, rng: &mut Stream) -> Decision {
        let adapter = self.spec.adapter_choice.of(request, &state.adapters);
        let (spec, slots) = (&self.spec, self.slots);
        let home = adapter.map(|adapter| preferred(adapter, state.replicas.len() as u32));
        let lora = |view: &ReplicaView| {
            let residency = Residency::of(view, slots);
            let score = adapter.map_or_else(
                || residency.base_score(),
                |adapter| residency.adapter_score(adapter, Home::of(view.id, home), spec),
            );
            spec.lora_weight * score
        };
        self.profile.score(adapter, request, state, lora);
        Decision { replica: self.profile.pick(rng), adapter, reason: Reason::BestScore }
    }
    fn observe(&mut self, event: &RouterEvent) {
        self.profile.observe(event);
    }
}

/// The one replica that a rendezvous hash prefers for this adapter.
fn preferred(adapter: AdapterId, replicas: u32) -> ReplicaId {
    let weight = |replica: &ReplicaId| mix(mix(1 + u64::from(adapter.0)) ^ u64::from(replica.0));
    (0..replicas).map(ReplicaId).max_by_key(weight).expect("a cluster has a replica")
}

/// What a replica says of its adapters; nothing listed when it doesn't.
struct Residency<'a> {
    gpu: &'a [AdapterId],
    cpu: &'a [AdapterId],
    active: &'a [AdapterId],
    slots: usize,
}

/// Whether a replica is the one that the hash prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    Here,
    Elsewhere,
}

impl Home {
    fn of(replica: ReplicaId, preferred: Option<ReplicaId>) -> Self {
        if preferred == Some(replica) { Self::Here } else { Self::Elsewhere }
    }
}

impl<'a> Residency<'a> {
    fn of(view: &'a ReplicaView, slots: u32) -> Self {
        let snapshot = scraped(view);
        let listed = |of: fn(&ReplicaSnapshot) -> Option<&Vec<AdapterId>>| {
            snapshot.and_then(of).map_or(&[][..], Vec::as_slice)
        };
        Self {
            gpu: listed(|s| s.gpu_adapters.as_ref()),
            cpu: listed(|s| s.cpu_adapters.as_ref()),
            active: listed(|s| s.active_adapters.as_ref()),
            slots: slots as usize,
        }
    }

    fn adapter_score(&self, adapter: AdapterId, home: Home, spec: &LoraLoadStateSpec) -> f64 {
        let mut score = self.tier(adapter) * (1.0 - spec.placement_bonus - spec.headroom_bonus);
        if home == Home::Here && !self.in_slot(adapter) {
            score += spec.placement_bonus;
        }
        score + spec.headroom_bonus * self.share(self.free())
    }

    fn tier(&self, adapter: AdapterId) -> f64 {
        if self.in_slot(adapter) {
            GPU
        } else if self.cpu.binary_search(&adapter).is_ok() {
            CPU
        } else if self.free() > 0 {
            FREE_SLOT
        } else if self.busy() < self.gpu.len() {
            EVICTABLE
        } else {
            FULL
        }
    }

    fn base_score(&self) -> f64 {
        self.share(self.slots.saturating_sub(self.busy()))
    }

    fn in_slot(&self, adapter: AdapterId) -> bool {
        self.gpu.binary_search(&adapter).is_ok()
    }

    fn free(&self) -> usize {
        self.slots.saturating_sub(self.gpu.len())
    }

    /// Resident adapters with a request in flight.
    fn busy(&self) -> usize {
        self.gpu.iter().filter(|resident| self.active.binary_search(resident).is_ok()).count()
    }

    fn share(&self, slots: usize) -> f64 {
        if self.slots == 0 { 0.0 } else { slots as f64 / self.slots as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, request, scraped};
    use crate::{PolicySpec, ReplicaSnapshot, Router, Scraped};
    use acb_types::Nanos;

    fn snapshot(gpu: &[u32], cpu: &[u32], active: &[u32]) -> ReplicaSnapshot {
        let list = |ids: &[u32]| Some(ids.iter().copied().map(AdapterId).collect());
        ReplicaSnapshot {
            gpu_adapters: list(gpu),
            cpu_adapters: list(cpu),
            active_adapters: list(active),
            ..Default::default()
        }
    }

    fn view(snapshot: ReplicaSnapshot) -> ReplicaView {
        let mut view = DispatchState::new(&context(1), PREFIXES).replicas.remove(0);
        view.scraped = Some(Scraped { observed_at: Nanos::ZERO, snapshot });
        view
    }

    fn without_bonuses(gpu: &[u32], cpu: &[u32], active: &[u32]) -> f64 {
        let spec = LoraLoadStateSpec { placement_bonus: 0.0, headroom_bonus: 0.0, ..Default::default() };
        Residency::of(&view(snapshot(gpu, cpu, active)), 2).adapter_score(AdapterId(0), Home::Here, &spec)
    }

    #[test]
    fn the_tiers_are_those_of_the_pull_request() {
        assert_eq!(without_bonuses(&[0, 1], &[0, 1], &[]), 1.0, "in a slot, though idle");
        assert_eq!(without_bonuses(&[1, 2], &[0, 1, 2], &[]), 0.7, "in host memory");
        assert_eq!(without_bonuses(&[1], &[1], &[1]), 0.6, "a slot is free");
        assert_eq!(without_bonuses(&[1, 2], &[1, 2], &[1]), 0.3, "adapter 2 is idle");
        assert_eq!(without_bonuses(&[1, 2], &[1, 2], &[1, 2]), 0.0, "full");
    }

    #[test]
    fn bonuses_order_within_a_tier_and_never_across() {
        let spec = LoraLoadStateSpec::default();
        let score = |gpu: &[u32], home| {
            Residency::of(&view(snapshot(gpu, gpu, gpu)), 4).adapter_score(AdapterId(0), home, &spec)
        };
        assert!(
            (score(&[0, 1, 2, 3], Home::Here) - 0.94).abs() < 1e-12,
            "in a slot: no placement, no headroom"
        );
        assert!((score(&[1], Home::Here) - (0.6 * 0.94 + 0.03 + 0.03 * 0.75)).abs() < 1e-12);
        assert!((score(&[1], Home::Elsewhere) - (0.6 * 0.94 + 0.03 * 0.75)).abs() < 1e-12);
        assert!(score(&[], Home::Here) < 0.7 * 0.94, "all bonuses on a free slot are below host memory");
    }

    #[test]
    fn base_drifts_to_where_fewer_slots_serve_adapters() {
        let score = |snapshot| Residency::of(&view(snapshot), 4).base_score();
        assert_eq!(score(snapshot(&[0, 1, 2], &[], &[1])), 0.75, "idle residents don't count");
        assert_eq!(score(ReplicaSnapshot::default()), 1.0);
    }

    #[test]
    fn first_requests_for_an_adapter_meet_on_one_replica() {
        let mut router = Router::new(&PolicySpec::LoraLoadState(Default::default()), context(8)).unwrap();
        let mut route = |id, task| router.dispatch(Nanos::ZERO, &request(id, task, 10)).replica;
        let home = route(0, 2);
        assert!((1..50).all(|id| route(id, 2) == home));
    }

    #[test]
    fn an_idle_resident_adapter_attracts_until_a_queue_outvotes_it_and_a_second_copy_is_loaded() {
        let place = |queued| {
            let mut router = Router::new(&PolicySpec::LoraLoadState(Default::default()), context(2)).unwrap();
            let holder = ReplicaSnapshot { queued: Some(queued), ..snapshot(&[0], &[0], &[]) };
            router.apply(&scraped(Nanos::ZERO, 1, holder));
            router.apply(&scraped(Nanos::ZERO, 0, snapshot(&[1, 2, 3, 4], &[1, 2, 3, 4], &[1, 2, 3, 4])));
            router.dispatch(Nanos::ZERO, &request(0, 0, 10)).replica.0
        };
        assert_eq!(place(0), 1);
        assert_eq!(place(1), 0, "one waiting request costs 2, residency is worth 1");
    }
}
