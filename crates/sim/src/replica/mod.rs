//! One replica: continuous batching as vLLM's V1 scheduler does it (`v1/core/sched/scheduler.py`, 0.33.0).
//!
//! A step is planned ([`Replica::start`]), takes its time, and ends ([`Replica::end`]). Steps in which nobody but the
//! company of decoding requests computes anything are planned many at once, as a stretch. The replica is told the time
//! and never asks; it knows neither the router nor the event queue.

mod admit;
mod finish;
mod plan;
mod report;

use crate::adapters::AdapterPool;
use crate::decode::Decoding;
use crate::exact::{Exact, Stretch};
use crate::jobs::{JobKey, Jobs, Progress, Stage};
use crate::kv::{BlockPool, Span};
use crate::overtakes::Overtakes;
use crate::queue::Queue;
use crate::rules::Rules;
use acb_types::{AdapterId, Nanos, ReplicaId};

/// What a replica works with and does not own.
pub(crate) struct Engine<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) jobs: &'a mut Jobs,
}

/// What the last planned step left as the reason why nobody more was admitted. It holds until a request ends or
/// loses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Whoever comes next is admitted if its adapter has a slot.
    Open,
    /// The batch, the token budget or the KV memory is full for the first in line, and so for all behind it.
    Shut,
}

/// What a replica has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) busy: Exact,
    pub(crate) prefix_query_tokens: u64,
    pub(crate) prefix_hit_tokens: u64,
    pub(crate) prefill_tokens: u64,
    pub(crate) decode_tokens: u64,
    pub(crate) preemptions: u64,
}

/// What a step gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// Jobs whose first token came.
    pub(crate) first_tokens: Vec<JobKey>,
    /// Jobs whose answer is complete; they have given everything back.
    pub(crate) complete: Vec<JobKey>,
    /// Jobs that their client had given up; they have given everything back.
    pub(crate) dropped: Vec<JobKey>,
}

impl Outputs {
    /// Forgets what was passed on.
    pub(crate) fn clear(&mut self) {
        self.first_tokens.clear();
        self.complete.clear();
        self.dropped.clear();
    }
}

/// One replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pool: BlockPool,
    adapters: AdapterPool,
    queue: Queue,
    overtakes: Overtakes,
    /// Running requests in order of admission.
    running: Vec<JobKey>,
    /// Those of them that are not in the company, in the same order.
    stepwise: Vec<JobKey>,
    decoding: Decoding,
    /// Steps that have ended.
    step: u64,
    /// When the last step ended, or the one in progress began.
    now: Exact,
    stretch: Option<Stretch>,
    /// Tokens that the step in progress computes, besides one for each of the company.
    planned: Vec<(JobKey, u32)>,
    door: Door,
    /// Waiting requests that the last planned step passed over for want of a slot, when that costs anything.
    skipped: u64,
    given_up: Vec<JobKey>,
    admissions: u64,
    counters: Counters,
    /// Adapters that the step being planned has to load, and for whom.
    to_load: Vec<(AdapterId, JobKey)>,
    hits: Vec<Span>,
    finished: Vec<(u64, JobKey)>,
}

