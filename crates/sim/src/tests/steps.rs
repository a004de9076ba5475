//! A vLLM replica driven step by step.

use super::bed::{Ask, adapters};
use crate::jobs::{JobKey, Jobs};
use crate::replica::{Engine, Outputs, Replica};
use crate::rules::Rules;
use crate::{ClusterSpec, KvSpec};
use acb_routing::{Decision, Reason};
use acb_types::{AdapterId, Nanos, ReplicaId};

/// A replica, six adapters, and the requests sent to it.
pub(super) struct Bench {
    pub(super) rules: Rules,
    pub(super) jobs: Jobs,
    pub(super) replica: Replica,
}

impl Bench {
    pub(super) fn new(spec: &ClusterSpec) -> Self {
        let (KvSpec::Blocks(blocks), adapters) = (spec.kv.clone(), adapters(6)) else { panic!("blocks") };
        let rules = Rules::new(spec, &spec.latency_profile().unwrap(), blocks, &adapters);
        Self { replica: Replica::new(ReplicaId(0), &rules, 6), rules, jobs: Jobs::default() }
    }

    pub(super) fn send(&mut self, at: u64, ask: &Ask, id: u64) -> JobKey {
        let request = ask.arrival(id).request;
        let adapter = ask.adapter.map(AdapterId);
        let decision = Decision { replica: ReplicaId(0), adapter, reason: Reason::RoundRobin };
        let key = self.jobs.insert(request, decision, ask.answer, Nanos(at));
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.replica.enqueue(engine, key, Nanos(at));
        key
    }

    /// Plans one step at `at` and says when it ends.
    pub(super) fn start(&mut self, at: u64) -> u64 {
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.replica.start(engine, Nanos(at)).unwrap().0
    }

    pub(super) fn end(&mut self) {
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.replica.end(engine, &mut Outputs::default());
    }

    fn ids(&self, keys: impl Iterator<Item = JobKey>) -> Vec<u64> {
        keys.map(|key| self.jobs[key].request.id.0).collect()
    }

    pub(super) fn running(&self) -> Vec<u64> {
        self.ids(self.replica.running_keys().iter().copied())
    }

    pub(super) fn waiting(&self) -> Vec<u64> {
        self.ids(self.replica.waiting_keys(&self.jobs).into_iter())
    }

    /// Plans one step at `at`, ends it, and says when.
    pub(super) fn step(&mut self, at: u64) -> u64 {
        let end = self.start(at);
        self.end();
        end
    }

    /// Tokens of this request whose keys and values are in memory, unless it decodes in company.
    pub(super) fn computed(&self, key: JobKey) -> u32 {
        self.jobs[key].computed
    }
}
