//! `epp_weighted`: the endpoint picker (EPP) of llm-d and of the Gateway API inference extension: the highest weighted sum
//! of a queue, a KV and a prefix score, and of `lora-affinity`, which its default profile leaves out (`lora_weight: 0`).
//!
//! `lora-affinity`: 1.0 when the adapter has a request in flight there; else 0.8 when a slot counts as free; else 0. (Its
//! tier of 0.6 for a waiting adapter can't be reached: vLLM lists every adapter with a request as running and as waiting.)
//! A request for base is scored as if base were one more adapter. The other scorers: see `epp.rs` and docs/policies.md.
//!
//! Sees state scraped every `scrape_interval_ms` (50, its default; 0: true state) and its own history. Requests sent since
//! the scrape aren't counted.
//!
//! Kept faults: it reads activity and not residency, so that an adapter that lies idle in a slot attracts nothing and at
//! low concurrency all replicas score 0.8 and one is drawn (llm-d-router issues 2605, 709); both lists are added up, so
//! that an adapter counts twice and slots look full at half. The latter was mended in pull request 2625 (September 2026):
//! `lora_capacity: counted_once`.

use super::AdapterChoice;
use super::epp::{PREFIXES, Profile, Weights, scraped};
use super::parameter::{Parameter, check_interval, scraped_every};
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixUse, Reason, ReplicaView, RouterContext, RouterEvent,
    RoutingError, RoutingPolicy,
};
use acb_types::{AdapterId, Request, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const ACTIVE: f64 = 1.0;
const FREE_SLOT: f64 = 0.8;

/// How many of a replica's slots its active adapters are taken to fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoraCapacity {
    /// Two each: as running and as waiting.
    #[default]
    CountedTwice,
    /// One each, as since pull request 2625.
    CountedOnce,
}

/// Weights of the scorers, and how often servers are scraped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EppWeightedSpec {
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
    /// Weight of the adapter score, at least 0; 1 where `lora-affinity` is enabled.
    pub lora_weight: f64,
    /// How many of a replica's slots its active adapters are taken to fill.
    pub lora_capacity: LoraCapacity,
}

impl Default for EppWeightedSpec {
    fn default() -> Self {
        Self {
            adapter_choice: AdapterChoice::default(),
            scrape_interval_ms: 50.0,
            queue_weight: 2.0,
            kv_weight: 2.0,
            prefix_weight: 3.0,
            lora_weight: 0.0,
            lora_capacity: LoraCapacity::default(),
        }
    }
}

impl Parameters for EppWeightedSpec {
    fn name(&self) -> &'static str {
        "epp_weighted"
    }
    fn summary(&self) -> &'static str {
        "llm-d endpoint picker: highest weighted sum of queue, KV, prefix and (when weighted) adapter activity scores"
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
        own("lora_weight", self.lora_weight).at_least_zero()
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.adapter_choice.check(self.name(), &context.adapters)?;
        let weights = Weights { queue: self.queue_weight, kv: self.kv_weight, prefix: self.prefix_weight };
        let profile = Profile::new(weights, context.replicas);
        Ok(Box::new(EppWeighted { spec: self.clone(), slots: context.costs.gpu_slots, profile }))
    }
}

struct EppWeighted {
    spec: EppWeightedSpec,
    slots: u32,
    profile: Profile,
}

impl RoutingPolicy for EppWeighted {
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
        let lora = |view: &ReplicaView| spec.lora_weight * affinity(view, adapter, slots, spec.lora_capacity);
        self.profile.score(adapter, request, state, lora);
        Decision { replica: self.profile.pick(rng), adapter, reason: Reason::BestScore }
    }
    fn observe(&mut self, event: &RouterEvent) {
        self.profile.observe(event);
    }
}

