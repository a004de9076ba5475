//! How requests were sent, against how they were due: collected as they end, in whatever order.

use crate::load::Rate;
use acb_stats::{Histogram, index_of_dispersion, kolmogorov_smirnov, unit_gamma_cdf};
use acb_types::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Width of the bins in which sends are counted.
const BIN: Nanos = Nanos(100_000_000);
/// Fewest bins from which a dispersion is taken: 3 seconds.
const LEAST_BINS: usize = 30;
/// Requests whose gaps are tested: the first so many. A larger sample would find deviations that matter to nobody.
const TESTED: u64 = 20_000;
/// Coefficients of variation of the laws whose gaps are tested.
const TESTED_CV: RangeInclusive<f64> = 0.5..=1.0;

/// The law that gaps were asked to follow.
#[derive(Clone, Debug, PartialEq)]
pub struct GapLaw {
    /// Requests per second over time; `None` where only the schedule knows (a trace, on and off windows, a closed loop).
    pub rate: Option<Rate>,
    /// Coefficient of variation of gamma-distributed gaps, 1 for Poisson, 0 for even ones; `None` for another law.
    pub cv: Option<f64>,
    /// Whether due times wait for no answer.
    pub open_loop: bool,
}

/// Collects the sends of a run. Memory grows by 8 bytes per 100 ms of it and ends at 20,000 pairs of times.
#[derive(Clone, Debug)]
pub struct Sends {
    law: GapLaw,
    count: u64,
    held: u64,
    lag: Histogram,
    due: Times,
    sent: Times,
}

/// Times of one kind.
#[derive(Clone, Debug, Default)]
struct Times {
    first: Option<Nanos>,
    last: Option<Nanos>,
    bins: Vec<u32>,
    tested: Vec<Nanos>,
}

/// One request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Its number among those sent, in due order, from 0.
    pub number: u64,
    /// When it was due.
    pub due: Nanos,
    /// When its first byte left.
    pub sent: Nanos,
    /// The part of the time between that went into making a connection, which is not the client's lateness.
    pub connecting: Nanos,
    /// Whether it waited for a place in flight.
    pub held: Held,
}

/// Whether a request waited for a place in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It went when it was due.
    No,
    /// The limit of requests in flight kept it back.
    Yes,
}

/// How requests were sent. `None`: too few for the number, or it has no meaning for this law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendFacts {
    /// Requests sent.
    pub sends: u64,
    /// Requests that waited for a place in flight.
    pub held: u64,
    /// Whether due times waited for no answer, as the load was described.
    pub open_loop: bool,
    /// Requests asked for per second.
    pub asked_rps: Option<f64>,
    /// Coefficient of variation of the gaps asked for.
    pub gap_cv: Option<f64>,
    /// Requests due per second, from the first to the last.
    pub due_rps: Option<f64>,
    /// Requests sent per second, from the first to the last.
    pub sent_rps: Option<f64>,
    /// Median of due to sent, of requests that did not wait for a place.
    pub lag_p50_ns: Option<Nanos>,
    /// 99th percentile of it; absent below 299 requests.
    pub lag_p99_ns: Option<Nanos>,
    /// The longest.
    pub lag_max_ns: Option<Nanos>,
    /// Variance over mean of requests due per 100 ms; 1 for Poisson. Absent below 3 seconds.
    pub due_dispersion: Option<f64>,
    /// The same of requests sent.
    pub sent_dispersion: Option<f64>,
    /// Kolmogorov-Smirnov p of the gaps due against the law, over the first 20,000; for coefficients of variation from 0.5
    /// to 1 alone.
    pub due_gap_p: Option<f64>,
    /// The same of the gaps sent.
    pub sent_gap_p: Option<f64>,
}

impl Sends {
    /// Nothing sent yet.
    #[must_use]
    pub fn new(law: GapLaw) -> Self {
        let none = Times::default;
        Self { law, count: 0, held: 0, lag: Histogram::default(), due: none(), sent: none() }
    }

    /// Takes in one request.
    pub fn add(&mut self, send: &Send) {
        self.count += 1;
        match send.held {
            Held::Yes => self.held += 1,
            Held::No => self.lag.add(send.sent.since(send.due + send.connecting).0),
        }
        self.due.add(send.due, send.number);
        self.sent.add(send.sent, send.number);
    }

    /// What is known now.
    #[must_use]
    pub fn facts(&self) -> SendFacts {
        let last_bin = self.due.last.map_or(0, |last| (last.0 / BIN.0) as usize);
        let lag = |ns: Option<u64>| ns.map(Nanos);
        let gap_p = |times: &Times| times.gap_p(self.law.cv?, self.law.rate.as_ref()?);
        SendFacts {
            sends: self.count,
            held: self.held,
            open_loop: self.law.open_loop,
            asked_rps: self.law.rate.as_ref().and_then(Rate::constant_rps),
            gap_cv: self.law.cv,
            due_rps: self.due.rate(self.count),
            sent_rps: self.sent.rate(self.count),
            lag_p50_ns: lag(self.lag.estimable(0.5)),
            lag_p99_ns: lag(self.lag.estimable(0.99)),
            lag_max_ns: lag(self.lag.max()),
            due_dispersion: self.due.dispersion(last_bin),
            sent_dispersion: self.sent.dispersion(last_bin),
            due_gap_p: gap_p(&self.due),
            sent_gap_p: gap_p(&self.sent),
        }
    }
}

impl Times {
    fn add(&mut self, at: Nanos, number: u64) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
        let bin = (at.0 / BIN.0) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        if number < TESTED {
            self.tested.push(at);
        }
    }

    fn rate(&self, count: u64) -> Option<f64> {
        let seconds = self.last?.since(self.first?).as_secs_f64();
        (count > 1 && seconds > 0.0).then(|| (count - 1) as f64 / seconds)
    }

    /// Over the whole bins before the one of the last due time: the same bins for due and sent.
    fn dispersion(&self, last_bin: usize) -> Option<f64> {
        let whole = self.bins.get(..last_bin)?;
        if whole.len() < LEAST_BINS {
            return None;
        }
        let counts: Vec<f64> = whole.iter().map(|&count| f64::from(count)).collect();
        index_of_dispersion(&counts).ok()
    }

    /// Gaps are taken in requests expected, which makes those of a changing rate comparable. Only laws whose gaps a punctual
    /// client can reproduce are tested: the gaps of a nearly even one differ, and those of a bursty one are for the most part
    /// shorter, than by the microseconds that any send is late. Dispersion and lag judge those.
    fn gap_p(&self, cv: f64, rate: &Rate) -> Option<f64> {
        if !TESTED_CV.contains(&cv) {
            return None;
        }
        let mut places: Vec<f64> = self.tested.iter().map(|&at| rate.requests_until(at)).collect();
        places.sort_by(f64::total_cmp);
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        kolmogorov_smirnov(&gaps, |x| unit_gamma_cdf(x, cv)).ok().map(|test| test.p)
    }
}
