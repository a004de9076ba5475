//! Intervals that hold at all sample sizes at once, so that one may look after every block and stop when one likes.

use crate::error::{check_finite, check_level, check_positive, check_size};
use crate::{Interval, StatsError, mean, variance};

/// The longest sequence for which the size of the first finite interval is looked up.
const LONGEST: usize = 1_000_000;

/// Half-width of Robbins' normal mixture confidence sequence (1970, "Statistical methods related to the law of the
/// iterated logarithm"; Howard and others 2021) after `n` observations with known deviation `sigma`. `rho`, fixed in
/// advance, is the effect in units of `sigma` for which it is tightest; it is valid for every `rho`.
///
/// # Errors
/// When `n` is zero, `sigma` or `rho` is not positive, or `alpha` is not between 0 and 1.
pub fn robbins_half_width(n: usize, sigma: f64, rho: f64, alpha: f64) -> Result<f64, StatsError> {
    check_size("a confidence sequence", n, 1)?;
    check_positive("sigma", sigma)?;
    check_positive("rho", rho)?;
    check_level("alpha", alpha)?;
    let (n, scale) = (n as f64, n as f64 * rho * rho + 1.0);
    Ok(sigma * (scale / (n * rho).powi(2) * (scale / alpha.powi(2)).ln()).sqrt())
}

/// The confidence sequence of a mean with unknown deviation, after the observations so far: the means that the
/// scale-invariant t test's likelihood ratio, mixed over standardised effects with deviation `rho`, does not reject
/// (Lai 1976, "On confidence sequences"; Wang and Ramdas 2024, "Anytime-valid t-tests"). For normal observations all
/// intervals of a sequence cover at once with probability `level`. It costs width: at 20 blocks and `rho` 1 it is 1.6
/// times as wide as the t interval.
///
/// # Errors
/// `NotEstimable` while the interval is still infinite; when an observation is not finite, all are equal, `rho` is
/// not positive, or the level not between 0 and 1.
pub fn t_confidence_sequence(observations: &[f64], rho: f64, level: f64) -> Result<Interval, StatsError> {
    check_finite(observations)?;
    check_positive("rho", rho)?;
    check_level("level", level)?;
    let n = observations.len();
    let Some(factor) = squared_factor(n, rho, 1.0 - level) else {
        let needed = (n + 1..LONGEST).find(|n| squared_factor(*n, rho, 1.0 - level).is_some());
        let what = "a finite interval of the confidence sequence";
        return Err(StatsError::NotEstimable { what, have: n, needed: needed.unwrap_or(LONGEST) });
    };
    let variance = variance(observations)?;
    if variance == 0.0 {
        return Err(StatsError::NoSpread { have: n });
    }
    let (mean, half) = (mean(observations)?, (variance * factor).sqrt());
    Ok(Interval { low: mean - half, high: mean + half, level })
}

