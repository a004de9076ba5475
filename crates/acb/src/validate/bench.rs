//! One simulated server under a stream of requests that name their adapters, and what comes out of it.

use acb_routing::{LeastInFlightSpec, PolicySpec, Router, RouterContext};
use acb_sim::{Cluster, ClusterSpec, Completion, EngineSpec, Run, RunTotals, Service, Sink};
use acb_types::{
    AdapterId, AdapterRole, Adapters, ContentId, Nanos, Outcome, Prompt, QualityTable, Request, RequestId,
    Seed, Segment, SessionId, Slo, Stream, TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::{Arrival, RequestSource};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// When it comes, s.
    pub due_s: f64,
    /// Prompt tokens.
    pub prompt: u32,
    /// Answer tokens.
    pub answer: u32,
    /// The adapter that it names.
    pub adapter: Option<u32>,
}

/// What came out of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests answered in full.
    pub completed: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Their answer tokens.
    pub answer_tokens: u64,
    /// Sum of their times to first token, s.
    pub ttft_s: f64,
    /// Sum of their times from due to admission, s.
    pub wait_s: f64,
    /// Sum of their times from due to last token, s.
    pub e2e_s: f64,
    /// Sum of their times from first to last token, s.
    pub decode_s: f64,
    /// Requests for which an adapter was loaded.
    pub loads: u64,
    /// When the run ended, s.
    pub end_s: f64,
}

impl Tally {
    /// Mean time to first token, ms.
    pub fn ttft_ms(&self) -> f64 {
        self.ttft_s / self.completed as f64 * 1e3
    }

    /// Mean time between tokens over all of them, ms.
    pub fn itl_ms(&self) -> f64 {
        self.decode_s / (self.answer_tokens - self.completed) as f64 * 1e3
    }

    /// A sum over completed requests as their mean.
    pub fn mean(&self, sum: f64) -> f64 {
        sum / self.completed as f64
    }
}

impl Sink for Tally {
    fn completed(&mut self, c: &Completion<'_>) -> ControlFlow<()> {
        if let (Outcome::Ok, Some(first), Some(last)) = (c.outcome, c.first_token, c.last_token) {
            let since = |at: Nanos| (at - c.request.due).0 as f64 * 1e-9;
            self.completed += 1;
            self.prompt_tokens += u64::from(c.request.prompt.tokens());
            self.answer_tokens += u64::from(c.output_tokens);
            self.ttft_s += since(first);
            self.wait_s += c.admitted.map_or(0.0, since);
            self.e2e_s += since(last);
            self.decode_s += (last - first).0 as f64 * 1e-9;
            self.loads += u64::from(c.adapter_load.is_some());
        }
        ControlFlow::Continue(())
    }
}

/// Times of the requests that were answered in full, in order of their ends.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Times to first token, s.
    pub ttft_s: Vec<f64>,
    /// Times from due to last token, s.
    pub e2e_s: Vec<f64>,
}

impl Sink for Times {
    fn completed(&mut self, c: &Completion<'_>) -> ControlFlow<()> {
        if let (Outcome::Ok, Some(first), Some(last)) = (c.outcome, c.first_token, c.last_token) {
            let since = |at: Nanos| (at - c.request.due).0 as f64 * 1e-9;
            self.ttft_s.push(since(first));
            self.e2e_s.push(since(last));
        }
        ControlFlow::Continue(())
    }
}

/// Adapters of a case: all of the same size.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// How many.
    pub count: u32,
    /// Size of each, bytes.
    pub bytes: u64,
}

/// Serves the requests, which come in order of time, on one replica with `adapters` adapters whose size makes no
/// difference.
///
/// # Panics
/// When the cluster is impossible or the requests are out of order: a case of ours is wrong.
pub fn serve(spec: &ClusterSpec, adapters: u32, asks: impl Iterator<Item = Ask>) -> Tally {
    let mut tally = Tally::default();
    let totals = serve_into(spec, Catalogue { count: adapters, bytes: 1_000_000 }, asks, &mut tally);
    Tally { end_s: totals.end.0 as f64 * 1e-9, ..tally }
}

/// Serves the requests, which come in order of time, on one replica.
///
/// # Panics
/// When the cluster is impossible or the requests are out of order: a case of ours is wrong.
pub fn serve_into(
    spec: &ClusterSpec,
    catalogue: Catalogue,
    asks: impl Iterator<Item = Ask>,
    sink: &mut dyn Sink,
) -> RunTotals {
    serve_from(spec, catalogue, &mut Source::new(asks, None), sink)
}

