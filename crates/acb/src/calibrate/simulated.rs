//! A server in this process: the simulator's engine behind the interface of a real one, with a front end and, if asked
//! for, noise in the length of its steps.
//!
//! What the server has cached and loaded has to stay from one plan to the next, and a simulation starts empty; so each
//! plan is simulated together with all plans before it.

use super::hidden::FrontEnd;
use super::server::{AdapterFile, Ask, Reply, Scrape, Server, ServerError, Start};
use acb_routing::{LeastInFlightSpec, PolicySpec, Router, RouterContext};
use acb_sim::{Cluster, ClusterSpec, Completion, EndedSteps, Run, Service, Sink};
use acb_types::{
    AdapterId, AdapterRole, Adapters, ContentId, Nanos, Outcome, Prompt, QualityTable, Request, RequestId,
    Seed, Segment, SessionId, Slo, Source, Stream, TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::{Arrival, RequestSource};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Time between two plans.
const PAUSE: Nanos = Nanos::from_millis(1000);

/// The server.
pub struct SimulatedServer {
    spec: ClusterSpec,
    adapters: Arc<Adapters>,
    front_end: FrontEnd,
    noise: Noise,
    asks: Vec<Ask>,
    /// When the next plan begins.
    next: Nanos,
}

/// How much steps vary, and by which draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of the logarithm of a step's length.
    pub sigma: f64,
    /// Seed of the draws.
    pub seed: Seed,
}

impl SimulatedServer {
    /// A server just started.
    ///
    /// # Errors
    /// When the engine would not start so.
    pub fn new(
        spec: ClusterSpec,
        files: &[AdapterFile],
        front_end: FrontEnd,
        noise: Noise,
    ) -> Result<Self, ServerError> {
        let entries = files.iter().map(|f| (f.name.clone(), f.rank, f.bytes, AdapterRole::Placebo));
        let adapters = Adapters::new(entries).map_err(|error| ServerError::Unusable(error.to_string()))?;
        let adapters = Arc::new(adapters);
        Cluster::new(&spec, adapters.clone()).map_err(|error| ServerError::Unusable(error.to_string()))?;
        Ok(Self { spec, adapters, front_end, noise, asks: Vec::new(), next: Nanos::ZERO })
    }

    fn simulate(&self, watch_from: Nanos) -> Result<Watched, ServerError> {
        let unusable = |error: &dyn std::fmt::Display| ServerError::Unusable(error.to_string());
        let cluster = Cluster::new(&self.spec, self.adapters.clone()).map_err(|e| unusable(&e))?;
        let policy = PolicySpec::LeastInFlight(LeastInFlightSpec::default());
        let mut router = Router::new(&policy, self.context()).map_err(|e| unusable(&e))?;
        let mut source = Pending::new(&self.asks, self.front_end);
        let mut watched =
            Watched { from: watch_from, served: vec![None; self.asks.len()], steps: Vec::new() };
        let run = Run {
            cluster: &cluster,
            source: &mut source,
            router: &mut router,
            sink: &mut watched,
            mode: Service::Contended,
        };
        run.run().map_err(|e| unusable(&e))?;
        for (served, &place) in watched.served.clone().iter().zip(&source.order) {
            watched.served[place] = *served;
        }
        Ok(watched)
    }

    fn context(&self) -> RouterContext {
        let qualities = QualityTable::from_fn(1, self.adapters.len(), |_, _| 0.0);
        RouterContext {
            replicas: 1,
            prior: Arc::new(qualities.expect("zero is a quality")),
            slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
            costs: self.spec.costs(&self.adapters),
            prefix: self.spec.prefix_index(),
            seed: Seed(0),
            truth: None,
            adapters: self.adapters.clone(),
            merged: std::collections::BTreeMap::new(),
        }
    }

    fn reply(&self, ask: usize, watched: &Watched, clock: &Clock) -> Result<Reply, ServerError> {
        let asked = &self.asks[ask];
        let served = watched.served[ask].filter(|served| served.outcome == Outcome::Ok);
        let Some(Served { due, first: Some(first), last: Some(last), cached, .. }) = served else {
            let outcome = watched.served[ask].map_or("unfinished".to_owned(), |s| format!("{:?}", s.outcome));
            return Err(ServerError::Incomplete { ask, prompt_tokens: asked.prompt_tokens, outcome });
        };
        let shown = |at: Nanos| clock.at(at) + self.front_end.half();
        let sent = due.since(self.front_end.before(asked.prompt_tokens));
        let later = watched.decodes_within(first, last);
        let tokens: Vec<Nanos> = std::iter::once(first).chain(later).map(shown).collect();
        Ok(Reply {
            sent: clock.at(due) - (due - sent),
            first: shown(first),
            last: shown(last),
            tokens: (tokens.len() == asked.output_tokens as usize).then_some(tokens),
            cached_tokens: cached,
        })
    }
}

