//! Planning a step: first the running requests in order, then the waiting ones, then how long it takes.

use super::{Door, Engine, Replica};
use crate::exact::{Exact, Stretch};
use crate::jobs::{JobKey, Stage};
use crate::latency::Batch;
use crate::rules::Rules;
use crate::{CacheCondition, jobs::Job};
use acb_types::Nanos;

/// What the first pass left.
struct Pass {
    /// Tokens that the step may still compute.
    budget: u32,
    /// Whether anybody lost its memory: then nobody is admitted.
    preempted: bool,
}

impl Replica {
    /// Plans the next step, or the stretch of steps until something interesting happens, and says when it ends;
    /// `None` when there is nothing to do.
    pub(crate) fn start(&mut self, engine: &mut Engine<'_>, at: Nanos) -> Option<Nanos> {
        assert!(self.stretch.is_none(), "a step starts after the one before has ended");
        if !self.has_work() {
            return None;
        }
        self.now = self.now.max(Exact::from(at));
        self.settle_adapters(engine.rules, self.now);
        let pass = match self.plan_together(engine) {
            Some(pass) => pass,
            None => self.plan_one_by_one(engine),
        };
        (self.door, self.skipped) = (Door::Shut, 0);
        if !pass.preempted {
            self.door = self.admit(engine, pass.budget);
        }
        let load = self.load_adapters(engine);
        let stretch = self.stretch_of(engine, load);
        self.stretch = Some(stretch);
        Some(stretch.end().floor())
    }

    /// The first pass when nobody is short of tokens or blocks, so that its order makes no difference.
    fn plan_together(&mut self, engine: &mut Engine<'_>) -> Option<Pass> {
        let rules = engine.rules;
        let rows = self.decoding.rows();
        let mut budget = u64::from(rules.budget).checked_sub(rows)?;
        let mut blocks = 0;
        let exists_others = self.running.len() as u64 + u64::from(self.queue.len()) > 1;
        for &key in &self.stepwise {
            let job = &engine.jobs[key];
            let want = u64::from(wanted(job, rules, exists_others));
            if want > budget && self.company_runs_behind(engine) {
                self.planned.clear();
                return None;
            }
            let tokens = want.min(budget) as u32;
            budget -= u64::from(tokens);
            if tokens > 0 {
                blocks += u64::from(rules.blocks_for(job.computed + tokens)) - u64::from(job.blocks.len());
                self.planned.push((key, tokens));
            }
        }
        let left = u64::from(self.pool.free()).checked_sub(blocks);
        if !left.is_some_and(|left| self.decoding.suffices(left, self.step + 1)) {
            self.planned.clear();
            return None;
        }
        if !self.planned.is_empty() {
            self.decoding.settle(self.step + 1, &mut self.pool);
        }
        for at in 0..self.planned.len() {
            let (key, tokens) = self.planned[at];
            self.grow(engine, key, tokens);
        }
        Some(Pass { budget: budget as u32, preempted: false })
    }

    /// Whether one of the company was admitted after one that is not of it.
    fn company_runs_behind(&self, engine: &Engine<'_>) -> bool {
        let last = self.running.iter().rev();
        let trailing = last.take_while(|&&key| engine.jobs[key].stage != Stage::Decoding).count();
        trailing < self.stepwise.len()
    }

    /// The first pass to the letter: in order of admission, preempting from the end.
    fn plan_one_by_one(&mut self, engine: &mut Engine<'_>) -> Pass {
        self.disband(engine);
        let rules = engine.rules;
        let exists_others = self.running.len() as u64 + u64::from(self.queue.len()) > 1;
        let mut pass = Pass { budget: rules.budget, preempted: false };
        let mut next = 0;
        while next < self.running.len() && pass.budget > 0 {
            let key = self.running[next];
            let tokens = wanted(&engine.jobs[key], rules, exists_others).min(pass.budget);
            if tokens > 0 {
                while !self.fits(engine, key, tokens) {
                    pass.preempted = true;
                    if self.preempt_last(engine) == key {
                        return pass;
                    }
                }
                self.grow(engine, key, tokens);
                self.planned.push((key, tokens));
                pass.budget -= tokens;
            }
            next += 1;
        }
        pass
    }

    /// Turns the company into requests that are planned one by one.
    fn disband(&mut self, engine: &mut Engine<'_>) {
        self.decoding.settle(self.step, &mut self.pool);
        for at in 0..self.running.len() {
            let key = self.running[at];
            if engine.jobs[key].stage == Stage::Decoding {
                self.leave_company(engine, key);
            }
        }
        self.stepwise.clone_from(&self.running);
    }

    fn fits(&self, engine: &Engine<'_>, key: JobKey, tokens: u32) -> bool {
        let job = &engine.jobs[key];
        engine.rules.blocks_for(job.computed + tokens) - job.blocks.len() <= self.pool.free()
    }

