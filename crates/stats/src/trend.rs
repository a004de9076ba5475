//! Does a series drift? Mann-Kendall's test of a monotone trend and the Theil-Sen slope, for blocks in time order.

use crate::error::{check_finite, check_limit, check_size};
use crate::{Sides, StatsError, normal};
use statrs::distribution::ContinuousCDF;

/// Up to here, without ties, the distribution is exact.
const EXACT_LIMIT: usize = 60;

/// Pairs cost n squared.
const LIMIT: usize = 5_000;

/// Result of a trend test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Pairs that rise with time minus pairs that fall.
    pub rising: i64,
    /// The p-value of "all orders are equally likely".
    pub p: f64,
    /// Median change per step over all pairs (Sen 1968): it bears 29 % of outliers.
    pub slope: f64,
}

/// Mann's test (1945) with Kendall's distribution: exact up to 60 observations without ties, else normal with the
/// variance for ties and a continuity correction. Observations must be independent under the null hypothesis, which
/// blocks are and requests are not. A drift that is interleaved with the arms cancels; one that is large is still
/// worth knowing.
///
/// # Errors
/// When there are fewer than four observations, more than 5,000, or one is not finite.
pub fn mann_kendall(series: &[f64], sides: Sides) -> Result<Trend, StatsError> {
    check_finite(series)?;
    check_size("a trend test", series.len(), 4)?;
    check_limit("a trend test", series.len(), LIMIT)?;
    let (mut rising, mut slopes) = (0, Vec::new());
    for (i, x) in series.iter().enumerate() {
        for (steps, y) in series[i + 1..].iter().enumerate() {
            rising += i64::from(y > x) - i64::from(y < x);
            slopes.push((y - x) / (steps + 1) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    let slope =
        if slopes.len() % 2 == 1 { slopes[middle] } else { 0.5 * (slopes[middle - 1] + slopes[middle]) };
    let ties = tie_sizes(series);
    let exact = ties.is_empty() && series.len() <= EXACT_LIMIT;
    let tail = |at_least: i64| {
        if exact { exact_tail(series.len(), at_least) } else { normal_tail(series.len(), &ties, at_least) }
    };
    let p = match sides {
        Sides::Two => (2.0 * tail(rising.abs())).min(1.0),
        Sides::Greater => tail(rising),
        Sides::Less => tail(-rising),
    };
    Ok(Trend { rising, p, slope })
}

/// P(rising - falling >= `at_least`) over all orders of n distinct values.
fn exact_tail(n: usize, at_least: i64) -> f64 {
    // The number of falling pairs is a sum of independent uniform numbers 0..k for k = 0..n.
    let mut law = vec![1.0];
    for k in 1..n {
        let mut next = vec![0.0; law.len() + k];
        for (falling, p) in law.iter().enumerate() {
            for more in 0..=k {
                next[falling + more] += p / (k + 1) as f64;
            }
        }
        law = next;
    }
    let pairs = (law.len() - 1) as i64;
    let most_falling = (pairs - at_least).div_euclid(2);
    law.iter().take((most_falling + 1).max(0) as usize).sum::<f64>().min(1.0)
}

fn normal_tail(n: usize, ties: &[usize], at_least: i64) -> f64 {
    let part = |n: usize| n as f64 * (n as f64 - 1.0) * (2.0 * n as f64 + 5.0);
    let variance = (part(n) - ties.iter().map(|n| part(*n)).sum::<f64>()) / 18.0;
    // All equal: every order is the same.
    if variance <= 0.0 {
        return 1.0;
    }
    normal::standard().cdf(-(at_least as f64 - 1.0) / variance.sqrt())
}

/// Sizes of the groups of equal values, from two up.
fn tie_sizes(series: &[f64]) -> Vec<usize> {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|size| *size > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_p_and_slope_equal_those_of_scipy() {
        // scipy 1.17.1: kendalltau(range(n), x), theilslopes(x, range(n)).
        let two = |x: &[f64]| mann_kendall(x, Sides::Two).unwrap();
        assert!((two(&[1.0, 2.0, 3.0, 5.0, 4.0, 6.0, 8.0, 7.0]).p - 0.001_736_111_111_111_111).abs() < 1e-15);
        assert!((two(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).p - 2.0 / 720.0).abs() < 1e-15);
        let seen = two(&[3.0, 1.0, 2.0, 5.0, 4.0, 8.0, 6.0, 10.0, 7.0, 9.0]);
        assert!((seen.p - 0.004_686_948_853_615_52).abs() < 1e-15 && seen.slope == 1.0, "{seen:?}");
    }

    #[test]
    fn ties_take_the_normal_law_with_its_correction() {
        // Of 45 pairs 6 are tied, 2 fall and 37 rise.
        let x = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 4.0, 5.0, 5.0];
        let seen = mann_kendall(&x, Sides::Two).unwrap();
        // Ties: 2, 3, 2, 2. Variance (10 * 9 * 25 - 3 * 2 * 1 * 9 - 3 * 2 * 11) / 18 = 2130 / 18.
        let z = (seen.rising as f64 - 1.0) / (2130.0f64 / 18.0).sqrt();
        assert_eq!(seen.rising, 35);
        assert!((seen.p - 2.0 * normal::standard().cdf(-z)).abs() < 1e-15);
        assert_eq!(mann_kendall(&[4.0; 9], Sides::Two).unwrap(), Trend { rising: 0, p: 1.0, slope: 0.0 });
    }

    #[test]
    fn exact_and_normal_laws_meet_where_one_takes_over() {
        for at_least in [0, 150, 300, 450] {
            // An even number of pairs has even differences: the correction of 1 is the middle of the step.
            let (exact, normal) = (exact_tail(60, at_least), normal_tail(60, &[], at_least));
            assert!((exact - normal).abs() < 0.001, "{at_least}: {exact} {normal}");
        }
        assert!((exact_tail(8, -28) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_too_many_and_no_numbers_are_refused() {
        assert!(mann_kendall(&[1.0, 2.0, 3.0], Sides::Two).is_err());
        assert!(mann_kendall(&vec![0.0; 5001], Sides::Two).is_err());
        assert!(mann_kendall(&[1.0, 2.0, 3.0, f64::NAN], Sides::Two).is_err());
    }

    proptest! {
        #[test]
        fn time_reversed_the_trend_turns_around(x in prop::collection::vec(-50..50i32, 4..20)) {
            let x: Vec<f64> = x.into_iter().map(f64::from).collect();
            let reversed: Vec<f64> = x.iter().rev().copied().collect();
            let (up, down) = (mann_kendall(&x, Sides::Greater).unwrap(), mann_kendall(&reversed, Sides::Less).unwrap());
            prop_assert!(up.rising == -down.rising && up.p == down.p && (up.slope + down.slope).abs() < 1e-12);
        }

        #[test]
        fn the_exact_tail_counts_orders(order in Just((0..6).map(f64::from).collect::<Vec<_>>()).prop_shuffle()) {
            let rising = mann_kendall(&order, Sides::Greater).unwrap();
            let mut hits = 0;
            permutations(&mut order.clone(), 0, &mut |x| {
                hits += u32::from(mann_kendall(x, Sides::Greater).unwrap().rising >= rising.rising);
            });
            prop_assert!((rising.p - f64::from(hits) / 720.0).abs() < 1e-12);
        }
    }

    fn permutations(x: &mut Vec<f64>, from: usize, visit: &mut dyn FnMut(&[f64])) {
        if from == x.len() {
            return visit(x);
        }
        for i in from..x.len() {
            x.swap(from, i);
            permutations(x, from + 1, visit);
            x.swap(from, i);
        }
    }
}
