//! One replica as SGLang 0.5.23 schedules it (`managers/scheduler.py`, `managers/schedule_policy.py`).
//!
//! A step computes prompts or decodes, never both (but with `enable_mixed_chunk`); prompts go first. Runs of decode
//! steps are planned as a stretch: what they cost and need are sums (see [`crate::decode`]), and cached leaves that they
//! displace are given up when somebody looks, which makes no difference to which ones go.
//!
//! The radix tree is that of `mem_cache/radix_cache.py`. By default 0.5.23 builds `mem_cache/unified_radix_cache.py` with a
//! core of its own; whether that gives up the same leaves, and how often it looks up waiting requests
//! (`supports_fast_match_prefix`), was not checked. Node times are a count here and a clock there.
//!
//! Where the model differs from the server, it is by leaving these out:
//! - The overlap of scheduling and computing: here the results of a step are known when the next one is planned, as with
//!   `disable_overlap_schedule`.
//! - Time in the tokenizer and between processes.
//! - Priorities of requests, which workloads don't have: `schedule_policy` has no other order than the five in the spec,
//!   and nobody is preempted for another.
//! - Cutting answers short that could never fit: such requests are refused.
//! - Host copies of KV memory, sessions, speculation, and any attention but full attention.
//! - Where the server dies for want of memory (`enable_mixed_chunk` only: the next chunk of a prompt, or the last
//!   decoding request, does not fit beside what prompts hold), the chunk waits and the request goes back to the queue.

mod adder;
mod admit;
mod drainer;
mod finish;
mod memory;
mod order;
mod plan;
mod ratio;
mod registry;
mod report;
mod retract;
mod rules;
mod slots;
mod subtrees;
mod text;
mod tree;

pub(crate) use memory::Shared;
pub(crate) use rules::SglangRules;

use crate::adapters::AdapterCosts;
use crate::decode::Decoding;
use crate::exact::{Exact, Stretch};
use crate::jobs::{JobKey, Jobs, Progress, Stage};
use crate::loads::Disk;
use crate::overtakes::Overtakes;
use crate::queue::Queue;
use crate::replica::{Counters, Engine, GivenUp};
use crate::rules::Rules;
use acb_types::{AdapterId, Nanos, ReplicaId, Tier};
use drainer::Drainer;
use memory::Memory;
use ratio::{NewTokenRatio, Remaining};
use registry::Registry;
use slots::{Holder, Slots};

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Computing prompts; the running requests decode too or not.
    Extend { mixed: bool },
    /// Decoding; whether requests wait and are looked at before each step, and whether the first step had to retract.
    Decode { looking: bool, retracted: bool },
    /// Reading an adapter for this request.
    Read { key: JobKey, adapter: AdapterId, from: Tier },
    /// Nothing, until an adapter that was sent for is in its slot.
    Idle,
}

/// Something that takes time.
#[derive(Clone, Copy, Debug)]
struct Activity {
    doing: Doing,
    stretch: Stretch,
}

/// Running requests by what they need in a slot.
#[derive(Clone, Debug)]
struct Users {
    /// Base first, then adapter 0, 1, ...
    counts: Vec<u32>,
    /// Those with any, ascending.
    present: Vec<Holder>,
}

impl Users {
    fn new(adapters: usize) -> Self {
        Self { counts: vec![0; adapters + 1], present: Vec::new() }
    }

    fn count(&mut self, holder: Holder) -> &mut u32 {
        &mut self.counts[holder.map_or(0, |a| a.index() + 1)]
    }

    fn add(&mut self, holder: Holder) {
        *self.count(holder) += 1;
        if *self.count(holder) == 1 {
            let at = self.present.partition_point(|&h| h < holder);
            self.present.insert(at, holder);
        }
    }

    fn remove(&mut self, holder: Holder) {
        *self.count(holder) -= 1;
        if *self.count(holder) == 0 {
            self.present.retain(|&h| h != holder);
        }
    }
}

/// What adapters did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    from_cpu: u64,
    from_disk: u64,
    from_remote: u64,
    stall: Exact,
}

/// The adapters of a replica that serves any.
#[derive(Clone, Debug)]
struct Lora {
    slots: Slots,
    registry: Registry,
    drainer: Drainer,
    disk: Disk,
    /// By adapter, where it was before it was read; `None` once it was in a slot, and for those loaded at start.
    unused: Vec<Option<Tier>>,
    loads: Loads,
}

/// The disk after the server has loaded every adapter once, in the order of the catalogue.
fn loaded_at_start(costs: &AdapterCosts, adapters: usize) -> Disk {
    let mut disk = Disk::new(adapters);
    for adapter in (0..adapters as u32).map(AdapterId) {
        disk.read(adapter, costs);
    }
    disk
}

