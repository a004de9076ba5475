//! Two independent samples by ranks: the Mann-Whitney test. Arms that share seeds are pairs: use [`crate::sign_flip`]
//! for them. Among blocks in which an arm ran first and those in which it ran second it is the test of an order effect.

use crate::error::{check_finite, check_size};
use crate::{Sides, StatsError, normal};
use statrs::distribution::ContinuousCDF;

/// Up to this many observations together the distribution is exact: about a tenth of a second.
const EXACT_LIMIT: usize = 100;

/// Result of a rank-sum test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankSum {
    /// Pairs in which the first sample's observation is larger; ties count half.
    pub u: f64,
    /// The p-value. Greater: the first sample tends to be larger.
    pub p: f64,
}

/// Mann and Whitney's test (1947). Exact over all ways to divide the observations up to 100 of them, ties at their mean
/// rank; beyond that the normal law with the variance for ties and a continuity correction.
///
/// # Errors
/// When a sample is empty or an observation is not finite.
pub fn mann_whitney(x: &[f64], y: &[f64], sides: Sides) -> Result<RankSum, StatsError> {
    check_finite(x)?;
    check_finite(y)?;
    check_size("a rank-sum test", x.len().min(y.len()), 1)?;
    let ranks = doubled_ranks(x, y);
    let of_x: usize = ranks[..x.len()].iter().sum();
    let least = x.len() * (x.len() + 1);
    // Twice U, and twice the largest that U can be.
    let (u, most) = (of_x - least, 2 * x.len() * y.len());
    let p = if ranks.len() <= EXACT_LIMIT {
        let law = Law::of(&ranks, x.len());
        match sides {
            Sides::Greater => law.share(|sum| sum >= of_x),
            Sides::Less => law.share(|sum| sum <= of_x),
            Sides::Two => (2.0 * law.share(|sum| sum >= of_x).min(law.share(|sum| sum <= of_x))).min(1.0),
        }
    } else {
        let tail = |u: usize| normal_tail(u as f64 / 2.0, &ranks, x.len());
        match sides {
            Sides::Greater => tail(u),
            Sides::Less => tail(most - u),
            Sides::Two => (2.0 * tail(u.max(most - u))).min(1.0),
        }
    };
    Ok(RankSum { u: u as f64 / 2.0, p })
}

/// Twice the rank of each observation among all, ties at their mean rank: whole numbers.
fn doubled_ranks(x: &[f64], y: &[f64]) -> Vec<usize> {
    let all = [x, y].concat();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].total_cmp(&all[*b]));
    let mut ranks = vec![0; all.len()];
    let mut before = 0;
    for group in order.chunk_by(|a, b| all[*a] == all[*b]) {
        for &index in group {
            ranks[index] = 2 * before + 1 + group.len();
        }
        before += group.len();
    }
    ranks
}

/// How many choices of `chosen` ranks have each sum.
struct Law {
    ways: Vec<f64>,
}

impl Law {
    fn of(ranks: &[usize], chosen: usize) -> Self {
        let total: usize = ranks.iter().sum();
        let mut ways = vec![vec![0.0; total + 1]; chosen + 1];
        ways[0][0] = 1.0;
        for &rank in ranks {
            for count in (0..chosen).rev() {
                for sum in 0..=total - rank {
                    ways[count + 1][sum + rank] += ways[count][sum];
                }
            }
        }
        Self { ways: ways.swap_remove(chosen) }
    }

    fn share(&self, counts: impl Fn(usize) -> bool) -> f64 {
        let hits: f64 =
            self.ways.iter().enumerate().filter(|(sum, _)| counts(*sum)).map(|(_, ways)| ways).sum();
        hits / self.ways.iter().sum::<f64>()
    }
}

/// P(U >= u) by the normal law.
fn normal_tail(u: f64, ranks: &[usize], of_x: usize) -> f64 {
    let (n, m) = (of_x as f64, (ranks.len() - of_x) as f64);
    let all = n + m;
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 =
        sorted.chunk_by(|a, b| a == b).map(|group| (group.len() as f64).powi(3) - group.len() as f64).sum();
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    normal::standard().cdf(-(u - n * m / 2.0 - 0.5) / variance.sqrt())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    // shared/statistics.md 3c, item 9.
    pub(crate) const H: [f64; 8] = [0.101, 0.112, 0.098, 0.120, 0.105, 0.099, 0.110, 0.131];
    pub(crate) const M: [f64; 8] = [0.142, 0.118, 0.160, 0.151, 0.127, 0.149, 0.108, 0.170];

    #[test]
    fn u_and_p_equal_those_of_scipy() {
        // shared/data/statistics-vectors.json: `mwu`, one-sided.
        let seen = mann_whitney(&M, &H, Sides::Greater).unwrap();
        assert_eq!(seen.u, 57.0);
        assert!((seen.p - 0.003_496_503_496_503_496_5).abs() < 1e-15, "{seen:?}");
        assert!((mann_whitney(&M, &H, Sides::Two).unwrap().p - 0.006_993_006_993_006_993).abs() < 1e-15);
    }

    #[test]
    fn ties_are_counted_over_all_divisions() {
        // Enumerated: 126 divisions of 1 2 2 3 5 | 0 1 2 2.
        let (x, y) = ([1.0, 2.0, 2.0, 3.0, 5.0], [0.0, 1.0, 2.0, 2.0]);
        let p = |sides| mann_whitney(&x, &y, sides).unwrap().p;
        assert!((p(Sides::Greater) - 17.0 / 126.0).abs() < 1e-15, "{}", p(Sides::Greater));
        assert!((p(Sides::Less) - 121.0 / 126.0).abs() < 1e-15);
        assert_eq!(mann_whitney(&[1.0; 3], &[1.0; 4], Sides::Two).unwrap(), RankSum { u: 6.0, p: 1.0 });
        assert_eq!(mann_whitney(&[1.0; 90], &[1.0; 90], Sides::Two).unwrap().p, 1.0);
    }

    #[test]
    fn exact_and_normal_laws_meet_where_one_takes_over() {
        let x: Vec<f64> = (0..50).map(|i| f64::from(i * 7 % 50) + 6.3).collect();
        let y: Vec<f64> = (0..50).map(f64::from).collect();
        let exact = mann_whitney(&x, &y, Sides::Greater).unwrap();
        let normal = normal_tail(exact.u, &doubled_ranks(&x, &y), 50);
        assert!((exact.p - normal).abs() < 0.001, "{exact:?} {normal}");
    }

    #[test]
    fn nothing_to_compare_is_refused() {
        assert!(mann_whitney(&[], &H, Sides::Two).is_err());
        assert!(mann_whitney(&[f64::NAN], &H, Sides::Two).is_err());
    }

    proptest! {
        #[test]
        fn only_order_matters_and_swapping_samples_swaps_sides(
            x in prop::collection::vec(-9..9i32, 1..9), y in prop::collection::vec(-9..9i32, 1..9),
        ) {
            let raw = |x: &[i32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
            let bent = |x: &[i32]| x.iter().map(|x| f64::from(*x).exp()).collect::<Vec<_>>();
            let seen = mann_whitney(&raw(&x), &raw(&y), Sides::Greater).unwrap();
            prop_assert_eq!(seen, mann_whitney(&bent(&x), &bent(&y), Sides::Greater).unwrap());
            let swapped = mann_whitney(&raw(&y), &raw(&x), Sides::Less).unwrap();
            prop_assert!((seen.p - swapped.p).abs() < 1e-12);
            prop_assert_eq!(seen.u + swapped.u, (x.len() * y.len()) as f64);
        }
    }
}
