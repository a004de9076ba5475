//! The paired t test, for comparison with what others report. The project's own verdicts do not rest on it.

use crate::error::{check_finite, check_level, check_size};
use crate::{Interval, StatsError, mean, variance};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Result of a paired t test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedT {
    /// Mean difference over its standard error.
    pub t: f64,
    /// Two-sided p.
    pub p: f64,
    /// Interval of the mean difference.
    pub interval: Interval,
}

/// Student's t test of a zero mean difference.
///
/// # Errors
/// When there are fewer than two differences, they are all equal, one is not finite, or the level is not between
/// 0 and 1.
pub fn paired_t(differences: &[f64], level: f64) -> Result<PairedT, StatsError> {
    check_finite(differences)?;
    check_level("level", level)?;
    let MeanLaw { mean, error, law } = MeanLaw::new("a paired t test", differences)?;
    let t = mean / error;
    let half = law.inverse_cdf(0.5 + level / 2.0) * error;
    let interval = Interval { low: mean - half, high: mean + half, level };
    Ok(PairedT { t, p: 2.0 * law.cdf(-t.abs()), interval })
}

/// A mean, its standard error, and the law of their ratio where the true mean is 0.
pub(crate) struct MeanLaw {
    pub(crate) mean: f64,
    pub(crate) error: f64,
    pub(crate) law: StudentsT,
}

impl MeanLaw {
    /// Of differences, for a test of this name.
    ///
    /// # Errors
    /// When there are fewer than two, or they are all equal.
    pub(crate) fn new(test: &'static str, differences: &[f64]) -> Result<Self, StatsError> {
        check_size(test, differences.len(), 2)?;
        let n = differences.len() as f64;
        let (mean, error) = (mean(differences)?, (variance(differences)? / n).sqrt());
        if error == 0.0 {
            return Err(StatsError::NoSpread { have: differences.len() });
        }
        let law =
            StudentsT::new(0.0, 1.0, n - 1.0).expect("one degree of freedom or more makes a t distribution");
        Ok(Self { mean, error, law })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed_rank::tests::{A, B, differences};

    #[test]
    fn statistic_p_and_interval_equal_those_of_scipy() {
        // shared/data/statistics-vectors.json: `paired_t`.
        let seen = paired_t(&differences(), 0.95).unwrap();
        assert!((seen.t - 5.128_471_921_332_467).abs() < 1e-12, "{seen:?}");
        assert!((seen.p - 0.001_355_945_091_423_842_1).abs() < 1e-12, "{seen:?}");
        assert!((seen.interval.low - 15.729_793_415_651_104).abs() < 1e-7, "{seen:?}");
        assert!((seen.interval.high - 42.645_206_584_348_9).abs() < 1e-7, "{seen:?}");
        assert_eq!(A.len(), B.len());
    }

    #[test]
    fn equal_differences_have_no_standard_error() {
        assert!(matches!(paired_t(&[1.0, 1.0], 0.95), Err(StatsError::NoSpread { have: 2 })));
        assert!(paired_t(&[1.0], 0.95).is_err());
        assert!(paired_t(&[1.0, f64::INFINITY], 0.95).is_err());
    }
}
