//! Where the start of a run ends: MSER-5.
//!
//! It says where a series becomes steady. It doesn't say that what comes before may be dropped: where the cost of a cold
//! start is the question, report the phases.

use crate::StatsError;
use crate::error::{check_finite, check_size};

/// Batches that must be left after the cut: the last few have no spread to speak of (Hoad, Robinson and Davies 2010).
const LEAST_REST: usize = 5;

/// Fewer batches show no start and end.
const LEAST_BATCHES: usize = 10;

/// White's (1997) marginal standard error rule over means of `batch` observations, 5 in MSER-5 (White, Cobb and
/// Spratt 2000): how many observations at the start to set apart, so that the squared half-width of the mean of the
/// rest is smallest. Of equal cuts the first. Observations in time order; an incomplete last batch is not used.
///
/// # Errors
/// When there are fewer than ten batches, or one is not finite; `NotSettled` when the cut lies past the middle.
///
/// # Panics
/// When `batch` is zero.
pub fn mser(series: &[f64], batch: usize) -> Result<usize, StatsError> {
    assert!(batch > 0, "a batch has at least one observation");
    check_finite(series)?;
    check_size("a warm-up by MSER", series.len(), LEAST_BATCHES * batch)?;
    let means: Vec<f64> =
        series.chunks_exact(batch).map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect();
    let (mut best, mut cut) = (f64::INFINITY, 0);
    // Mean and squares of the rest, from the end (Welford's updates).
    let (mut mean, mut squares) = (0.0, 0.0);
    for (start, x) in means.iter().enumerate().rev() {
        let n = (means.len() - start) as f64;
        let apart = x - mean;
        mean += apart / n;
        squares += apart * (x - mean);
        let half_width = squares / (n * n);
        if means.len() - start >= LEAST_REST && half_width <= best {
            (best, cut) = (half_width, start);
        }
    }
    if 2 * cut > means.len() {
        return Err(StatsError::NotSettled { have: series.len(), cut: cut * batch });
    }
    Ok(cut * batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut bits = crate::sign_flip::tests::bits(seed);
        move || (bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }

    /// The rule as it is written: for each cut, the squares of the rest over its size squared.
    fn by_definition(means: &[f64]) -> usize {
        let value = |cut: usize| {
            let rest = &means[cut..];
            let mean = rest.iter().sum::<f64>() / rest.len() as f64;
            rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
        };
        (0..=means.len() - LEAST_REST).min_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap()
    }

    #[test]
    fn a_high_start_is_cut_where_it_ends() {
        let mut noise = noise(4);
        let series: Vec<f64> =
            (0..500).map(|i| noise() + if i < 100 { 10.0 - f64::from(i) / 10.0 } else { 0.0 }).collect();
        let cut = mser(&series, 5).unwrap();
        // The last of the start is as small as the noise.
        assert!((80..=110).contains(&cut) && cut.is_multiple_of(5), "{cut}");
    }

    #[test]
    fn a_series_that_never_settles_is_said_to_be_so() {
        let mut noise = noise(9);
        let rising: Vec<f64> = (0..400).map(|i| f64::from(i) + noise()).collect();
        assert!(matches!(mser(&rising, 5), Err(StatsError::NotSettled { have: 400, .. })));
        let late: Vec<f64> = (0..400).map(|i| noise() + if i < 300 { 10.0 } else { 0.0 }).collect();
        let Err(StatsError::NotSettled { have: 400, cut }) = mser(&late, 5) else {
            panic!("it settles at 300")
        };
        assert!(cut >= 300, "{cut}");
    }

    #[test]
    fn a_steady_series_needs_no_cut_and_a_short_one_has_none() {
        assert_eq!(mser(&[7.0; 60], 5), Ok(0));
        assert!(matches!(mser(&[7.0; 49], 5), Err(StatsError::NotEstimable { needed: 50, .. })));
        assert!(mser(&[f64::NAN; 60], 5).is_err());
    }

    proptest! {
        #[test]
        fn the_cut_is_that_of_the_definition_and_ignores_units(
            means in prop::collection::vec(-100..100i32, 10..60), shift in -50..50i32,
        ) {
            let means: Vec<f64> = means.into_iter().map(f64::from).collect();
            let moved: Vec<f64> = means.iter().map(|x| 4.0 * x + f64::from(shift)).collect();
            let cut = match mser(&means, 1) {
                Ok(cut) | Err(StatsError::NotSettled { cut, .. }) => cut,
                Err(error) => panic!("{error}"),
            };
            let expected = by_definition(&means);
            let value = |cut: usize| crate::spread::tests::squares(&means[cut..]) / ((means.len() - cut) as f64).powi(2);
            prop_assert!((value(cut) - value(expected)).abs() < 1e-9, "{cut} {expected}");
            prop_assert_eq!(mser(&means, 1).is_ok(), mser(&moved, 1).is_ok());
        }
    }
}