/// The square of half the interval's width over the variance of the observations; `None` when it is infinite.
///
/// With `c = 1 / rho^2`, `V` the sum of squares about a mean m and `S` the sum of deviations from it, the ratio is
/// `sqrt(c / (n + c)) (V / (V - S^2 / (n + c)))^(n / 2)`. It is below `1 / alpha` when `S^2 / ((n + c) V) < 1 - k`
/// with `k = (alpha^2 c / (n + c))^(1 / n)`, which is a quadratic inequality in m.
fn squared_factor(n: usize, rho: f64, alpha: f64) -> Option<f64> {
    if n < 2 {
        return None;
    }
    let (n, c) = (n as f64, 1.0 / (rho * rho));
    let left = 1.0 - ((alpha * alpha * c / (n + c)).ln() / n).exp();
    let slope = n * n / (n + c) - n * left;
    (slope > 0.0).then(|| left * (n - 1.0) / slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal;
    use proptest::prelude::*;
    use statrs::distribution::ContinuousCDF;

    #[test]
    fn robbins_half_widths_equal_the_reference_values() {
        // shared/statistics.md 3c, item 13: sigma 1, rho 0.5, alpha 0.05.
        for (n, expected) in [(8, 1.152_992), (20, 0.683_369), (50, 0.430_852), (100, 0.310_154)] {
            let seen = robbins_half_width(n, 1.0, 0.5, 0.05).unwrap();
            assert!((seen - expected).abs() < 5e-7, "{n}: {seen}");
        }
        assert!(robbins_half_width(0, 1.0, 0.5, 0.05).is_err());
        assert!(robbins_half_width(1, 0.0, 0.5, 0.05).is_err());
        assert!(robbins_half_width(1, 1.0, 0.5, 1.0).is_err());
    }

    /// The likelihood ratio by its definition.
    fn ratio(x: &[f64], about: f64, rho: f64) -> f64 {
        let (n, c) = (x.len() as f64, 1.0 / (rho * rho));
        let v: f64 = x.iter().map(|x| (x - about).powi(2)).sum();
        let s: f64 = x.iter().map(|x| x - about).sum();
        (c / (n + c)).sqrt() * (v / (v - s * s / (n + c))).powf(n / 2.0)
    }

    #[test]
    fn at_the_ends_the_likelihood_ratio_is_one_over_alpha() {
        let x = crate::signed_rank::tests::differences();
        let seen = t_confidence_sequence(&x, 1.0, 0.95).unwrap();
        for end in [seen.low, seen.high] {
            assert!((ratio(&x, end, 1.0) - 20.0).abs() < 1e-6, "{seen:?}");
        }
        assert!(ratio(&x, 29.0, 1.0) < 20.0);
    }

    #[test]
    fn looking_at_any_time_costs_width() {
        let half = squared_factor(20, 1.0, 0.05).unwrap().sqrt();
        // Half of the t interval at 20 observations: 2.093 / sqrt 20 deviations.
        assert!((half / (2.093 / 20f64.sqrt()) - 1.636).abs() < 0.001, "{half}");
    }

    #[test]
    fn for_many_observations_the_deviation_might_as_well_be_known() {
        let n = 200_000;
        let known = robbins_half_width(n, 1.0, 0.3, 0.05).unwrap();
        let unknown = squared_factor(n, 0.3, 0.05).unwrap().sqrt();
        assert!((unknown / known - 1.0).abs() < 1e-4, "{unknown} {known}");
    }

    #[test]
    fn the_first_blocks_have_no_finite_interval_and_the_error_says_how_many_do() {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i % 7)).collect();
        let Err(StatsError::NotEstimable { have: 2, needed, .. }) = t_confidence_sequence(&x[..2], 1.0, 0.95)
        else {
            panic!("two observations bound nothing");
        };
        assert!(t_confidence_sequence(&x[..needed], 1.0, 0.95).is_ok());
        assert!(t_confidence_sequence(&x[..needed - 1], 1.0, 0.95).is_err());
        assert!(matches!(t_confidence_sequence(&[1.0; 20], 1.0, 0.95), Err(StatsError::NoSpread { .. })));
        assert!(t_confidence_sequence(&x, 0.0, 0.95).is_err());
    }

    #[test]
    fn over_a_hundred_looks_it_misses_no_more_often_than_it_says() {
        let mut bits = crate::sign_flip::tests::bits(8);
        let mut normal =
            || normal::standard().inverse_cdf(((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64);
        let trials = 2000;
        let missed = (0..trials)
            .filter(|_| {
                let x: Vec<f64> = (0..100).map(|_| 3.0 + 2.0 * normal()).collect();
                let covers =
                    |n| t_confidence_sequence(&x[..n], 1.0, 0.95).is_ok_and(|seen| !seen.contains(3.0));
                (2..=100).any(covers)
            })
            .count() as f64;
        let share = missed / f64::from(trials);
        assert!(share <= 0.05 + 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt(), "{share}");
        assert!(share > 0.005, "an interval that never misses is too wide to be this one: {share}");
    }

    proptest! {
        #[test]
        fn the_interval_moves_and_stretches_with_the_observations(
            x in prop::collection::vec(-1e3..1e3f64, 8..20), shift in -100.0..100.0f64, scale in 0.1..10.0f64,
        ) {
            let y: Vec<f64> = x.iter().map(|x| x * scale + shift).collect();
            let (a, b) = (t_confidence_sequence(&x, 1.0, 0.9).unwrap(), t_confidence_sequence(&y, 1.0, 0.9).unwrap());
            let moved = a.map(|end| end * scale + shift);
            prop_assert!((moved.low - b.low).abs() < 1e-6 && (moved.high - b.high).abs() < 1e-6);
        }
    }
}
