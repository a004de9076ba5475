//! One replica that its caller steps: for whoever has a clock of its own, such as a server that answers over a network.
//!
//! The caller says when requests come and how late it is; the replica says when something next happens and what did.
//! Fed with the arrivals of a [`Run`](crate::Run) on one replica, it gives that run's admissions, hits and token times
//! (tested on random traffic). A request's time limit is the caller's business ([`Stepped::cancel`]).

use crate::jobs::{End, JobKey, Jobs, Progress};
use crate::replica::{Engine, Outputs};
use crate::rules::Rules;
use crate::server::Server;
use crate::{Cluster, Completion};
use acb_routing::{Decision, Reason, ReplicaSnapshot};
use acb_types::{AdapterId, AdapterLoad, Adapters, Nanos, Outcome, ReplicaId, Request, RequestId, ServerRow};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request as a server takes it in.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The request; its id must not be that of one in flight. Its due time is not looked at.
    pub request: Request,
    /// The adapter that serves it; `None`: the base model.
    pub adapter: Option<AdapterId>,
    /// Tokens that the answer will have, from 1 to the request's `max_output_tokens`.
    pub output_tokens: u32,
}

/// Why a request was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It can never be served: empty, longer than the context or the KV memory, for an adapter while LoRA is off, or for
    /// another than the one merged into the replica's weights.
    #[error(
        "the request can never be served: it is empty, longer than the context or than the KV memory, or for an adapter \
         that this replica does not serve"
    )]
    Impossible,
    /// As many requests wait as may.
    #[error("as many requests wait as may")]
    QueueFull,
}

/// How a request went, in the terms of a [`Completion`]. Times are since the replica's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// How it ended: answered, or given up by its client (`TimedOut`).
    pub outcome: Outcome,
    /// When it was taken in.
    pub sent: Nanos,
    /// When it was first admitted to a step; `None`: never.
    pub admitted: Option<Nanos>,
    /// When its first token came, if one did.
    pub first_token: Option<Nanos>,
    /// When the last of its tokens came, if one did.
    pub last_token: Option<Nanos>,
    /// Longest gap between two of its tokens, rounded up; `None` with fewer than two.
    pub itl_max: Option<Nanos>,
    /// Answer tokens that came.
    pub output_tokens: u32,
    /// Prompt tokens that the prefix cache held at first admission; `None` when never admitted or never asked.
    pub prefix_hit_tokens: Option<u32>,
    /// The adapter load that its admission caused, if any.
    pub adapter_load: Option<AdapterLoad>,
    /// Times that it lost its KV memory.
    pub preemptions: u32,
    /// Requests that came later and were first admitted earlier.
    pub overtaken: u32,
    /// When it ended for its client.
    pub ended_at: Nanos,
}

impl From<&Completion<'_>> for Served {
    fn from(completion: &Completion<'_>) -> Self {
        Self {
            outcome: completion.outcome,
            sent: completion.sent,
            admitted: completion.admitted,
            first_token: completion.first_token,
            last_token: completion.last_token,
            itl_max: completion.itl_max,
            output_tokens: completion.output_tokens,
            prefix_hit_tokens: completion.prefix_hit_tokens,
            adapter_load: completion.adapter_load,
            preemptions: completion.preemptions,
            overtaken: completion.overtaken,
            ended_at: completion.ended_at,
        }
    }
}

/// Something that happened on the replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepEvent {
    /// A request was admitted to a step for the first time.
    Admitted {
        /// When.
        at: Nanos,
        /// Which.
        request: RequestId,
        /// Prompt tokens that the prefix cache held; `None`: it was not asked.
        hit_tokens: Option<u32>,
    },
    /// A token of an answer came.
    Token {
        /// When.
        at: Nanos,
        /// Whose.
        request: RequestId,
        /// Its place in the answer, from 0.
        index: u32,
    },
    /// An answer is complete.
    Finished {
        /// Which.
        request: RequestId,
        /// How it went.
        served: Served,
    },
}

/// What has been told of a request in flight.
#[derive(Clone, Copy, Debug)]
struct Live {
    key: JobKey,
    tokens: u32,
    admitted: bool,
}

