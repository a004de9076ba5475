//! The scheduler to the letter: every request is looked at in every step, with plain containers and no sums. Slow on
//! purpose; the engine must agree with it in everything that can be seen.

use super::bed::{Ask, Kept};
use super::pool::Pool;
use crate::adapters::{AdapterCosts, AdapterPool};
use crate::exact::Exact;
use crate::latency::{Batch, Latency, Slots};
use crate::rules::{namespace, salted};
use crate::{CacheCondition, ClusterSpec};
use acb_types::{AdapterId, Adapters, ContentId, Nanos, Outcome, Prompt, Request, Segment};
use std::collections::{BTreeMap, VecDeque};

struct Job {
    kept: Kept,
    request: Request,
    answer: u32,
    produced: u32,
    computed: u32,
    blocks: Vec<u32>,
    hashes: Vec<u64>,
    last_token: Exact,
    itl_max: Exact,
}

impl Job {
    fn tokens(&self) -> u32 {
        self.request.prompt.tokens() + self.produced
    }
    fn adapter(&self) -> Option<AdapterId> {
        self.kept.decision.adapter
    }
}

/// One replica, to the letter.
pub struct Reference<'a> {
    spec: &'a ClusterSpec,
    latency: Latency,
    costs: AdapterCosts,
    pool: Pool,
    adapters: AdapterPool,
    jobs: Vec<Job>,
    waiting: VecDeque<usize>,
    running: Vec<usize>,
    step: u64,
    pub preemptions: u64,
    done: Vec<Kept>,
}

/// Completions by id, steps, evicted blocks.
pub struct Expected {
    pub by_id: Vec<Kept>,
    pub steps: u64,
    pub evictions: u64,
    pub preemptions: u64,
}

/// Serves the same requests as `kept` says were sent where, with the decisions that it says were taken.
pub fn serve(spec: &ClusterSpec, asks: &[Ask], adapters: &Adapters, sent: &[Kept]) -> Expected {
    let profile = spec.latency_profile().unwrap();
    let costs = AdapterCosts::new(adapters, spec, &profile);
    let mut reference = Reference {
        spec,
        latency: Latency::new(&profile, Slots::of(spec)),
        pool: Pool::new(spec.kv_blocks().unwrap() as u32),
        adapters: AdapterPool::new(&costs),
        costs,
        jobs: Vec::new(),
        waiting: VecDeque::new(),
        running: Vec::new(),
        step: 0,
        preemptions: 0,
        done: Vec::new(),
    };
    let mut sorted: Vec<&Ask> = asks.iter().collect();
    sorted.sort_by_key(|ask| ask.due);
    for (ask, kept) in sorted.iter().zip(sent) {
        reference.jobs.push(reference.job(ask, kept, adapters));
    }
    reference.run();
    reference.done.sort_by_key(|kept| kept.id);
    Expected {
        by_id: reference.done,
        steps: reference.step,
        evictions: reference.pool.evictions,
        preemptions: reference.preemptions,
    }
}

