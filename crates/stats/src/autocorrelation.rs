//! Observations that are alike carry less than their number: lag-1 correlation, effective size, batch means, and the
//! design effect of requests within runs.

use crate::error::{check_finite, check_level, check_size};
use crate::{Interval, StatsError, mean, variance};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewer batches estimate their own variance badly (Schmeiser 1982 advises 10 to 30).
const LEAST_BATCHES: usize = 20;

/// Correlation of neighbours in a series: products of neighbouring deviations over squared deviations.
///
/// # Errors
/// When there are fewer than three observations, one is not finite, or all are equal.
pub fn lag_one_correlation(series: &[f64]) -> Result<f64, StatsError> {
    check_finite(series)?;
    check_size("a correlation of neighbours", series.len(), 3)?;
    let mean = mean(series)?;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    if squares == 0.0 {
        return Err(StatsError::NoSpread { have: series.len() });
    }
    let products: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    Ok(products / squares)
}

/// Independent observations that the mean of the series is worth, `n (1 - r) / (1 + r)` with the lag-1 correlation r
/// (Bayley and Hammersley 1946, for a first-order autoregression). Never more than n: a negative r in a short series
/// is not taken as a gain.
///
/// # Errors
/// As [`lag_one_correlation`].
pub fn effective_size(series: &[f64]) -> Result<f64, StatsError> {
    let correlation = lag_one_correlation(series)?.max(0.0);
    Ok(series.len() as f64 * (1.0 - correlation) / (1.0 + correlation))
}

/// The mean of a series by batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMeans {
    /// Mean of all complete batches.
    pub mean: f64,
    /// Its t interval, from the spread of batch means.
    pub interval: Interval,
    /// Correlation of neighbouring batch means. Far from 0: the batches are too short.
    pub correlation: f64,
}

/// Cuts a series into `batches` equal parts and treats their means as independent (Law 2015, "Simulation modeling
/// and analysis", section 9.5.3). Observations left over are cut from the start.
///
/// # Errors
/// When there are fewer than 20 batches, fewer than two observations per batch, one is not finite, all batch means are
/// equal, or the level is not between 0 and 1.
pub fn batch_means(series: &[f64], batches: usize, level: f64) -> Result<BatchMeans, StatsError> {
    check_finite(series)?;
    check_level("level", level)?;
    if batches < LEAST_BATCHES {
        return Err(StatsError::OutOfRange { name: "batches", value: batches as f64, range: "20 and up" });
    }
    check_size("an interval by batch means", series.len(), 2 * batches)?;
    let size = series.len() / batches;
    let means: Vec<f64> = series[series.len() - size * batches..]
        .chunks_exact(size)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect();
    let correlation = lag_one_correlation(&means)?;
    let (mean, error) = (mean(&means)?, (variance(&means)? / batches as f64).sqrt());
    let law = StudentsT::new(0.0, 1.0, batches as f64 - 1.0).expect("20 batches have 19 degrees of freedom");
    let half = law.inverse_cdf(0.5 + level / 2.0) * error;
    Ok(BatchMeans { mean, interval: Interval { low: mean - half, high: mean + half, level }, correlation })
}

/// Kish's design effect (1965), `1 + (m - 1) ICC`: by what the variance of a mean over clusters of `m` observations is
/// larger than that over as many independent ones.
///
/// # Errors
/// When the intraclass correlation is not in -1 to 1 or a cluster is empty.
pub fn design_effect(cluster_size: f64, intraclass_correlation: f64) -> Result<f64, StatsError> {
    if !(-1.0..=1.0).contains(&intraclass_correlation) {
        let (name, value) = ("the intraclass correlation", intraclass_correlation);
        return Err(StatsError::OutOfRange { name, value, range: "-1 to 1" });
    }
    if !(cluster_size >= 1.0 && cluster_size.is_finite()) {
        let (name, value) = ("the size of a cluster", cluster_size);
        return Err(StatsError::OutOfRange { name, value, range: "the numbers from 1 up" });
    }
    Ok(1.0 + (cluster_size - 1.0) * intraclass_correlation)
}