/// Serves the requests on one replica to the end of the last, so many at a time; `due_s` is not read.
///
/// # Panics
/// When the cluster is impossible: a case of ours is wrong.
pub fn serve_closed(
    spec: &ClusterSpec,
    catalogue: Catalogue,
    (users, asks): (usize, impl Iterator<Item = Ask>),
) -> Tally {
    let mut tally = Tally::default();
    let free = VecDeque::from(vec![Nanos(0); users]);
    let totals = serve_from(spec, catalogue, &mut Source::new(asks, Some(free)), &mut tally);
    Tally { end_s: totals.end.0 as f64 * 1e-9, ..tally }
}

fn serve_from(
    spec: &ClusterSpec,
    catalogue: Catalogue,
    source: &mut dyn RequestSource,
    sink: &mut dyn Sink,
) -> RunTotals {
    let rank = match &spec.engine {
        EngineSpec::Vllm(vllm) => vllm.max_lora_rank,
        EngineSpec::Sglang(sglang) => sglang.max_lora_rank,
    };
    let entry = |i| (format!("a{i}"), rank, catalogue.bytes, AdapterRole::Placebo);
    let adapters = Arc::new(Adapters::new((0..catalogue.count).map(entry)).expect("names differ"));
    let cluster = Cluster::new(spec, adapters.clone()).expect("a case describes a possible cluster");
    let context = RouterContext {
        merged: Default::default(),
        replicas: 1,
        prior: Arc::new(QualityTable::from_fn(1, adapters.len(), |_, _| 0.0).expect("zero is a quality")),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
        costs: spec.costs(&adapters),
        prefix: spec.prefix_index(),
        seed: Seed(0),
        truth: None,
        adapters,
    };
    let policy = PolicySpec::LeastInFlight(LeastInFlightSpec::default());
    let mut router = Router::new(&policy, context).expect("the policy has no parameters");
    let run = Run { cluster: &cluster, source, router: &mut router, sink, mode: Service::Contended };
    run.run().expect("requests come in order of time")
}

/// Requests that come at `rate_rps` a second with exponential gaps, with what `of` makes of each.
pub fn poisson(
    seed: Seed,
    (count, rate_rps): (u32, f64),
    of: impl Fn(&mut Stream) -> Ask,
) -> impl Iterator<Item = Ask> {
    let (mut gaps, mut rest, mut now_s) = (seed.stream("gaps"), seed.stream("asks"), 0.0);
    (0..count).map(move |_| {
        now_s += gaps.exp1() / rate_rps;
        Ask { due_s: now_s, ..of(&mut rest) }
    })
}

/// The value that this share of the sorted times is at most; `None` for no times.
pub fn quantile(times: &[f64], share: f64) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.max(1) - 1).copied()
}

struct Source<I> {
    asks: I,
    next: Option<Ask>,
    taken: u64,
    /// Closed loop: since when each user that sends next has been free. `None`: open, by the times of the asks.
    free: Option<VecDeque<Nanos>>,
}

impl<I: Iterator<Item = Ask>> Source<I> {
    fn new(mut asks: I, free: Option<VecDeque<Nanos>>) -> Self {
        Self { next: asks.next(), asks, taken: 0, free }
    }
}

impl<I: Iterator<Item = Ask>> RequestSource for Source<I> {
    fn next_due(&self) -> Option<Nanos> {
        let ask = self.next?;
        self.free.as_ref().map_or(Some(Nanos::from_secs_f64(ask.due_s)), |free| free.front().copied())
    }

    fn take(&mut self) -> Option<Arrival> {
        let (due, ask, id) = (self.next_due()?, self.next?, self.taken);
        self.taken += 1;
        self.next = self.asks.next();
        self.free.as_mut().and_then(VecDeque::pop_front);
        let request = Request {
            id: RequestId(id),
            ask: id,
            due,
            session: SessionId(id),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new([Segment { content: ContentId(id), tokens: ask.prompt }]),
            max_output_tokens: ask.answer,
            cache_salt: None,
            required_adapter: ask.adapter.map(AdapterId),
        };
        Some(Arrival { truth: Truth { request: request.id, output_tokens: ask.answer }, request })
    }

    fn ended(&mut self, _: RequestId, now: Nanos) {
        if let Some(free) = &mut self.free {
            free.push_back(now);
        }
    }
}

/// Does `work` for every item over all processors; results are in the order of the items.
///
/// # Panics
/// When `work` does.
pub fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len());
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a case does not panic")).collect()
    });
    all.sort_by_key(|&(at, _)| at);
    all.into_iter().map(|(_, result)| result).collect()
}