impl Reference<'_> {
    fn job(&self, ask: &Ask, kept: &Kept, adapters: &Adapters) -> Job {
        let request = ask.arrival(kept.id).request;
        let mut whole = request.prompt.clone();
        whole.push(Segment { content: ContentId::of_output(request.id), tokens: ask.answer });
        let name = kept.decision.adapter.map(|a| adapters.get(a).name.as_str());
        let namespace = salted(namespace(name.map(|n| (n, n))), request.cache_salt);
        let hashes = self.hashes(&whole, namespace, &request, kept.decision.adapter);
        let blank = Kept {
            outcome: Outcome::Ok,
            admitted: None,
            first: None,
            last: None,
            itl_max: None,
            output: 0,
            hit: None,
            load: None,
            preemptions: 0,
            overtaken: 0,
            ended_at: 0,
            ..kept.clone()
        };
        Job {
            kept: blank,
            answer: ask.answer,
            request,
            produced: 0,
            computed: 0,
            blocks: Vec::new(),
            hashes,
            last_token: Exact::ZERO,
            itl_max: Exact::ZERO,
        }
    }

    /// Hashes of the full blocks: of an adapter's, those that end before the invocation are base's, and the others belong to
    /// the adapter and to the block at which it begins.
    fn hashes(&self, whole: &Prompt, own: u64, request: &Request, adapter: Option<AdapterId>) -> Vec<u64> {
        let block = self.spec.vllm().block_size;
        let Some(alora) = self.spec.what_if.alora.as_ref().filter(|_| adapter.is_some()) else {
            return whole.block_hashes(own, block).collect();
        };
        let before = request.prompt.tokens().saturating_sub(alora.invocation_tokens) / block;
        let base = whole.block_hashes(salted(namespace(None), request.cache_salt), block);
        let adapted = whole.block_hashes(salted(own, Some(u64::from(before))), block);
        base.take(before as usize).chain(adapted.skip(before as usize)).collect()
    }

    /// Of the tokens of a step, those from the invocation on.
    fn adapted(&self, job: &Job, tokens: u32) -> u32 {
        let invocation = self.spec.what_if.alora.as_ref().map_or(u32::MAX, |alora| alora.invocation_tokens);
        let from = job.request.prompt.tokens().saturating_sub(invocation);
        let under_adapter = (job.computed..job.computed + tokens).filter(|&token| token >= from).count();
        if job.adapter().is_some() { under_adapter as u32 } else { 0 }
    }

    fn rejected(&self, job: &Job) -> bool {
        let vllm = self.spec.vllm();
        let whole = job.request.prompt.tokens() + job.answer;
        whole > vllm.context_tokens
            || u64::from((whole - 1).div_ceil(vllm.block_size)) > self.spec.kv_blocks().unwrap()
    }

    fn run(&mut self) {
        let (mut next, mut now) = (0, Exact::ZERO);
        loop {
            if self.running.is_empty() && self.waiting.is_empty() {
                let Some(job) = self.jobs.get(next) else { return };
                now = now.max(Exact::from(job.request.due));
            }
            while next < self.jobs.len() && self.jobs[next].request.due <= now.floor() {
                if self.rejected(&self.jobs[next]) {
                    let kept = &mut self.jobs[next].kept;
                    (kept.outcome, kept.ended_at) = (Outcome::Rejected, kept.sent);
                    self.done.push(kept.clone());
                } else {
                    self.waiting.push_back(next);
                }
                next += 1;
            }
            if !self.running.is_empty() || !self.waiting.is_empty() {
                now = self.one_step(now);
            }
        }
    }

    fn one_step(&mut self, now: Exact) -> Exact {
        let mut scheduled: Vec<(usize, u32)> = Vec::new();
        let mut budget = self.spec.vllm().max_num_batched_tokens;
        let preempted = self.first_pass(&mut scheduled, &mut budget);
        let (mut newcomers, mut skipped) = (Vec::new(), 0);
        if !preempted {
            skipped = self.second_pass(now, &mut scheduled, &mut budget, &mut newcomers);
        }
        let load = self.load(&newcomers, now);
        let end = now + self.latency.step_time(&Batch { skipped, ..self.batch(&scheduled) }) + load;
        self.step += 1;
        self.emit(end, &scheduled);
        end
    }

    fn first_pass(&mut self, scheduled: &mut Vec<(usize, u32)>, budget: &mut u32) -> bool {
        let block = self.spec.vllm().block_size;
        let others = self.running.len() + self.waiting.len() > 1;
        let cap = self.spec.vllm().long_prefill_token_threshold;
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let job = self.running[at];
            let mut tokens = self.jobs[job].tokens() - self.jobs[job].computed;
            if cap > 0 && others {
                tokens = tokens.min(cap);
            }
            let tokens = tokens.min(*budget);
            loop {
                let needed = (self.jobs[job].computed + tokens).div_ceil(block);
                if needed - self.jobs[job].blocks.len() as u32 <= self.pool.free.len() as u32 {
                    break;
                }
                preempted = true;
                let victim = self.running.pop().unwrap();
                self.preempt(victim);
                if victim == job {
                    return true;
                }
            }
            self.allocate(job, tokens);
            scheduled.push((job, tokens));
            *budget -= tokens;
            at += 1;
        }
        preempted
    }

    fn preempt(&mut self, victim: usize) {
        let job = &mut self.jobs[victim];
        self.pool.release(&mut job.blocks);
        job.computed = 0;
        job.kept.preemptions += 1;
        self.preemptions += 1;
        if let Some(adapter) = job.adapter() {
            self.adapters.release(adapter, self.step.saturating_sub(1));
        }
        self.waiting.push_front(victim);
    }

    fn allocate(&mut self, job: usize, tokens: u32) {
        let block = self.spec.vllm().block_size;
        let job = &mut self.jobs[job];
        let end = job.computed + tokens;
        while (job.blocks.len() as u32) < end.div_ceil(block) {
            job.blocks.push(self.pool.take());
        }
        if self.spec.cache_condition == CacheCondition::Warm {
            for full in job.computed / block..end / block {
                self.pool.register(job.blocks[full as usize], job.hashes[full as usize]);
            }
        }
    }

    /// Admits, and says how many it passed over.
    fn second_pass(
        &mut self,
        now: Exact,
        scheduled: &mut Vec<(usize, u32)>,
        budget: &mut u32,
        newcomers: &mut Vec<usize>,
    ) -> u64 {
        let vllm = self.spec.vllm().clone();
        let mut skipped = Vec::new();
        while *budget > 0 && self.running.len() < vllm.max_num_seqs as usize {
            let Some(&job) = self.waiting.front() else { break };
            if let Some(adapter) = self.jobs[job].adapter() {
                let set: std::collections::BTreeSet<AdapterId> =
                    self.running.iter().filter_map(|&j| self.jobs[j].adapter()).collect();
                if !set.contains(&adapter) && set.len() == vllm.max_loras as usize {
                    skipped.push(self.waiting.pop_front().unwrap());
                    continue;
                }
            }
            let hits = self.hits(job);
            let hit_tokens = hits.len() as u32 * vllm.block_size;
            let whole = self.jobs[job].tokens();
            // Skipped requests exist as well.
            let others = self.running.len() + self.waiting.len() + skipped.len() > 1;
            let mut tokens = whole - hit_tokens;
            if vllm.long_prefill_token_threshold > 0 && others {
                tokens = tokens.min(vllm.long_prefill_token_threshold);
            }
            if !vllm.enable_chunked_prefill && tokens > *budget {
                break;
            }
            let tokens = tokens.min(*budget);
            let fit = if vllm.scheduler_reserve_full_isl { whole } else { hit_tokens + tokens };
            let revived = hits.iter().filter(|&&b| self.pool.holders[b as usize] == 0).count() as u32;
            let watermark = (vllm.watermark * self.pool.holders.len() as f64) as u32;
            let spare = if self.running.is_empty() { 0 } else { watermark };
            let needed = fit.div_ceil(vllm.block_size) - hits.len() as u32 + revived + spare;
            if needed > self.pool.free.len() as u32 {
                break;
            }
            self.waiting.pop_front();
            self.admit(job, &hits, now);
            newcomers.push(job);
            self.allocate(job, tokens);
            scheduled.push((job, tokens));
            *budget -= tokens;
        }
        let count = skipped.len() as u64;
        for job in skipped.into_iter().rev() {
            self.waiting.push_front(job);
        }
        count
    }

    fn hits(&self, job: usize) -> Vec<u32> {
        let job = &self.jobs[job];
        let most = (job.tokens() - 1) / self.spec.vllm().block_size;
        if self.spec.cache_condition != CacheCondition::Warm {
            return Vec::new();
        }
        job.hashes[..most as usize].iter().map_while(|&hash| self.pool.lookup(hash)).collect()
    }

    fn admit(&mut self, index: usize, hits: &[u32], now: Exact) {
        let block = self.spec.vllm().block_size;
        for &hit in hits {
            self.pool.touch(hit);
        }
        let later = |other: &Job| other.kept.id > self.jobs[index].kept.id && other.kept.admitted.is_some();
        let overtaken = self.jobs.iter().filter(|other| later(other)).count() as u32;
        let job = &mut self.jobs[index];
        job.blocks.extend_from_slice(hits);
        job.computed = hits.len() as u32 * block;
        if job.kept.admitted.is_none() {
            job.kept.admitted = Some(now.floor().0);
            job.kept.overtaken = overtaken;
            if self.spec.cache_condition != CacheCondition::PrefixDisabled {
                job.kept.hit = Some(job.computed);
            }
        }
        self.running.push(index);
    }

    fn load(&mut self, newcomers: &[usize], now: Exact) -> Exact {
        self.adapters.begin_loads(now);
        let mut wanted: BTreeMap<AdapterId, usize> = BTreeMap::new();
        for &job in newcomers {
            if let Some(adapter) = self.jobs[job].adapter() {
                self.adapters.acquire(adapter);
                wanted.entry(adapter).or_insert(job);
            }
        }
        for (adapter, job) in wanted {
            if let Some(load) = self.adapters.load(adapter, &self.costs) {
                self.jobs[job].kept.load.get_or_insert(load);
            }
        }
        self.adapters.end_loads()
    }

    fn batch(&self, scheduled: &[(usize, u32)]) -> Batch {
        let mut batch = Batch::default();
        let mut adapters = std::collections::BTreeSet::new();
        for &(job, tokens) in scheduled {
            let job = &self.jobs[job];
            adapters.extend(job.adapter());
            if job.produced > 0 && job.computed + 1 == job.tokens() {
                batch.add_row(job.computed, job.adapter().is_some());
            } else {
                batch.add_prefill(job.computed, tokens, self.adapted(job, tokens));
            }
        }
        batch.adapters = adapters.len() as u64;
        batch
    }

    fn emit(&mut self, end: Exact, scheduled: &[(usize, u32)]) {
        for &(index, tokens) in scheduled {
            let job = &mut self.jobs[index];
            job.computed += tokens;
            if job.computed < job.tokens() {
                continue;
            }
            if job.produced == 0 {
                job.kept.first = Some(end.floor().0);
            } else {
                job.itl_max = job.itl_max.max(end - job.last_token);
            }
            job.last_token = end;
            job.produced += 1;
            if job.produced == job.answer {
                self.finish(index, end.floor());
            }
        }
    }

    fn finish(&mut self, index: usize, at: Nanos) {
        let job = &mut self.jobs[index];
        self.pool.release(&mut job.blocks);
        job.kept.last = Some(at.0);
        job.kept.ended_at = at.0;
        job.kept.output = job.produced;
        job.kept.itl_max = (job.produced > 1).then(|| job.itl_max.ceil().0);
        if let Some(adapter) = job.adapter() {
            self.adapters.release(adapter, self.step - 1);
        }
        self.done.push(job.kept.clone());
        self.running.retain(|&j| j != index);
    }
}
