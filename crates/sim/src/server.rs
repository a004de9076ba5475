//! The seam between a run and the engines: one replica, whatever serves on it.

use crate::jobs::{JobKey, Jobs, Progress};
use crate::replica::{Engine, GivenUp, Outputs};
use crate::rules::{EngineRules, Rules};
use crate::{EndedSteps, replica, sglang};
use acb_routing::ReplicaSnapshot;
use acb_types::{AdapterId, Adapters, Nanos, ReplicaId, ServerRow};

/// One replica under one of the engines.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Vllm(Box<replica::Replica>),
    Sglang(Box<sglang::Replica>),
}

/// The same call on whichever engine it is.
macro_rules! each {
    ($server:expr, $replica:ident => $call:expr) => {
        match $server {
            Server::Vllm($replica) => $call,
            Server::Sglang($replica) => $call,
        }
    };
}

impl Server {
    /// An idle replica with empty memory, in a cluster with so many adapters.
    pub(crate) fn new(id: ReplicaId, rules: &Rules, adapters: usize) -> Self {
        match &rules.engine {
            EngineRules::Vllm(_) => Self::Vllm(Box::new(replica::Replica::new(id, rules, adapters))),
            EngineRules::Sglang(_) => Self::Sglang(Box::new(sglang::Replica::new(id, rules, adapters))),
        }
    }

    /// Which replica it is.
    pub(crate) fn id(&self) -> ReplicaId {
        each!(self, replica => replica.id)
    }

    /// Whether a step is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        each!(self, replica => replica.is_busy())
    }

    /// Whether there is anything to compute.
    pub(crate) fn has_work(&self) -> bool {
        each!(self, replica => replica.has_work())
    }

    /// # Panics
    /// When an idle replica still holds memory or an adapter: our bug.
    pub(crate) fn assert_at_rest(&self) {
        each!(self, replica => replica.assert_at_rest());
    }

    /// Whether one more waiting request exceeds the limit.
    pub(crate) fn is_full(&self, rules: &Rules) -> bool {
        each!(self, replica => replica.is_full(rules))
    }

    /// Takes in a request that came at `at`. The answer is the new end of the steps in progress when they are cut short.
    pub(crate) fn enqueue(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> Option<Nanos> {
        each!(self, replica => replica.enqueue(engine, key, at))
    }

    /// Gives a request up at `at`: at once when no step computes it, else its memory is freed when the step ends.
    pub(crate) fn give_up(&mut self, engine: &mut Engine<'_>, key: JobKey, at: Nanos) -> GivenUp {
        each!(self, replica => replica.give_up(engine, key, at))
    }

    /// How far a job is at `at`.
    pub(crate) fn progress(&self, jobs: &Jobs, key: JobKey, at: Nanos) -> Progress {
        each!(self, replica => replica.progress(jobs, key, at))
    }

    /// Plans the next step, or a stretch of steps, and says when it ends; `None` when there is nothing to do.
    pub(crate) fn start(&mut self, engine: &mut Engine<'_>, at: Nanos) -> Option<Nanos> {
        each!(self, replica => replica.start(engine, at))
    }

    /// Ends the steps in progress. Who ended is in `outputs`, which is appended to.
    pub(crate) fn end(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        each!(self, replica => replica.end(engine, outputs));
    }

    /// When the first of the steps in progress ends that has not ended by `at`, or the last of them; `None`: none is.
    pub(crate) fn boundary(&self, at: Nanos) -> Option<Nanos> {
        each!(self, replica => replica.boundary(at))
    }

    /// Forgets all cached prefixes, and says whether it did: not while requests hold memory.
    pub(crate) fn forget_prefixes(&mut self) -> bool {
        each!(self, replica => replica.forget_prefixes())
    }

    /// Takes an adapter that nobody uses out of its slot and host memory.
    pub(crate) fn drop_adapter(&mut self, adapter: AdapterId, rules: &Rules) {
        match self {
            Self::Vllm(replica) => replica.drop_adapter(adapter, rules),
            Self::Sglang(replica) => replica.drop_adapter(adapter),
        }
    }

    /// The steps in progress.
    pub(crate) fn steps_in_progress(&self) -> Option<EndedSteps> {
        let (stretch, decodes) = each!(self, replica => replica.in_progress())?;
        Some(EndedSteps { replica: self.id(), decodes, stretch })
    }

    /// What a scrape at `at` shows.
    pub(crate) fn snapshot(&mut self, engine: &Engine<'_>, at: Nanos) -> ReplicaSnapshot {
        each!(self, replica => replica.snapshot(engine, at))
    }

    /// The row of `server.jsonl` at `at`.
    pub(crate) fn row(&mut self, engine: &Engine<'_>, adapters: &Adapters, at: Nanos) -> ServerRow {
        each!(self, replica => replica.row(engine, adapters, at))
    }

    /// Steps that have ended by `at`.
    pub(crate) fn steps(&self, at: Nanos) -> u64 {
        each!(self, replica => replica.steps(at))
    }
}

#[cfg(test)]
impl Server {
    /// Ends what is in progress at the first step boundary at or after `at`.
    pub(crate) fn cut(&mut self, at: Nanos) -> Option<Nanos> {
        each!(self, replica => replica.cut(at))
    }
}
