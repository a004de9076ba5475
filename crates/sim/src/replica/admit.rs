//! The second pass of planning a step: waiting requests in order, past those that lack an adapter slot.

use super::{Door, Engine, Replica};
use crate::CacheCondition;
use crate::jobs::{JobKey, Stage};

/// What a waiting request would take if it was admitted now.
struct Admission {
    hit_tokens: u32,
    tokens: u32,
}

impl Replica {
    /// Admits waiting requests while the token budget, the batch and the memory allow.
    pub(super) fn admit(&mut self, engine: &mut Engine<'_>, mut budget: u32) -> Door {
        loop {
            if budget == 0 || self.running.len() >= engine.rules.vllm().max_running {
                return Door::Shut;
            }
            let candidate = self.next_candidate(engine);
            self.count_skipped(engine, candidate);
            let Some(key) = candidate else { return Door::Open };
            // What the step of the others takes and gives up comes first.
            self.decoding.settle(self.step + 1, &mut self.pool);
            let Some(admission) = self.admission(engine, key, budget) else { return Door::Shut };
            self.enter(engine, key, &admission);
            budget -= admission.tokens;
        }
    }

    /// Notes how many requests are before the candidate; without one, all that wait are passed over.
    fn count_skipped(&mut self, engine: &Engine<'_>, candidate: Option<JobKey>) {
        if engine.rules.latency.counts_skipped() {
            let all = u64::from(self.queue.len());
            self.skipped = candidate.map_or(all, |key| self.queue.before(engine.jobs, key));
        }
    }

    /// The first waiting request whose adapter has a slot. Those before it are skipped and keep their order.
    fn next_candidate(&self, engine: &Engine<'_>) -> Option<JobKey> {
        let used = self.adapters.used();
        if used.len() < engine.rules.adapters.gpu_slots as usize {
            self.queue.first()
        } else {
            self.queue.first_among(engine.jobs, used)
        }
    }

    /// Whether the request fits: with `scheduler_reserve_full_isl` all of its tokens, else its first chunk.
    fn admission(&mut self, engine: &mut Engine<'_>, key: JobKey, budget: u32) -> Option<Admission> {
        let hit_blocks = self.find_hits(engine, key);
        let rules = engine.rules;
        let hit_tokens = hit_blocks * rules.block;
        let whole = engine.jobs[key].tokens();
        let mut tokens = whole - hit_tokens;
        let exists_others = self.running.len() as u64 + u64::from(self.queue.len()) > 1;
        if let Some(cap) = rules.vllm().long_prefill.filter(|_| exists_others) {
            tokens = tokens.min(cap);
        }
        if !rules.vllm().chunked && tokens > budget {
            return None;
        }
        let tokens = tokens.min(budget);
        let must_fit = if rules.vllm().reserve_whole { whole } else { hit_tokens + tokens };
        let revived = self.pool.free_among(&self.hits);
        let watermark = if self.running.is_empty() { 0 } else { rules.vllm().watermark };
        let blocks = rules.blocks_for(must_fit) - hit_blocks + revived + watermark;
        (blocks <= self.pool.free()).then_some(Admission { hit_tokens, tokens })
    }

    /// Length of the longest run of cached full blocks that leaves at least one token to compute.
    fn find_hits(&mut self, engine: &mut Engine<'_>, key: JobKey) -> u32 {
        self.hits.clear();
        let rules = engine.rules;
        if rules.condition != CacheCondition::Warm {
            return 0;
        }
        let job = &mut engine.jobs[key];
        rules.hash(job);
        let most = (job.tokens() - 1) / rules.block;
        self.pool.find(&job.text, most, &mut self.hits)
    }

    fn enter(&mut self, engine: &mut Engine<'_>, key: JobKey, admission: &Admission) {
        self.queue.remove(engine.jobs, key);
        let oldest = self.queue.oldest_arrival(engine.jobs);
        let job = &mut engine.jobs[key];
        self.pool.touch(&self.hits, &mut job.blocks);
        job.computed = admission.hit_tokens;
        job.stage = Stage::Stepwise;
        job.admission = self.admissions;
        self.admissions += 1;
        if engine.rules.condition != CacheCondition::PrefixDisabled {
            self.counters.prefix_query_tokens += u64::from(job.tokens());
            self.counters.prefix_hit_tokens += u64::from(admission.hit_tokens);
            job.prefix_hit_tokens.get_or_insert(admission.hit_tokens);
        }
        if job.admitted.is_none() {
            job.admitted = Some(self.now.floor());
            job.overtaken = self.overtakes.admit(job.arrival, oldest);
        }
        if let Some(adapter) = job.adapter() {
            if !self.adapters.is_used(adapter) {
                self.to_load.push((adapter, key));
            }
            self.adapters.acquire(adapter);
        }
        self.running.push(key);
        self.stepwise.push(key);
        self.grow(engine, key, admission.tokens);
        self.planned.push((key, admission.tokens));
    }
}
