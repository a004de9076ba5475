//! Wilcoxon's signed-rank test, the Hodges-Lehmann estimate, and the interval that inverts the one to bound the other.

use crate::error::{check_finite, check_level, check_limit, check_size};
use crate::{Interval, Sides, StatsError, normal};
use statrs::distribution::ContinuousCDF;

/// The exact distribution costs n cubed: 500 differences take under a second, and no experiment has as many blocks.
const DISTRIBUTION_LIMIT: usize = 500;

/// Walsh averages cost n squared in memory.
const WALSH_LIMIT: usize = 5_000;

/// Result of an exact signed-rank test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// Sum of the ranks of positive differences.
    pub positive: f64,
    /// Sum of the ranks of negative differences.
    pub negative: f64,
    /// Differences that are not zero.
    pub n: usize,
    /// The p-value.
    pub p: f64,
}

/// Wilcoxon's signed-rank test with the exact null distribution. Zero differences are left out and ties share their
/// mean rank; the distribution is that of the ranks at hand, so p stays exact under ties.
///
/// # Errors
/// When no difference is other than zero, one is not finite, or there are more than 500.
pub fn wilcoxon(differences: &[f64], sides: Sides) -> Result<SignedRank, StatsError> {
    check_finite(differences)?;
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    check_size("a signed-rank test", nonzero.len(), 1)?;
    check_limit("the exact signed-rank distribution", nonzero.len(), DISTRIBUTION_LIMIT)?;
    nonzero.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_ranks(&nonzero);
    let total: usize = ranks.iter().sum();
    let positive: usize = ranks.iter().zip(&nonzero).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let law = distribution(&ranks);
    let above: f64 = law[positive..].iter().sum();
    let below: f64 = law[..=positive].iter().sum();
    let p = match sides {
        Sides::Two => (2.0 * above.min(below)).min(1.0),
        Sides::Greater => above,
        Sides::Less => below,
    };
    let half = |doubled: usize| doubled as f64 / 2.0;
    Ok(SignedRank { positive: half(positive), negative: half(total - positive), n: nonzero.len(), p })
}

/// The normal approximation to the two-sided p of [`wilcoxon`], with the variance for ties and a continuity correction:
/// for more than 500 differences, and for comparison with what others report.
///
/// # Errors
/// When no difference is other than zero or one is not finite.
pub fn wilcoxon_normal(differences: &[f64]) -> Result<f64, StatsError> {
    check_finite(differences)?;
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    check_size("a signed-rank test", nonzero.len(), 1)?;
    nonzero.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks: Vec<f64> = doubled_ranks(&nonzero).into_iter().map(|rank| rank as f64 / 2.0).collect();
    let positive: f64 = ranks.iter().zip(&nonzero).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let mean = ranks.iter().sum::<f64>() / 2.0;
    let deviation = (ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0).sqrt();
    let z = ((positive - mean).abs() - 0.5).max(0.0) / deviation;
    Ok(2.0 * normal::standard().cdf(-z))
}

/// Twice the ranks of values ascending by magnitude, ties at their mean rank: whole numbers.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let first = ranks.len() + 1;
        let last = ranks.len() + group.len();
        ranks.extend(std::iter::repeat_n(first + last, group.len()));
    }
    ranks
}

/// Probability of each sum of a random subset of `weights`.
fn distribution(weights: &[usize]) -> Vec<f64> {
    let mut law = vec![1.0];
    for &weight in weights {
        let mut next = vec![0.0; law.len() + weight];
        for (sum, p) in law.iter().enumerate() {
            next[sum] += 0.5 * p;
            next[sum + weight] += 0.5 * p;
        }
        law = next;
    }
    law
}

/// The Hodges-Lehmann estimate of the centre: the median of all averages of two differences, each with itself too.
///
/// # Errors
/// When there is no difference, one is not finite, or there are more than 5,000.
pub fn hodges_lehmann(differences: &[f64]) -> Result<f64, StatsError> {
    let averages = walsh_averages(differences)?;
    let middle = averages.len() / 2;
    Ok(if averages.len() % 2 == 1 {
        averages[middle]
    } else {
        0.5 * (averages[middle - 1] + averages[middle])
    })
}

