//! The source of requests: who asks for what, when, in which words.

use crate::asks::{Ask, Asks};
use crate::draw::{MAX_TURNS, exponential, key};
use crate::jsonl::Rows;
use crate::people::{People, Sender};
use crate::prompts::{Documents, Outputs, Place, Prompts, Recorded, Said, Synthetic};
use crate::source::{Arrival, RequestSource};
use crate::spec::{CountLaw, Kind, NamedBy, Plan, Sessions, WorkloadSpec};
use crate::starts::Starts;
use crate::trace::TraceReader;
use crate::{WorkloadError, validate};
use acb_tasks::Family;
use acb_types::{
    AdapterId, Adapters, ContentId, Nanos, Prompt, Request, RequestId, Seed, Segment, TaskId, Truth,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What an experiment tells its workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadContext<'a> {
    /// Task names, as [`WorkloadSpec::task_names`] gave them; a [`TaskId`] indexes them.
    pub tasks: &'a [String],
    /// The adapters that clients may name.
    pub adapters: &'a Adapters,
    /// Tokens that prompt and answer may have together.
    pub context_tokens: u32,
}

/// Generates a workload's requests as they are taken. Memory grows with sessions and requests in flight, not with
/// requests (except for `jsonl_eval`, which holds the rows that it will use).
///
/// What a request says depends on the seed and its place (session, turn) alone: arms whose answers come back in
/// another order still ask the same.
pub struct Workload {
    makers: Makers,
    starts: Starts,
    requests: u64,
    /// Starts so far, and the requests that they stand for.
    started: u64,
    allotted: u64,
    taken: u64,
    last_due: Nanos,
    /// Turns that are due, by time and start.
    ready: BTreeMap<(Nanos, u64), Conversation>,
    /// Conversations whose request is being answered. Look-up only.
    waiting: FxHashMap<RequestId, Conversation>,
    fault: Option<WorkloadError>,
}

/// Everything that decides what a request is.
struct Makers {
    people: People,
    asks: Asks,
    prompts: Prompts,
    outputs: Outputs,
    turns: Option<CountLaw>,
    turns_seed: Seed,
    think_s: f64,
    think: Seed,
    grows: bool,
    context_tokens: u32,
    half: u64,
    specialists: Option<Vec<AdapterId>>,
}

/// A session's state between turns.
struct Conversation {
    start: u64,
    started_at: Nanos,
    before: u64,
    sender: Sender,
    first_turn: u32,
    turn: u32,
    turns: u32,
    last_task: Option<TaskId>,
    history: Prompt,
}

impl Workload {
    /// A workload for one cell. Reads trace and dataset files once, so that a faulty line is found before the run.
    ///
    /// # Errors
    /// When the spec is impossible, a file is missing or faulty, a client's task has no adapter, or no prompt fits the
    /// context.
    pub fn new(
        spec: &WorkloadSpec,
        context: &WorkloadContext<'_>,
        seed: Seed,
    ) -> Result<Self, WorkloadError> {
        let plan = spec.plan();
        validate::workload(spec, &plan, context)?;
        let makers = Makers::new(spec, &plan, context, seed)?;
        let mean_turns = makers.turns.map_or(1.0, |turns| turns.mean_cut_at(MAX_TURNS));
        let starts = Starts::new(plan.arrivals, mean_turns, spec.trace.as_ref(), seed)?;
        Ok(Self {
            makers,
            starts,
            requests: plan.requests,
            started: 0,
            allotted: 0,
            taken: 0,
            last_due: Nanos::ZERO,
            ready: BTreeMap::new(),
            waiting: FxHashMap::default(),
            fault: None,
        })
    }

    /// Why the source ended before its time: a file that changed after it was checked. None in every sound run.
    #[must_use]
    pub fn fault(&self) -> Option<&WorkloadError> {
        self.fault.as_ref()
    }

    fn next_start(&self) -> Option<Nanos> {
        (self.allotted < self.requests && self.fault.is_none()).then(|| self.starts.peek()).flatten()
    }

    /// Whether the next request is a turn that is due and not a start. Turns go first at equal times.
    fn turn_is_next(&self) -> bool {
        match (self.ready.first_key_value(), self.next_start()) {
            (Some((&(due, _), _)), Some(start)) => due <= start,
            (ready, _) => ready.is_some(),
        }
    }

