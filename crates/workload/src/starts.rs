//! When sessions (or single requests) start: open arrival processes and the closed loop.

use crate::WorkloadError;
use crate::draw::exponential;
use crate::spec::Arrivals;
use crate::trace::{TraceReader, TraceSpec};
use acb_types::{Nanos, Seed, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Start times, in order.
pub(crate) enum Starts {
    /// Known in advance, whatever the servers do.
    Open(Box<Open>),
    /// Whenever a user is free.
    Closed(Closed),
}

/// An open process.
pub(crate) struct Open {
    process: Process,
    gaps: Stream,
    /// Requests' worth of time so far, in seconds of on time.
    clock_s: f64,
    count: u64,
    /// The next start, drawn ahead.
    next: Option<Nanos>,
}

enum Process {
    Constant { rate: f64 },
    Gamma { rate: f64, cv: f64 },
    Poisson { rate: f64 },
    OnOff { rate_on: f64, on_s: f64, off_s: f64 },
    Trace { rows: TraceReader, speed: f64 },
}

/// Users of a closed loop that are free, by the time from which they are.
pub(crate) struct Closed {
    free: BinaryHeap<Reverse<Nanos>>,
    think_s: f64,
    think: Seed,
}

impl Starts {
    /// Starts of sessions with so many turns on average.
    pub fn new(
        arrivals: Arrivals,
        mean_turns: f64,
        trace: Option<&TraceSpec>,
        seed: Seed,
    ) -> Result<Self, WorkloadError> {
        let process = match arrivals {
            Arrivals::Constant { rate_rps } => Process::Constant { rate: rate_rps / mean_turns },
            Arrivals::Poisson { rate_rps } => Process::Poisson { rate: rate_rps / mean_turns },
            Arrivals::Gamma { rate_rps, cv } => Process::Gamma { rate: rate_rps / mean_turns, cv },
            Arrivals::OnOff { rate_rps, on_s, off_s } => {
                Process::OnOff { rate_on: rate_rps / mean_turns * (on_s + off_s) / on_s, on_s, off_s }
            }
            Arrivals::Closed { users, think_ms } => {
                return Ok(Self::Closed(Closed::new(users, think_ms, seed.child("think"))));
            }
            Arrivals::Trace { speed } => Process::Trace { rows: TraceReader::needed(trace)?, speed },
        };
        let gaps = seed.stream("arrivals");
        let mut open = Box::new(Open { process, gaps, clock_s: 0.0, count: 0, next: None });
        open.next = open.draw()?;
        Ok(Self::Open(open))
    }

    /// When the next session can start; none when no user is free or a trace is at its end.
    pub fn peek(&self) -> Option<Nanos> {
        match self {
            Self::Open(open) => open.next,
            Self::Closed(closed) => closed.free.peek().map(|&Reverse(at)| at),
        }
    }

    /// Takes that start.
    pub fn take(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        match self {
            Self::Open(open) => {
                let due = open.next;
                open.next = open.draw()?;
                Ok(due)
            }
            Self::Closed(closed) => Ok(closed.free.pop().map(|Reverse(at)| at)),
        }
    }

    /// Session `start` is over at `at`: in a closed loop its user thinks and is free again.
    pub fn done(&mut self, start: u64, at: Nanos) {
        if let Self::Closed(closed) = self {
            let think = closed.think_s * exponential(closed.think.unit(start));
            closed.free.push(Reverse(at + Nanos::from_secs_f64(think)));
        }
    }

    /// Whether starts wait for the end of earlier sessions.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl Open {
    /// Draws the next start; none when a trace is at its end.
    fn draw(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        let index = self.count;
        self.count += 1;
        let seconds = match &mut self.process {
            Process::Constant { rate } => index as f64 / *rate,
            Process::Poisson { rate } => {
                self.clock_s += self.gaps.exp1() / *rate;
                self.clock_s
            }
            Process::Gamma { rate, cv } => {
                let shape = 1.0 / (*cv * *cv);
                self.clock_s += self.gaps.gamma(shape, 1.0 / (shape * *rate));
                self.clock_s
            }
            Process::OnOff { rate_on, on_s, off_s } => {
                self.clock_s += self.gaps.exp1() / *rate_on;
                self.clock_s + (self.clock_s / *on_s).floor() * *off_s
            }
            Process::Trace { rows, speed } => {
                let row = rows.next().transpose()?;
                return Ok(row.map(|row| Nanos::from_secs_f64(row.at.as_secs_f64() / *speed)));
            }
        };
        Ok(Some(Nanos::from_secs_f64(seconds)))
    }
}

impl Closed {
    fn new(users: u32, think_ms: f64, think: Seed) -> Self {
        let think_s = think_ms * 1e-3;
        let spread = think.child("first");
        let first = |user| Reverse(Nanos::from_secs_f64(think_s * spread.unit(u64::from(user))));
        Self { free: (0..users).map(first).collect(), think_s, think }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, seed: u64, n: usize) -> Vec<Nanos> {
        let mut open = Starts::new(arrivals, 1.0, None, Seed(seed)).unwrap();
        (0..n).map(|_| open.take().unwrap().unwrap()).collect()
    }

    /// Laws of every open process: reproducible, other under another seed, in order, with the mean rate and the
    /// coefficient of variation asked for.
    fn check(arrivals: Arrivals, rate: f64, cv: Option<f64>) {
        let n = 200_000;
        let seen = times(arrivals, 7, n);
        assert_eq!(seen[..1000], times(arrivals, 7, 1000));
        assert!(seen.windows(2).all(|w| w[0] <= w[1]), "{arrivals:?}: times never decrease");
        let mean = n as f64 / seen[n - 1].as_secs_f64();
        assert!((mean / rate - 1.0).abs() < 0.02, "{arrivals:?}: rate {mean}");
        if let Some(cv) = cv {
            let gaps: Vec<f64> = seen.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
            let gap = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let var = gaps.iter().map(|g| (g - gap).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!(
                (var.sqrt() / gap - cv).abs() < 0.03 * cv.max(1.0),
                "{arrivals:?}: cv {}",
                var.sqrt() / gap
            );
        }
    }

    #[test]
    fn open_processes_have_the_rate_and_spread_asked_for() {
        check(Arrivals::Constant { rate_rps: 5.0 }, 5.0, Some(0.0));
        check(Arrivals::Poisson { rate_rps: 5.0 }, 5.0, Some(1.0));
        check(Arrivals::Gamma { rate_rps: 20.0, cv: 0.5 }, 20.0, Some(0.5));
        check(Arrivals::Gamma { rate_rps: 2.0, cv: 2.0 }, 2.0, Some(2.0));
        check(Arrivals::OnOff { rate_rps: 5.0, on_s: 1.0, off_s: 3.0 }, 5.0, None);
        assert_ne!(
            times(Arrivals::Poisson { rate_rps: 1.0 }, 1, 3),
            times(Arrivals::Poisson { rate_rps: 1.0 }, 2, 3)
        );
    }

    #[test]
    fn nothing_arrives_in_an_off_window() {
        let arrivals = Arrivals::OnOff { rate_rps: 5.0, on_s: 1.0, off_s: 3.0 };
        assert!(times(arrivals, 3, 10_000).iter().all(|at| at.as_secs_f64() % 4.0 <= 1.0 + 1e-9));
    }

    #[test]
    fn sessions_start_more_rarely_the_more_turns_they_have() {
        let mut open = Starts::new(Arrivals::Constant { rate_rps: 10.0 }, 5.0, None, Seed(1)).unwrap();
        let seen = [(); 2].map(|()| open.take().unwrap().unwrap());
        assert_eq!(seen, [Nanos::ZERO, Nanos::from_millis(500)]);
    }

    #[test]
    fn a_closed_loop_starts_again_only_when_a_user_is_done() {
        let arrivals = Arrivals::Closed { users: 2, think_ms: 0.0 };
        let mut closed = Starts::new(arrivals, 1.0, None, Seed(1)).unwrap();
        let mut next = || closed.take().unwrap();
        assert_eq!([next(), next(), next()], [Some(Nanos::ZERO), Some(Nanos::ZERO), None]);
        closed.done(0, Nanos(5));
        assert_eq!(
            [closed.peek(), closed.take().unwrap(), closed.peek()],
            [Some(Nanos(5)), Some(Nanos(5)), None]
        );
    }
}
