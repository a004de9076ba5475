//! Time since the start of a run, in integer nanoseconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds since the start of a run, or a length of time. Integer, so that a sum is exact and an order total.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of a run.
    pub const ZERO: Self = Self(0);
    /// Never.
    pub const MAX: Self = Self(u64::MAX);

    /// The one place where a float becomes time: rounds to the nearest nanosecond.
    ///
    /// # Panics
    /// When `seconds` is NaN or negative: a spec with such a number was refused before it came here.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Self {
        assert!(seconds >= 0.0, "a time must be a non-negative number of seconds, got {seconds}");
        Self((seconds * 1e9).round() as u64)
    }

    /// As [`Nanos::from_secs_f64`], from milliseconds.
    #[must_use]
    pub fn from_millis_f64(millis: f64) -> Self {
        Self::from_secs_f64(millis * 1e-3)
    }

    /// Whole milliseconds as time.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Seconds, for output and statistics.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Milliseconds, for output and statistics.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        assert!(self.0 >= other.0, "time runs forward: {self} - {other}");
        Self(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = format!("{:.3}", self.as_millis_f64());
        write!(f, "{} ms", millis.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_rounded_to_the_nearest_nanosecond() {
        assert_eq!(Nanos::from_secs_f64(1.000_000_000_6), Nanos(1_000_000_001));
        assert_eq!(Nanos::from_millis_f64(0.25), Nanos(250_000));
    }

    #[test]
    fn time_is_shown_in_milliseconds_without_idle_zeros() {
        let shown = [Nanos::from_millis(50), Nanos(1_250_000), Nanos::ZERO].map(|time| time.to_string());
        assert_eq!(shown, ["50 ms", "1.25 ms", "0 ms"]);
    }

    #[test]
    #[should_panic(expected = "non-negative")]
    fn nan_is_never_a_time() {
        let _ = Nanos::from_secs_f64(f64::NAN);
    }
}