    fn start(&mut self) -> Result<Option<Conversation>, WorkloadError> {
        let Some(due) = self.starts.take()? else { return Ok(None) };
        let conversation = self.makers.start(self.started, self.allotted, due, self.requests);
        self.started += 1;
        self.allotted += u64::from(conversation.turns);
        Ok(Some(conversation))
    }

    fn next_conversation(&mut self) -> Result<Option<(Nanos, Conversation)>, WorkloadError> {
        if self.turn_is_next() {
            return Ok(self.ready.pop_first().map(|((due, _), conversation)| (due, conversation)));
        }
        if self.next_start().is_none() {
            return Ok(None);
        }
        Ok(self.start()?.map(|conversation| (conversation.started_at, conversation)))
    }

    fn try_take(&mut self) -> Result<Option<Arrival>, WorkloadError> {
        let Some((due, mut conversation)) = self.next_conversation()? else { return Ok(None) };
        let due = due.max(self.last_due);
        let id = RequestId(self.taken);
        let Some(arrival) = self.makers.arrival(id, due, &mut conversation)? else { return Ok(None) };
        self.taken += 1;
        self.last_due = due;
        conversation.turn += 1;
        if conversation.turn < conversation.turns || self.starts.waits() {
            self.waiting.insert(id, conversation);
        }
        Ok(Some(arrival))
    }
}

impl RequestSource for Workload {
    fn next_due(&self) -> Option<Nanos> {
        let due = if self.turn_is_next() {
            self.ready.first_key_value().map(|(&(due, _), _)| due)
        } else {
            self.next_start()
        };
        due.map(|due| due.max(self.last_due))
    }

    fn take(&mut self) -> Option<Arrival> {
        match self.try_take() {
            Ok(arrival) => arrival,
            Err(error) => {
                self.fault = Some(error);
                None
            }
        }
    }

    fn ended(&mut self, request: RequestId, at: Nanos) {
        let Some(conversation) = self.waiting.remove(&request) else { return };
        let start = conversation.start;
        if conversation.turn < conversation.turns {
            let due = at + self.makers.think(start, conversation.turn);
            self.ready.insert((due, start), conversation);
        } else {
            self.starts.done(start, at);
        }
    }
}

impl Makers {
    fn new(
        spec: &WorkloadSpec,
        plan: &Plan,
        context: &WorkloadContext<'_>,
        seed: Seed,
    ) -> Result<Self, WorkloadError> {
        let (turns, labels) = match plan.sessions {
            Sessions::Turns(law) => (Some(law), 0),
            Sessions::Labels(n) => (None, n as usize),
        };
        Ok(Self {
            people: People::new(plan, seed),
            asks: Asks::new(plan, context.tasks.len(), labels, seed),
            prompts: prompts(spec, plan, context, seed)?,
            outputs: Outputs::new(plan, seed),
            turns,
            turns_seed: seed.child("turns"),
            think_s: plan.think_ms * 1e-3,
            think: seed.child("turn think"),
            grows: plan.kind == Kind::AgentSession,
            context_tokens: context.context_tokens,
            half: plan.requests.div_ceil(2),
            specialists: specialists(plan, context)?,
        })
    }

    fn start(&mut self, start: u64, before: u64, at: Nanos, requests: u64) -> Conversation {
        let (sender, first_turn) = match &mut self.prompts {
            Prompts::Rows(rows) => rows.start(start, &self.people),
            _ => self.people.start(start),
        };
        let mut conversation = Conversation {
            start,
            started_at: at,
            before,
            sender,
            first_turn,
            turn: 0,
            turns: 1,
            last_task: None,
            history: Prompt::default(),
        };
        if let Some(law) = self.turns {
            let drawn = u64::from(law.draw(self.turns_seed, start).min(MAX_TURNS));
            conversation.turns = drawn.min(requests - before) as u32;
            conversation.turns = self.turns_that_fit(&conversation);
        }
        conversation
    }

    /// Turns of a growing conversation that stay within the context, at least one. Counts every turn as the longest
    /// task's, so that the number does not depend on what will be asked.
    fn turns_that_fit(&self, conversation: &Conversation) -> u32 {
        let Prompts::Documents(documents) = &self.prompts else { return conversation.turns };
        if !self.grows {
            return conversation.turns;
        }
        let longest = (0..Family::ALL.len()).map(|task| documents.turn_tokens(task)).max().unwrap_or(0);
        let mut tokens = u64::from(documents.document_tokens());
        for turn in 0..conversation.turns {
            let (max_output, output) = self.outputs.at(key(conversation.start, turn), None, None);
            tokens += u64::from(longest);
            if tokens + u64::from(max_output) > u64::from(self.context_tokens) {
                return turn.max(1);
            }
            tokens += u64::from(output);
        }
        conversation.turns
    }