    /// Takes the memory of the request that was admitted last and puts it at the front of the queue.
    fn preempt_last(&mut self, engine: &mut Engine<'_>) -> JobKey {
        let victim = self.running.pop().expect("somebody runs while one runs short of memory");
        self.stepwise.pop();
        let job = &mut engine.jobs[victim];
        self.pool.release(&mut job.blocks);
        job.computed = 0;
        job.preemptions += 1;
        job.stage = Stage::Waiting;
        if let Some(adapter) = job.adapter() {
            self.adapters.release(adapter, self.step.saturating_sub(1));
        }
        self.counters.preemptions += 1;
        self.queue.push_front(engine.jobs, victim);
        victim
    }

    /// Gives a request the blocks of its next `tokens` tokens and registers those that become full.
    pub(super) fn grow(&mut self, engine: &mut Engine<'_>, key: JobKey, tokens: u32) {
        let rules = engine.rules;
        let job = &mut engine.jobs[key];
        let end = job.computed + tokens;
        let missing = rules.blocks_for(end) - job.blocks.len();
        self.pool.take(missing);
        job.blocks.add(missing);
        self.register(rules, job, (job.computed, end));
    }

    /// Registers the blocks that became full between two counts of computed tokens.
    pub(super) fn register(&mut self, rules: &Rules, job: &mut Job, (from, to): (u32, u32)) {
        let full = from / rules.block..to / rules.block;
        if rules.condition != CacheCondition::Warm || full.is_empty() {
            return;
        }
        rules.hash(job);
        self.pool.register(&mut job.blocks, &job.text, full);
    }

    /// Brings the adapters of newly admitted requests into slots; the whole step waits.
    fn load_adapters(&mut self, engine: &mut Engine<'_>) -> Exact {
        if self.to_load.is_empty() {
            return Exact::ZERO;
        }
        self.to_load.sort_unstable();
        self.adapters.begin_loads(self.now);
        for (adapter, key) in self.to_load.drain(..) {
            if let Some(load) = self.adapters.load(adapter, &engine.rules.adapters) {
                engine.jobs[key].adapter_load.get_or_insert(load);
            }
        }
        self.adapters.end_loads()
    }

    fn stretch_of(&mut self, engine: &Engine<'_>, load: Exact) -> Stretch {
        let latency = &engine.rules.latency;
        let batch = self.batch(engine);
        let first = latency.step_time(&batch) + load;
        if !self.planned.is_empty() {
            return Stretch { from: self.now, first, growth: Exact::ZERO, steps: 1 };
        }
        let complete = self.next_completion(engine).expect("a step computes something");
        let until = self.decoding.affordable(self.pool.free(), complete);
        let steps = until.checked_sub(self.step).filter(|&s| s > 0).expect("the planned step has its blocks");
        Stretch { from: self.now, first, growth: latency.growth(batch.rows), steps }
    }

    /// The step count at which the next answer of the company is complete.
    pub(super) fn next_completion(&mut self, engine: &Engine<'_>) -> Option<u64> {
        let id = self.id;
        self.decoding.next_completion(|entry| {
            let job = &engine.jobs[entry.key];
            job.stage == Stage::Decoding
                && job.decision.replica == id
                && (job.complete_at, job.admission) == (entry.at, entry.admission)
        })
    }

    fn batch(&self, engine: &Engine<'_>) -> Batch {
        let mut batch = self.decoding.batch(self.step);
        for &(key, tokens) in &self.planned {
            let job = &engine.jobs[key];
            if job.is_decode() {
                batch.add_row(job.computed, job.adapter().is_some());
            } else {
                batch.add_prefill(job.computed, tokens, engine.rules.adapted(job, tokens));
            }
        }
        let everybody = self.planned.len() as u64 + self.decoding.rows() == self.running.len() as u64;
        batch.skipped = self.skipped;
        batch.adapters =
            if everybody { self.adapters.used().len() as u64 } else { self.scheduled_adapters(engine) };
        batch
    }

    /// Distinct adapters of the step when some running requests get no token.
    fn scheduled_adapters(&self, engine: &Engine<'_>) -> u64 {
        let stepwise = self.planned.iter().map(|&(key, _)| key);
        let company = self.running.iter().copied().filter(|&key| engine.jobs[key].stage == Stage::Decoding);
        let mut adapters: Vec<_> =
            stepwise.chain(company).filter_map(|key| engine.jobs[key].adapter()).collect();
        adapters.sort_unstable();
        adapters.dedup();
        adapters.len() as u64
    }
}

/// Tokens that a running request would compute now, the budget aside.
fn wanted(job: &Job, rules: &Rules, exists_others: bool) -> u32 {
    let tokens = job.tokens() - job.computed;
    match rules.vllm().long_prefill {
        Some(cap) if exists_others => tokens.min(cap),
        _ => tokens,
    }
}
