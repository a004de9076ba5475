//! Do two samples come from one distribution? Smirnov's test, exact.

use crate::error::{check_finite, check_limit, check_size};
use crate::{Sides, StatsError};

/// The lattice has this many points at most: about a second.
const LATTICE_LIMIT: usize = 100_000_000;

/// A two-sample Kolmogorov-Smirnov test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KsTwoSample {
    /// Greatest distance between the two distribution functions, on the side asked for.
    pub distance: f64,
    /// The exact p-value.
    pub p: f64,
}

/// Smirnov's test (1939) over all ways to divide the observations into two samples, counted as paths through a lattice
/// (Hodges 1958, "The significance probability of the Smirnov two-sample test"). With ties only whole groups of equal
/// observations are looked at, which keeps p exact. [`Sides::Greater`]: the first sample's distribution function lies
/// above the second's, so that its observations are smaller. For independent observations: runs, not requests.
///
/// # Errors
/// When a sample is empty, an observation is not finite, or the sizes multiply to more than 1e8.
pub fn kolmogorov_smirnov_two_sample(x: &[f64], y: &[f64], sides: Sides) -> Result<KsTwoSample, StatsError> {
    check_finite(x)?;
    check_finite(y)?;
    check_size("a two-sample Kolmogorov-Smirnov test", x.len().min(y.len()), 1)?;
    let points = x.len().saturating_mul(y.len());
    check_limit("an exact two-sample Kolmogorov-Smirnov test (counted in pairs)", points, LATTICE_LIMIT)?;
    // Distances as whole numbers: i / n - j / m times n m.
    let apart = |i: usize, j: usize| {
        let up = i as i64 * y.len() as i64 - j as i64 * x.len() as i64;
        match sides {
            Sides::Two => up.abs(),
            Sides::Greater => up,
            Sides::Less => -up,
        }
    };
    let ends = group_ends(x, y);
    let distance = ends.iter().map(|(i, j)| apart(*i, *j)).max().unwrap_or(0).max(0);
    let mut is_end = vec![false; x.len() + y.len() + 1];
    for (i, j) in ends {
        is_end[i + j] = true;
    }
    let p = paths_that_reach(x.len(), y.len(), |i, j| is_end[i + j] && apart(i, j) >= distance);
    Ok(KsTwoSample { distance: distance as f64 / points as f64, p })
}

/// Share of all paths from (0, 0) to (n, m), in steps of one, that pass a point for which `reached` holds.
fn paths_that_reach(n: usize, m: usize, reached: impl Fn(usize, usize) -> bool) -> f64 {
    // The share of paths to (i, j), row by row: i of i + j paths come from below.
    let mut row = vec![0.0; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            let from_below = if i > 0 { row[j] * i as f64 } else { 0.0 };
            let from_left = if j > 0 { row[j - 1] * j as f64 } else { 0.0 };
            row[j] = if reached(i, j) { 1.0 } else { (from_below + from_left) / (i + j).max(1) as f64 };
        }
    }
    row[m]
}

/// After each group of equal observations of both samples, how many of each there were.
fn group_ends(x: &[f64], y: &[f64]) -> Vec<(usize, usize)> {
    let mut all: Vec<(f64, bool)> =
        x.iter().map(|x| (*x, true)).chain(y.iter().map(|y| (*y, false))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut i, mut j) = (0, 0);
    all.chunk_by(|a, b| a.0 == b.0)
        .map(|group| {
            let of_x = group.iter().filter(|(_, of_x)| *of_x).count();
            (i, j) = (i + of_x, j + group.len() - of_x);
            (i, j)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_sum::tests::{H, M};
    use proptest::prelude::*;

    fn test(x: &[f64], y: &[f64], sides: Sides) -> KsTwoSample {
        kolmogorov_smirnov_two_sample(x, y, sides).unwrap()
    }

    #[test]
    fn distance_and_p_equal_those_of_scipy() {
        // shared/data/statistics-vectors.json: `ks_2samp_two`, `ks_2samp_greater`.
        let two = test(&H, &M, Sides::Two);
        assert!(two.distance == 0.625 && (two.p - 0.087_024_087_024_087_01).abs() < 1e-15, "{two:?}");
        let greater = test(&H, &M, Sides::Greater);
        assert!((greater.p - 0.043_512_043_512_043_505).abs() < 1e-15, "{greater:?}");
        assert_eq!(test(&H, &M, Sides::Less), KsTwoSample { distance: 0.0, p: 1.0 });
    }

    #[test]
    fn ties_are_counted_over_all_divisions() {
        // Enumerated: 462 divisions of 1 2 2 3 5 6 | 0 1 2 2 0; distance 0.5 on one side.
        let (x, y) = ([1.0, 2.0, 2.0, 3.0, 5.0, 6.0], [0.0, 1.0, 2.0, 2.0, 0.0]);
        assert!((test(&x, &y, Sides::Two).p - 102.0 / 462.0).abs() < 1e-14);
        assert!((test(&x, &y, Sides::Less).p - 59.0 / 462.0).abs() < 1e-14);
        assert_eq!(test(&[2.0; 3], &[2.0; 4], Sides::Two), KsTwoSample { distance: 0.0, p: 1.0 });
    }

    #[test]
    fn separate_samples_have_the_least_p() {
        let seen = test(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], Sides::Two);
        assert!(seen.distance == 1.0 && (seen.p - 2.0 / 70.0).abs() < 1e-15);
    }

    #[test]
    fn nothing_and_far_too_much_are_refused() {
        assert!(kolmogorov_smirnov_two_sample(&[], &H, Sides::Two).is_err());
        assert!(kolmogorov_smirnov_two_sample(&[f64::NAN], &H, Sides::Two).is_err());
        let many = vec![0.0; 10_001];
        assert!(matches!(
            kolmogorov_smirnov_two_sample(&many, &many, Sides::Two),
            Err(StatsError::TooMany { .. })
        ));
    }

    proptest! {
        #[test]
        fn only_order_matters_and_swapping_samples_swaps_sides(
            x in prop::collection::vec(-9..9i32, 1..12), y in prop::collection::vec(-9..9i32, 1..12),
        ) {
            let raw = |x: &[i32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
            let bent = |x: &[i32]| x.iter().map(|x| f64::from(*x).exp()).collect::<Vec<_>>();
            let seen = test(&raw(&x), &raw(&y), Sides::Greater);
            prop_assert_eq!(seen, test(&bent(&x), &bent(&y), Sides::Greater));
            let swapped = test(&raw(&y), &raw(&x), Sides::Less);
            prop_assert!((seen.p - swapped.p).abs() < 1e-12 && seen.distance == swapped.distance);
            let two = test(&raw(&x), &raw(&y), Sides::Two);
            prop_assert!(seen.distance <= two.distance && two.p <= 1.0 + 1e-12);
        }
    }
}
