//! The Harrell-Davis quantile: a weighted mean of all order statistics, smoother than any single one.

use crate::error::{BETA_LIMIT, check_finite, check_level, check_limit, check_size};
use crate::{Interval, StatsError, normal};
use statrs::function::beta::beta_reg;

/// The estimate of a quantile with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HarrellDavis {
    /// The quantile.
    pub estimate: f64,
    /// Its standard error by the jackknife.
    pub standard_error: f64,
    /// Observations above the quantile that one may expect, `n (1 - q)`.
    above: f64,
    /// The same below, `n q`.
    below: f64,
}

/// Observations that the shorter tail must be expected to hold for an interval.
const LEAST_TAIL: usize = 10;

/// Harrell and Davis (1982, "A new distribution-free quantile estimator"): weights are those of a beta distribution
/// with parameters `(n + 1) q` and `(n + 1)(1 - q)`. Time n squared is avoided: leaving out one costs a sum.
///
/// # Errors
/// When there are fewer than two observations or more than 20 million, one is not finite, or `q` is not between 0 and 1.
pub fn harrell_davis(sample: &[f64], q: f64) -> Result<HarrellDavis, StatsError> {
    check_finite(sample)?;
    check_level("q", q)?;
    check_size("a Harrell-Davis quantile", sample.len(), 2)?;
    check_limit("a Harrell-Davis quantile", sample.len(), BETA_LIMIT)?;
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let estimate = sorted.iter().zip(weights(n, q)).map(|(x, weight)| x * weight).sum();
    // Without observation i, those before it keep their rank and those after it move down by one.
    let fewer: Vec<f64> = weights(n - 1, q).collect();
    let mut without = vec![0.0; n];
    let mut before = 0.0;
    for i in 0..n {
        without[i] += before;
        before += if i + 1 < n { fewer[i] * sorted[i] } else { 0.0 };
    }
    let mut after = 0.0;
    for i in (0..n).rev() {
        without[i] += after;
        after += if i > 0 { fewer[i - 1] * sorted[i] } else { 0.0 };
    }
    let size = n as f64;
    let mean = without.iter().sum::<f64>() / size;
    let squares: f64 = without.iter().map(|x| (x - mean).powi(2)).sum();
    let standard_error = ((size - 1.0) / size * squares).sqrt();
    Ok(HarrellDavis { estimate, standard_error, above: size * (1.0 - q), below: size * q })
}

impl HarrellDavis {
    /// The normal interval around the estimate.
    ///
    /// # Errors
    /// `NotEstimable` when fewer than ten observations are expected beyond the quantile: the estimate is then made of
    /// the largest few alone and the interval far too short. When the level is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Interval, StatsError> {
        check_level("level", level)?;
        let tail = self.above.min(self.below);
        let what = "a Harrell-Davis interval of a quantile with so short a tail";
        let size = self.above + self.below;
        let needed = (LEAST_TAIL as f64 * size / tail - 1e-6).ceil() as usize;
        check_size(what, size.round() as usize, needed)?;
        let half = normal::critical(level) * self.standard_error;
        Ok(Interval { low: self.estimate - half, high: self.estimate + half, level })
    }
}

fn weights(n: usize, q: f64) -> impl Iterator<Item = f64> {
    let size = n as f64;
    let (a, b) = ((size + 1.0) * q, (size + 1.0) * (1.0 - q));
    let up_to = move |i: usize| beta_reg(a, b, i as f64 / size);
    (0..n).scan(0.0, move |last, i| {
        let next = up_to(i + 1);
        let weight = next - *last;
        *last = next;
        Some(weight)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const Z: [f64; 12] = [5.0, 7.0, 9.0, 12.0, 15.0, 18.0, 22.0, 30.0, 41.0, 60.0, 85.0, 140.0];

    #[test]
    fn estimates_and_standard_errors_equal_those_of_scipy() {
        // shared/data/statistics-vectors.json: `harrell_davis_50_90_95_99`; standard errors from scipy 1.17.1,
        // mstats.hdquantiles_sd. The file's `harrell_davis_var_se` is another quantity: the weights' spread.
        for (q, estimate, error) in [
            (0.5, 22.821_651_287_799_927, 8.346_840_26),
            (0.9, 107.714_744_918_295_96, 37.160_814_95),
            (0.95, 127.249_249_760_082_14, 44.838_849_99),
            (0.99, 138.286_490_900_566_9, 49.626_353_13),
        ] {
            let seen = harrell_davis(&Z, q).unwrap();
            assert!((seen.estimate - estimate).abs() < 1e-9, "{seen:?}");
            assert!((seen.standard_error - error).abs() < 1e-7, "{seen:?}");
        }
    }

    #[test]
    fn the_spread_of_the_weights_is_not_the_standard_error() {
        // `harrell_davis_var_se`: the root of the weighted square distance of observations from the estimate.
        for (q, spread) in
            [(0.5, 10.752_122_199_601_697), (0.9, 35.493_935_888_531_23), (0.95, 26.088_929_395_493_56)]
        {
            let seen = harrell_davis(&Z, q).unwrap();
            let squares: f64 =
                Z.iter().zip(weights(12, q)).map(|(z, w)| w * (z - seen.estimate).powi(2)).sum();
            assert!((squares.sqrt() - spread).abs() < 1e-9, "{}", squares.sqrt());
            assert!((squares.sqrt() - seen.standard_error).abs() > 1.0);
        }
    }

    #[test]
    fn leaving_out_by_sums_is_leaving_out_one_by_one() {
        let q = 0.7;
        let without: Vec<f64> =
            (0..12).map(|i| harrell_davis(&[&Z[..i], &Z[i + 1..]].concat(), q).unwrap().estimate).collect();
        let expected = (11.0 / 12.0 * 11.0 * crate::variance(&without).unwrap()).sqrt();
        assert!((harrell_davis(&Z, q).unwrap().standard_error - expected).abs() < 1e-9);
    }

    #[test]
    fn a_tail_of_fewer_than_ten_has_no_interval() {
        let x: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(harrell_davis(&x, 0.99).unwrap().interval(0.95).is_ok());
        let error = harrell_davis(&x[..999], 0.99).unwrap().interval(0.95).unwrap_err();
        assert!(matches!(error, StatsError::NotEstimable { have: 999, needed: 1000, .. }), "{error}");
        assert!(harrell_davis(&x[..1], 0.5).is_err() && harrell_davis(&x, 1.0).is_err());
    }

    proptest! {
        #[test]
        fn the_quantile_moves_and_stretches_with_the_sample_and_forgets_its_order(
            x in prop::collection::vec(-1e3..1e3f64, 2..40), shift in -100.0..100.0f64, scale in 0.1..10.0f64,
        ) {
            let mut y: Vec<f64> = x.iter().map(|x| x * scale + shift).collect();
            y.reverse();
            let (of_x, of_y) = (harrell_davis(&x, 0.8).unwrap(), harrell_davis(&y, 0.8).unwrap());
            prop_assert!((of_x.estimate * scale + shift - of_y.estimate).abs() < 1e-7);
            prop_assert!((of_x.standard_error * scale - of_y.standard_error).abs() < 1e-7);
        }
    }
}
