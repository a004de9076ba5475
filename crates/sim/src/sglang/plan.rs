//! Planning a step: prompts if any can be taken in, else the running requests decode.

use super::order::REFRESH_INTERVAL;
use super::registry::Next;
use super::slots::Holder;
use super::{Activity, Doing, Lora, Replica};
use crate::exact::{Exact, Stretch};
use crate::jobs::{JobKey, Stage};
use crate::latency::Batch;
use crate::replica::Engine;
use acb_types::{AdapterId, AdapterLoad, Nanos, Tier};

impl Replica {
    /// Plans what comes next and says when it ends; `None` when there is nothing to do.
    pub(crate) fn start(&mut self, engine: &mut Engine<'_>, at: Nanos) -> Option<Nanos> {
        assert!(self.activity.is_none(), "a step starts after the one before has ended");
        if !self.has_work() {
            return None;
        }
        self.now = self.now.max(Exact::from(at));
        let activity = match self.exchange_adapters(engine) {
            Some(reading) => Some(reading),
            None => self.plan_step(engine),
        };
        self.activity = activity;
        activity.map(|activity| activity.stretch.end().floor())
    }

    /// Lets in whose adapter is loaded; the reading of an adapter comes before the next step.
    fn exchange_adapters(&mut self, engine: &mut Engine<'_>) -> Option<Activity> {
        loop {
            let lora = self.lora.as_mut()?;
            let adapter_of = |key: JobKey| {
                engine.jobs[key].adapter().expect("only a request with an adapter waits for one")
            };
            let mut gone = None;
            let next = lora.registry.next(adapter_of, &mut gone);
            if let Some(adapter) = gone {
                lora.slots.remove(adapter);
            }
            match next? {
                Next::Wait => return None,
                Next::Enter(key) => self.admit_to_queue(engine, key, self.now),
                Next::Read(key) => {
                    let adapter = adapter_of(key);
                    let (from, length) = lora.disk.read(adapter, &engine.rules.adapters);
                    return Some(self.once(Doing::Read { key, adapter, from }, length));
                }
            }
        }
    }

    /// Something that is done once and takes so long.
    fn once(&self, doing: Doing, length: Exact) -> Activity {
        Activity { doing, stretch: Stretch { from: self.now, first: length, growth: Exact::ZERO, steps: 1 } }
    }

    fn plan_step(&mut self, engine: &mut Engine<'_>) -> Option<Activity> {
        self.settle(self.decodes);
        self.form_prefill(engine);
        if !self.extending.is_empty() {
            return Some(self.plan_extend(engine));
        }
        if !self.running.is_empty() {
            let looking = !self.full && self.queue.len() > 0;
            let retracted = !self.has_memory_to_decode();
            if retracted {
                self.retract(engine);
            }
            if self.running.is_empty() {
                // All memory is a prompt's that is not whole; it goes on now.
                return self.plan_step(engine);
            }
            return Some(self.plan_decode(engine, Doing::Decode { looking, retracted }));
        }
        let ready = self.lora.as_ref().and_then(|lora| lora.slots.next_ready(self.now))?;
        // An idle server passes over its queue as often as it can; only the pass that ends the wait counts.
        self.refreshes -= u64::from(std::mem::take(&mut self.refreshing));
        Some(self.once(Doing::Idle, ready - self.now))
    }

    /// Takes the memory that the decode steps before `step` take, giving up cached leaves for it.
    pub(super) fn settle(&mut self, step: u64) {
        let pages = self.decoding.settle_count(step);
        if pages > 0 {
            let tokens = u64::from(pages) * u64::from(self.memory.page());
            self.memory.make_free(tokens);
            self.memory.take(tokens);
        }
    }

    /// Whether each running request can have the memory of its next token.
    pub(super) fn has_memory_to_decode(&self) -> bool {
        self.needed_to_decode() <= self.memory.available()
    }

    /// Tokens of memory that the next decode step takes.
    pub(super) fn needed_to_decode(&self) -> u64 {
        self.decoding.unsettled(self.decodes + 1) * u64::from(self.memory.page())
    }

    fn plan_extend(&mut self, engine: &mut Engine<'_>) -> Activity {
        self.take_memory(engine);
        let mixed = engine.rules.sglang().mixed && !self.running.is_empty() && self.has_memory_to_decode();
        let mut batch = if mixed { self.decoding.batch(self.decodes) } else { Batch::default() };
        let mut holders: Vec<Holder> = if mixed { self.users.present.clone() } else { Vec::new() };
        for &(key, tokens) in &self.extending {
            let job = &engine.jobs[key];
            batch.add_prefill(job.computed, tokens, engine.rules.adapted(job, tokens));
            holders.push(job.adapter());
        }
        holders.sort_unstable();
        holders.dedup();
        batch.adapters = holders.iter().flatten().count() as u64;
        let length = engine.rules.latency.step_time(&batch) + self.load_for(engine, &holders);
        self.once(Doing::Extend { mixed }, length)
    }

