//! A run: requests come, the router sends them, replicas serve them, until nothing is left.

use crate::agenda::{Agenda, Event};
use crate::completion::RunTotals;
use crate::jobs::{End, JobKey, Jobs, Progress};
use crate::replica::{Engine, Outputs};
use crate::server::Server;
use crate::{Cluster, ScrapeShows, SimError, Sink, uncontended};
use acb_routing::{Information, Router, RouterEvent};
use acb_types::{Nanos, Outcome, ReplicaId, RequestId};
use acb_workload::{Arrival, RequestSource};
use std::collections::VecDeque;

/// How requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// On the replicas of the cluster, where they wait for each other.
    Contended,
    /// Each at once, alone on a replica of its own, at the base model's cost whatever its adapter, with the longest
    /// prefix cached that any cache could hold (of any request that came before it, whatever its adapter and salt; where
    /// the engine lets requests overtake others that share its prefix, the whole prompt but its last token). No
    /// policy can be faster for any request, whatever adapters it chooses: a bound, not a system. The decision's
    /// replica is ignored.
    Uncontended,
}

/// One run of a cluster.
pub struct Run<'a> {
    /// What serves.
    pub cluster: &'a Cluster,
    /// Where requests come from.
    pub source: &'a mut dyn RequestSource,
    /// What decides.
    pub router: &'a mut Router,
    /// What takes the results.
    pub sink: &'a mut dyn Sink,
    /// How requests are served.
    pub mode: Service,
}

impl Run<'_> {
    /// Runs until every request ended or a limit is reached. The same inputs give the same results, bit for bit.
    ///
    /// # Errors
    /// When the source's due times decrease.
    pub fn run(self) -> Result<RunTotals, SimError> {
        let totals = match self.mode {
            Service::Contended => Contended::new(self).run(),
            Service::Uncontended => uncontended::run(self),
        }?;
        totals.assert_conserved();
        Ok(totals)
    }
}

/// When a request's time is up.
#[derive(Clone, Copy)]
struct Deadline {
    at: Nanos,
    key: JobKey,
    request: RequestId,
}

/// The state of a run in which requests share replicas.
struct Contended<'a> {
    run: Run<'a>,
    jobs: Jobs,
    replicas: Vec<Server>,
    /// Per replica: which of its step ends in the agenda holds.
    versions: Vec<u64>,
    agenda: Agenda,
    /// In order of time, since due times never decrease and the limit is the same for all.
    deadlines: VecDeque<Deadline>,
    scrape: Scrape,
    totals: RunTotals,
    now: Nanos,
    last_due: Nanos,
    in_flight: u64,
    stopped: bool,
    /// Whether the sink wants to see steps.
    watched: bool,
    outputs: Outputs,
}

/// When the router is shown the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scrape {
    Never,
    Every(Nanos),
    BeforeEachDecision,
}

impl Scrape {
    fn of(information: Information) -> Self {
        match information {
            Information::Nothing | Information::OwnHistory | Information::Truth => Self::Never,
            Information::Scraped { interval_ns: Nanos::ZERO } | Information::TrueState => {
                Self::BeforeEachDecision
            }
            Information::Scraped { interval_ns } => Self::Every(interval_ns),
        }
    }
}

impl<'a> Contended<'a> {
    fn new(run: Run<'a>) -> Self {
        let cluster = run.cluster;
        let replica = |id| {
            let id = ReplicaId(id);
            Server::new(id, cluster.rules_of(id), cluster.adapters.len())
        };
        let scrape = Scrape::of(run.router.information());
        Self {
            jobs: Jobs::default(),
            replicas: (0..cluster.replicas).map(replica).collect(),
            versions: vec![0; cluster.replicas as usize],
            agenda: Agenda::default(),
            deadlines: VecDeque::new(),
            scrape,
            totals: RunTotals::default(),
            now: Nanos::ZERO,
            last_due: Nanos::ZERO,
            in_flight: 0,
            stopped: false,
            watched: run.sink.watches_steps(),
            outputs: Outputs::default(),
            run,
        }
    }

