//! The order in which waiting requests are looked at (`SchedulePolicy.calc_priority`). Sorting is stable and stays: what
//! one pass put first is first among equals in the next.

use super::Replica;
use super::memory::Memory;
use super::rules::SglangRules;
use super::subtrees::depth_first;
use super::text::Text;
use super::tree::{Insertion, RadixTree};
use crate::jobs::{JobKey, Jobs};
use crate::replica::Engine;
use crate::{CacheCondition, RadixEvictionPolicy, SchedulePolicy};
use acb_types::Seed;

/// Requests beyond which matching all of them is too dear (`WAITING_QUEUE_PREFIX_MATCH_MAX`).
const MOST_MATCHED: u32 = 128;
/// Passes between two that refresh the cached prefixes of waiting requests (`WAITING_PREFIX_REFRESH_INTERVAL`).
pub(super) const REFRESH_INTERVAL: u64 = 32;
/// A request that has at most so much cached and at least so much in common with one that waits before it goes last
/// (`IN_BATCH_PREFIX_CACHING_*`).
const SHARED_PREFIX_TOKENS: u32 = 32;

/// How the order is made in this pass.
fn active_policy(rules: &SglangRules, condition: CacheCondition, waiting: u32) -> SchedulePolicy {
    match rules.schedule_policy {
        SchedulePolicy::Lpm | SchedulePolicy::DfsWeight if condition == CacheCondition::PrefixDisabled => {
            SchedulePolicy::Fcfs
        }
        SchedulePolicy::Lpm if waiting > MOST_MATCHED => SchedulePolicy::Fcfs,
        policy => policy,
    }
}

impl Replica {
    /// Puts the waiting requests in order for a pass over them.
    pub(super) fn put_in_order(&mut self, engine: &mut Engine<'_>) {
        let rules = engine.rules.sglang();
        let policy = active_policy(rules, engine.rules.condition, self.queue.len());
        if policy != SchedulePolicy::Fcfs {
            let mut keys: Vec<JobKey> = self.queue.iter(engine.jobs).collect();
            match policy {
                SchedulePolicy::Fcfs => {}
                SchedulePolicy::Lpm => longest_prefix_first(&mut self.memory, engine.jobs, &mut keys),
                SchedulePolicy::DfsWeight => heaviest_first(&mut self.memory, engine.jobs, &mut keys),
                SchedulePolicy::Lof => {
                    keys.sort_by_key(|&k| std::cmp::Reverse(engine.jobs[k].request.max_output_tokens));
                }
                SchedulePolicy::Random => {
                    let seed = Seed(rules.random_seed).child("sglang_schedule").child(&self.id.to_string());
                    let step = seed.child(&self.steps.to_string());
                    let draw = |key: JobKey| step.unit(engine.jobs[key].arrival);
                    keys.sort_by(|&a, &b| draw(a).total_cmp(&draw(b)));
                }
            }
            self.queue.reorder(engine.jobs, &keys);
        }
        self.refreshing = self.may_refresh(engine, policy);
        if self.refreshing && self.refreshes.is_multiple_of(REFRESH_INTERVAL) {
            self.refresh(engine);
        }
        self.refreshes += u64::from(self.refreshing);
    }

    /// Whether cached prefixes of waiting requests are kept from being given up.
    fn may_refresh(&self, engine: &Engine<'_>, policy: SchedulePolicy) -> bool {
        let matches = matches!(policy, SchedulePolicy::Lpm | SchedulePolicy::DfsWeight);
        let lru = engine.rules.sglang().radix_eviction_policy == RadixEvictionPolicy::Lru;
        !matches && lru && self.memory.tree().is_some() && self.queue.len() > 0
    }

    /// Touches the cached prefixes of the first waiting requests, the first of them last.
    fn refresh(&mut self, engine: &mut Engine<'_>) {
        let keys: Vec<JobKey> = self.queue.iter(engine.jobs).take(MOST_MATCHED as usize).collect();
        for &key in keys.iter().rev() {
            let job = &mut engine.jobs[key];
            let whole = job.tokens();
            self.memory.find(job, whole);
        }
    }
}

/// Sorts by cached tokens, most first; who shares its start with one that waits before it goes last.
fn longest_prefix_first(memory: &mut Memory, jobs: &mut Jobs, keys: &mut [JobKey]) {
    let mut waiting = RadixTree::new(1, RadixEvictionPolicy::Lru);
    let mut ranks: Vec<((bool, u32), JobKey)> = Vec::with_capacity(keys.len());
    for &key in keys.iter() {
        let job = &mut jobs[key];
        let whole = job.tokens();
        let found = memory.find(job, whole);
        let mut last = false;
        if found <= SHARED_PREFIX_TOKENS {
            let text = Text::new(&job.request.prompt, job.request.id, whole);
            let namespace = job.shared.namespace;
            if waiting.find(namespace, text).0 >= SHARED_PREFIX_TOKENS {
                last = true;
            } else {
                waiting.insert(&Insertion { namespace, text, priority: 0, inserted: 0 });
            }
        }
        ranks.push(((last, u32::MAX - found.min(whole - 1)), key));
    }
    ranks.sort_by_key(|&(rank, _)| rank);
    for (at, (_, key)) in ranks.into_iter().enumerate() {
        keys[at] = key;
    }
}

/// Sorts by the weight of the subtrees in which their cached prefixes end.
fn heaviest_first(memory: &mut Memory, jobs: &mut Jobs, keys: &mut [JobKey]) {
    for &key in keys.iter() {
        let whole = jobs[key].tokens();
        memory.find(&mut jobs[key], whole);
    }
    let Some(tree) = memory.tree() else { return };
    let ends: Vec<_> = keys.iter().map(|&key| jobs[key].shared.node).collect();
    let before = keys.to_vec();
    for (at, from) in depth_first(tree, &ends).into_iter().enumerate() {
        keys[at] = before[from];
    }
}