    /// Memory for the step's prompt tokens; with larger pages the server gives up cached leaves for a page more each.
    fn take_memory(&mut self, engine: &Engine<'_>) {
        let page = self.memory.page();
        let (mut wanted, mut needed) = (0, 0);
        for &(key, tokens) in &self.extending {
            let computed = engine.jobs[key].computed;
            needed += u64::from(self.memory.ceil(computed + tokens) - self.memory.ceil(computed));
            wanted += u64::from(tokens) + u64::from(if page > 1 { page } else { 0 });
        }
        self.memory.make_free(wanted);
        self.memory.take(needed);
    }

    /// As many decode steps as nothing interrupts.
    fn plan_decode(&mut self, engine: &mut Engine<'_>, doing: Doing) -> Activity {
        let mut batch = self.decoding.batch(self.decodes);
        batch.adapters = self.users.present.iter().flatten().count() as u64;
        let holders = std::mem::take(&mut self.users.present);
        let load = self.load_for(engine, &holders);
        self.users.present = holders;
        let (latency, from) = (&engine.rules.latency, self.now);
        let length = latency.step_time(&batch);
        if load > Exact::ZERO {
            return self.once(doing, length + load);
        }
        let mut stretch = Stretch { from, first: length, growth: latency.growth(batch.rows), steps: 1 };
        stretch.steps = self.undisturbed_steps(engine, doing);
        if let Some(ready) = self.lora.as_ref().and_then(|lora| lora.slots.next_ready(self.now)) {
            stretch.steps = stretch.boundary_at_or_after(ready.ceil());
        }
        Activity { doing, stretch }
    }

    /// Decode steps until an answer is complete, memory runs short, or a pass over the waiting requests could matter.
    fn undisturbed_steps(&mut self, engine: &Engine<'_>, doing: Doing) -> u64 {
        let complete = self.next_completion(engine).expect("a running request is not complete");
        let pages = self.memory.available() / u64::from(self.memory.page());
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let until = self.decoding.affordable(pages, complete);
        let steps =
            until.checked_sub(self.decodes).filter(|&s| s > 0).expect("a planned step has its memory");
        match doing {
            // Who was retracted is looked at before the next step.
            Doing::Decode { retracted: true, .. } => return 1,
            Doing::Decode { looking: true, .. } => {}
            _ => return steps,
        }
        let rules = engine.rules.sglang();
        let timed = rules.lora.as_ref().is_some_and(|lora| lora.drain_after.is_some() || lora.overlap);
        if timed {
            return 1;
        }
        if !self.refreshing {
            return steps;
        }
        let next_refresh = self.refreshes.next_multiple_of(REFRESH_INTERVAL);
        steps.min(1 + next_refresh - self.refreshes)
    }

    /// The decode step count at which the next answer is complete.
    pub(super) fn next_completion(&mut self, engine: &Engine<'_>) -> Option<u64> {
        let id = self.id;
        self.decoding.next_completion(|entry| {
            let job = &engine.jobs[entry.key];
            job.stage == Stage::Decoding
                && job.decision.replica == id
                && (job.complete_at, job.admission) == (entry.at, entry.admission)
        })
    }

    /// Brings what the step needs (ascending, base first) into slots; the step waits for it.
    fn load_for(&mut self, engine: &mut Engine<'_>, holders: &[Holder]) -> Exact {
        let (Some(lora), Some(rules)) = (&mut self.lora, &engine.rules.sglang().lora) else {
            return Exact::ZERO;
        };
        if rules.overlap {
            // Who was let in has its weights there; steps neither copy nor mark.
            return Exact::ZERO;
        }
        lora.slots.prepare(holders, rules, &mut self.missing);
        let mut wait = Exact::ZERO;
        for adapter in self.missing.drain(..) {
            let (from, stall) = (lora.count_load(adapter), engine.rules.adapters.gpu_load(adapter));
            lora.loads.stall += stall;
            wait += stall;
            let first = self.extending.iter().find(|&&(key, _)| engine.jobs[key].adapter() == Some(adapter));
            if let Some(&(key, _)) = first {
                note_load(&mut engine.jobs[key].adapter_load, from, stall.floor());
            }
        }
        wait
    }
}

/// Adds to the load that a request's admission caused.
pub(super) fn note_load(load: &mut Option<AdapterLoad>, from: Tier, stall: Nanos) {
    let noted = load.get_or_insert(AdapterLoad { from, stall_ns: Nanos::ZERO });
    noted.stall_ns += stall;
}

impl Lora {
    /// Counts a copy into a slot and says where the weights were.
    pub(super) fn count_load(&mut self, adapter: AdapterId) -> Tier {
        let from = self.unused[adapter.index()].take().unwrap_or(Tier::Cpu);
        *match from {
            Tier::Gpu | Tier::Cpu => &mut self.loads.from_cpu,
            Tier::Disk => &mut self.loads.from_disk,
            Tier::Remote => &mut self.loads.from_remote,
        } += 1;
        from
    }
}
