//! Time finer than a nanosecond, so that the time of a step does not depend on how a run of steps is split.

use acb_types::Nanos;
use std::ops::{Add, AddAssign, Sub};

/// Fraction bits below one nanosecond.
const FRACTION_BITS: u32 = 20;

/// A time or a length of time in units of 2^-20 ns. Sums and products with step counts are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Exact(pub(crate) u128);

impl Exact {
    /// No time.
    pub(crate) const ZERO: Self = Self(0);

    /// Rounds a number of milliseconds to this unit, once, when a profile is read.
    pub(crate) fn from_millis(millis: f64) -> Self {
        assert!(millis.is_finite() && millis >= 0.0, "a cost is a finite non-negative time, got {millis} ms");
        Self((millis * 1e6 * f64::from(1u32 << FRACTION_BITS)).round() as u128)
    }

    /// The whole nanoseconds that have passed.
    pub(crate) fn floor(self) -> Nanos {
        saturating(self.0 >> FRACTION_BITS)
    }

    /// The nanoseconds that are enough to hold it.
    pub(crate) fn ceil(self) -> Nanos {
        saturating((self.0 + (1 << FRACTION_BITS) - 1) >> FRACTION_BITS)
    }

    /// This many of it.
    pub(crate) fn times(self, count: u64) -> Self {
        Self(self.0 * u128::from(count))
    }
}

/// The longest time that is told apart: 146 years, beyond any limit of a simulation.
const LONGEST: u64 = 1 << 62;

/// Later times are all the same, and never an earlier one.
fn saturating(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).map_or(LONGEST, |nanos| nanos.min(LONGEST)))
}

impl From<Nanos> for Exact {
    fn from(nanos: Nanos) -> Self {
        Self(u128::from(nanos.0) << FRACTION_BITS)
    }
}

impl Add for Exact {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Exact {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Exact {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        assert!(self.0 >= other.0, "time runs forward");
        Self(self.0 - other.0)
    }
}

/// A run of steps whose lengths grow evenly: step `i` (from 0) takes `first + i * growth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// When its first step starts.
    pub(crate) from: Exact,
    /// Length of its first step.
    pub(crate) first: Exact,
    /// By how much each step is longer than the one before.
    pub(crate) growth: Exact,
    /// How many steps, at least one.
    pub(crate) steps: u64,
}

impl Stretch {
    /// When `steps` of its steps have ended.
    pub(crate) fn after(&self, steps: u64) -> Exact {
        let pairs = u128::from(steps) * u128::from(steps.saturating_sub(1)) / 2;
        Exact(self.from.0 + self.first.0 * u128::from(steps) + self.growth.0 * pairs)
    }

    /// When it ends.
    pub(crate) fn end(&self) -> Exact {
        self.after(self.steps)
    }

    /// Length of its last step, which is its longest.
    pub(crate) fn longest(&self) -> Exact {
        self.longest_of(self.steps)
    }

    /// Length of the longest of its first `steps` steps, at least one.
    pub(crate) fn longest_of(&self, steps: u64) -> Exact {
        self.first + self.growth.times(steps - 1)
    }

    /// Steps that have ended by `at`, at most all of them.
    pub(crate) fn ended_by(&self, at: Nanos) -> u64 {
        if self.end().floor() <= at {
            return self.steps;
        }
        self.first_ending(Nanos(at.0 + 1)) - 1
    }

    /// When the first of its steps ends that has not ended by `at`, or the last of them.
    pub(crate) fn next_end(&self, at: Nanos) -> Nanos {
        self.after((self.ended_by(at) + 1).min(self.steps)).floor()
    }

    /// The number of steps (at least one) after which a request that came at `at` is seen.
    pub(crate) fn boundary_at_or_after(&self, at: Nanos) -> u64 {
        self.first_ending(at)
    }

    /// The least number of steps in `1..=self.steps` whose end is at or after `at`; all of them when none is.
    fn first_ending(&self, at: Nanos) -> u64 {
        let is_late = |steps: u64| self.after(steps).floor() >= at;
        let guess = self.about(at).clamp(1, self.steps);
        if (guess == self.steps || is_late(guess)) && (guess == 1 || !is_late(guess - 1)) {
            return guess;
        }
        let (mut low, mut high) = (1, self.steps);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_late(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The number of steps whose end is about `at`: the root of a quadratic equation. Rounding can miss it, and so can
    /// times of more than two hours, which are cut off.
    fn about(&self, at: Nanos) -> u64 {
        let cut_off = |exact: u128| exact as i64 as f64;
        let time = cut_off(Exact::from(at).0.saturating_sub(self.from.0));
        let half_growth = cut_off(self.growth.0) / 2.0;
        let linear = cut_off(self.first.0) - half_growth;
        (2.0 * time / (linear + (linear * linear + 4.0 * half_growth * time).sqrt())).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splitting_a_stretch_changes_no_later_time() {
        let whole = Stretch { from: Exact(17), first: Exact(1_000_003), growth: Exact(77), steps: 1000 };
        for cut in [1, 2, 499, 999] {
            let from = whole.after(cut);
            let first = whole.first + whole.growth.times(cut);
            let rest = Stretch { from, first, growth: whole.growth, steps: whole.steps - cut };
            for steps in 1..=rest.steps {
                assert_eq!(rest.after(steps), whole.after(cut + steps));
            }
        }
    }

    #[test]
    fn a_request_is_seen_by_the_first_step_that_starts_at_or_after_it() {
        let from = Exact::from(Nanos(100));
        let s = Stretch { from, first: Exact::from(Nanos(10)), growth: Exact::ZERO, steps: 5 };
        assert_eq!(s.boundary_at_or_after(Nanos(100)), 1);
        assert_eq!(s.boundary_at_or_after(Nanos(110)), 1);
        assert_eq!(s.boundary_at_or_after(Nanos(111)), 2);
        assert_eq!((s.ended_by(Nanos(109)), s.ended_by(Nanos(110)), s.ended_by(Nanos(999))), (0, 1, 5));
    }

    proptest! {
        #[test]
        fn the_step_that_ends_at_or_after_a_time_is_found(
            first in 0u64..5_000_000, growth in prop_oneof![Just(0u64), 0u64..100_000], steps in 1u64..300, at in 0u64..900,
        ) {
            let (first, growth) = (Exact(u128::from(first)), Exact(u128::from(growth)));
            let s = Stretch { from: Exact::from(Nanos(100)), first, growth, steps };
            let counted = (1..steps).find(|&n| s.after(n).floor() >= Nanos(at)).unwrap_or(steps);
            prop_assert_eq!(s.boundary_at_or_after(Nanos(at)), counted);
            let ended = (1..=steps).filter(|&n| s.after(n).floor() <= Nanos(at)).count() as u64;
            prop_assert_eq!(s.ended_by(Nanos(at)), ended);
        }
    }
}
