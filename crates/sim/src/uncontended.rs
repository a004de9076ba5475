//! Service without contention: what each request would see alone on a replica with everything that it needs in place.
//!
//! Adapters cost nothing here: a policy that serves the same request from the base model would otherwise be faster than
//! the bound, and the bound's run would not be the first to end.

use crate::agenda::{Agenda, Event};
use crate::completion::RunTotals;
use crate::exact::{Exact, Stretch};
use crate::jobs::{End, Job, JobKey, Jobs};
use crate::latency::Batch;
use crate::prefixes::Prefixes;
use crate::rules::Rules;
use crate::{CacheCondition, Run, SimError};
use acb_routing::RouterEvent;
use acb_types::{ContentId, Nanos, Outcome, Segment};
use acb_workload::Arrival;

/// Runs every request alone.
///
/// # Errors
/// When the source's due times decrease.
pub(crate) fn run(run: Run<'_>) -> Result<RunTotals, SimError> {
    let mut alone = Alone {
        run,
        jobs: Jobs::default(),
        agenda: Agenda::default(),
        prefixes: Prefixes::default(),
        totals: RunTotals::default(),
        now: Nanos::ZERO,
        last_due: Nanos::ZERO,
        stopped: false,
    };
    while !alone.stopped {
        let due = alone.run.source.next_due().map(|due| due.max(alone.now));
        let next = due.into_iter().chain(alone.agenda.next_at()).min();
        let Some(next) = next else { break };
        let cluster = alone.run.cluster;
        if next > cluster.stop_at || alone.totals.events >= cluster.most_events {
            alone.now = alone.now.max(next.min(cluster.stop_at));
            break;
        }
        alone.totals.events += 1;
        match alone.agenda.pop_before(due) {
            Some((at, event)) => {
                alone.now = at;
                alone.happen(event);
            }
            None => alone.arrive()?,
        }
    }
    Ok(alone.finish())
}

struct Alone<'a> {
    run: Run<'a>,
    jobs: Jobs,
    agenda: Agenda,
    prefixes: Prefixes,
    totals: RunTotals,
    now: Nanos,
    last_due: Nanos,
    stopped: bool,
}

impl Alone<'_> {
    fn happen(&mut self, event: Event) {
        match event {
            Event::AloneFirst { key } => {
                let event = RouterEvent::FirstToken { at: self.now, request: self.jobs[key].request.id };
                self.run.router.apply(&event);
            }
            Event::AloneEnd { key } => {
                let job = &self.jobs[key];
                let whole = job.produced == job.answer;
                self.ended(key, if whole { Outcome::Ok } else { Outcome::TimedOut });
            }
            _ => unreachable!("a request alone on its replica needs no step, scrape or deadline"),
        }
    }

    fn arrive(&mut self) -> Result<(), SimError> {
        let Some(Arrival { request, truth }) = self.run.source.take() else { return Ok(()) };
        if request.due < self.last_due {
            return Err(SimError::SourceOutOfOrder { due: request.due, before: self.last_due });
        }
        self.last_due = request.due;
        self.now = self.now.max(request.due);
        self.totals.arrived += 1;
        let rules = &self.run.cluster.rules;
        let decision = self.run.router.dispatch(self.now, &request);
        let refused = rules.rejects(&request, decision.adapter);
        let hit = self.best_hit(&request, truth.output_tokens);
        let key = self.jobs.insert(request, decision, truth.output_tokens, self.now);
        if refused {
            self.ended(key, Outcome::Rejected);
            return Ok(());
        }
        let end = serve(rules, &mut self.jobs[key], hit);
        if let Some(first) = self.jobs[key].first_token {
            self.agenda.push(first, Event::AloneFirst { key });
        }
        self.agenda.push(end, Event::AloneEnd { key });
        Ok(())
    }

    /// The longest prefix of an earlier prompt or its answer, short of the last token; then remembers this one. Where
    /// requests overtake others, all but the last token: who comes later may have computed it.
    fn best_hit(&mut self, request: &acb_types::Request, answer: u32) -> Option<u32> {
        match self.run.cluster.rules.condition {
            CacheCondition::PrefixDisabled => None,
            CacheCondition::Cold => Some(0),
            CacheCondition::Warm if !self.run.cluster.rules.keeps_order() => {
                Some(request.prompt.tokens().saturating_sub(1))
            }
            CacheCondition::Warm => {
                let longest = self.prefixes.longest_match(&request.prompt);
                let mut whole = request.prompt.clone();
                whole.push(Segment { content: ContentId::of_output(request.id), tokens: answer });
                self.prefixes.insert(&whole);
                Some(longest.min(request.prompt.tokens().saturating_sub(1)))
            }
        }
    }

    fn ended(&mut self, key: JobKey, outcome: Outcome) {
        self.jobs[key].ended = true;
        self.totals.count(outcome);
        let job = &self.jobs[key];
        let request = job.request.id;
        let end = End { replica: None, outcome, at: self.now };
        self.stopped = self.run.sink.completed(&job.completion(end, job.progress())).is_break();
        self.run.router.apply(&RouterEvent::Finished { at: self.now, request });
        self.run.source.ended(request, self.now);
        self.jobs.remove(key);
    }

    fn finish(mut self) -> RunTotals {
        let mut left: Vec<_> = self.jobs.in_flight().map(|key| (self.jobs[key].request.id, key)).collect();
        left.sort_unstable();
        for (_, key) in left {
            if self.stopped {
                self.totals.unfinished += 1;
            } else {
                let job = &mut self.jobs[key];
                forget_after(job, &self.run.cluster.rules, self.now);
                self.ended(key, Outcome::Unfinished);
            }
        }
        self.totals.end = self.now;
        self.totals
    }
}

