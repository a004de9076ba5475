//! Forming a prefill step (`_get_new_batch_prefill_raw`): the request whose prompt is not whole first, then waiting ones
//! in order, past those that lack an adapter slot.

use super::adder::{Adder, First, Portion, Verdict};
use super::drainer::Demand;
use super::plan::note_load;
use super::rules::LoraRules;
use super::slots::{Beside, Holder, fits};
use super::{Lora, Replica};
use crate::CacheCondition;
use crate::exact::Exact;
use crate::jobs::{Job, JobKey, NO_JOB, Stage};
use crate::replica::Engine;

/// What a pass knows of adapters.
struct Pass {
    /// Who is in the running batch or this step, ascending.
    holders: Vec<Holder>,
    demand: Demand,
}

impl Replica {
    /// Takes in what the next step computes of prompts; nothing when it is to decode.
    pub(super) fn form_prefill(&mut self, engine: &mut Engine<'_>) {
        if self.running.is_empty() {
            self.full = false;
        }
        let rules = engine.rules.sglang();
        if (self.full || self.queue.len() == 0) && self.chunked.is_none() {
            return;
        }
        if self.running.len() >= rules.max_running && self.chunked.is_none() {
            self.full = true;
            return;
        }
        self.put_in_order(engine);
        let mixed = if rules.mixed { self.decoding.rows() } else { 0 };
        let expected = i128::from(self.remaining.tokens(self.decodes)) * self.ratio.current();
        let mut adder = Adder::new(rules, expected, mixed);
        self.go_on_with_chunk(engine, &mut adder);
        let mut pass = self.begin_pass(engine);
        self.take_waiting(engine, &mut adder, &mut pass);
    }

    /// The next portion of the prompt that is not whole. Without room for any of it, it waits.
    fn go_on_with_chunk(&mut self, engine: &mut Engine<'_>, adder: &mut Adder) {
        let Some(key) = self.chunked else { return };
        let portion = adder.next_portion(&self.memory, &engine.jobs[key]);
        if portion.tokens > 0 {
            adder.take(&self.memory, &engine.jobs[key], portion);
            self.extending.push((key, portion.tokens));
            self.chunked = portion.cut.then_some(key);
        }
    }

    fn begin_pass(&mut self, engine: &Engine<'_>) -> Pass {
        let mut pass = Pass { holders: self.users.present.clone(), demand: Demand::default() };
        for &(key, _) in &self.extending {
            add_holder(&mut pass.holders, engine.jobs[key].adapter());
        }
        let rules = engine.rules.sglang().lora.as_ref();
        let Some((after, slots)) = rules.and_then(|rules| Some((rules.drain_after?, rules.slots))) else {
            return pass;
        };
        for key in self.queue.iter(engine.jobs) {
            let waited = self.now - engine.jobs[key].shared.waits_since.min(self.now);
            let longest = pass.demand.waited.entry(engine.jobs[key].adapter()).or_insert(Exact::ZERO);
            *longest = waited.max(*longest);
        }
        for &key in &self.running {
            let job = &engine.jobs[key];
            let written = job.produced + (self.decodes - job.joined) as u32;
            let most = pass.demand.remaining.entry(job.adapter()).or_insert(0);
            *most = job.request.max_output_tokens.saturating_sub(written).max(*most);
        }
        if let Some(lora) = &mut self.lora {
            lora.drainer.update(&pass.demand, slots, Exact::from(after));
        }
        pass
    }

    fn take_waiting(&mut self, engine: &mut Engine<'_>, adder: &mut Adder, pass: &mut Pass) {
        let mut after = None;
        loop {
            if adder.verdict(&self.memory) == Verdict::Other {
                return;
            }
            let Some(key) = self.next_candidate(engine, pass, after) else { return };
            after = before_in_queue(engine, key);
            if self.extending.len() + self.running.len() >= engine.rules.sglang().max_running {
                self.full = true;
                return;
            }
            let verdict = self.try_one(engine, adder, key);
            add_holder(&mut pass.holders, engine.jobs[key].adapter());
            match verdict {
                Verdict::Continue => {}
                Verdict::NoToken => {
                    self.full = !self.extending.is_empty() || !self.running.is_empty();
                    return;
                }
                Verdict::Other => return,
            }
        }
    }

    /// The next waiting request whose adapter has a slot; those before it are passed over and keep their order.
    fn next_candidate(&mut self, engine: &Engine<'_>, pass: &Pass, after: Option<JobKey>) -> Option<JobKey> {
        let (Some(rules), Some(lora)) = (&engine.rules.sglang().lora, &mut self.lora) else {
            return self.queue.first();
        };
        if rules.overlap || rules.drain_after.is_some() {
            let mut check = Check { lora, rules, missing: &mut self.missing, now: self.now };
            return self.queue.iter_after(engine.jobs, after).find(|&key| check.passes(engine, pass, key));
        }
        let jobs = &*engine.jobs;
        let unpinned = pass.holders.iter().flatten().filter(|a| !rules.pinned[a.index()]).count()
            + usize::from(pass.holders.contains(&None));
        let room = pass.holders.len() < rules.slots;
        if room && unpinned < rules.slots - rules.pinned_count() {
            return self.queue.first();
        }
        let here = pass.holders.iter().copied();
        let pinned = rules.pinned.iter().zip(0u32..).filter(|&(&pinned, _)| pinned && room);
        let pinned = pinned.map(|(_, id)| Some(acb_types::AdapterId(id)));
        let firsts = here.chain(pinned).filter_map(|holder| self.queue.first_of(holder));
        firsts.min_by_key(|&key| jobs[key].place)
    }

