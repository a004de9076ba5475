//! The area under the ROC curve with its error: the probability that a random positive scores above a random negative.

use crate::error::{check_finite, check_level, check_limit, check_size};
use crate::{Interval, StatsError, normal, variance};

/// Pairs are counted one by one.
const PAIR_LIMIT: usize = 100_000_000;

/// An area under the ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Auc {
    /// The area; ties count half.
    pub area: f64,
    /// DeLong's standard error; 0 when the samples don't overlap, which says nothing about the error.
    pub standard_error: f64,
}

/// The area with the standard error of DeLong, DeLong and Clarke-Pearson (1988, "Comparing the areas under two or more
/// correlated receiver operating characteristic curves"): from each observation's share of pairs won.
///
/// # Errors
/// When a sample has fewer than two observations, one is not finite, or there are more than 1e8 pairs.
pub fn auc(positives: &[f64], negatives: &[f64]) -> Result<Auc, StatsError> {
    check_finite(positives)?;
    check_finite(negatives)?;
    check_size("an area under the ROC curve", positives.len().min(negatives.len()), 2)?;
    let pairs = positives.len().saturating_mul(negatives.len());
    check_limit("an area under the ROC curve (counted in pairs)", pairs, PAIR_LIMIT)?;
    let (mut of_positives, mut of_negatives) = (vec![0.0; positives.len()], vec![0.0; negatives.len()]);
    for (positive, x) in of_positives.iter_mut().zip(positives) {
        for (negative, y) in of_negatives.iter_mut().zip(negatives) {
            let won = if x > y { 1.0 } else { f64::from(u8::from(x == y)) / 2.0 };
            *positive += won / negatives.len() as f64;
            *negative += won / positives.len() as f64;
        }
    }
    let part = |x: &[f64]| Ok::<f64, StatsError>(variance(x)? / x.len() as f64);
    let area = of_positives.iter().sum::<f64>() / positives.len() as f64;
    Ok(Auc { area, standard_error: (part(&of_positives)? + part(&of_negatives)?).sqrt() })
}

impl Auc {
    /// The interval on the logit scale, which stays between 0 and 1 and covers better near its ends than the plain one
    /// (Pepe 2003, "The statistical evaluation of medical tests", section 5.2).
    ///
    /// # Errors
    /// When the samples don't overlap (area 0 or 1), or the level is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Interval, StatsError> {
        check_level("level", level)?;
        let odds = self.area * (1.0 - self.area);
        if odds <= 0.0 || self.standard_error == 0.0 {
            return Err(StatsError::OutOfRange {
                name: "an area under the ROC curve with an interval",
                value: self.area,
                range: "what two overlapping samples have, between 0 and 1",
            });
        }
        let half = normal::critical(level) * self.standard_error / odds;
        let centre = (self.area / (1.0 - self.area)).ln();
        let share = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        Ok(Interval { low: share(centre - half), high: share(centre + half), level })
    }
}

/// Standard error of an area from the area alone (Hanley and McNeil 1982), for scores with exponential laws. For
/// planning, when there are no scores yet.
///
/// # Errors
/// When the area is not in 0 to 1 or a sample is empty.
pub fn hanley_mcneil_error(area: f64, positives: usize, negatives: usize) -> Result<f64, StatsError> {
    check_size("an area under the ROC curve", positives.min(negatives), 1)?;
    if !(0.0..=1.0).contains(&area) {
        return Err(StatsError::OutOfRange { name: "the area", value: area, range: "0 to 1" });
    }
    let (n, m) = (positives as f64, negatives as f64);
    let square = area * area;
    let (q1, q2) = (area / (2.0 - area), 2.0 * square / (1.0 + area));
    let variance = area * (1.0 - area) + (n - 1.0) * (q1 - square) + (m - 1.0) * (q2 - square);
    Ok((variance / (n * m)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_sum::tests::{H, M};
    use crate::{Sides, mann_whitney};
    use proptest::prelude::*;

    #[test]
    fn area_and_hanley_mcneil_error_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `mwu` (area), `hanley_mcneil_se`.
        assert_eq!(auc(&M, &H).unwrap().area, 0.890_625);
        let seen = hanley_mcneil_error(0.890_625, 8, 8).unwrap();
        assert!((seen - 0.087_129_450_045_078_92).abs() < 1e-15, "{seen}");
    }

    #[test]
    fn delongs_error_is_that_of_the_shares_of_pairs_won() {
        // By definition, numpy 2: variances of the rows' and columns' means over their numbers.
        assert!((auc(&M, &H).unwrap().standard_error - 0.081_404_386_289_332_46).abs() < 1e-15);
        let ties = auc(&[1.0, 2.0, 2.0, 3.0, 5.0], &[0.0, 1.0, 2.0, 2.0]).unwrap();
        assert!(
            (ties.area - 0.775).abs() < 1e-15
                && (ties.standard_error - 0.154_110_350_074_224_3).abs() < 1e-15
        );
    }

    #[test]
    fn the_interval_stays_between_0_and_1_and_a_perfect_score_has_none() {
        let seen = auc(&M, &H).unwrap().interval(0.95).unwrap();
        assert!(
            0.0 < seen.low && seen.low < 0.890_625 && 0.890_625 < seen.high && seen.high < 1.0,
            "{seen:?}"
        );
        let perfect = auc(&[3.0, 4.0], &[1.0, 2.0]).unwrap();
        assert_eq!(perfect, Auc { area: 1.0, standard_error: 0.0 });
        assert!(matches!(perfect.interval(0.95), Err(StatsError::OutOfRange { value: 1.0, .. })));
    }

    #[test]
    fn the_interval_covers_about_as_often_as_it_says() {
        // Uniforms on 0..1 against 0.25..1.25: the area is 1 - 0.75^2 / 2.
        let mut bits = crate::sign_flip::tests::bits(12);
        let mut unit = || (bits() >> 11) as f64 / (1u64 << 53) as f64;
        let trials = 2000;
        let covered = (0..trials)
            .filter(|_| {
                let x: Vec<f64> = (0..40).map(|_| 0.25 + unit()).collect();
                let y: Vec<f64> = (0..40).map(|_| unit()).collect();
                auc(&x, &y).unwrap().interval(0.95).unwrap().contains(1.0 - 0.75 * 0.75 / 2.0)
            })
            .count() as f64;
        let share = covered / f64::from(trials);
        assert!((0.93..0.97).contains(&share), "{share}");
    }

    #[test]
    fn too_few_scores_are_refused() {
        assert!(auc(&[1.0], &[0.0, 2.0]).is_err());
        assert!(auc(&[1.0, f64::NAN], &[0.0, 2.0]).is_err());
        assert!(hanley_mcneil_error(1.1, 3, 3).is_err() && hanley_mcneil_error(0.5, 0, 3).is_err());
    }

    proptest! {
        #[test]
        fn the_area_is_the_rank_sums_share_and_only_order_matters(
            x in prop::collection::vec(-9..9i32, 2..9), y in prop::collection::vec(-9..9i32, 2..9),
        ) {
            let raw = |x: &[i32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
            let bent = |x: &[i32]| x.iter().map(|x| f64::from(*x).exp()).collect::<Vec<_>>();
            let (x, y, bent_x, bent_y) = (raw(&x), raw(&y), bent(&x), bent(&y));
            let seen = auc(&x, &y).unwrap();
            let u = mann_whitney(&x, &y, Sides::Two).unwrap().u;
            prop_assert!((seen.area - u / (x.len() * y.len()) as f64).abs() < 1e-12);
            prop_assert_eq!(seen, auc(&bent_x, &bent_y).unwrap());
        }
    }
}