/// The exact interval around [`hodges_lehmann`]: all centres that the signed-rank test does not reject. Its ends are
/// Walsh averages; the level is the one that it really has, at least `confidence`. Ties make it wider than it need be.
///
/// # Errors
/// `NotEstimable` when no interval of this confidence exists: below six differences at 0.95. Else as
/// [`hodges_lehmann`], with a limit of 500.
pub fn hodges_lehmann_interval(differences: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_level("confidence", confidence)?;
    let n = differences.len();
    check_size("an interval of this confidence", n, floor(confidence))?;
    check_limit("the exact signed-rank distribution", n, DISTRIBUTION_LIMIT)?;
    let averages = walsh_averages(differences)?;
    let law = distribution(&(1..=n).collect::<Vec<_>>());
    // Leave out as many averages at each end as the two tails allow.
    let (mut out, mut tail) = (0, law[0]);
    while 2.0 * (tail + law[out + 1]) <= 1.0 - confidence {
        out += 1;
        tail += law[out];
    }
    Ok(Interval { low: averages[out], high: averages[averages.len() - 1 - out], level: 1.0 - 2.0 * tail })
}

/// The fewest differences that can bound a centre with this confidence: `2 / 2^n <= 1 - confidence`.
fn floor(confidence: f64) -> usize {
    let mut n = 1;
    while 2.0 * 0.5f64.powi(n) > 1.0 - confidence {
        n += 1;
    }
    n as usize
}

