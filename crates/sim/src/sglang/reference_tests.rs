//! The scheduler to the letter, for requests without adapters: every request is looked at in every step, sums are counted
//! anew, and leaves are given up as soon as they must. Slow on purpose; the replica must agree with it.

use super::memory::Memory;
use super::ratio::{MOST_NEW_TOKENS, NewTokenRatio, TOKEN};
use crate::exact::Exact;
use crate::jobs::{JobKey, Jobs};
use crate::latency::Batch;
use crate::rules::Rules;
use crate::tests::bed::{Ask, Kept, adapters, run};
use crate::tests::fast::{asks, with_turns};
use crate::tests::sglang_laws::specs;
use crate::{ClusterSpec, EngineSpec, RadixEvictionPolicy, SchedulePolicy};
use acb_routing::{Decision, Reason};
use acb_types::{Nanos, ReplicaId};
use proptest::prelude::*;

struct Reference {
    rules: Rules,
    jobs: Jobs,
    memory: Memory,
    ratio: NewTokenRatio,
    now: Exact,
    waiting: Vec<JobKey>,
    running: Vec<JobKey>,
    chunked: Option<JobKey>,
    full: bool,
    refreshes: u64,
    steps: u64,
}

/// What can be seen of a request.
type Seen = (Option<u64>, Option<u64>, Option<u64>, Option<u64>, u32, Option<u32>, u32);

impl Reference {
    fn new(spec: &ClusterSpec) -> Self {
        let profile = spec.latency_profile().unwrap();
        let rules = Rules::new(spec, &profile, spec.kv_blocks().unwrap(), &adapters(6));
        Self {
            memory: Memory::new(rules.sglang(), rules.condition),
            ratio: NewTokenRatio::new(rules.sglang().conservativeness),
            rules,
            jobs: Jobs::default(),
            now: Exact::ZERO,
            waiting: Vec::new(),
            running: Vec::new(),
            chunked: None,
            full: false,
            refreshes: 0,
            steps: 0,
        }
    }

    fn serve(&mut self, asks: &[Ask]) -> Vec<Seen> {
        let mut sorted: Vec<&Ask> = asks.iter().collect();
        sorted.sort_by_key(|ask| ask.due);
        let (mut keys, mut next) = (Vec::new(), 0);
        loop {
            if self.waiting.is_empty() && self.running.is_empty() && self.chunked.is_none() {
                let Some(ask) = sorted.get(next) else { break };
                self.now = self.now.max(Exact::from(Nanos(ask.due)));
            }
            while let Some(ask) = sorted.get(next).filter(|ask| ask.due <= self.now.floor().0) {
                let request = ask.arrival(next as u64).request;
                let refused = self.rules.rejects(&request, None);
                let decision = Decision { replica: ReplicaId(0), adapter: None, reason: Reason::RoundRobin };
                let namespace = self.rules.namespace(None, request.cache_salt);
                let key = self.jobs.insert(request, decision, ask.answer, Nanos(ask.due));
                self.jobs[key].shared.namespace = namespace;
                keys.push(key);
                next += 1;
                if !refused {
                    self.waiting.push(key);
                }
            }
            if !self.waiting.is_empty() || !self.running.is_empty() || self.chunked.is_some() {
                self.step();
            }
        }
        keys.iter().map(|&key| self.seen(key)).collect()
    }

    fn seen(&self, key: JobKey) -> Seen {
        let job = &self.jobs[key];
        let last = (job.produced > 0).then(|| job.last_token.floor().0);
        let gap = (job.produced > 1).then(|| job.itl_max.ceil().0);
        let (admitted, first) = (job.admitted.map(|t| t.0), job.first_token.map(|t| t.0));
        (admitted, first, last, gap, job.produced, job.prefix_hit_tokens, job.preemptions)
    }

    fn step(&mut self) {
        self.steps += 1;
        let planned = self.prefill();
        let mut batch = Batch::default();
        if !planned.is_empty() {
            for &(key, tokens) in &planned {
                batch.add_prefill(self.jobs[key].computed, tokens, 0);
            }
            self.now += self.rules.latency.step_time(&batch);
            return self.end_prefill(&planned);
        }
        let retracted = !self.decode_fits();
        if retracted {
            self.retract();
        } else {
            self.ratio.decay(1);
        }
        for &key in &self.running {
            batch.add_row(self.jobs[key].computed, false);
        }
        let tokens = self.needed();
        self.memory.make_free(tokens);
        self.memory.take(tokens);
        self.now += self.rules.latency.step_time(&batch);
        for key in self.running.clone() {
            self.jobs[key].computed += 1;
            self.emit(key);
        }
        self.finish(self.running.clone());
    }

