//! The edge where the live half reads time.

use acb_types::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The system's monotonic clock, counted from an instant of the caller's choice: the start of a run.
///
/// A copy counts from the same instant. Steps of the wall clock don't move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    zero_ns: u64,
}

impl Clock {
    /// A clock whose zero is now.
    #[must_use]
    pub fn start() -> Self {
        Self { zero_ns: monotonic_ns() }
    }

    /// Time since zero; zero before it.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(monotonic_ns().saturating_sub(self.zero_ns))
    }

    /// The reading of the system's monotonic clock at `at`, for an absolute sleep until then.
    #[must_use]
    pub fn system_ns(&self, at: Nanos) -> u64 {
        self.zero_ns.saturating_add(at.0)
    }

    /// The same clock with its zero moved `by` later: readings before the new zero are zero.
    #[must_use]
    pub fn later(&self, by: Nanos) -> Self {
        Self { zero_ns: self.system_ns(by) }
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from boot: never negative, and 584 years from overflow.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_forward_from_zero_and_absolute_readings_agree() {
        let clock = Clock::start();
        let first = clock.now();
        let second = clock.now();
        assert!(first <= second);
        assert!(second < Nanos::from_secs_f64(60.0), "a clock just started reads {second}");
        assert_eq!(clock.system_ns(Nanos(7)) - clock.system_ns(Nanos::ZERO), 7);
    }

    #[test]
    fn before_a_zero_that_lies_ahead_the_clock_reads_zero() {
        assert_eq!(Clock::start().later(Nanos::from_secs_f64(3600.0)).now(), Nanos::ZERO);
    }
}