fn affinity(view: &ReplicaView, adapter: Option<AdapterId>, slots: u32, capacity: LoraCapacity) -> f64 {
    let active = scraped(view).and_then(|s| s.active_adapters.as_deref()).unwrap_or(&[]);
    let taken = match capacity {
        LoraCapacity::CountedTwice => 2 * active.len(),
        LoraCapacity::CountedOnce => active.len(),
    };
    if adapter.is_some_and(|adapter| active.binary_search(&adapter).is_ok()) {
        ACTIVE
    } else if taken < slots as usize {
        FREE_SLOT
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, request, scraped};
    use crate::{PolicySpec, ReplicaSnapshot, Router};
    use acb_types::Nanos;

    fn with_lora(lora_weight: f64, lora_capacity: LoraCapacity) -> Router {
        let spec = EppWeightedSpec { lora_weight, lora_capacity, ..Default::default() };
        Router::new(&PolicySpec::EppWeighted(spec), context(2)).unwrap()
    }

    fn says(router: &mut Router, replica: u32, snapshot: ReplicaSnapshot) {
        router.apply(&scraped(Nanos::ZERO, replica, snapshot));
    }

    fn active(adapters: &[u32]) -> ReplicaSnapshot {
        let active = adapters.iter().copied().map(AdapterId).collect();
        ReplicaSnapshot { active_adapters: Some(active), ..Default::default() }
    }

    /// How many of 100 requests for task 0, each of its own prompt, go to replica 1.
    fn share_of_replica_1(router: &mut Router) -> u32 {
        (0..100).map(|id| router.dispatch(Nanos::ZERO, &request(id, 0, 10)).replica.0).sum()
    }

    #[test]
    fn a_prefix_outweighs_a_queue_score_and_not_queue_and_kv_together() {
        let served = |queued, free| {
            let mut router = with_lora(0.0, LoraCapacity::CountedTwice);
            for replica in 0..2 {
                says(
                    &mut router,
                    replica,
                    ReplicaSnapshot { free_kv_tokens: Some(100), ..Default::default() },
                );
            }
            let first = router.dispatch(Nanos::ZERO, &request(0, 0, 160)).replica;
            let loaded =
                ReplicaSnapshot { queued: Some(queued), free_kv_tokens: Some(free), ..Default::default() };
            says(&mut router, first.0, loaded);
            let next = Request { prompt: request(0, 0, 160).prompt, ..request(1, 0, 160) };
            router.dispatch(Nanos::ZERO, &next).replica == first
        };
        // The holder scores 2 * 0 + 2 * usage + 3 * 1 against 2 * 1 + 2 * 1 + 0 of the other.
        assert!(served(9, 100), "5 against 4");
        assert!(served(9, 60), "4.2 against 4");
        assert!(!served(9, 40), "3.8 against 4");
    }

    #[test]
    fn at_low_concurrency_all_score_alike_and_an_idle_resident_adapter_attracts_nothing() {
        let mut router = with_lora(1.0, LoraCapacity::CountedTwice);
        let resident = ReplicaSnapshot { gpu_adapters: Some(vec![AdapterId(0)]), ..active(&[]) };
        says(&mut router, 0, active(&[]));
        says(&mut router, 1, resident);
        assert!((30..70).contains(&share_of_replica_1(&mut router)), "both score 0.8");
    }

    #[test]
    fn an_adapter_with_a_request_in_flight_attracts_its_own() {
        let mut router = with_lora(1.0, LoraCapacity::CountedTwice);
        says(&mut router, 0, active(&[]));
        says(&mut router, 1, active(&[0]));
        assert_eq!(share_of_replica_1(&mut router), 100, "1.0 against 0.8");
    }

    #[test]
    fn slots_look_full_at_half_because_adapters_count_twice() {
        let share = |lora_capacity| {
            let mut router = with_lora(1.0, lora_capacity);
            says(&mut router, 0, active(&[]));
            says(&mut router, 1, active(&[2, 3]));
            share_of_replica_1(&mut router)
        };
        // Of four slots two are free on replica 1.
        assert_eq!(share(LoraCapacity::CountedTwice), 0, "0 against 0.8");
        assert!((30..70).contains(&share(LoraCapacity::CountedOnce)), "0.8 against 0.8");
    }

    #[test]
    fn without_the_adapter_score_activity_is_not_looked_at() {
        let mut router = with_lora(0.0, LoraCapacity::CountedTwice);
        says(&mut router, 0, active(&[0]));
        says(&mut router, 1, active(&[1, 2, 3]));
        assert!((30..70).contains(&share_of_replica_1(&mut router)));
    }

    #[test]
    fn requests_sent_since_the_scrape_are_not_seen() {
        let mut router = with_lora(0.0, LoraCapacity::CountedTwice);
        says(&mut router, 0, ReplicaSnapshot { queued: Some(1), ..Default::default() });
        says(&mut router, 1, ReplicaSnapshot { queued: Some(0), ..Default::default() });
        assert_eq!(share_of_replica_1(&mut router), 100, "a herd until the next scrape");
    }
}
