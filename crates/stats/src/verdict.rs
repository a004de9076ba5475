//! What a comparison with a margin says: one of four things, never "no difference" from a large p.

use crate::error::{check_finite, check_level, check_positive};
use crate::{Interval, StatsError, hodges_lehmann_interval};

/// The four outcomes. Differences are taken so that more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, and not shown to be within the margin.
    Superior,
    /// Shown to be within the margin, so small that it was declared in advance not to matter.
    Equivalent,
    /// Worse, and not shown to be within the margin.
    Inferior,
    /// The data allow both a difference that matters and none.
    Inconclusive,
}

impl Verdict {
    /// From two intervals of the same difference: `difference` at `1 - alpha` for better and worse, `equivalence` at
    /// `1 - 2 alpha` for "within the margin" (TOST). Equivalence goes first: a difference that is shown and doesn't
    /// matter is not an advantage. Each verdict is wrong with probability at most `alpha`.
    ///
    /// # Errors
    /// When the margin is not positive, or an end is NaN.
    pub fn of(difference: Interval, equivalence: Interval, margin: f64) -> Result<Self, StatsError> {
        check_positive("the margin", margin)?;
        let ends = [difference.low, difference.high, equivalence.low, equivalence.high];
        if let Some(index) = ends.iter().position(|end| end.is_nan()) {
            return Err(StatsError::NotFinite { index, value: ends[index] });
        }
        Ok(if -margin < equivalence.low && equivalence.high < margin {
            Self::Equivalent
        } else if difference.low > 0.0 {
            Self::Superior
        } else if difference.high < 0.0 {
            Self::Inferior
        } else {
            Self::Inconclusive
        })
    }

    /// From paired differences, by the exact Hodges-Lehmann intervals.
    ///
    /// # Errors
    /// As [`hodges_lehmann_interval`], which needs six differences at `alpha` 0.05; and as [`Verdict::of`].
    pub fn of_differences(differences: &[f64], margin: f64, alpha: f64) -> Result<Self, StatsError> {
        check_finite(differences)?;
        check_level("twice alpha", 2.0 * alpha)?;
        let interval = |level| hodges_lehmann_interval(differences, level);
        Self::of(interval(1.0 - alpha)?, interval(1.0 - 2.0 * alpha)?, margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(low: f64, high: f64) -> Interval {
        Interval { low, high, level: 0.95 }
    }

    #[test]
    fn each_position_of_the_interval_has_its_verdict() {
        for (low, high, expected) in [
            (0.01, 0.30, Verdict::Superior),
            (0.12, 0.30, Verdict::Superior),
            (-0.30, -0.01, Verdict::Inferior),
            (-0.05, 0.05, Verdict::Equivalent),
            (0.01, 0.09, Verdict::Equivalent),
            (-0.09, -0.01, Verdict::Equivalent),
            (-0.05, 0.30, Verdict::Inconclusive),
            (-0.05, 0.10, Verdict::Inconclusive),
            (f64::NEG_INFINITY, f64::INFINITY, Verdict::Inconclusive),
        ] {
            let seen = Verdict::of(between(low, high), between(low, high), 0.1).unwrap();
            assert_eq!(seen, expected, "{low} to {high}");
        }
    }

    #[test]
    fn the_narrow_interval_decides_on_equivalence() {
        let seen = Verdict::of(between(-0.11, 0.08), between(-0.09, 0.06), 0.1).unwrap();
        assert_eq!(seen, Verdict::Equivalent);
    }

    #[test]
    fn a_verdict_needs_six_blocks_and_a_margin() {
        let d = [0.2, 0.21, 0.22, 0.23, 0.24, 0.25];
        assert_eq!(Verdict::of_differences(&d, 0.1, 0.05), Ok(Verdict::Superior));
        assert_eq!(Verdict::of_differences(&d, 0.3, 0.05), Ok(Verdict::Equivalent));
        assert!(matches!(
            Verdict::of_differences(&d[..5], 0.1, 0.05),
            Err(StatsError::NotEstimable { needed: 6, .. })
        ));
        assert!(Verdict::of_differences(&d, -0.1, 0.05).is_err());
        assert!(Verdict::of(between(f64::NAN, 1.0), between(0.0, 1.0), 0.1).is_err());
    }

    proptest! {
        #[test]
        fn other_signs_turn_superior_into_inferior(d in prop::collection::vec(-30..60i32, 6..12)) {
            let d: Vec<f64> = d.into_iter().map(|d| f64::from(d) / 10.0).collect();
            let negated: Vec<f64> = d.iter().map(|d| -d).collect();
            let turned = match Verdict::of_differences(&d, 1.0, 0.05).unwrap() {
                Verdict::Superior => Verdict::Inferior,
                Verdict::Inferior => Verdict::Superior,
                other => other,
            };
            prop_assert_eq!(Verdict::of_differences(&negated, 1.0, 0.05).unwrap(), turned);
        }
    }
}