    fn needed(&self) -> u64 {
        let page = self.memory.page();
        let starts = |&&key: &&JobKey| self.jobs[key].computed.is_multiple_of(page);
        self.running.iter().filter(starts).count() as u64 * u64::from(page)
    }

    fn decode_fits(&mut self) -> bool {
        let needed = self.needed();
        self.memory.make_free(needed);
        needed <= self.memory.available() - self.memory.evictable()
    }

    fn retract(&mut self) {
        loop {
            let rank =
                |&key: &JobKey| (self.jobs[key].produced, u32::MAX - self.jobs[key].request.prompt.tokens());
            let victim = self.running.iter().copied().rev().min_by_key(rank).unwrap();
            self.running.retain(|&k| k != victim);
            let job = &mut self.jobs[victim];
            self.memory.release(job, job.computed);
            self.memory.make_free(self.running.len() as u64 * 20);
            (job.computed, job.preemptions) = (0, job.preemptions + 1);
            self.waiting.push(victim);
            if self.decode_fits() {
                break;
            }
        }
        self.full = false;
        let written = self.running.iter().map(|&k| u64::from(self.jobs[k].produced)).sum();
        let allowed = self.running.iter().map(|&k| u64::from(self.jobs[k].request.max_output_tokens)).sum();
        self.ratio.estimate(self.running.len() as u64, written, allowed);
    }

    fn prefill(&mut self) -> Vec<(JobKey, u32)> {
        self.full &= !self.running.is_empty();
        let sglang = self.rules.sglang().clone();
        if (self.full || self.waiting.is_empty()) && self.chunked.is_none() {
            return Vec::new();
        }
        if self.running.len() >= sglang.max_running && self.chunked.is_none() {
            self.full = true;
            return Vec::new();
        }
        self.order(&sglang.schedule_policy);
        let page = self.memory.page();
        let ceil = |tokens: u32| i64::from(tokens.div_ceil(page) * page);
        let left = |key: &JobKey| {
            let job = &self.jobs[*key];
            i128::from(job.request.max_output_tokens.saturating_sub(job.produced).min(MOST_NEW_TOKENS))
        };
        let expected: i128 = self.running.iter().map(|key| left(key) * self.ratio.current()).sum();
        let (mut total, mut current) = (expected, 0i64);
        let mut input = i64::from(sglang.max_prefill_tokens);
        let mut chunk = sglang.chunk.map(i64::from);
        let mut planned = Vec::new();
        if let Some(key) = self.chunked {
            let job = &self.jobs[key];
            let rest = job.tokens() - job.computed;
            let room = (i128::from(self.memory.available()) * TOKEN - total) / TOKEN;
            let size = chunk.unwrap();
            let room = if room > 0 { (room as i64).min(size) } else { size };
            let tokens = rest.min(room as u32);
            let answer = if tokens < rest { 0 } else { job.request.max_output_tokens };
            total += i128::from(ceil(tokens) + i64::from(page) + i64::from(answer)) * TOKEN;
            current += ceil(tokens) + i64::from(page);
            (input, chunk) = (input - ceil(tokens), Some(size - ceil(tokens)));
            planned.push((key, tokens));
            self.chunked = (tokens < rest).then_some(key);
        }
        for key in self.waiting.clone() {
            if input <= 0 && self.has_room(total, current)
                || chunk.is_some_and(|c| c <= 0) && self.has_room(total, current)
            {
                break;
            }
            if planned.len() + self.running.len() >= sglang.max_running {
                self.full = true;
                break;
            }
            let job = &mut self.jobs[key];
            let most = job.tokens() - 1;
            let found = self.memory.find(job, most);
            let extend = job.tokens() - found;
            let allowed = job.request.max_output_tokens - job.produced;
            let needed = i128::from(extend + allowed + page) * TOKEN;
            if needed >= i128::from(self.memory.available_beside(job)) * TOKEN - total {
                self.full = !planned.is_empty() || !self.running.is_empty();
                break;
            }
            let mut tokens = extend;
            match chunk {
                None if !planned.is_empty() && ceil(extend) >= input => break,
                Some(size) if ceil(extend) > size => {
                    let whole = size.max(0) as u32 / page * page;
                    tokens = ((found + whole) / page * page).saturating_sub(found);
                    if tokens == 0 {
                        break;
                    }
                    self.chunked = Some(key);
                }
                _ => {}
            }
            self.memory.lock(job);
            let answer = if tokens < extend { 0 } else { job.request.max_output_tokens };
            total += i128::from(ceil(tokens) + i64::from(page) + i64::from(answer)) * TOKEN;
            current += ceil(tokens) + i64::from(page);
            input -= ceil(tokens);
            chunk = chunk.map(|size| size - ceil(tokens));
            job.computed = found;
            job.admitted.get_or_insert(self.now.floor());
            if self.rules.condition != crate::CacheCondition::PrefixDisabled {
                job.prefix_hit_tokens.get_or_insert(found);
            }
            self.waiting.retain(|&k| k != key);
            planned.push((key, tokens));
            if !self.has_room(total, current) {
                self.full = true;
                break;
            }
        }
        self.take_for(&planned);
        planned
    }

