//! Several tests at once: adjusted p-values, in the order of the input.

use crate::StatsError;
use crate::error::{check_finite, check_level};

/// Holm's step-down adjustment: controls the family-wise error under any dependence (Holm 1979).
///
/// # Errors
/// When a p-value is not in 0 to 1.
pub fn holm(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut highest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max((p.len() - rank) as f64 * p[index]);
        adjusted[index] = highest.min(1.0);
    }
    Ok(adjusted)
}

/// Hochberg's step-up adjustment: family-wise error for independent or positively dependent tests (Hochberg 1988).
///
/// # Errors
/// When a p-value is not in 0 to 1.
pub fn hochberg(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    step_up(p, |rank| (p.len() - rank) as f64)
}

/// Benjamini and Hochberg's false discovery rate adjustment (1995).
///
/// # Errors
/// When a p-value is not in 0 to 1.
pub fn benjamini_hochberg(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    step_up(p, |rank| p.len() as f64 / (rank + 1) as f64)
}

fn step_up(p: &[f64], factor: impl Fn(usize) -> f64) -> Result<Vec<f64>, StatsError> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut lowest: f64 = 1.0;
    for (rank, &index) in order.iter().enumerate().rev() {
        lowest = lowest.min(factor(rank) * p[index]);
        adjusted[index] = lowest;
    }
    Ok(adjusted)
}

fn ascending(p: &[f64]) -> Result<Vec<usize>, StatsError> {
    check_finite(p)?;
    if let Some(&value) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(StatsError::OutOfRange { name: "p", value, range: "0 to 1" });
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    Ok(order)
}

/// The least number of blocks with which the smallest possible two-sided sign-flip p, `2 / 2^n`, still reaches
/// `alpha` after a Holm adjustment over `family` tests. Six for one test at 0.05.
///
/// # Errors
/// When `alpha` is not between 0 and 1.
pub fn blocks_needed(alpha: f64, family: usize) -> Result<usize, StatsError> {
    check_level("alpha", alpha)?;
    let smallest = |n: i32| 2.0 * 0.5f64.powi(n) * family.max(1) as f64;
    let found = (1..1000).find(|&n| smallest(n) <= alpha);
    Ok(found.expect("2^-999 is below every positive alpha over a countable family") as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `shared/statistics.md` 3c, item 6 (statsmodels 0.15.0).
    const P: [f64; 8] = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205];

    fn check(adjust: fn(&[f64]) -> Result<Vec<f64>, StatsError>, expected: [f64; 8]) {
        // Adjustment does not depend on the order of the input.
        for shift in 0..P.len() {
            let mut p = P;
            p.rotate_left(shift);
            let mut adjusted = adjust(&p).unwrap();
            adjusted.rotate_right(shift);
            for (seen, wanted) in adjusted.iter().zip(expected) {
                assert!((seen - wanted).abs() < 1e-12, "{adjusted:?}");
            }
        }
    }

    #[test]
    fn adjusted_values_equal_those_of_statsmodels() {
        check(holm, [0.008, 0.056, 0.234, 0.234, 0.234, 0.234, 0.234, 0.234]);
        check(
            benjamini_hochberg,
            [0.008, 0.032, 0.0672, 0.0672, 0.0672, 0.08, 0.084_571_428_571_428_56, 0.205],
        );
        check(hochberg, [0.008, 0.056, 0.148, 0.148, 0.148, 0.148, 0.148, 0.205]);
    }

    proptest! {
        #[test]
        fn the_stricter_adjustment_gives_the_larger_values(p in prop::collection::vec(0.0..=1.0f64, 1..12)) {
            let (holm, hochberg, rate) = (holm(&p).unwrap(), hochberg(&p).unwrap(), benjamini_hochberg(&p).unwrap());
            for i in 0..p.len() {
                // Sums of products in another order differ in the last digit.
                prop_assert!(holm[i] + 1e-12 >= hochberg[i] && hochberg[i] + 1e-12 >= rate[i]);
                prop_assert!(rate[i] + 1e-12 >= p[i] && holm[i] <= 1.0);
            }
        }
    }

    #[test]
    fn an_empty_family_has_no_adjusted_values_and_nonsense_is_refused() {
        assert_eq!(holm(&[]).unwrap(), Vec::<f64>::new());
        assert!(holm(&[0.5, f64::NAN]).is_err());
        assert!(hochberg(&[1.5]).is_err());
    }

    #[test]
    fn six_blocks_are_the_floor_of_one_test_and_more_tests_need_more() {
        assert_eq!(blocks_needed(0.05, 1).unwrap(), 6);
        assert_eq!(blocks_needed(0.05, 6).unwrap(), 8);
        assert_eq!(blocks_needed(0.05, 18).unwrap(), 10);
        assert_eq!(blocks_needed(0.01, 1).unwrap(), 8);
    }
}
