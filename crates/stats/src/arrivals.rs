//! How bursty arrivals are over windows of a length: the index of dispersion for counts.

use crate::error::{check_finite, check_limit, check_positive, check_size};
use crate::{StatsError, index_of_dispersion};

/// Fewer windows say nothing about their spread.
const LEAST_WINDOWS: usize = 10;

/// Most windows that are counted.
const MOST_WINDOWS: usize = 10_000_000;

/// Variance over mean of the number of arrivals per window (Cox and Lewis 1966, "The statistical analysis of series of events"): 1 for a Poisson
/// process at every length, growing with the length for bursts. Times ascend from 0, in the window's unit; the last
/// window that the last arrival doesn't fill is left out.
///
/// # Errors
/// When the last arrival is earlier than ten windows, a time is negative, not finite or smaller than the one before,
/// the window is not positive, or there are more than ten million windows.
pub fn arrival_dispersion(times: &[f64], window: f64) -> Result<f64, StatsError> {
    check_finite(times)?;
    check_positive("the window", window)?;
    if let Some(pair) = times.windows(2).find(|pair| pair[1] < pair[0]) {
        let (name, range) = ("an arrival time", "the times from the one before up");
        return Err(StatsError::OutOfRange { name, value: pair[1], range });
    }
    if let Some(&value) = times.first().filter(|first| **first < 0.0) {
        return Err(StatsError::OutOfRange { name: "an arrival time", value, range: "the times from 0 up" });
    }
    let full = times.last().map_or(0.0, |last| (last / window).floor());
    let what = "an index of dispersion (counted in windows)";
    // A float beyond the integers becomes the largest of them.
    let windows = full as usize;
    check_limit(what, windows, MOST_WINDOWS)?;
    check_size(what, windows, LEAST_WINDOWS)?;
    let mut counts = vec![0.0; windows];
    for time in times {
        if let Some(count) = counts.get_mut((time / window) as usize) {
            *count += 1.0;
        }
    }
    index_of_dispersion(&counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_arrivals_have_none_and_pairs_have_more() {
        let even: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(arrival_dispersion(&even, 4.0), Ok(0.0));
        // Windows alternate between 4 and 0 arrivals: mean 2, variance 4 * 50 / 49... of 50 windows.
        let bursts: Vec<f64> = (0..26).flat_map(|i| [f64::from(2 * i); 4]).collect();
        let seen = arrival_dispersion(&bursts, 1.0).unwrap();
        assert!((seen - (4.0 * 50.0 / 49.0) / 2.0).abs() < 1e-12, "{seen}");
    }

    #[test]
    fn poisson_arrivals_have_one_at_every_length_and_bursts_grow() {
        let mut bits = crate::sign_flip::tests::bits(6);
        let mut unit = || ((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mut now = 0.0;
        let (mut poisson, mut bursts) = (Vec::new(), Vec::new());
        for _ in 0..40_000 {
            now += -unit().ln();
            poisson.push(now);
            // Each arrival brings ten.
            bursts.extend([now; 10]);
        }
        for window in [1.0, 10.0] {
            let seen = arrival_dispersion(&poisson, window).unwrap();
            assert!((seen - 1.0).abs() < 0.1, "{window}: {seen}");
            assert!((arrival_dispersion(&bursts, window).unwrap() - 10.0 * seen).abs() < 1e-6);
        }
    }

    #[test]
    fn times_out_of_order_and_too_short_a_trace_are_refused() {
        assert!(matches!(
            arrival_dispersion(&[0.0, 9.9], 1.0),
            Err(StatsError::NotEstimable { have: 9, needed: 10, .. })
        ));
        assert!(arrival_dispersion(&[], 1.0).is_err());
        assert!(arrival_dispersion(&[1.0, 0.5, 30.0], 1.0).is_err());
        assert!(arrival_dispersion(&[-1.0, 0.5, 30.0], 1.0).is_err());
        assert!(arrival_dispersion(&[0.0, 30.0], 0.0).is_err());
        assert!(matches!(arrival_dispersion(&[0.0, 1e300], 1e-3), Err(StatsError::TooMany { .. })));
    }
}
