//! Mean, spread and inequality of a sample.

use crate::StatsError;
use crate::error::{check_finite, check_size};

/// Arithmetic mean.
///
/// # Errors
/// When the sample is empty or holds a number that is not finite.
pub fn mean(x: &[f64]) -> Result<f64, StatsError> {
    check_finite(x)?;
    check_size("a mean", x.len(), 1)?;
    Ok(x.iter().sum::<f64>() / x.len() as f64)
}

/// Sample variance, with `n - 1`.
///
/// # Errors
/// When there are fewer than two observations or one is not finite.
pub fn variance(x: &[f64]) -> Result<f64, StatsError> {
    check_size("a variance", x.len(), 2)?;
    let mean = mean(x)?;
    Ok(x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (x.len() - 1) as f64)
}

/// Standard deviation over mean.
///
/// # Errors
/// As [`variance`]; and when the mean is zero.
pub fn coefficient_of_variation(x: &[f64]) -> Result<f64, StatsError> {
    let variance = variance(x)?;
    Ok(variance.sqrt() / nonzero_mean(x)?)
}

/// Variance over mean of counts: 1 for a Poisson process, above for bursts.
///
/// # Errors
/// As [`variance`]; and when the mean is zero.
pub fn index_of_dispersion(counts: &[f64]) -> Result<f64, StatsError> {
    let variance = variance(counts)?;
    Ok(variance / nonzero_mean(counts)?)
}

fn nonzero_mean(x: &[f64]) -> Result<f64, StatsError> {
    match mean(x)? {
        0.0 => Err(StatsError::OutOfRange { name: "mean", value: 0.0, range: "the numbers other than zero" }),
        mean => Ok(mean),
    }
}

/// Jain's fairness index: 1 when all shares are equal, `1/n` when one has all.
///
/// # Errors
/// When the sample is empty, holds a negative or not finite number, or sums to zero.
pub fn jain(x: &[f64]) -> Result<f64, StatsError> {
    let sum = positive_sum(x)?;
    Ok(sum * sum / (x.len() as f64 * x.iter().map(|x| x * x).sum::<f64>()))
}

/// Gini coefficient of the sample itself (no small-sample correction): 0 when all are equal, `1 - 1/n` when one has
/// all.
///
/// # Errors
/// As [`jain`].
pub fn gini(x: &[f64]) -> Result<f64, StatsError> {
    let sum = positive_sum(x)?;
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = x.len() as f64;
    let weighted: f64 = sorted.iter().enumerate().map(|(i, x)| (2.0 * (i + 1) as f64 - n - 1.0) * x).sum();
    Ok(weighted / (n * sum))
}

fn positive_sum(x: &[f64]) -> Result<f64, StatsError> {
    check_finite(x)?;
    check_size("an inequality index", x.len(), 1)?;
    if let Some(&value) = x.iter().find(|x| **x < 0.0) {
        return Err(StatsError::OutOfRange { name: "a share", value, range: "the numbers from 0 up" });
    }
    match x.iter().sum() {
        0.0 => Err(StatsError::OutOfRange { name: "the sum", value: 0.0, range: "the positive numbers" }),
        sum => Ok(sum),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sum of squared distances from the mean.
    pub(crate) fn squares(x: &[f64]) -> f64 {
        let mean = mean(x).unwrap();
        x.iter().map(|x| (x - mean).powi(2)).sum()
    }

    fn close(seen: f64, wanted: f64) {
        assert!((seen - wanted).abs() < 1e-12, "{seen} is not {wanted}");
    }

    #[test]
    fn jain_and_gini_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `jain`, `gini`.
        close(jain(&[10.0, 20.0, 30.0, 40.0]).unwrap(), 0.833_333_333_333_333_4);
        close(gini(&[40.0, 10.0, 30.0, 20.0]).unwrap(), 0.25);
        close(gini(&[5.0; 7]).unwrap(), 0.0);
        close(jain(&[0.0, 0.0, 9.0]).unwrap(), 1.0 / 3.0);
    }

    #[test]
    fn moments_of_a_small_sample_are_as_by_hand() {
        // Mean 5, squared deviations 9 + 1 + 1 + 9 = 20.
        let x = [2.0, 4.0, 6.0, 8.0];
        close(mean(&x).unwrap(), 5.0);
        close(variance(&x).unwrap(), 20.0 / 3.0);
        close(coefficient_of_variation(&x).unwrap(), (20.0f64 / 3.0).sqrt() / 5.0);
        close(index_of_dispersion(&x).unwrap(), 20.0 / 15.0);
    }

    #[test]
    fn an_empty_sample_has_no_mean_and_zeros_have_no_shares() {
        assert!(matches!(mean(&[]), Err(StatsError::NotEstimable { needed: 1, .. })));
        assert!(matches!(variance(&[1.0]), Err(StatsError::NotEstimable { needed: 2, .. })));
        assert!(coefficient_of_variation(&[0.0, 0.0]).is_err());
        assert!(jain(&[0.0, 0.0]).is_err());
        assert!(gini(&[-1.0, 2.0]).is_err());
        assert!(gini(&[f64::NAN]).is_err());
    }

    proptest! {
        #[test]
        fn inequality_ignores_units_and_order(
            x in prop::collection::vec(0.0..100.0f64, 1..20), scale in 0.1..10.0f64,
        ) {
            prop_assume!(x.iter().any(|x| *x > 0.0));
            let other: Vec<f64> = x.iter().rev().map(|x| x * scale).collect();
            prop_assert!((jain(&x).unwrap() - jain(&other).unwrap()).abs() < 1e-12);
            prop_assert!((gini(&x).unwrap() - gini(&other).unwrap()).abs() < 1e-12);
            let n = x.len() as f64;
            prop_assert!(jain(&x).unwrap() >= 1.0 / n - 1e-12 && gini(&x).unwrap() <= 1.0 - 1.0 / n + 1e-12);
        }
    }
}