/// How alike observations of one group are: the share of the variance that lies between groups, from a one-way
/// analysis of variance (Donner 1986, for groups of unequal size). At or below 0: groups are no different.
///
/// # Errors
/// When there are fewer than two groups, one is empty, all have one observation, one is not finite, or all are equal.
pub fn intraclass_correlation(groups: &[&[f64]]) -> Result<f64, StatsError> {
    check_size("an intraclass correlation (counted in groups)", groups.len(), 2)?;
    for group in groups {
        check_finite(group)?;
        check_size("each group of an intraclass correlation", group.len(), 1)?;
    }
    let (k, total) = (groups.len() as f64, groups.iter().map(|group| group.len()).sum::<usize>());
    check_size("an intraclass correlation", total, groups.len() + 1)?;
    let n = total as f64;
    let all = mean(&groups.concat())?;
    let (mut between, mut within) = (0.0, 0.0);
    for group in groups {
        let own = mean(group)?;
        between += group.len() as f64 * (own - all).powi(2);
        within += group.iter().map(|x| (x - own).powi(2)).sum::<f64>();
    }
    let (between, within) = (between / (k - 1.0), within / (n - k));
    let size = (n - groups.iter().map(|group| (group.len() as f64).powi(2)).sum::<f64>() / n) / (k - 1.0);
    let variance = between + (size - 1.0) * within;
    if variance == 0.0 {
        return Err(StatsError::NoSpread { have: total });
    }
    Ok((between - within) / variance)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::normal;
    use proptest::prelude::*;

    /// A first-order autoregression with unit innovations, in its steady state.
    pub(crate) fn series(seed: u64, n: usize, correlation: f64) -> Vec<f64> {
        let mut bits = crate::sign_flip::tests::bits(seed);
        let mut normal =
            || normal::standard().inverse_cdf(((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64);
        let mut x = normal() / (1.0 - correlation * correlation).sqrt();
        let mut next = || {
            x = correlation * x + normal();
            x
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn neighbours_correlate_as_by_hand() {
        // Deviations -1.5, -0.5, 0.5, 1.5: products 0.75 - 0.25 + 0.75, squares 5.
        assert!((lag_one_correlation(&[1.0, 2.0, 3.0, 4.0]).unwrap() - 0.25).abs() < 1e-15);
        assert!((effective_size(&[1.0, 2.0, 3.0, 4.0]).unwrap() - 4.0 * 0.75 / 1.25).abs() < 1e-15);
        assert_eq!(effective_size(&[1.0, -1.0, 1.0, -1.0]), Ok(4.0), "alternation is not a gain");
        assert!(lag_one_correlation(&[1.0, 2.0]).is_err());
        assert!(matches!(effective_size(&[3.0; 5]), Err(StatsError::NoSpread { have: 5 })));
    }

    #[test]
    fn a_third_of_the_observations_counts_at_a_correlation_of_one_half() {
        let seen = effective_size(&series(1, 100_000, 0.5)).unwrap();
        assert!((seen / 100_000.0 - 1.0 / 3.0).abs() < 0.01, "{seen}");
    }

    #[test]
    fn five_hundred_requests_of_a_run_are_worth_forty_six() {
        // shared/statistics.md 3b: m = 500, ICC = 0.02.
        let effect = design_effect(500.0, 0.02).unwrap();
        assert!((effect - 10.98).abs() < 1e-12 && (500.0 / effect - 45.5).abs() < 0.1);
        assert!(design_effect(0.0, 0.02).is_err() && design_effect(5.0, 1.1).is_err());
    }

    #[test]
    fn the_intraclass_correlation_is_as_by_hand() {
        // Means 2 and 5; between 2 * 2.25 * 2 / 1 = 9; within (2 + 2) / 2 = 2; (9 - 2) / (9 + 2).
        let seen = intraclass_correlation(&[&[1.0, 3.0], &[4.0, 6.0]]).unwrap();
        assert!((seen - 7.0 / 11.0).abs() < 1e-15, "{seen}");
        // Sizes 1 and 3: n0 = (4 - 10 / 4) / 1 = 1.5. Means 0 and 2, all 1.5; between 2.25 + 0.75, within 2 / 2.
        let unequal = intraclass_correlation(&[&[0.0], &[1.0, 2.0, 3.0]]).unwrap();
        assert!((unequal - 2.0 / 3.5).abs() < 1e-15, "{unequal}");
        assert!(intraclass_correlation(&[&[1.0, 2.0]]).is_err());
        assert!(intraclass_correlation(&[&[1.0], &[2.0]]).is_err());
        assert!(matches!(intraclass_correlation(&[&[1.0, 1.0], &[1.0]]), Err(StatsError::NoSpread { .. })));
    }

    #[test]
    fn batches_cover_the_mean_of_a_correlated_series() {
        let trials = 1000;
        let covered = (0..trials)
            .filter(|seed| batch_means(&series(*seed, 2000, 0.6), 20, 0.95).unwrap().interval.contains(0.0))
            .count() as f64;
        let share = covered / trials as f64;
        assert!((0.92..0.975).contains(&share), "{share}");
    }

    #[test]
    fn too_few_batches_are_refused() {
        let x = series(2, 100, 0.0);
        assert!(batch_means(&x, 19, 0.95).is_err());
        assert!(batch_means(&x[..39], 20, 0.95).is_err());
        assert!(batch_means(&x, 20, 0.0).is_err());
        assert!(matches!(batch_means(&[1.0; 100], 20, 0.95), Err(StatsError::NoSpread { .. })));
    }

    proptest! {
        #[test]
        fn correlations_ignore_units_and_batch_means_keep_them(
            x in prop::collection::vec(-1e3..1e3f64, 60..100), shift in -50.0..50.0f64, scale in 0.1..9.0f64,
        ) {
            let y: Vec<f64> = x.iter().map(|x| x * scale + shift).collect();
            prop_assert!((lag_one_correlation(&x).unwrap() - lag_one_correlation(&y).unwrap()).abs() < 1e-9);
            let groups = |x: &[f64]| intraclass_correlation(&[&x[..20], &x[20..30], &x[30..]]).unwrap();
            prop_assert!((groups(&x) - groups(&y)).abs() < 1e-9);
            let (a, b) = (batch_means(&x, 20, 0.9).unwrap(), batch_means(&y, 20, 0.9).unwrap());
            prop_assert!((a.interval.low * scale + shift - b.interval.low).abs() < 1e-6);
        }
    }
}
