//! Ramps and stages: a source of one request per second, with its time bent to a rate that changes.
//!
//! A process of unit rate is sent through the inverse of the accumulated rate. A Poisson process stays one, with the rate
//! asked for at every moment, and its gaps stay exponential when they are measured in accumulated rate.

use acb_types::{Nanos, RequestId};
use acb_workload::{Arrival, RequestSource};

/// A stretch of time in which the rate goes in a straight line from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How long it lasts, in seconds.
    pub duration_s: f64,
    /// Requests per second at its begin.
    pub from_rps: f64,
    /// Requests per second at its end.
    pub to_rps: f64,
}

/// Why stages make no rate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StagesError {
    /// There is no stage.
    #[error("there are no stages; give at least one")]
    None,
    /// A stage has an impossible number.
    #[error("stage {0}: duration must be positive, rates finite and at least 0, and not both 0")]
    Impossible(usize),
}

/// A rate over time: stages one after the other, then nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Each stage with the time and the requests at its begin.
    stages: Vec<(f64, f64, Stage)>,
    end_s: f64,
    requests: f64,
}

impl Rate {
    /// A rate of these stages.
    ///
    /// # Errors
    /// When there is none, or one is impossible.
    pub fn new(stages: &[Stage]) -> Result<Self, StagesError> {
        if stages.is_empty() {
            return Err(StagesError::None);
        }
        let (mut at, mut requests) = (0.0, 0.0);
        let mut placed = Vec::with_capacity(stages.len());
        for (index, &stage) in stages.iter().enumerate() {
            let rates = [stage.from_rps, stage.to_rps];
            let sound = rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
            if !(sound && stage.duration_s > 0.0 && stage.duration_s.is_finite() && rates != [0.0; 2]) {
                return Err(StagesError::Impossible(index + 1));
            }
            placed.push((at, requests, stage));
            at += stage.duration_s;
            requests += stage.requests_after(stage.duration_s);
        }
        Ok(Self { stages: placed, end_s: at, requests })
    }

    /// The same rate for ever.
    ///
    /// # Errors
    /// When it is not positive and finite.
    pub fn steady(rps: f64) -> Result<Self, StagesError> {
        // 1e9 seconds are 31 years: no run is longer, and the end still is a time.
        Self::new(&[Stage { duration_s: 1e9, from_rps: rps, to_rps: rps }])
    }

    /// Requests per second, when they are the same throughout.
    #[must_use]
    pub fn constant_rps(&self) -> Option<f64> {
        let (_, _, first) = *self.stages.first()?;
        let same = |stage: &Stage| stage.from_rps == first.from_rps && stage.to_rps == first.from_rps;
        self.stages.iter().all(|(_, _, stage)| same(stage)).then_some(first.from_rps)
    }

    /// When the last stage ends.
    #[must_use]
    pub fn end(&self) -> Nanos {
        Nanos::from_secs_f64(self.end_s)
    }

    /// Requests expected from the begin to `at`.
    #[must_use]
    pub fn requests_until(&self, at: Nanos) -> f64 {
        let seconds = at.as_secs_f64();
        if seconds >= self.end_s {
            return self.requests;
        }
        let stage = self.stages.partition_point(|(begin, _, _)| *begin <= seconds);
        let (begin, before, stage) = self.stages[stage.max(1) - 1];
        before + stage.requests_after(seconds - begin)
    }

    /// When so many requests are expected; `None` after the last stage.
    #[must_use]
    pub fn time_of(&self, requests: f64) -> Option<Nanos> {
        if requests > self.requests {
            return None;
        }
        let stage = self.stages.partition_point(|(_, before, _)| *before <= requests);
        let (begin, before, stage) = self.stages[stage.max(1) - 1];
        Some(Nanos::from_secs_f64(begin + stage.seconds_of(requests - before)))
    }
}

impl Stage {
    fn slope(self) -> f64 {
        (self.to_rps - self.from_rps) / self.duration_s
    }

    fn requests_after(self, seconds: f64) -> f64 {
        self.from_rps * seconds + 0.5 * self.slope() * seconds * seconds
    }

    /// The inverse, in the form of the quadratic's root that also holds for a slope of zero.
    fn seconds_of(self, requests: f64) -> f64 {
        if requests <= 0.0 {
            return 0.0;
        }
        let speed = (self.from_rps * self.from_rps + 2.0 * self.slope() * requests).max(0.0).sqrt();
        (2.0 * requests / (self.from_rps + speed)).min(self.duration_s)
    }
}