    /// Looks up and admits one waiting request, if there is room.
    fn try_one(&mut self, engine: &mut Engine<'_>, adder: &mut Adder, key: JobKey) -> Verdict {
        let first = if self.extending.is_empty() { First::Yes } else { First::No };
        let job = &mut engine.jobs[key];
        let most = job.tokens() - 1;
        self.memory.find(job, most);
        match adder.portion(&self.memory, job, first) {
            Ok(portion) => {
                self.memory.lock(job);
                adder.take(&self.memory, job, portion);
                self.enter(engine, key, portion);
                adder.verdict(&self.memory)
            }
            Err(verdict) => verdict,
        }
    }

    fn enter(&mut self, engine: &mut Engine<'_>, key: JobKey, portion: Portion) {
        self.queue.remove(engine.jobs, key);
        let oldest = self.oldest_arrival(engine);
        let condition = engine.rules.condition;
        let job = &mut engine.jobs[key];
        job.computed = job.shared.tokens;
        job.stage = Stage::Stepwise;
        self.count_look_up(job, condition);
        let overlap = engine.rules.sglang().lora.as_ref().is_some_and(|lora| lora.overlap);
        if let Some(lora) = self.lora.as_mut().filter(|_| overlap)
            && let Some(load) = lora.slots.take_brought(job.adapter())
        {
            note_load(&mut job.adapter_load, load.from, load.stall_ns);
        }
        if job.admitted.is_none() {
            job.admitted = Some(self.now.floor());
            job.overtaken = self.overtakes.admit(job.arrival, oldest);
        }
        self.extending.push((key, portion.tokens));
        if portion.cut {
            assert!(self.chunked.is_none(), "one prompt is cut at a time");
            self.chunked = Some(key);
        }
    }

    fn count_look_up(&mut self, job: &mut Job, condition: CacheCondition) {
        if condition != CacheCondition::PrefixDisabled {
            self.counters.prefix_query_tokens += u64::from(job.tokens());
            self.counters.prefix_hit_tokens += u64::from(job.shared.tokens);
            job.prefix_hit_tokens.get_or_insert(job.shared.tokens);
        }
    }

    /// The least order of arrival that waits for its first admission.
    fn oldest_arrival(&self, engine: &Engine<'_>) -> Option<u64> {
        let mut new = self.queue.iter(engine.jobs).filter(|&key| engine.jobs[key].admitted.is_none());
        if engine.rules.sglang().schedule_policy == crate::SchedulePolicy::Fcfs {
            return new.next().map(|key| engine.jobs[key].arrival);
        }
        new.map(|key| engine.jobs[key].arrival).min()
    }
}

/// The request that waits before this one.
fn before_in_queue(engine: &Engine<'_>, key: JobKey) -> Option<JobKey> {
    let before = engine.jobs[key].queue.before;
    (before != NO_JOB).then_some(before)
}

fn add_holder(holders: &mut Vec<Holder>, holder: Holder) {
    if let Err(at) = holders.binary_search(&holder) {
        holders.insert(at, holder);
    }
}

/// `can_schedule_lora_req`, request by request.
struct Check<'a> {
    lora: &'a mut Lora,
    rules: &'a LoraRules,
    missing: &'a mut Vec<acb_types::AdapterId>,
    now: Exact,
}

impl Check<'_> {
    fn passes(&mut self, engine: &Engine<'_>, pass: &Pass, key: JobKey) -> bool {
        let job = &engine.jobs[key];
        let holder = job.adapter();
        if !self.lora.drainer.allows(holder, job.request.max_output_tokens, &pass.demand) {
            return false;
        }
        if pass.holders.contains(&holder) {
            return true;
        }
        if self.rules.overlap {
            return self.load_beside(engine, pass, holder);
        }
        let mut all = pass.holders.clone();
        add_holder(&mut all, holder);
        fits(&all, self.rules)
    }

    fn load_beside(&mut self, engine: &Engine<'_>, pass: &Pass, holder: Holder) -> bool {
        let with = (self.rules, &engine.rules.adapters, self.now);
        let state = self.lora.slots.load_beside(holder, &pass.holders, with, self.missing);
        for adapter in self.missing.drain(..) {
            let from = self.lora.count_load(adapter);
            self.lora.slots.note_beside(adapter, from, self.now);
        }
        state == Beside::Ready
    }
}