/// Fills in when the request's tokens come if it starts at once; says when it ends for its client.
fn serve(rules: &Rules, job: &mut Job, hit: Option<u32>) -> Nanos {
    job.prefix_hit_tokens = hit;
    job.admitted = Some(job.sent);
    let first = first_token_at(rules, job, hit.unwrap_or(0));
    let mut decode = decode_after(rules, job, first);
    let end = decode.after(u64::from(job.answer - 1)).floor();
    (job.first_token, job.last_token, job.produced) = (Some(first.floor()), first, 1);
    let deadline = rules.timeout.map(|timeout| (job.request.due + timeout).max(job.sent));
    let limit = deadline.filter(|&deadline| deadline < end);
    if limit.is_some_and(|limit| limit < first.floor()) {
        (job.first_token, job.produced) = (None, 0);
        return limit.unwrap_or(end);
    }
    decode.steps = u64::from(job.answer.max(2) - 1);
    let steps = if job.answer == 1 { 0 } else { limit.map_or(decode.steps, |at| decode.ended_by(at)) };
    if steps > 0 {
        job.produced += steps as u32;
        job.last_token = decode.after(steps);
        job.itl_max = decode.longest_of(steps);
    }
    limit.unwrap_or(end)
}

/// When the first token comes at the earliest: the prompt in as few steps as the budget allows.
fn first_token_at(rules: &Rules, job: &Job, hit: u32) -> Exact {
    let tokens = job.request.prompt.tokens() - hit;
    let mut batch = Batch::default();
    batch.add_prefill(hit, tokens, 0);
    Exact::from(job.sent) + rules.latency.least_time(&batch, u64::from(tokens.div_ceil(rules.budget)))
}

/// The steps of all tokens after the first.
fn decode_after(rules: &Rules, job: &Job, from: Exact) -> Stretch {
    let mut batch = Batch::default();
    batch.add_row(job.request.prompt.tokens(), false);
    let first = rules.latency.step_time(&batch);
    Stretch { from, first, growth: rules.latency.growth(1), steps: 1 }
}

/// Takes back what comes after `now`.
fn forget_after(job: &mut Job, rules: &Rules, now: Nanos) {
    let Some(first_at) = job.first_token else { return };
    let first = first_token_at(rules, job, job.prefix_hit_tokens.unwrap_or(0));
    if first_at > now {
        (job.first_token, job.produced, job.itl_max) = (None, 0, Exact::ZERO);
        return;
    }
    let mut decode = decode_after(rules, job, first);
    decode.steps = u64::from(job.produced.max(2) - 1);
    let steps = decode.ended_by(now).min(u64::from(job.produced - 1));
    job.produced = 1 + steps as u32;
    job.last_token = decode.after(steps);
    job.itl_max = if steps > 0 { decode.longest_of(steps) } else { Exact::ZERO };
}
