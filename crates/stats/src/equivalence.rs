//! Two one-sided tests (TOST): that a difference is smaller than a margin that was fixed in advance.

use crate::error::{check_finite, check_level, check_positive};
use crate::t_test::MeanLaw;
use crate::{Interval, Sides, StatsError, hodges_lehmann, hodges_lehmann_interval, wilcoxon};
use statrs::distribution::ContinuousCDF;

/// Result of two one-sided tests against `-margin` and `margin`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equivalence {
    /// Estimated difference.
    pub estimate: f64,
    /// p of "the difference is `-margin` or less"; small: it is not worse than the margin (non-inferiority).
    pub p_lower: f64,
    /// p of "the difference is `margin` or more".
    pub p_upper: f64,
    /// Interval at `1 - 2 alpha`. It lies within the margin when both tests reject at `alpha`.
    pub interval: Interval,
}

impl Equivalence {
    /// p of "the difference is not within the margin": the larger of the two.
    #[must_use]
    pub fn p(&self) -> f64 {
        self.p_lower.max(self.p_upper)
    }
}

/// Schuirmann's two one-sided t tests (1987) of paired differences, such as log ratios with the margin `ln 1.05`.
///
/// # Errors
/// When there are fewer than two differences, they are all equal, one is not finite, the margin is not positive, or
/// `alpha` is not between 0 and 0.5.
pub fn tost(differences: &[f64], margin: f64, alpha: f64) -> Result<Equivalence, StatsError> {
    check(differences, margin, alpha)?;
    let MeanLaw { mean, error, law } = MeanLaw::new("two one-sided t tests", differences)?;
    let half = law.inverse_cdf(1.0 - alpha) * error;
    Ok(Equivalence {
        estimate: mean,
        p_lower: law.cdf(-(mean + margin) / error),
        p_upper: law.cdf((mean - margin) / error),
        interval: Interval { low: mean - half, high: mean + half, level: 1.0 - 2.0 * alpha },
    })
}

/// The same with exact signed-rank tests and the Hodges-Lehmann estimate: no law of the differences is assumed beyond
/// symmetry about their centre.
///
/// # Errors
/// As [`tost`]; `NotEstimable` below five differences at `alpha` 0.05; more than 500 are too many.
pub fn rank_tost(differences: &[f64], margin: f64, alpha: f64) -> Result<Equivalence, StatsError> {
    check(differences, margin, alpha)?;
    let interval = hodges_lehmann_interval(differences, 1.0 - 2.0 * alpha)?;
    let p = |shift: f64, sides| {
        let shifted: Vec<f64> = differences.iter().map(|d| d + shift).collect();
        // All differences on the margin itself: nothing speaks against it.
        if shifted.iter().all(|d| *d == 0.0) { Ok(1.0) } else { Ok(wilcoxon(&shifted, sides)?.p) }
    };
    Ok(Equivalence {
        estimate: hodges_lehmann(differences)?,
        p_lower: p(margin, Sides::Greater)?,
        p_upper: p(-margin, Sides::Less)?,
        interval,
    })
}

fn check(differences: &[f64], margin: f64, alpha: f64) -> Result<(), StatsError> {
    check_finite(differences)?;
    check_positive("the margin", margin)?;
    check_level("twice alpha", 2.0 * alpha)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed_rank::tests::{A, B};
    use proptest::prelude::*;

    fn log_ratios() -> Vec<f64> {
        A.iter().zip(B).map(|(a, b)| (a / b).ln()).collect()
    }

    fn close(seen: f64, wanted: f64, tolerance: f64) {
        assert!((seen - wanted).abs() < tolerance, "{seen} is not {wanted}");
    }

    #[test]
    fn estimate_p_and_interval_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `tost_log1.05`, `tost_log1.15`.
        for (margin, p_lower, p_upper) in [
            (1.05f64, 2.060_056_285_468_907e-5, 0.933_151_489_527_661_9),
            (1.15, 4.716_393_251_592_417e-7, 0.000_656_051_403_963_069_9),
        ] {
            let seen = tost(&log_ratios(), margin.ln(), 0.05).unwrap();
            close(seen.estimate, 0.071_300_623_437_916_45, 1e-14);
            close(seen.p_lower, p_lower, 1e-12);
            close(seen.p_upper, p_upper, 1e-12);
            close(seen.interval.low, 0.046_155_024_850_931_48, 1e-9);
            close(seen.interval.high, 0.096_446_222_024_901_41, 1e-9);
            assert_eq!(seen.p(), seen.p_upper);
        }
    }

    #[test]
    fn ranks_agree_with_t_on_what_is_clear() {
        assert!(rank_tost(&log_ratios(), 1.05f64.ln(), 0.05).unwrap().p() > 0.5);
        // All eight below the margin and above its negative: the least p that eight signs allow.
        let seen = rank_tost(&log_ratios(), 1.15f64.ln(), 0.05).unwrap();
        assert_eq!((seen.p_lower, seen.p_upper), (1.0 / 256.0, 1.0 / 256.0));
        assert!(matches!(rank_tost(&[0.1; 4], 1.0, 0.05), Err(StatsError::NotEstimable { needed: 5, .. })));
    }

    #[test]
    fn a_margin_that_is_none_is_refused() {
        assert!(tost(&log_ratios(), 0.0, 0.05).is_err());
        assert!(tost(&log_ratios(), f64::NAN, 0.05).is_err());
        assert!(tost(&log_ratios(), 0.1, 0.5).is_err());
        assert!(matches!(tost(&[1.0, 1.0], 0.1, 0.05), Err(StatsError::NoSpread { .. })));
        assert!(tost(&[1.0], 0.1, 0.05).is_err());
    }

    proptest! {
        #[test]
        fn the_test_rejects_when_its_interval_lies_within_the_margin(
            d in prop::collection::vec(-100..100i32, 5..12), margin in 1..90i32,
        ) {
            let d: Vec<f64> = d.iter().enumerate().map(|(i, d)| f64::from(*d) + 0.013 * (i + 1) as f64).collect();
            let margin = f64::from(margin) + 0.0071;
            let by_t = tost(&d, margin, 0.05).unwrap();
            let within = -margin < by_t.interval.low && by_t.interval.high < margin;
            prop_assert_eq!(by_t.p() < 0.05, within);
        }

        #[test]
        fn other_signs_swap_the_two_tests(d in prop::collection::vec(-100..100i32, 5..12), margin in 1..90i32) {
            let d: Vec<f64> = d.into_iter().map(f64::from).collect();
            prop_assume!(d.iter().any(|other| *other != d[0]));
            let negated: Vec<f64> = d.iter().map(|d| -d).collect();
            for test in [tost, rank_tost] {
                let (a, b) = (test(&d, f64::from(margin), 0.05).unwrap(), test(&negated, f64::from(margin), 0.05).unwrap());
                prop_assert!((a.p_lower - b.p_upper).abs() < 1e-9 && (a.estimate + b.estimate).abs() < 1e-9);
            }
        }
    }
}
