//! What a bench adds up to: counts of every ending, and latencies of those that ended well, each with its sample size.
//!
//! Quantiles are of all samples, from a histogram that is off by at most 0.4 %; a quantile that the sample is too small for
//! is absent. Constant memory, however many requests there are.

use crate::cli::Goodput;
use acb_live::load::{Phase, Served};
use acb_stats::Histogram;
use acb_types::{Adapters, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The sums of a bench.
pub struct Summary {
    goodput: Option<Goodput>,
    warmup: u64,
    window: Option<(Nanos, Nanos)>,
    all: Sums,
    /// By adapter name, `base` for none.
    adapters: BTreeMap<String, ByTemperature>,
    endings: BTreeMap<&'static str, u64>,
    retried: u64,
    simulated: u64,
    counted: Counted,
}

/// Sums of one adapter: of all its requests, and of those whose prompt the server had partly cached or not.
#[derive(Default)]
struct ByTemperature {
    all: Sums,
    cold: Sums,
    warm: Sums,
}

/// Sums of some requests.
#[derive(Default)]
struct Sums {
    requests: u64,
    ok: u64,
    good: u64,
    prompt_tokens: u64,
    output_tokens: u64,
    ttft_due: Histogram,
    ttft_sent: Histogram,
    itl: Histogram,
    tpot: Histogram,
    e2e_due: Histogram,
    e2e_sent: Histogram,
}

/// Prompt tokens as we count them and as the server does, over the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    differ: u64,
    ours: u64,
    servers: u64,
    /// Prompt tokens of requests whose cached tokens the server told, and these.
    asked: u64,
    cached: u64,
}

/// Quantiles of one measure in ms. Absent: the sample is too small for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measure {
    /// Samples.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile; absent below 299 samples.
    pub p99: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

/// Latencies of requests that ended well, in ms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latencies {
    /// First token, from when it was due.
    pub ttft_from_due_ms: Measure,
    /// First token, from when it was sent.
    pub ttft_from_send_ms: Measure,
    /// Gaps between events that carry tokens.
    pub itl_ms: Measure,
    /// Time per token after those of the first event.
    pub tpot_ms: Measure,
    /// Last token, from when it was due.
    pub e2e_from_due_ms: Measure,
    /// Last token, from when it was sent.
    pub e2e_from_send_ms: Measure,
}

/// Requests and latencies of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupSummary {
    /// Requests, warm-up left out.
    pub requests: u64,
    /// Those that ended well.
    pub ok: u64,
    /// Those that ended well within every bound of `--goodput`; absent without bounds.
    pub good: Option<u64>,
    /// Tokens in, of those that ended well.
    pub prompt_tokens: u64,
    /// Tokens out, of those that ended well.
    pub output_tokens: u64,
    /// Their latencies.
    pub latencies: Latencies,
}

/// One adapter's requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdapterSummary {
    /// Its name, or `base`.
    pub adapter: String,
    /// All its requests.
    pub all: GroupSummary,
    /// Those of whose prompt the server had nothing cached; absent when it never said.
    pub cold: Option<GroupSummary>,
    /// Those of whose prompt it had something cached; absent when it never said.
    pub warm: Option<GroupSummary>,
}

/// What a bench adds up to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SummaryDocument {
    /// Requests of the warm-up, which nothing below counts.
    pub warmup_requests: u64,
    /// Seconds from the first due time to the last end.
    pub window_s: Option<f64>,
    /// Requests by how they ended: `ok`, `http_error`, `inband_error`, `truncated`, `empty`, `parse_error`, `timed_out`,
    /// `cancelled`, `connect_error`.
    pub endings: BTreeMap<String, u64>,
    /// Requests that were tried more than once.
    pub retried: u64,
    /// Requests whose answer says that a simulator made it: no measurement of anything.
    pub simulated: u64,
    /// Requests that ended well, per second.
    pub ok_rps: Option<f64>,
    /// Requests within every bound of `--goodput`, per second.
    pub good_rps: Option<f64>,
    /// Tokens out per second, of requests that ended well.
    pub output_tokens_per_s: Option<f64>,
    /// Requests whose prompt tokens the server counted, and counted otherwise than we do.
    pub prompt_count_differs: u64,
    /// Prompt tokens by the server's count over ours, for requests where both are known.
    pub prompt_tokens_servers_over_ours: Option<f64>,
    /// All requests.
    pub all: GroupSummary,
    /// Prompt tokens that the server had cached, over all prompt tokens of the requests of which it said so; absent when it
    /// never said.
    pub cached_share: Option<f64>,
    /// By adapter, in order of name.
    pub adapters: Vec<AdapterSummary>,
}

impl Summary {
    /// Nothing yet.
    #[must_use]
    pub fn new(goodput: Option<Goodput>) -> Self {
        Self {
            goodput,
            warmup: 0,
            window: None,
            all: Sums::default(),
            adapters: BTreeMap::new(),
            endings: BTreeMap::new(),
            retried: 0,
            simulated: 0,
            counted: Counted::default(),
        }
    }