impl Server for SimulatedServer {
    fn source(&self) -> Source {
        Source::Simulated
    }

    fn serve(&mut self, plan: &[Ask]) -> Result<Vec<Reply>, ServerError> {
        let (first, begin) = (self.asks.len(), self.next);
        self.asks.extend(plan.iter().map(|ask| {
            let start = match ask.start {
                Start::At(at) => Start::At(begin + at),
                Start::After { ask, wait } => Start::After { ask: first + ask, wait },
            };
            Ask { start, ..ask.clone() }
        }));
        let watched = self.simulate(begin)?;
        let ended = watched.served.iter().flatten().filter_map(|served| served.last).max();
        self.next = ended.unwrap_or(begin) + PAUSE;
        let clock = Clock::new(&watched.steps, begin, self.noise);
        (first..self.asks.len()).map(|ask| self.reply(ask, &watched, &clock)).collect()
    }

    fn scrape(&mut self) -> Result<Scrape, ServerError> {
        let blocks = self.spec.kv_blocks().map(|blocks| blocks * u64::from(self.spec.block_tokens()));
        Ok(Scrape { kv_tokens: blocks })
    }
}

/// How one request went inside the simulation.
#[derive(Clone, Copy, Debug)]
struct Served {
    due: Nanos,
    outcome: Outcome,
    first: Option<Nanos>,
    last: Option<Nanos>,
    cached: Option<u32>,
}

/// A step that ended.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Nanos,
    end: Nanos,
    decodes: bool,
}

/// Notes how requests went, and the steps of the plan that is looked at.
struct Watched {
    from: Nanos,
    /// While the run goes on, in the order taken; then in the order of the plans.
    served: Vec<Option<Served>>,
    steps: Vec<Step>,
}

impl Watched {
    /// Ends of decode steps after `first` until `last`.
    fn decodes_within(&self, first: Nanos, last: Nanos) -> impl Iterator<Item = Nanos> + '_ {
        let from = self.steps.partition_point(|step| step.end <= first);
        let within = self.steps[from..].iter().take_while(move |step| step.end <= last);
        within.filter(|step| step.decodes).map(|step| step.end)
    }
}

impl Sink for Watched {
    fn completed(&mut self, c: &Completion<'_>) -> ControlFlow<()> {
        self.served[c.request.id.0 as usize] = Some(Served {
            due: c.request.due,
            outcome: c.outcome,
            first: c.first_token,
            last: c.last_token,
            cached: c.prefix_hit_tokens,
        });
        ControlFlow::Continue(())
    }

    fn watches_steps(&self) -> bool {
        true
    }

    fn steps(&mut self, steps: &EndedSteps) {
        let mut from = steps.from();
        for end in steps.ends() {
            if end >= self.from {
                self.steps.push(Step { from, end, decodes: steps.decodes });
            }
            from = end;
        }
    }
}

/// Time as it passes when every step is longer or shorter by chance.
struct Clock {
    /// Where steps start and end, and what time it then is.
    knots: Vec<(Nanos, f64)>,
}

impl Clock {
    fn new(steps: &[Step], begin: Nanos, noise: Noise) -> Self {
        let mut draws: Stream = noise.seed.child("steps").stream(&begin.0.to_string());
        let mut knots = vec![(begin, begin.0 as f64)];
        let mut pass = |to: Nanos, factor: f64| {
            let (at, shown) = knots[knots.len() - 1];
            if to > at {
                knots.push((to, shown + (to - at).0 as f64 * factor));
            }
        };
        for step in steps {
            pass(step.from, 1.0);
            pass(step.end, (noise.sigma * draws.normal()).exp());
        }
        Self { knots }
    }

    fn at(&self, time: Nanos) -> Nanos {
        let next = self.knots.partition_point(|&(at, _)| at <= time).max(1);
        let (from, shown) = self.knots[next - 1];
        let since = time.since(from).0 as f64;
        let factor = match self.knots.get(next) {
            Some(&(to, then)) => (then - shown) / (to - from).0 as f64,
            None => 1.0,
        };
        Nanos((shown + since * factor).round() as u64)
    }
}