/// A source whose requests come at a rate that changes. The inner source must send one request per second on average and
/// wait for no answer: think times would be bent too.
pub struct Staged<S> {
    inner: S,
    rate: Rate,
}

impl<S: RequestSource> Staged<S> {
    /// Bends the time of `inner` to `rate`.
    #[must_use]
    pub fn new(inner: S, rate: Rate) -> Self {
        Self { inner, rate }
    }

    /// The source inside.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: RequestSource> RequestSource for Staged<S> {
    fn next_due(&self) -> Option<Nanos> {
        self.rate.time_of(self.inner.next_due()?.as_secs_f64())
    }

    fn take(&mut self) -> Option<Arrival> {
        let due = self.next_due()?;
        let mut arrival = self.inner.take()?;
        arrival.request.due = due;
        Some(arrival)
    }

    fn ended(&mut self, request: RequestId, at: Nanos) {
        self.inner.ended(request, Nanos::from_secs_f64(self.rate.requests_until(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::workload;
    use acb_stats::{kolmogorov_smirnov, unit_gamma_cdf};
    use acb_workload::Arrivals;
    use proptest::prelude::*;

    fn stage(duration_s: f64, from_rps: f64, to_rps: f64) -> Stage {
        Stage { duration_s, from_rps, to_rps }
    }

    fn dues(arrivals: Arrivals, rate: &Rate) -> Vec<Nanos> {
        let mut source = Staged::new(workload(arrivals, 1_000_000, 4), rate.clone());
        std::iter::from_fn(|| source.take().map(|arrival| arrival.request.due)).collect()
    }

    #[test]
    fn a_ramp_sends_the_area_under_its_rate() {
        let rate = Rate::new(&[stage(10.0, 0.0, 100.0), stage(5.0, 100.0, 100.0)]).unwrap();
        let sent = dues(Arrivals::Constant { rate_rps: 1.0 }, &rate);
        let before = |s: f64| sent.iter().filter(|due| due.as_secs_f64() < s).count();
        // 500 requests in the ramp, a quarter of them in its first half; 500 more at the top.
        assert!(before(5.0).abs_diff(125) <= 1 && before(10.0).abs_diff(500) <= 1, "{}", before(5.0));
        assert!(sent.len().abs_diff(1001) <= 1 && *sent.last().unwrap() <= rate.end());
    }

    #[test]
    fn a_bent_poisson_process_has_exponential_gaps_in_accumulated_rate() {
        let rate = Rate::new(&[stage(20.0, 10.0, 200.0), stage(20.0, 200.0, 5.0)]).unwrap();
        let sent = dues(Arrivals::Poisson { rate_rps: 1.0 }, &rate);
        let gaps: Vec<f64> =
            sent.windows(2).map(|w| rate.requests_until(w[1]) - rate.requests_until(w[0])).collect();
        let test = kolmogorov_smirnov(&gaps, |x| unit_gamma_cdf(x, 1.0)).unwrap();
        assert!(gaps.len() > 3500 && test.p > 0.01, "{} gaps, {test:?}", gaps.len());
    }

    #[test]
    fn impossible_stages_are_refused_by_number() {
        assert_eq!(Rate::new(&[]), Err(StagesError::None));
        for bad in
            [stage(0.0, 1.0, 1.0), stage(1.0, -1.0, 1.0), stage(1.0, 0.0, 0.0), stage(f64::NAN, 1.0, 1.0)]
        {
            assert_eq!(Rate::new(&[stage(1.0, 1.0, 1.0), bad]), Err(StagesError::Impossible(2)));
        }
    }

    proptest! {
        #[test]
        fn time_and_requests_are_each_others_inverse(
            stages in prop::collection::vec((0.1..10.0f64, 0.1..100.0f64, 0.0..100.0f64), 1..5), share in 0.0..1.0f64,
        ) {
            let stages: Vec<Stage> = stages.into_iter().map(|(d, a, b)| stage(d, a, b)).collect();
            let rate = Rate::new(&stages).unwrap();
            let requests = share * rate.requests_until(rate.end());
            let back = rate.requests_until(rate.time_of(requests).unwrap());
            prop_assert!((back - requests).abs() < 1e-4, "{back} against {requests}");
        }
    }
}