    fn run(mut self) -> Result<RunTotals, SimError> {
        self.agenda.push(Nanos::ZERO, Event::Report);
        if matches!(self.scrape, Scrape::Every(_)) {
            self.agenda.push(Nanos::ZERO, Event::Scrape);
        }
        while !self.stopped {
            let due = self.run.source.next_due();
            if self.in_flight == 0 && due.is_none() {
                break;
            }
            let due = due.map(|due| due.max(self.now));
            let next = due.into_iter().chain(self.agenda.next_at()).min();
            if next.is_none_or(|at| at > self.run.cluster.stop_at)
                || self.totals.events >= self.run.cluster.most_events
            {
                self.now = self.now.max(next.map_or(self.now, |at| at.min(self.run.cluster.stop_at)));
                break;
            }
            self.totals.events += 1;
            match self.agenda.pop_before(due) {
                Some((at, event)) => {
                    self.now = at;
                    self.happen(event);
                }
                None => self.arrive()?,
            }
        }
        Ok(self.finish())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::StepEnd { replica, version } => self.step_end(replica, version),
            Event::StepStart { replica } => self.step_start(replica),
            Event::Deadline => self.deadline(),
            Event::Report => {
                self.report();
                self.agenda.push(self.now + self.run.cluster.report_interval, Event::Report);
            }
            Event::Scrape => {
                self.show_servers();
                if let Scrape::Every(interval) = self.scrape {
                    self.agenda.push(self.now + interval, Event::Scrape);
                }
            }
            Event::AloneFirst { .. } | Event::AloneEnd { .. } => {
                unreachable!("requests that share replicas are never alone")
            }
        }
    }

    /// A request comes, is routed, and joins its replica's queue.
    fn arrive(&mut self) -> Result<(), SimError> {
        let Some(Arrival { request, truth }) = self.run.source.take() else { return Ok(()) };
        if request.due < self.last_due {
            return Err(SimError::SourceOutOfOrder { due: request.due, before: self.last_due });
        }
        self.last_due = request.due;
        self.now = self.now.max(request.due);
        self.totals.arrived += 1;
        self.in_flight += 1;
        assert!(
            request.max_output_tokens == 0 || (1..=request.max_output_tokens).contains(&truth.output_tokens),
            "an answer has from 1 to max_output_tokens tokens"
        );
        if self.scrape == Scrape::BeforeEachDecision {
            self.show_servers();
        }
        let decision = self.run.router.dispatch(self.now, &request);
        let key = self.jobs.insert(request, decision, truth.output_tokens, self.now);
        if !self.run.cluster.serves(decision.replica, decision.adapter) {
            self.ended(key, Outcome::Rejected);
            return Ok(());
        }
        if self.run.cluster.merged_into(decision.replica).is_some() {
            self.jobs[key].applied = None;
        }
        self.receive(key);
        Ok(())
    }

    /// The replica takes a request in, or refuses it.
    fn receive(&mut self, key: JobKey) {
        let job = &self.jobs[key];
        let rules = self.run.cluster.rules_of(job.decision.replica);
        let at = job.decision.replica.index();
        if rules.rejects(&job.request, job.adapter()) {
            return self.ended(key, Outcome::Rejected);
        }
        if self.replicas[at].is_full(rules) {
            return self.ended(key, Outcome::Shed);
        }
        if let Some(timeout) = rules.timeout {
            let deadline = Deadline { at: job.request.due + timeout, key, request: job.request.id };
            if self.deadlines.is_empty() {
                self.agenda.push(deadline.at.max(self.now), Event::Deadline);
            }
            self.deadlines.push_back(deadline);
        }
        let engine = &mut Engine { rules, jobs: &mut self.jobs };
        let ends = self.replicas[at].enqueue(engine, key, self.now);
        self.reschedule(at, ends);
        if !self.replicas[at].is_busy() {
            self.start_soon(at);
        }
    }

    /// The steps in progress were cut short.
    fn reschedule(&mut self, at: usize, ends: Option<Nanos>) {
        if let Some(ends) = ends {
            self.versions[at] += 1;
            let event = Event::StepEnd { replica: self.replicas[at].id(), version: self.versions[at] };
            self.agenda.push(ends, event);
        }
    }

    /// Plans a replica's next step when all else of this instant has happened.
    fn start_soon(&mut self, at: usize) {
        let nothing_else = self.agenda.next_at().is_none_or(|next| next > self.now)
            && self.run.source.next_due().is_none_or(|due| due > self.now);
        if nothing_else {
            self.step_start(self.replicas[at].id());
        } else {
            self.agenda.push(self.now, Event::StepStart { replica: self.replicas[at].id() });
        }
    }

    fn step_start(&mut self, replica: ReplicaId) {
        let at = replica.index();
        if self.replicas[at].is_busy() {
            return;
        }
        let engine = &mut Engine { rules: self.run.cluster.rules_of(replica), jobs: &mut self.jobs };
        let ends = self.replicas[at].start(engine, self.now);
        self.reschedule(at, ends);
    }

    fn step_end(&mut self, replica: ReplicaId, version: u64) {
        let at = replica.index();
        if version != self.versions[at] {
            return;
        }
        if self.watched
            && let Some(steps) = self.replicas[at].steps_in_progress()
        {
            self.run.sink.steps(&steps);
        }
        let engine = &mut Engine { rules: self.run.cluster.rules_of(replica), jobs: &mut self.jobs };
        self.replicas[at].end(engine, &mut self.outputs);
        self.take_outputs();
        if self.replicas[at].has_work() {
            self.start_soon(at);
        }
    }

    /// Passes on what steps gave.
    fn take_outputs(&mut self) {
        for nth in 0..self.outputs.first_tokens.len() {
            let request = self.jobs[self.outputs.first_tokens[nth]].request.id;
            self.run.router.apply(&RouterEvent::FirstToken { at: self.now, request });
        }
        for &key in &self.outputs.dropped {
            self.jobs.remove(key);
        }
        for nth in 0..self.outputs.complete.len() {
            self.ended(self.outputs.complete[nth], Outcome::Ok);
        }
        self.outputs.clear();
    }

    /// Gives up the requests whose time is up.
    fn deadline(&mut self) {
        while let Some(&Deadline { at, key, request }) = self.deadlines.front() {
            if at > self.now {
                self.agenda.push(at, Event::Deadline);
                break;
            }
            self.deadlines.pop_front();
            if self.jobs.is_in_flight(key, request) {
                self.give_up(key);
            }
        }
    }

    fn give_up(&mut self, key: JobKey) {
        let replica = self.jobs[key].decision.replica;
        let at = replica.index();
        let progress = self.replicas[at].progress(&self.jobs, key, self.now);
        let engine = &mut Engine { rules: self.run.cluster.rules_of(replica), jobs: &mut self.jobs };
        let given_up = self.replicas[at].give_up(engine, key, self.now);
        self.tell(key, Outcome::TimedOut, progress);
        if given_up.freed {
            self.jobs.remove(key);
        }
        self.reschedule(at, given_up.ends);
    }

    /// A request ended and holds nothing any more.
    fn ended(&mut self, key: JobKey, outcome: Outcome) {
        self.tell(key, outcome, self.jobs[key].progress());
        self.jobs.remove(key);
    }

    /// Tells sink, router and source that a request ended. After the sink stopped the run, it is merely counted.
    fn tell(&mut self, key: JobKey, outcome: Outcome, progress: Progress) {
        self.jobs[key].ended = true;
        self.in_flight -= 1;
        if self.stopped {
            return self.totals.count(Outcome::Unfinished);
        }
        self.totals.count(outcome);
        let job = &self.jobs[key];
        let request = job.request.id;
        let end = End { replica: Some(job.decision.replica), outcome, at: self.now };
        self.stopped = self.run.sink.completed(&job.completion(end, progress)).is_break();
        self.run.router.apply(&RouterEvent::Finished { at: self.now, request });
        self.run.source.ended(request, self.now);
    }

    fn show_servers(&mut self) {
        let hides_residency = self.run.cluster.scrape == ScrapeShows::Released
            && self.run.router.information() != Information::TrueState;
        for replica in &mut self.replicas {
            let rules = self.run.cluster.rules_of(replica.id());
            let engine = &Engine { rules, jobs: &mut self.jobs };
            let mut snapshot = replica.snapshot(engine, self.now);
            if hides_residency {
                (snapshot.gpu_adapters, snapshot.cpu_adapters) = (None, None);
            }
            let event = RouterEvent::Scraped { at: self.now, replica: replica.id(), snapshot };
            self.run.router.apply(&event);
        }
    }

    fn report(&mut self) {
        for replica in &mut self.replicas {
            let rules = self.run.cluster.rules_of(replica.id());
            let engine = &Engine { rules, jobs: &mut self.jobs };
            self.run.sink.server(&replica.row(engine, &self.run.cluster.adapters, self.now));
        }
    }

    /// What is in flight is unfinished; last rows and totals.
    fn finish(mut self) -> RunTotals {
        if self.in_flight == 0 {
            let idle = self.replicas.iter().filter(|replica| !replica.is_busy());
            idle.for_each(Server::assert_at_rest);
        }
        let mut left: Vec<(RequestId, JobKey)> =
            self.jobs.in_flight().map(|key| (self.jobs[key].request.id, key)).collect();
        left.sort_unstable();
        for (_, key) in left {
            let replica = &self.replicas[self.jobs[key].decision.replica.index()];
            let progress = replica.progress(&self.jobs, key, self.now);
            self.tell(key, Outcome::Unfinished, progress);
        }
        self.report();
        self.totals.end = self.now;
        self.totals.steps = self.replicas.iter().map(|r| r.steps(self.now)).sum();
        self.totals
    }
}
