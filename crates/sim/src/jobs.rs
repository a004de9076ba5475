//! Requests in flight, in a table whose places are reused.

use crate::Completion;
use crate::exact::Exact;
use crate::kv::Held;
use crate::sglang::Shared;
use acb_routing::Decision;
use acb_types::{AdapterId, AdapterLoad, BlockRun, Nanos, Outcome, ReplicaId, Request, RequestId};

/// Place of a job in the table.
pub(crate) type JobKey = u32;

/// No job: the end of a list.
pub(crate) const NO_JOB: JobKey = JobKey::MAX;

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the queue.
    Waiting,
    /// Running, its next tokens decided one step at a time.
    Stepwise,
    /// Running and decoding one token per step, in the company of [`crate::decode::Decoding`].
    Decoding,
    /// Given up by its client; its memory is freed when the current step ends.
    GivenUp,
    /// Ended.
    Done,
}

/// A request in flight and what the engine knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) decision: Decision,
    /// The adapter that the engine applies: the decision's, unless it is merged into the replica's weights.
    pub(crate) applied: Option<AdapterId>,
    /// Tokens that the answer will have.
    pub(crate) answer: u32,
    pub(crate) sent: Nanos,
    pub(crate) admitted: Option<Nanos>,
    pub(crate) first_token: Option<Nanos>,
    pub(crate) last_token: Exact,
    pub(crate) itl_max: Exact,
    pub(crate) prefix_hit_tokens: Option<u32>,
    pub(crate) adapter_load: Option<AdapterLoad>,
    pub(crate) preemptions: u32,
    pub(crate) overtaken: u32,
    pub(crate) stage: Stage,
    /// Whether it has ended for its client, though a step may still compute it.
    pub(crate) ended: bool,
    /// Tokens of the answer so far (while decoding: at the step `joined`).
    pub(crate) produced: u32,
    /// Tokens whose keys and values are in memory (while decoding: at the step `joined`).
    pub(crate) computed: u32,
    /// Step count when it began to decode in company.
    pub(crate) joined: u64,
    /// Step count at which its answer is complete, while it decodes.
    pub(crate) complete_at: u64,
    /// Order among the running: counts admissions of the replica.
    pub(crate) admission: u64,
    /// Order in the queue; a preempted request goes before all others.
    pub(crate) place: i64,
    /// Order of arrival at the replica.
    pub(crate) arrival: u64,
    pub(crate) blocks: Held,
    /// The full blocks of prompt and answer, once needed.
    pub(crate) text: Vec<BlockRun>,
    /// What of it is in the radix tree (SGLang).
    pub(crate) shared: Shared,
    /// Neighbours in the queue, and among those with the same adapter.
    pub(crate) queue: Links,
    pub(crate) adapter_queue: Links,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) before: JobKey,
    pub(crate) after: JobKey,
}

impl Links {
    pub(crate) const NONE: Self = Self { before: NO_JOB, after: NO_JOB };
}

impl Job {
    pub(crate) fn adapter(&self) -> Option<AdapterId> {
        self.applied
    }

    /// Tokens of prompt and answer so far (not valid while decoding in company).
    pub(crate) fn tokens(&self) -> u32 {
        self.request.prompt.tokens() + self.produced
    }

    /// How it went, with its progress if that is ahead of the job's own counts.
    pub(crate) fn completion(&self, end: End, progress: Progress) -> Completion<'_> {
        let Progress { produced, last_token, itl_max } = progress;
        Completion {
            request: &self.request,
            decision: self.decision,
            replica: end.replica,
            outcome: end.outcome,
            sent: self.sent,
            admitted: self.admitted,
            first_token: self.first_token,
            last_token: (produced > 0).then(|| last_token.floor()),
            itl_max: (produced > 1).then(|| itl_max.ceil()),
            output_tokens: produced,
            prefix_hit_tokens: self.prefix_hit_tokens,
            adapter_load: self.adapter_load,
            preemptions: self.preemptions,
            overtaken: self.overtaken,
            ended_at: end.at,
        }
    }

    /// Progress by the job's own counts.
    pub(crate) fn progress(&self) -> Progress {
        Progress { produced: self.produced, last_token: self.last_token, itl_max: self.itl_max }
    }

    /// Whether its next token needs just the last one to be computed.
    pub(crate) fn is_decode(&self) -> bool {
        self.produced > 0 && self.computed + 1 == self.tokens()
    }
}