    fn think(&self, start: u64, turn: u32) -> Nanos {
        Nanos::from_secs_f64(self.think_s * exponential(self.think.unit(key(start, turn))))
    }

    fn task(&mut self, conversation: &Conversation) -> TaskId {
        if let Prompts::Rows(rows) = &self.prompts {
            return rows.task(conversation.start);
        }
        let label = self.turns.is_none().then_some(conversation.sender.session.0 as u32);
        self.asks.task(&Ask {
            start: conversation.start,
            turn: conversation.turn,
            before: conversation.before,
            at: conversation.started_at,
            label,
            last: conversation.last_task,
        })
    }

    fn said(&mut self, place: Place, history: Prompt) -> Result<Option<Said>, WorkloadError> {
        match &mut self.prompts {
            Prompts::Documents(documents) if place.turn > 0 && self.grows => {
                Ok(Some(documents.after(place, history)))
            }
            prompts => prompts.at(place),
        }
    }

    /// The adapter that the client names, when clients do.
    fn named(&self, start: u64, task: TaskId) -> Option<AdapterId> {
        let specialists = self.specialists.as_ref()?;
        let of_row = match &self.prompts {
            Prompts::Rows(rows) => rows.adapter(start),
            _ => None,
        };
        Some(of_row.unwrap_or(specialists[task.index()]))
    }

    fn arrival(
        &mut self,
        id: RequestId,
        due: Nanos,
        conversation: &mut Conversation,
    ) -> Result<Option<Arrival>, WorkloadError> {
        let task = self.task(conversation);
        let Conversation { start, turn, sender, .. } = *conversation;
        let place = Place { start, turn, task, second_half: conversation.before >= self.half };
        let history = std::mem::take(&mut conversation.history);
        let Some(said) = self.said(place, history)? else { return Ok(None) };
        let (max_output_tokens, output_tokens) =
            self.outputs.at(key(start, turn), said.max_output, said.recorded_output);
        conversation.last_task = Some(task);
        if self.grows {
            conversation.history = said.prompt.clone();
            conversation.history.push(Segment { content: ContentId::of_output(id), tokens: output_tokens });
        }
        let request = Request {
            id,
            ask: key(start, turn),
            due,
            session: sender.session,
            turn: conversation.first_turn + turn,
            tenant: sender.tenant,
            trust_group: sender.trust_group,
            task,
            document: said.document,
            prompt: said.prompt,
            max_output_tokens,
            cache_salt: sender.cache_salt,
            required_adapter: self.named(start, task),
        };
        Ok(Some(Arrival { request, truth: Truth { request: id, output_tokens } }))
    }
}

fn prompts(
    spec: &WorkloadSpec,
    plan: &Plan,
    context: &WorkloadContext<'_>,
    seed: Seed,
) -> Result<Prompts, WorkloadError> {
    match plan.kind {
        Kind::Trace => {
            let block_tokens = spec.trace.as_ref().map_or(1, |trace| trace.block_tokens);
            let rows = TraceReader::needed(spec.trace.as_ref())?;
            Ok(Prompts::Recorded(Box::new(Recorded::new(plan, rows, block_tokens))))
        }
        Kind::JsonlEval => Ok(Prompts::Rows(Box::new(Rows::read(spec, plan, context, seed)?))),
        Kind::MultiLora => Ok(Prompts::Synthetic(Synthetic::new(plan, seed))),
        _ => {
            let families = validate::families(context.tasks)?;
            Ok(Prompts::Documents(Documents::new(plan, families, seed)))
        }
    }
}

/// The adapter that a client names for each task, when clients name adapters.
fn specialists(plan: &Plan, context: &WorkloadContext<'_>) -> Result<Option<Vec<AdapterId>>, WorkloadError> {
    if plan.named_by == NamedBy::Router {
        return Ok(None);
    }
    let find = |(task, name): (usize, &String)| {
        let found = context.adapters.specialist(TaskId(task as u32));
        found.ok_or_else(|| WorkloadError::NoSpecialist(name.clone()))
    };
    context.tasks.iter().enumerate().map(find).collect::<Result<_, _>>().map(Some)
}
