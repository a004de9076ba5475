//! How well a sample fits a law that was named before it was drawn.

use crate::StatsError;
use crate::error::{check_finite, check_size};
use statrs::distribution::{ContinuousCDF, Gamma};

/// A one-sample Kolmogorov-Smirnov test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KsTest {
    /// Greatest distance between the sample's distribution and the law's.
    pub distance: f64,
    /// Probability of such a distance or more when the law holds: Kolmogorov's limit with Stephens' (1970) correction
    /// for finite samples, good to two digits from 8 observations on.
    pub p: f64,
}

/// Compares a sample with a law fixed in advance; `cdf` is its distribution function. Not valid for parameters that
/// were fitted to the same sample.
///
/// # Errors
/// When there are fewer than 8 observations or one is not finite.
pub fn kolmogorov_smirnov(sample: &[f64], cdf: impl Fn(f64) -> f64) -> Result<KsTest, StatsError> {
    check_finite(sample)?;
    check_size("a Kolmogorov-Smirnov test", sample.len(), 8)?;
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let apart = |(rank, &x): (usize, &f64)| {
        let share = cdf(x);
        ((rank + 1) as f64 / n - share).max(share - rank as f64 / n)
    };
    let distance = sorted.iter().enumerate().map(apart).fold(0.0, f64::max);
    let root = n.sqrt();
    Ok(KsTest { distance, p: kolmogorov_tail((root + 0.12 + 0.11 / root) * distance) })
}

/// P(K > t) of Kolmogorov's distribution.
fn kolmogorov_tail(t: f64) -> f64 {
    // Below 0.2 the tail is 1 to 12 digits, and the alternating sum converges slowly.
    if t < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(k * k) * t * t).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Distribution function at `x` of the gamma law with mean 1 and this coefficient of variation; 1 is the exponential.
///
/// # Panics
/// When `cv` is not positive and finite.
#[must_use]
pub fn unit_gamma_cdf(x: f64, cv: f64) -> f64 {
    assert!(cv > 0.0 && cv.is_finite(), "a coefficient of variation is positive and finite, not {cv}");
    if cv == 1.0 {
        return if x > 0.0 { -(-x).exp_m1() } else { 0.0 };
    }
    let shape = 1.0 / (cv * cv);
    let law = Gamma::new(shape, shape).expect("a positive shape and rate make a gamma law");
    law.cdf(x.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_has_the_tabled_critical_values() {
        // Asymptotic critical values of K: 1.2238 at 0.10, 1.3581 at 0.05, 1.6276 at 0.01.
        for (t, p) in [(1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01)] {
            assert!((kolmogorov_tail(t) - p).abs() < 1e-4, "{t}: {}", kolmogorov_tail(t));
        }
        assert_eq!(kolmogorov_tail(0.0), 1.0);
    }

    #[test]
    fn the_distance_is_as_by_hand() {
        // Uniform law, observations in the middle of each tenth: every step is 0.05 off on both sides.
        let sample: Vec<f64> = (0..10).map(|i| (f64::from(i) + 0.5) / 10.0).collect();
        let test = kolmogorov_smirnov(&sample, |x| x).unwrap();
        assert!((test.distance - 0.05).abs() < 1e-12 && test.p > 0.999, "{test:?}");
        assert!(matches!(
            kolmogorov_smirnov(&sample[..7], |x| x),
            Err(StatsError::NotEstimable { needed: 8, .. })
        ));
    }

    #[test]
    fn the_test_rejects_as_often_as_it_says_and_finds_another_law() {
        let mut bits = crate::sign_flip::tests::bits(3);
        let mut unit = || ((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let trials = 2000;
        let rejected = (0..trials)
            .filter(|_| {
                let sample: Vec<f64> = (0..50).map(|_| -unit().ln()).collect();
                kolmogorov_smirnov(&sample, |x| unit_gamma_cdf(x, 1.0)).unwrap().p <= 0.05
            })
            .count() as f64;
        let share = rejected / f64::from(trials);
        assert!((share - 0.05).abs() < 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt(), "{share}");
        let regular: Vec<f64> = (0..200).map(|_| 0.9 + 0.2 * unit()).collect();
        assert!(kolmogorov_smirnov(&regular, |x| unit_gamma_cdf(x, 1.0)).unwrap().p < 1e-9);
    }

    #[test]
    fn the_unit_gamma_law_is_exponential_at_one_and_has_mean_one() {
        assert!((unit_gamma_cdf(1.0, 1.0) - (1.0 - (-1.0f64).exp())).abs() < 1e-15);
        assert_eq!(unit_gamma_cdf(-1.0, 1.0), 0.0);
        for cv in [0.5, 1.000_001, 2.0] {
            // Mean of a positive variable: the integral of 1 - F.
            let step = 1e-3;
            let mean: f64 =
                (0..100_000).map(|i| (1.0 - unit_gamma_cdf((f64::from(i) + 0.5) * step, cv)) * step).sum();
            assert!((mean - 1.0).abs() < 1e-3, "cv {cv}: {mean}");
        }
    }
}
