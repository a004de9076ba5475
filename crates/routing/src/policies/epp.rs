//! What the arms after llm-d's endpoint picker (EPP) share: the scorers of its default profile and its picker.
//!
//! - queue: `(max - q) / (max - min)` over the replicas' waiting requests, 1 when all are equal;
//! - KV: `1 - usage`;
//! - prefix: matched over all full blocks of the prompt, by blocks of 16 tokens (64 characters), of the first 256 of
//!   which a replica's last 31,250 are remembered, keyed by adapter and salt;
//! - the highest weighted sum wins, ties are drawn.
//!
//! What a server doesn't say counts as 0, as it does there. A server says how much KV memory is free and not how much it
//! has: usage is taken of the most that was ever seen free, which is exact once a replica was scraped idle.
//!
//! Read in kubernetes-sigs/gateway-api-inference-extension, pkg/epp/framework/plugins (scheduling/scorer,
//! requestcontrol/dataproducer/approximateprefix), which is llm-d/llm-d-router since.

use super::pick::{draw, lowest_by};
use crate::{
    DispatchState, PrefixIndexSpec, PrefixKey, PrefixRules, PrefixUse, ReplicaSnapshot, ReplicaView,
    RouterEvent,
};
use acb_types::{AdapterId, ReplicaId, Request, Stream};

const SIZE: PrefixIndexSpec = PrefixIndexSpec { block_tokens: 16, capacity_blocks: 31_250 };
const PROMPT_BLOCKS: u32 = 256;

/// How its index is kept.
pub(super) const PREFIXES: PrefixUse = PrefixUse::Kept(PrefixRules {
    key: PrefixKey::AdapterAndSalt,
    size: Some(SIZE),
    prompt_blocks: Some(PROMPT_BLOCKS),
});

/// Weights of the default profile's scorers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) queue: f64,
    pub(super) kv: f64,
    pub(super) prefix: f64,
}

/// A profile of scorers over replicas, and what it remembers of them.
pub(super) struct Profile {
    weights: Weights,
    /// The most KV tokens that were ever seen free, by replica.
    kv_capacity: Vec<u64>,
    matches: Vec<u32>,
    scores: Vec<f64>,
    best: Vec<ReplicaId>,
}

impl Profile {
    pub(super) fn new(weights: Weights, replicas: u32) -> Self {
        let kv_capacity = vec![0; replicas as usize];
        Self { weights, kv_capacity, matches: Vec::new(), scores: Vec::new(), best: Vec::new() }
    }

    pub(super) fn observe(&mut self, event: &RouterEvent) {
        if let RouterEvent::Scraped { replica, snapshot, .. } = event {
            let capacity = &mut self.kv_capacity[replica.index()];
            *capacity = (*capacity).max(snapshot.free_kv_tokens.unwrap_or(0));
        }
    }

    /// Scores every replica, `lora` being what one more scorer adds, already weighted.
    pub(super) fn score(
        &mut self,
        adapter: Option<AdapterId>,
        request: &Request,
        state: &DispatchState,
        lora: impl Fn(&ReplicaView) -> f64,
    ) {
        state.prefix_match_all(adapter, request, &mut self.matches);
        let blocks = (request.prompt.tokens() / SIZE.block_tokens).min(PROMPT_BLOCKS);
        let queues = || state.replicas.iter().map(queued);
        let (min, max) = (queues().min().unwrap_or(0), queues().max().unwrap_or(0));
        self.scores.clear();
        for view in &state.replicas {
            let matched = self.matches[view.id.index()] / SIZE.block_tokens;
            let score = self.weights.queue * queue_score(queued(view), min, max)
                + self.weights.kv * (1.0 - self.kv_usage(view))
                + self.weights.prefix * prefix_score(matched, blocks)
                + lora(view);
            self.scores.push(score);
        }
    }

    /// The replica of the highest score, drawn when several have it.
    pub(super) fn pick(&mut self, rng: &mut Stream) -> ReplicaId {
        let scores = &self.scores;
        let replicas = (0..scores.len() as u32).map(ReplicaId);
        lowest_by(replicas, |r| -scores[r.index()], &mut self.best);
        draw(&self.best, rng)
    }

    /// Share of the replica's KV memory that is held by requests.
    fn kv_usage(&self, view: &ReplicaView) -> f64 {
        let capacity = self.kv_capacity[view.id.index()];
        match scraped(view).and_then(|s| s.free_kv_tokens) {
            Some(free) if capacity > 0 => 1.0 - free as f64 / capacity as f64,
            _ => 0.0,
        }
    }
}

pub(super) fn scraped(view: &ReplicaView) -> Option<&ReplicaSnapshot> {
    view.scraped.as_ref().map(|scraped| &scraped.snapshot)
}

fn queued(view: &ReplicaView) -> u32 {
    scraped(view).and_then(|s| s.queued).unwrap_or(0)
}

fn queue_score(queued: u32, min: u32, max: u32) -> f64 {
    if max == min { 1.0 } else { f64::from(max - queued) / f64::from(max - min) }
}

fn prefix_score(matched: u32, blocks: u32) -> f64 {
    if blocks == 0 { 0.0 } else { f64::from(matched) / f64::from(blocks) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, prompt, request, scraped};
    use crate::{Router, RouterContext};
    use acb_types::Nanos;

    #[test]
    fn the_shortest_queue_scores_one_and_the_longest_zero() {
        assert_eq!([0, 3, 12].map(|q| queue_score(q, 0, 12)), [1.0, 0.75, 0.0]);
        assert_eq!(queue_score(7, 7, 7), 1.0);
    }

    #[test]
    fn kv_usage_is_of_the_most_that_was_ever_free_and_zero_when_unknown() {
        let mut profile = Profile::new(Weights { queue: 0.0, kv: 1.0, prefix: 0.0 }, 2);
        let mut state = DispatchState::new(&context(2), PREFIXES);
        assert_eq!(profile.kv_usage(&state.replicas[1]), 0.0);
        for free in [1_000, 250] {
            let snapshot = ReplicaSnapshot { free_kv_tokens: Some(free), ..Default::default() };
            profile.observe(&scraped(Nanos::ZERO, 1, snapshot.clone()));
            state.replicas[1].scraped = Some(crate::Scraped { observed_at: Nanos::ZERO, snapshot });
        }
        assert_eq!(profile.kv_usage(&state.replicas[1]), 0.75);
    }

    #[test]
    fn a_prompt_beyond_256_blocks_is_matched_by_its_first_256() {
        let spec = crate::PolicySpec::EppWeighted(crate::EppWeightedSpec::default());
        let cluster = RouterContext { replicas: 1, ..context(1) };
        let mut router = Router::new(&spec, cluster).unwrap();
        let long = Request { prompt: prompt(&[(1, 10_000)]), ..request(0, 0, 1) };
        let adapter = router.dispatch(Nanos::ZERO, &long).adapter;
        assert_eq!(router.state().prefix_match_tokens(ReplicaId(0), adapter, &long), 256 * 16);
    }
}