/// One replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    memory: Memory,
    lora: Option<Lora>,
    queue: Queue,
    overtakes: Overtakes,
    /// Requests that decode, in the order of the batch.
    running: Vec<JobKey>,
    users: Users,
    decoding: Decoding,
    remaining: Remaining,
    ratio: NewTokenRatio,
    /// Requests that joined after the last decode step ended: their first gap is their own.
    fresh: Vec<JobKey>,
    /// When the last decode step ended.
    decoded: Exact,
    /// Requests whose prompts the step in progress computes, and how many tokens.
    extending: Vec<(JobKey, u32)>,
    /// The request whose prompt is not wholly computed.
    chunked: Option<JobKey>,
    /// Decode steps that have ended.
    decodes: u64,
    /// Steps that have ended.
    steps: u64,
    now: Exact,
    activity: Option<Activity>,
    /// `batch_is_full`: nobody is looked at until a request leaves.
    full: bool,
    /// Passes over the waiting requests that may refresh their cached prefixes, and whether the last one was one.
    refreshes: u64,
    refreshing: bool,
    given_up: Vec<JobKey>,
    admissions: u64,
    counters: Counters,
    finished: Vec<(u64, JobKey)>,
    missing: Vec<AdapterId>,
}

impl Replica {
    /// An idle replica with empty memory, in a cluster with so many adapters.
    pub(crate) fn new(id: ReplicaId, rules: &Rules, adapters: usize) -> Self {
        let sglang = rules.sglang();
        let costs = &rules.adapters;
        let lora = sglang.lora.as_ref().map(|rules| Lora {
            slots: Slots::new(),
            registry: Registry::new(rules),
            drainer: Drainer::default(),
            disk: loaded_at_start(costs, adapters),
            unused: vec![None; adapters],
            loads: Loads::default(),
        });
        Self {
            id,
            memory: Memory::new(sglang, rules.condition),
            lora,
            queue: Queue::new(adapters),
            overtakes: Overtakes::default(),
            running: Vec::new(),
            users: Users::new(adapters),
            decoding: Decoding::new(rules.block),
            remaining: Remaining::default(),
            ratio: NewTokenRatio::new(sglang.conservativeness),
            fresh: Vec::new(),
            decoded: Exact::ZERO,
            extending: Vec::new(),
            chunked: None,
            decodes: 0,
            steps: 0,
            now: Exact::ZERO,
            activity: None,
            full: false,
            refreshes: 0,
            refreshing: false,
            given_up: Vec::new(),
            admissions: 0,
            counters: Counters::default(),
            finished: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Whether anything is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.activity.is_some()
    }

    /// What is in progress, but idleness, and whether the running requests decode in it.
    pub(crate) fn in_progress(&self) -> Option<(Stretch, bool)> {
        let Activity { doing, stretch } = self.activity.filter(|activity| activity.doing != Doing::Idle)?;
        Some((stretch, matches!(doing, Doing::Decode { .. } | Doing::Extend { mixed: true })))
    }

    /// Whether there is anything to compute or to read.
    pub(crate) fn has_work(&self) -> bool {
        let outside = self.lora.as_ref().is_some_and(|lora| !lora.registry.waiting().is_empty());
        !self.running.is_empty() || self.queue.len() > 0 || self.chunked.is_some() || outside
    }

    /// # Panics
    /// When an idle replica still holds memory or an adapter: our bug.
    pub(crate) fn assert_at_rest(&self) {
        assert!(!self.has_work(), "a replica at rest has no work");
        assert_eq!(self.memory.available(), self.memory.total(), "at rest every token is free or evictable");
        assert!(self.users.present.is_empty(), "at rest no adapter is used");
        assert!(self.lora.iter().all(|lora| !lora.registry.is_used()), "at rest no adapter has users");
    }

    /// Requests that wait, inside the engine or for their adapter.
    fn waiting(&self) -> u32 {
        let outside = self.lora.as_ref().map_or(0, |lora| lora.registry.waiting().len());
        self.queue.len() + outside as u32
    }

    /// Whether one more waiting request exceeds the limit.
    pub(crate) fn is_full(&self, rules: &Rules) -> bool {
        rules.max_queue.is_some_and(|most| self.waiting() >= most)
    }

    /// Takes in a request that came at `at`. The answer is the new end of what is in progress when that is cut short.
    pub(crate) fn enqueue(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> Option<Nanos> {
        if let (Some(lora), Some(adapter)) = (&mut self.lora, engine.jobs[key].adapter())
            && !lora.registry.ask(adapter)
        {
            lora.registry.wait(key);
            return self.cut(at);
        }
        self.admit_to_queue(engine, key, Exact::from(at));
        if self.full { None } else { self.cut(at) }
    }

    /// A request whose adapter is loaded joins the queue; its cache namespace is now known.
    fn admit_to_queue(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Exact) {
        let job = &mut engine.jobs[key];
        let mut namespace = engine.rules.namespace(job.adapter(), job.request.cache_salt);
        if let (Some(lora), Some(adapter)) = (&mut self.lora, job.adapter()) {
            namespace = crate::rules::salted(namespace, Some(lora.registry.acquire(adapter)));
        }
        (job.shared.namespace, job.shared.waits_since) = (namespace, at);
        self.queue.push_back(engine.jobs, key);
    }

    /// Gives a request up at `at`: at once when no step computes it, else its memory is freed when the step ends.
    pub(crate) fn give_up(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> GivenUp {
        if engine.jobs[key].stage == Stage::Waiting {
            if !self.forget_outside(key) {
                self.queue.remove(engine.jobs, key);
                self.leave_engine(engine, key);
            }
            return GivenUp { freed: true, ends: None };
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

    /// Forgets a request that waits for its adapter to be loaded, if it does.
    fn forget_outside(&mut self, key: JobKey) -> bool {
        let Some(lora) = &mut self.lora else { return false };
        let outside = lora.registry.waiting().contains(&key);
        if outside {
            lora.registry.forget(key);
        }
        outside
    }

    /// A request is no longer inside the engine: its adapter has one user less.
    fn leave_engine(&mut self, engine: &Engine<'_>, key: JobKey) {
        if let (Some(lora), Some(adapter)) = (&mut self.lora, engine.jobs[key].adapter()) {
            lora.registry.release(adapter);
        }
    }

    /// Ends what is in progress at the first step boundary at or after `at`; waiting for nothing ends at once.
    pub(crate) fn cut(&mut self, at: Nanos) -> Option<Nanos> {
        let Activity { doing, stretch } = self.activity.as_mut()?;
        if *doing == Doing::Idle {
            let end = Exact::from(at).max(stretch.from);
            if end.floor() >= stretch.end().floor() {
                return None;
            }
            stretch.first = end - stretch.from;
            return Some(end.floor());
        }
        let steps = stretch.boundary_at_or_after(at);
        if steps == stretch.steps {
            return None;
        }
        stretch.steps = steps;
        Some(stretch.end().floor())
    }

    /// When the first of the steps in progress ends that has not ended by `at`, or the last of them.
    pub(crate) fn boundary(&self, at: Nanos) -> Option<Nanos> {
        self.activity.map(|activity| activity.stretch.next_end(at))
    }

    /// Forgets all cached prefixes, and says whether it did (`flush_cache`).
    pub(crate) fn forget_prefixes(&mut self) -> bool {
        let idle = !self.has_work() && !self.is_busy();
        if idle {
            self.memory.forget();
        }
        idle
    }

    /// Unloads an adapter that nobody uses.
    pub(crate) fn drop_adapter(&mut self, adapter: AdapterId) {
        if let Some(lora) = &mut self.lora {
            lora.registry.unload(adapter);
            lora.slots.remove(adapter);
        }
    }

    /// How far a job is at `at`, when steps may have ended that its own counts don't show yet.
    pub(crate) fn progress(&self, jobs: &Jobs, key: JobKey, at: Nanos) -> Progress {
        let job = &jobs[key];
        let mut progress = job.progress();
        if job.stage != Stage::Decoding {
            return progress;
        }
        if self.decodes > job.joined {
            progress.last_token = self.decoded;
            progress.itl_max = progress.itl_max.max(self.decoding.longest_since(job.joined + 1));
        }
        let mut ended = 0;
        if let Some(stretch) = self.decoding_stretch() {
            ended = stretch.ended_by(at);
            if ended > 0 {
                let first_gap = stretch.after(1) - progress.last_token;
                let longest = if ended > 1 { stretch.longest_of(ended) } else { Exact::ZERO };
                progress.itl_max = progress.itl_max.max(first_gap).max(longest);
                progress.last_token = stretch.after(ended);
            }
        }
        progress.produced += (self.decodes + ended - job.joined) as u32;
        progress
    }

    /// The steps in progress, if the running requests decode in them.
    fn decoding_stretch(&self) -> Option<Stretch> {
        let Activity { doing, stretch } = self.activity?;
        matches!(doing, Doing::Decode { .. } | Doing::Extend { mixed: true }).then_some(stretch)
    }
}

#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tree_tests;