/// Averages of all pairs, ascending.
fn walsh_averages(differences: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_finite(differences)?;
    check_size("a centre", differences.len(), 1)?;
    check_limit("the Hodges-Lehmann estimate", differences.len(), WALSH_LIMIT)?;
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (i, a) in differences.iter().enumerate() {
        averages.extend(differences[i..].iter().map(|b| 0.5 * a + 0.5 * b));
    }
    averages.sort_by(f64::total_cmp);
    Ok(averages)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sign_flip::tests::bits;
    use proptest::prelude::*;

    // shared/statistics.md 3c: the paired sample of items 1, 2 and 10.
    pub(crate) const A: [f64; 8] = [412.1, 398.7, 455.0, 401.3, 430.9, 389.4, 444.2, 420.6];
    pub(crate) const B: [f64; 8] = [377.9, 371.2, 401.5, 395.8, 402.0, 380.3, 399.9, 390.1];
    // The same, item 3.
    const DARWIN: [f64; 15] =
        [6.0, 8.0, 14.0, 16.0, 23.0, 24.0, 28.0, 29.0, 41.0, -48.0, 49.0, 56.0, 60.0, -67.0, 75.0];

    pub(crate) fn differences() -> Vec<f64> {
        A.iter().zip(B).map(|(a, b)| a - b).collect()
    }

    #[test]
    fn exact_p_equals_that_of_scipy() {
        // shared/data/statistics-vectors.json: `wilcoxon_exact_two-sided`, `wilcoxon_exact_greater`, `paired_wilcoxon`.
        let two = wilcoxon(&DARWIN, Sides::Two).unwrap();
        assert_eq!((two.positive, two.negative, two.p), (96.0, 24.0, 0.041_259_765_625));
        assert_eq!(wilcoxon(&DARWIN, Sides::Greater).unwrap().p, 0.020_629_882_812_5);
        let paired = wilcoxon(&differences(), Sides::Two).unwrap();
        assert_eq!((paired.negative, paired.p), (0.0, 0.007_812_5));
    }

    #[test]
    fn the_normal_p_equals_that_of_scipy() {
        // shared/data/statistics-vectors.json: `wilcoxon_approx_cc`; with ties, scipy 1.17.1.
        assert!((wilcoxon_normal(&DARWIN).unwrap() - 0.043_772_323_763_041_174).abs() < 1e-10);
        let ties = [1.0, 1.0, 2.0, 2.0, 2.0, -3.0, 4.0, -4.0, 5.0, 6.0, -1.0, 7.0];
        assert!((wilcoxon_normal(&ties).unwrap() - 0.098_308_932_340_515_35).abs() < 1e-10);
        assert_eq!(wilcoxon_normal(&[1.0, -1.0]), Ok(1.0));
        assert!(wilcoxon_normal(&[0.0]).is_err());
    }

    #[test]
    fn ties_share_a_rank_and_zeros_are_left_out() {
        // Magnitudes 1, 1, 3: ranks 1.5, 1.5, 3. Sums of positive ranks at or above 4.5: 4.5 twice and 6, of 8 patterns.
        let seen = wilcoxon(&[1.0, 0.0, -1.0, 3.0], Sides::Greater).unwrap();
        assert_eq!(seen, SignedRank { positive: 4.5, negative: 1.5, n: 3, p: 3.0 / 8.0 });
        assert!(wilcoxon(&[0.0, 0.0], Sides::Two).is_err());
    }

    #[test]
    fn the_centre_equals_the_reference_value() {
        // shared/data/statistics-vectors.json: `hodges_lehmann`.
        assert!((hodges_lehmann(&differences()).unwrap() - 29.6).abs() < 1e-9);
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 6.0]).unwrap(), 2.75);
    }

    #[test]
    fn the_interval_is_the_tabled_one() {
        // n = 8: two-sided 5 % critical value 3 (tables), so the 4th Walsh average from each end; 1 - 2 * 5/256.
        let d = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let seen = hodges_lehmann_interval(&d, 0.95).unwrap();
        // Walsh averages ascend 1, 1.5, 2, 2, 2.5, ...
        assert_eq!(seen, Interval { low: 2.0, high: 7.0, level: 1.0 - 10.0 / 256.0 });
        let six = hodges_lehmann_interval(&d[..6], 0.95).unwrap();
        assert_eq!(six, Interval { low: 1.0, high: 6.0, level: 0.968_75 });
    }

    #[test]
    fn below_six_blocks_there_is_no_interval_at_95_percent() {
        let error = hodges_lehmann_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap_err();
        assert!(matches!(error, StatsError::NotEstimable { have: 5, needed: 6, .. }), "{error}");
        assert!(hodges_lehmann_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9).is_ok());
        assert!(hodges_lehmann_interval(&[f64::NAN; 6], 0.95).is_err());
    }

    #[test]
    fn the_interval_covers_at_least_as_often_as_it_says() {
        let mut next = bits(23);
        let mut unit = || (next() >> 11) as f64 / (1u64 << 53) as f64;
        let trials = 3000;
        let mut level = 0.0;
        let covered = (0..trials)
            .filter(|_| {
                // A sum of three uniforms about a centre of 0.3.
                let d: Vec<f64> = (0..9).map(|_| 0.3 + unit() + unit() + unit() - 1.5).collect();
                let seen = hodges_lehmann_interval(&d, 0.95).unwrap();
                level = seen.level;
                seen.contains(0.3)
            })
            .count() as f64;
        let share = covered / f64::from(trials);
        assert!(
            (share - level).abs() < 4.0 * (level * (1.0 - level) / f64::from(trials)).sqrt(),
            "{share} {level}"
        );
    }

    proptest! {
        #[test]
        fn centre_and_interval_move_and_stretch_with_the_sample_and_forget_its_order(
            d in prop::collection::vec(-1e3..1e3f64, 6..15), shift in -100.0..100.0f64, scale in 0.1..10.0f64,
        ) {
            let moved = |x: f64| x * scale + shift;
            let other: Vec<f64> = d.iter().rev().map(|d| moved(*d)).collect();
            prop_assert!((moved(hodges_lehmann(&d).unwrap()) - hodges_lehmann(&other).unwrap()).abs() < 1e-7);
            let (a, b) =
                (hodges_lehmann_interval(&d, 0.9).unwrap().map(moved), hodges_lehmann_interval(&other, 0.9).unwrap());
            prop_assert!((a.low - b.low).abs() < 1e-7 && (a.high - b.high).abs() < 1e-7 && a.level == b.level);
        }

        #[test]
        fn interval_and_test_agree(d in prop::collection::vec(-100..100i32, 6..12)) {
            // Distinct magnitudes, no zero: then inversion is exact.
            let d: Vec<f64> = d.iter().enumerate().map(|(i, d)| f64::from(*d) + 0.01 * (i + 1) as f64).collect();
            let interval = hodges_lehmann_interval(&d, 0.95).unwrap();
            let centre = hodges_lehmann(&d).unwrap();
            prop_assert!(interval.contains(centre) && interval.level >= 0.95);
            let rejected = wilcoxon(&d, Sides::Two).unwrap().p <= 0.05;
            let magnitudes: std::collections::BTreeSet<i64> = d.iter().map(|d| (d.abs() * 1e6).round() as i64).collect();
            if magnitudes.len() == d.len() {
                prop_assert_eq!(rejected, !interval.contains(0.0));
            }
        }
    }
}