    fn has_room(&self, total: i128, current: i64) -> bool {
        let available = i128::from(self.memory.available());
        available * TOKEN > total && available > i128::from(current)
    }

    fn take_for(&mut self, planned: &[(JobKey, u32)]) {
        let page = self.memory.page();
        let extra = if page > 1 { page } else { 0 };
        let wanted = planned.iter().map(|&(_, tokens)| u64::from(tokens + extra)).sum();
        self.memory.make_free(wanted);
        for &(key, tokens) in planned {
            let computed = self.jobs[key].computed;
            let pages = (computed + tokens).div_ceil(page) - computed.div_ceil(page);
            self.memory.take(u64::from(pages * page));
        }
    }

    fn order(&mut self, policy: &SchedulePolicy) {
        if *policy == SchedulePolicy::Lof {
            let jobs = &self.jobs;
            self.waiting.sort_by_key(|&key| std::cmp::Reverse(jobs[key].request.max_output_tokens));
        }
        let lru = self.rules.sglang().radix_eviction_policy == RadixEvictionPolicy::Lru;
        if !self.waiting.is_empty() && lru && self.memory.tree().is_some() {
            if self.refreshes.is_multiple_of(32) {
                for &key in self.waiting.iter().take(128).rev() {
                    let whole = self.jobs[key].tokens();
                    self.memory.find(&mut self.jobs[key], whole);
                }
            }
            self.refreshes += 1;
        }
    }

    fn emit(&mut self, key: JobKey) {
        let job = &mut self.jobs[key];
        if job.first_token.is_none() {
            job.first_token = Some(self.now.floor());
        } else {
            job.itl_max = job.itl_max.max(self.now - job.last_token);
        }
        job.last_token = self.now;
        job.produced += 1;
    }

    /// Those of these whose answer is complete leave.
    fn finish(&mut self, keys: Vec<JobKey>) {
        for key in keys {
            let job = &mut self.jobs[key];
            if job.produced == job.answer {
                let computed = job.computed;
                self.memory.publish(job, computed);
                self.memory.release(job, computed);
                self.running.retain(|&k| k != key);
                self.full = false;
            }
        }
    }

    fn end_prefill(&mut self, planned: &[(JobKey, u32)]) {
        let was_empty = self.running.is_empty();
        for &(key, tokens) in planned {
            self.jobs[key].computed += tokens;
            if self.chunked == Some(key) {
                continue;
            }
            self.emit(key);
            if self.jobs[key].produced == self.jobs[key].answer {
                self.finish(vec![key]);
            } else {
                let computed = self.jobs[key].computed;
                self.memory.publish(&mut self.jobs[key], computed);
                self.running.push(key);
                self.full &= !was_empty;
            }
        }
        if let Some(key) = self.chunked {
            let computed = self.jobs[key].computed;
            self.memory.publish(&mut self.jobs[key], computed);
            self.full = false;
        }
    }
}

fn seen(kept: &Kept) -> Seen {
    (kept.admitted, kept.first, kept.last, kept.itl_max, kept.output, kept.hit, kept.preemptions)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_replica_agrees_with_the_scheduler_to_the_letter(asks in asks(), spec in specs(), lof in any::<bool>()) {
        let mut spec = spec;
        let EngineSpec::Sglang(engine) = &mut spec.engine else { unreachable!() };
        engine.enable_mixed_chunk = false;
        engine.schedule_policy = if lof { SchedulePolicy::Lof } else { SchedulePolicy::Fcfs };
        let asks: Vec<Ask> = asks.into_iter().map(|ask| Ask { adapter: None, ..ask }).collect();
        let asks = with_turns(&asks, run(&spec, &asks).totals.end.0);
        let ran = run(&spec, &asks);
        let mut reference = Reference::new(&spec);
        let expected = reference.serve(&asks);
        for (kept, right) in ran.by_id.iter().zip(&expected) {
            prop_assert_eq!(&seen(kept), right, "request {}", kept.id);
        }
        prop_assert_eq!(ran.by_id.len(), expected.len());
        prop_assert_eq!(ran.totals.steps, reference.steps);
        prop_assert_eq!(ran.rows.last().unwrap().counters.kv_evictions, Some(reference.memory.evicted()));
    }
}