/// Tokens of an answer that came, when the last did, and the longest gap between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) produced: u32,
    pub(crate) last_token: Exact,
    pub(crate) itl_max: Exact,
}

/// Where, how and when a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) replica: Option<ReplicaId>,
    pub(crate) outcome: Outcome,
    pub(crate) at: Nanos,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    table: Vec<Job>,
    vacant: Vec<JobKey>,
}

impl Jobs {
    /// Takes in a request that was sent.
    pub(crate) fn insert(
        &mut self,
        request: Request,
        decision: Decision,
        answer: u32,
        sent: Nanos,
    ) -> JobKey {
        let (blocks, text) = match self.vacant.last() {
            Some(&key) => {
                let old = &mut self.table[key as usize];
                (std::mem::take(&mut old.blocks), std::mem::take(&mut old.text))
            }
            None => (Held::default(), Vec::new()),
        };
        let job = Job::new(Memory { blocks, text }, request, decision, (answer, sent));
        match self.vacant.pop() {
            Some(key) => {
                self.table[key as usize] = job;
                key
            }
            None => {
                self.table.push(job);
                (self.table.len() - 1) as JobKey
            }
        }
    }

    /// Forgets a job; its place and its memory are used again.
    pub(crate) fn remove(&mut self, key: JobKey) {
        let job = &mut self[key];
        assert!(job.blocks.len() == 0, "a job gives its blocks back before it is forgotten");
        (job.stage, job.ended) = (Stage::Done, true);
        job.text.clear();
        self.vacant.push(key);
    }

    /// Jobs that have not ended for their clients, in table order.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = JobKey> + '_ {
        (0..self.table.len() as JobKey).filter(|&key| !self[key].ended)
    }

    /// Jobs that a replica still has, given up ones included, in table order.
    pub(crate) fn held(&self) -> impl Iterator<Item = JobKey> + '_ {
        (0..self.table.len() as JobKey).filter(|&key| self[key].stage != Stage::Done)
    }

    /// Whether this place holds this request and it has not ended.
    pub(crate) fn is_in_flight(&self, key: JobKey, request: RequestId) -> bool {
        self[key].request.id == request && !self[key].ended
    }
}

struct Memory {
    blocks: Held,
    text: Vec<BlockRun>,
}

impl Job {
    fn new(memory: Memory, request: Request, decision: Decision, (answer, sent): (u32, Nanos)) -> Self {
        Self {
            request,
            applied: decision.adapter,
            decision,
            answer,
            sent,
            admitted: None,
            first_token: None,
            last_token: Exact::ZERO,
            itl_max: Exact::ZERO,
            prefix_hit_tokens: None,
            adapter_load: None,
            preemptions: 0,
            overtaken: 0,
            stage: Stage::Waiting,
            ended: false,
            produced: 0,
            computed: 0,
            joined: 0,
            complete_at: 0,
            admission: 0,
            place: 0,
            arrival: 0,
            blocks: memory.blocks,
            text: memory.text,
            shared: Shared::default(),
            queue: Links::NONE,
            adapter_queue: Links::NONE,
        }
    }
}

impl std::ops::Index<JobKey> for Jobs {
    type Output = Job;
    fn index(&self, key: JobKey) -> &Job {
        &self.table[key as usize]
    }
}

impl std::ops::IndexMut<JobKey> for Jobs {
    fn index_mut(&mut self, key: JobKey) -> &mut Job {
        &mut self.table[key as usize]
    }
}