/// The requests of all plans, each known to the simulation once it is certain when it comes.
struct Pending<'a> {
    asks: &'a [Ask],
    front_end: FrontEnd,
    certain: BTreeSet<(Nanos, usize)>,
    /// For each request, those that wait for its end.
    waiting: Vec<Vec<usize>>,
    /// Place of each request taken so far.
    order: Vec<usize>,
}

impl<'a> Pending<'a> {
    fn new(asks: &'a [Ask], front_end: FrontEnd) -> Self {
        let mut waiting = vec![Vec::new(); asks.len()];
        let mut certain = BTreeSet::new();
        for (place, ask) in asks.iter().enumerate() {
            match ask.start {
                Start::At(at) => {
                    certain.insert((at + front_end.before(ask.prompt_tokens), place));
                }
                Start::After { ask, .. } => waiting[ask].push(place),
            }
        }
        Self { asks, front_end, certain, waiting, order: Vec::new() }
    }
}

impl RequestSource for Pending<'_> {
    fn next_due(&self) -> Option<Nanos> {
        self.certain.first().map(|&(due, _)| due)
    }

    fn take(&mut self) -> Option<Arrival> {
        let (due, place) = self.certain.pop_first()?;
        let (ask, id) = (&self.asks[place], self.order.len() as u64);
        self.order.push(place);
        let request = Request {
            id: RequestId(id),
            ask: place as u64,
            due,
            session: SessionId(id),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new([Segment { content: ContentId(ask.text), tokens: ask.prompt_tokens }]),
            max_output_tokens: ask.output_tokens,
            cache_salt: None,
            required_adapter: ask.adapter.map(AdapterId),
        };
        Some(Arrival { truth: Truth { request: request.id, output_tokens: ask.output_tokens }, request })
    }

    fn ended(&mut self, request: RequestId, at: Nanos) {
        for place in std::mem::take(&mut self.waiting[self.order[request.0 as usize]]) {
            let Start::After { wait, .. } = self.asks[place].start else { continue };
            let before = self.front_end.before(self.asks[place].prompt_tokens);
            self.certain.insert((at + self.front_end.half() + wait + before, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(sigma: f64) -> SimulatedServer {
        let spec = ClusterSpec::new(1, 10_000, "qwen2.5-7b-h100");
        let front_end = FrontEnd { request_ms: 10.0, token_us: 1.0 };
        SimulatedServer::new(spec, &[], front_end, Noise { sigma, seed: Seed(1) }).unwrap()
    }

    fn ask(start: Start, text: u64) -> Ask {
        Ask { start, text, prompt_tokens: 1000, output_tokens: 5, adapter: None }
    }

    #[test]
    fn a_client_sees_the_front_end_every_token_and_what_was_cached_in_an_earlier_plan() {
        let mut server = server(0.0);
        let plan =
            [ask(Start::At(Nanos(0)), 1), ask(Start::After { ask: 0, wait: Nanos::from_millis(50) }, 2)];
        let replies = server.serve(&plan).unwrap();
        let tokens = replies[0].tokens.as_ref().unwrap();
        assert_eq!((tokens.len(), tokens[0], tokens[4]), (5, replies[0].first, replies[0].last));
        assert!(replies[0].first > Nanos::from_millis(11 + 26), "{:?}", replies[0]);
        assert_eq!(replies[1].sent, replies[0].last + Nanos::from_millis(50));
        assert_eq!((replies[0].cached_tokens, replies[1].cached_tokens), (Some(0), Some(0)));
        let again = server.serve(&plan).unwrap();
        assert_eq!(again[0].cached_tokens, Some(992));
        assert!(again[0].sent > replies[1].last);
    }

    #[test]
    fn noise_changes_the_length_of_steps_and_not_their_order() {
        let plan = [ask(Start::At(Nanos(0)), 1)];
        let [quiet, noisy] = [0.0, 0.05].map(|sigma| server(sigma).serve(&plan).unwrap().remove(0));
        let (quiet_tokens, noisy_tokens) = (quiet.tokens.unwrap(), noisy.tokens.unwrap());
        assert!(noisy_tokens.is_sorted() && noisy_tokens != quiet_tokens);
        let length = |tokens: &[Nanos]| (tokens[4] - tokens[0]).0 as f64;
        assert!((length(&noisy_tokens) / length(&quiet_tokens) - 1.0).abs() < 0.2);
    }

    #[test]
    fn a_request_that_does_not_fit_is_an_error_that_names_it() {
        let long = Ask { prompt_tokens: 40_000, ..ask(Start::At(Nanos(0)), 1) };
        let error = server(0.0).serve(&[long]).unwrap_err();
        assert!(error.to_string().contains("request 0 of the plan (40000 prompt tokens)"), "{error}");
    }
}