impl Replica {
    /// An idle replica with empty memory, in a cluster with so many adapters.
    pub(crate) fn new(id: ReplicaId, rules: &Rules, adapters: usize) -> Self {
        Self {
            id,
            pool: BlockPool::new(rules.blocks),
            adapters: AdapterPool::new(&rules.adapters),
            queue: match rules.latency.counts_skipped() {
                true => Queue::new(adapters).counted(),
                false => Queue::new(adapters),
            },
            overtakes: Overtakes::default(),
            running: Vec::new(),
            stepwise: Vec::new(),
            decoding: Decoding::new(rules.block),
            step: 0,
            now: Exact::ZERO,
            stretch: None,
            planned: Vec::new(),
            door: Door::Open,
            skipped: 0,
            given_up: Vec::new(),
            admissions: 0,
            counters: Counters::default(),
            to_load: Vec::new(),
            hits: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Whether a step is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.stretch.is_some()
    }

    /// The steps in progress, and whether running requests decode in them: always.
    pub(crate) fn in_progress(&self) -> Option<(Stretch, bool)> {
        self.stretch.map(|stretch| (stretch, true))
    }

    /// Whether there is anything to compute.
    pub(crate) fn has_work(&self) -> bool {
        !self.running.is_empty() || self.queue.len() > 0
    }

    /// # Panics
    /// When an idle replica still holds memory or an adapter: our bug.
    pub(crate) fn assert_at_rest(&self) {
        assert!(!self.has_work(), "a replica at rest has no work");
        assert_eq!(self.pool.free(), self.pool.len(), "at rest every block is free");
        assert!(self.adapters.used().is_empty(), "at rest no adapter is used");
    }

    /// Whether one more waiting request exceeds the limit.
    pub(crate) fn is_full(&self, rules: &Rules) -> bool {
        rules.max_queue.is_some_and(|most| self.queue.len() >= most)
    }

    /// Appends a request that came at `at` to the queue. The answer is the new end of the steps in progress when they
    /// are cut short for it.
    pub(crate) fn enqueue(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> Option<Nanos> {
        self.queue.push_back(engine.jobs, key);
        let adapter = engine.jobs[key].adapter();
        if let Some(adapter) = adapter {
            self.settle_adapters(engine.rules, Exact::from(at));
            self.adapters.asked(adapter, &engine.rules.adapters, at);
        }
        let may_enter = self.door == Door::Open && adapter.is_none_or(|a| self.has_slot(engine.rules, a));
        // A request that can't enter lengthens what the next step passes over.
        let is_passed = self.door == Door::Open && engine.rules.latency.counts_skipped();
        if may_enter || is_passed { self.cut(at) } else { None }
    }

    /// Gives a request up at `at`: at once when no step computes it, else its memory is freed when the step ends.
    pub(crate) fn give_up(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> GivenUp {
        if engine.jobs[key].stage == Stage::Waiting {
            self.queue.remove(engine.jobs, key);
            // It may have been what shut the door.
            self.door = Door::Open;
            return GivenUp { freed: true, ends: self.cut(at) };
        }
        if !self.is_busy() {
            self.drop_running(engine, key);
            return GivenUp { freed: true, ends: None };
        }
        if engine.jobs[key].stage == Stage::Stepwise {
            engine.jobs[key].stage = Stage::GivenUp;
        }
        self.given_up.push(key);
        GivenUp { freed: false, ends: self.cut(at) }
    }

    /// Ends the stretch in progress at the first step boundary at or after `at`.
    pub(crate) fn cut(&mut self, at: Nanos) -> Option<Nanos> {
        let stretch = self.stretch.as_mut()?;
        let steps = stretch.boundary_at_or_after(at);
        if steps == stretch.steps {
            return None;
        }
        stretch.steps = steps;
        Some(stretch.end().floor())
    }

    /// When the first of the steps in progress ends that has not ended by `at`, or the last of them.
    pub(crate) fn boundary(&self, at: Nanos) -> Option<Nanos> {
        self.stretch.map(|stretch| stretch.next_end(at))
    }

    /// Forgets all cached prefixes, and says whether it did.
    pub(crate) fn forget_prefixes(&mut self) -> bool {
        self.pool.forget()
    }

    /// Takes an adapter that nobody uses out of its slot and host memory.
    pub(crate) fn drop_adapter(&mut self, adapter: AdapterId, rules: &Rules) {
        self.adapters.forget(adapter, &rules.adapters);
    }

    /// Takes in the adapters that were read ahead of need by `at`.
    #[inline]
    fn settle_adapters(&mut self, rules: &Rules, at: Exact) {
        if self.adapters.awaits_any() {
            self.adapters.settle(&rules.adapters, at, (self.step, self.stretch.as_ref()));
        }
    }

    fn has_slot(&self, rules: &Rules, adapter: AdapterId) -> bool {
        self.adapters.is_used(adapter) || self.adapters.used().len() < rules.adapters.gpu_slots as usize
    }

    /// How far a job is at `at`, when steps may have ended that its own counts don't show yet.
    pub(crate) fn progress(&self, jobs: &Jobs, key: JobKey, at: Nanos) -> Progress {
        let job = &jobs[key];
        let mut progress = job.progress();
        if job.stage != Stage::Decoding {
            return progress;
        }
        progress.last_token = self.now;
        progress.itl_max = progress.itl_max.max(self.decoding.longest_since(job.joined));
        let mut ended = 0;
        if let Some(stretch) = self.stretch {
            ended = stretch.ended_by(at);
            if ended > 0 {
                progress.last_token = stretch.after(ended);
                progress.itl_max = progress.itl_max.max(stretch.longest_of(ended));
            }
        }
        progress.produced += (self.step + ended - job.joined) as u32;
        progress
    }
}

/// What giving up a request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// Whether it holds nothing any more.
    pub(crate) freed: bool,
    /// New end of the steps in progress, if that changed.
    pub(crate) ends: Option<Nanos>,
}

#[cfg(test)]
impl Replica {
    /// Running requests in order of admission.
    pub(crate) fn running_keys(&self) -> &[JobKey] {
        &self.running
    }

    /// Waiting requests in order.
    pub(crate) fn waiting_keys(&self, jobs: &Jobs) -> Vec<JobKey> {
        self.queue.iter(jobs).collect()
    }

    /// Panics unless the memory adds up: blocks of running requests, blocks owed to them, free blocks.
    pub(crate) fn assert_sound(&self, rules: &Rules, jobs: &Jobs) {
        use crate::kv::Held;
        self.pool.assert_sound();
        let held = || self.running.iter().map(|&key| &jobs[key].blocks);
        let mut contents: Vec<_> = held().flat_map(Held::contents).collect();
        contents.sort_unstable();
        contents.dedup();
        let blank = held().map(Held::blank).sum::<u32>() + self.decoding.owed();
        let used = contents.len() as u32 + blank;
        assert_eq!(used + self.pool.free(), self.pool.len(), "no block is lost");
        assert!(self.adapters.used().len() <= rules.adapters.gpu_slots as usize, "used adapters have slots");
        let on_gpu = self.adapters.gpu_adapters();
        assert!(
            self.adapters.used().iter().all(|used| on_gpu.contains(used)),
            "no adapter in use is evicted"
        );
    }
}