/// One replica of a cluster, stepped by its caller.
#[derive(Debug)]
pub struct Stepped {
    rules: Rules,
    /// The adapter merged into its weights, which is then all that it serves.
    merged: Option<AdapterId>,
    adapters: Arc<Adapters>,
    jobs: Jobs,
    server: Server,
    live: BTreeMap<RequestId, Live>,
    now: Nanos,
    /// When what is in progress ends.
    ends: Option<Nanos>,
    /// Whether nothing could be started though there is work: until somebody comes or something ends.
    stalled: bool,
    outputs: Outputs,
}

impl Stepped {
    /// An idle replica with empty memory, as each replica of the cluster is at its start.
    #[must_use]
    pub fn new(cluster: &Cluster, replica: ReplicaId) -> Self {
        Self {
            server: Server::new(replica, cluster.rules_of(replica), cluster.adapters.len()),
            rules: cluster.rules_of(replica).clone(),
            merged: cluster.merged_into(replica),
            adapters: cluster.adapters.clone(),
            jobs: Jobs::default(),
            live: BTreeMap::new(),
            now: Nanos::ZERO,
            ends: None,
            stalled: false,
            outputs: Outputs::default(),
        }
    }

    /// How late it is on the replica: the time of the last call.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Requests that have not ended for their clients.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.live.len()
    }

    /// When something next happens if nobody comes: a step starts, or one ends. `None`: never.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        match self.ends {
            Some(ends) => {
                Some(self.server.boundary(self.now).map_or(ends, |step| step.min(ends)).max(self.now))
            }
            None => (self.server.has_work() && !self.stalled).then_some(self.now),
        }
    }

    /// Takes a request in at `at` (or now, when that is later). All requests of an instant come before the step that
    /// starts at it: submit them before [`Self::advance`] reaches it. What happened before goes to `events`.
    ///
    /// # Errors
    /// When the server refuses it.
    ///
    /// # Panics
    /// When the id is that of a request in flight, or the answer's length is not possible.
    pub fn submit(
        &mut self,
        at: Nanos,
        submission: Submission,
        events: &mut Vec<StepEvent>,
    ) -> Result<(), Refusal> {
        self.reach(at, events);
        let Submission { request, adapter, output_tokens } = submission;
        let applied = adapter.filter(|_| self.merged.is_none());
        if self.merged.is_some_and(|merged| adapter != Some(merged)) || self.rules.rejects(&request, applied)
        {
            return Err(Refusal::Impossible);
        }
        if self.server.is_full(&self.rules) {
            return Err(Refusal::QueueFull);
        }
        assert!(
            (1..=request.max_output_tokens).contains(&output_tokens),
            "an answer has from 1 to max_output_tokens tokens"
        );
        let id = request.id;
        // Nobody chose: there is one replica.
        let decision = Decision { replica: self.server.id(), adapter, reason: Reason::RoundRobin };
        let key = self.jobs.insert(request, decision, output_tokens, self.now);
        self.jobs[key].applied = applied;
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        let ends = self.server.enqueue(engine, key, self.now);
        self.ends = ends.or(self.ends);
        self.stalled = false;
        let before = self.live.insert(id, Live { key, tokens: 0, admitted: false });
        assert!(before.is_none(), "request {id} is in flight already");
        Ok(())
    }

    /// Lets everything happen that happens by `to`.
    pub fn advance(&mut self, to: Nanos, events: &mut Vec<StepEvent>) {
        while let Some(next) = self.next_event().filter(|&next| next <= to) {
            self.happen(next, events);
        }
        self.now = self.now.max(to);
    }

    /// A client goes away at `at`: its request leaves the queue at once, or the batch when the step ends. `None`: it is
    /// not in flight.
    pub fn cancel(&mut self, at: Nanos, request: RequestId, events: &mut Vec<StepEvent>) -> Option<Served> {
        self.reach(at, events);
        let Live { key, .. } = self.live.remove(&request)?;
        let progress = self.server.progress(&self.jobs, key, self.now);
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        let given_up = self.server.give_up(engine, key, self.now);
        self.ends = given_up.ends.or(self.ends);
        self.jobs[key].ended = true;
        let served = self.served(key, Outcome::TimedOut, progress);
        if given_up.freed {
            self.jobs.remove(key);
        }
        Some(served)
    }

    /// What a scrape shows.
    pub fn snapshot(&mut self) -> ReplicaSnapshot {
        self.server.snapshot(&Engine { rules: &self.rules, jobs: &mut self.jobs }, self.now)
    }

    /// The replica's state and counters.
    pub fn row(&mut self) -> ServerRow {
        let engine = &Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.server.row(engine, &self.adapters, self.now)
    }

    /// Forgets all cached prefixes; `false`, and nothing is forgotten, while requests hold memory or wait.
    pub fn reset_prefix_cache(&mut self) -> bool {
        !self.server.has_work() && self.server.forget_prefixes()
    }

    /// Puts other weights in an adapter's place of the catalogue, under this name and path: cached prefixes are shared
    /// with whatever had both before, as vLLM does. They are read from disk when a request first needs them.
    ///
    /// # Panics
    /// When a request in flight has the adapter.
    pub fn replace_adapter(&mut self, adapter: AdapterId, name: &str, path: &str) {
        self.drop_adapter(adapter);
        self.rules.name_adapter(adapter, name, path);
    }

    /// Takes an adapter out of its slot and out of host memory. A later request has it read from disk again.
    ///
    /// # Panics
    /// When a request in flight has the adapter: [`Self::uses_adapter`] tells.
    pub fn drop_adapter(&mut self, adapter: AdapterId) {
        assert!(!self.uses_adapter(adapter), "an adapter in use is never dropped");
        self.server.drop_adapter(adapter, &self.rules);
    }

    /// Whether a request has the adapter: in flight, or given up and still in a step.
    #[must_use]
    pub fn uses_adapter(&self, adapter: AdapterId) -> bool {
        self.jobs.held().any(|key| self.jobs[key].adapter() == Some(adapter))
    }

    /// Everything before `at` and the steps that end at it, but not the step that starts at it.
    fn reach(&mut self, at: Nanos, events: &mut Vec<StepEvent>) {
        while let Some(next) = self.next_event() {
            if next > at || (next == at && self.ends.is_none()) {
                break;
            }
            self.happen(next, events);
        }
        self.now = self.now.max(at);
    }

    /// What happens at `at`: a step starts, or one ends, with others to follow or not.
    fn happen(&mut self, at: Nanos, events: &mut Vec<StepEvent>) {
        self.now = at;
        match self.ends {
            None => {
                let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
                self.ends = self.server.start(engine, at);
                self.stalled = self.ends.is_none();
                self.tell(events);
            }
            Some(ends) if ends <= at => self.end(events),
            Some(_) => self.tell(events),
        }
    }

    fn end(&mut self, events: &mut Vec<StepEvent>) {
        self.ends = None;
        let mut outputs = std::mem::take(&mut self.outputs);
        let engine = &mut Engine { rules: &self.rules, jobs: &mut self.jobs };
        self.server.end(engine, &mut outputs);
        self.tell(events);
        outputs.first_tokens.clear();
        for key in outputs.dropped.drain(..) {
            self.jobs.remove(key);
        }
        for key in outputs.complete.drain(..) {
            let request = self.jobs[key].request.id;
            let served = self.served(key, Outcome::Ok, self.jobs[key].progress());
            events.push(StepEvent::Finished { request, served });
            self.live.remove(&request);
            self.jobs.remove(key);
        }
        self.outputs = outputs;
    }

    /// Admissions and tokens that have not been told.
    fn tell(&mut self, events: &mut Vec<StepEvent>) {
        for (&request, live) in &mut self.live {
            let job = &self.jobs[live.key];
            if let Some(at) = job.admitted.filter(|_| !live.admitted) {
                live.admitted = true;
                events.push(StepEvent::Admitted { at, request, hit_tokens: job.prefix_hit_tokens });
            }
            let progress = self.server.progress(&self.jobs, live.key, self.now);
            while live.tokens < progress.produced {
                let at = progress.last_token.floor();
                events.push(StepEvent::Token { at, request, index: live.tokens });
                live.tokens += 1;
            }
        }
    }

    fn served(&self, key: JobKey, outcome: Outcome, progress: Progress) -> Served {
        let end = End { replica: Some(self.server.id()), outcome, at: self.now };
        Served::from(&self.jobs[key].completion(end, progress))
    }
}