    /// Takes in a request that has ended.
    pub fn add(&mut self, served: &Served, adapters: &Adapters) {
        if served.phase == Phase::Warmup {
            self.warmup += 1;
            return;
        }
        let seen = served.last();
        let (due, end) = (served.request.due, seen.ended_ns);
        let (first, last) = self.window.unwrap_or((due, end));
        self.window = Some((first.min(due), last.max(end)));
        *self.endings.entry(seen.ending.class()).or_default() += 1;
        self.retried += u64::from(served.attempts.len() > 1);
        self.simulated += u64::from(seen.simulated);
        self.counted.add(served);
        let grade = grade(served, self.goodput);
        self.all.add(served, grade);
        let name = adapters.label(served.decision.adapter);
        if !self.adapters.contains_key(name) {
            self.adapters.insert(name.to_owned(), ByTemperature::default());
        }
        let adapter = self.adapters.get_mut(name).expect("it was just put there");
        adapter.all.add(served, grade);
        match seen.usage.and_then(|usage| usage.cached_tokens) {
            Some(0) => adapter.cold.add(served, grade),
            Some(_) => adapter.warm.add(served, grade),
            None => {}
        }
    }

    /// The figures.
    #[must_use]
    pub fn document(&self) -> SummaryDocument {
        let window_s = self.window.map(|(first, last)| last.since(first).as_secs_f64()).filter(|s| *s > 0.0);
        let per_second = |count: u64| window_s.map(|seconds| count as f64 / seconds);
        let bounds = self.goodput;
        let Counted { servers, ours, differ, asked, cached } = self.counted;
        SummaryDocument {
            warmup_requests: self.warmup,
            window_s,
            endings: self.endings.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect(),
            retried: self.retried,
            simulated: self.simulated,
            ok_rps: per_second(self.all.ok),
            good_rps: per_second(self.all.good).filter(|_| bounds.is_some()),
            output_tokens_per_s: per_second(self.all.output_tokens),
            prompt_count_differs: differ,
            prompt_tokens_servers_over_ours: (ours > 0).then(|| servers as f64 / ours as f64),
            cached_share: (asked > 0).then(|| cached as f64 / asked as f64),
            all: self.all.summary(bounds),
            adapters: self.adapters.iter().map(|(name, sums)| sums.summary(name, bounds)).collect(),
        }
    }
}

/// Whether a request met its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// It failed, was too slow, or there are no bounds.
    Other,
}

fn grade(served: &Served, bounds: Option<Goodput>) -> Grade {
    let Some(bounds) = bounds else { return Grade::Other };
    let (seen, due) = (served.last(), served.request.due);
    let within = |value: Option<Nanos>, bound: Option<Nanos>| {
        bound.is_none_or(|bound| value.is_some_and(|value| value <= bound))
    };
    // A one-token answer has no time per further token, and so none that is too long.
    let tpot = seen.tpot_ns().map_or(Nanos::ZERO, |ns| Nanos(ns as u64));
    let good = seen.is_ok()
        && within(seen.ttft_from(due), bounds.ttft)
        && within(Some(tpot), bounds.tpot)
        && within(seen.e2e_from(due), bounds.e2e);
    if good { Grade::Good } else { Grade::Other }
}

impl Counted {
    fn add(&mut self, served: &Served) {
        let usage = served.last().usage.unwrap_or_default();
        let Some(servers) = usage.prompt_tokens else { return };
        if let Some(cached) = usage.cached_tokens {
            self.asked += u64::from(servers);
            self.cached += u64::from(cached);
        }
        let ours = served.request.prompt.tokens();
        self.differ += u64::from(ours != servers);
        self.ours += u64::from(ours);
        self.servers += u64::from(servers);
    }
}

impl ByTemperature {
    fn summary(&self, name: &str, bounds: Option<Goodput>) -> AdapterSummary {
        let told = self.cold.requests + self.warm.requests > 0;
        AdapterSummary {
            adapter: name.to_owned(),
            all: self.all.summary(bounds),
            cold: told.then(|| self.cold.summary(bounds)),
            warm: told.then(|| self.warm.summary(bounds)),
        }
    }
}

impl Sums {
    fn add(&mut self, served: &Served, grade: Grade) {
        self.requests += 1;
        let (seen, due) = (served.last(), served.request.due);
        if !seen.is_ok() {
            return;
        }
        self.ok += 1;
        self.good += u64::from(grade == Grade::Good);
        let prompt = seen.usage.and_then(|usage| usage.prompt_tokens);
        self.prompt_tokens += u64::from(prompt.unwrap_or_else(|| served.request.prompt.tokens()));
        self.output_tokens += u64::from(served.output_tokens());
        let put = |into: &mut Histogram, value: Option<Nanos>| {
            if let Some(value) = value {
                into.add(value.0);
            }
        };
        put(&mut self.ttft_due, seen.ttft_from(due));
        put(&mut self.ttft_sent, seen.ttft());
        put(&mut self.e2e_due, seen.e2e_from(due));
        put(&mut self.e2e_sent, seen.e2e());
        put(&mut self.tpot, seen.tpot_ns().map(|ns| Nanos(ns as u64)));
        seen.gaps().for_each(|gap| self.itl.add(gap.gap_ns.0));
    }

    fn summary(&self, bounds: Option<Goodput>) -> GroupSummary {
        GroupSummary {
            requests: self.requests,
            ok: self.ok,
            good: bounds.map(|_| self.good),
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            latencies: Latencies {
                ttft_from_due_ms: measure(&self.ttft_due),
                ttft_from_send_ms: measure(&self.ttft_sent),
                itl_ms: measure(&self.itl),
                tpot_ms: measure(&self.tpot),
                e2e_from_due_ms: measure(&self.e2e_due),
                e2e_from_send_ms: measure(&self.e2e_sent),
            },
        }
    }
}

fn measure(of: &Histogram) -> Measure {
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 * 1e-6);
    Measure {
        n: of.count(),
        mean: of.mean().map(|ns| ns * 1e-6),
        p50: ms(of.estimable(0.5)),
        p90: ms(of.estimable(0.9)),
        p99: ms(of.estimable(0.99)),
        max: ms(of.max()),
    }
}
