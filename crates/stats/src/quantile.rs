//! Quantiles, how sure they are, and when there is none to give.

use crate::StatsError;
use crate::error::{BETA_LIMIT, check_level, check_limit, check_size};
use statrs::distribution::{Binomial, DiscreteCDF};

/// A distribution-free interval of a quantile between two order statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileInterval {
    /// Rank of the lower end from 1; 0: the sample bounds the quantile from below only by minus infinity.
    pub low: usize,
    /// Rank of the upper end from 1; `n + 1`: there is no finite upper bound.
    pub high: usize,
    /// Probability that the interval covers the quantile (of a continuous distribution, independent observations).
    pub coverage: f64,
}

/// The quantile as an observation: the smallest value with at least a share `q` of the sample at or below it
/// (`inverted_cdf`, Hyndman and Fan type 1). `None` for an empty sample.
///
/// # Panics
/// When `q` is not in 0 to 1.
#[must_use]
pub fn quantile_inverted(sorted: &[f64], q: f64) -> Option<f64> {
    inverted_rank(sorted.len(), q).map(|rank| sorted[rank])
}

/// The rank, from 0, of the observation that [`quantile_inverted`] gives among `n`. `None` among none.
///
/// # Panics
/// When `q` is not in 0 to 1.
#[must_use]
pub fn inverted_rank(n: usize, q: f64) -> Option<usize> {
    assert!((0.0..=1.0).contains(&q), "a quantile is asked for at a share from 0 to 1, not {q}");
    // n * q may come out a hair above a whole number (100 * 0.07 = 7.000000000000001), which would skip a rank.
    let rank = (n as f64 * q * (1.0 - 1e-14)).ceil() as usize;
    Some(rank.clamp(1, n.max(1)) - 1).filter(|rank| *rank < n)
}

/// The quantile with linear interpolation between observations (Hyndman and Fan type 7). `None` for an empty sample.
///
/// # Panics
/// When `q` is not in 0 to 1.
#[must_use]
pub fn quantile_linear(sorted: &[f64], q: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "a quantile is asked for at a share from 0 to 1, not {q}");
    let last = sorted.len().checked_sub(1)?;
    let at = last as f64 * q;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64))
}

/// Rules that place the k-th of n observations at the share `(k - a) / (n + 1 - 2 a)` and are linear between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// a = 0: `k / (n + 1)` (type 6).
    Weibull,
    /// a = 1/2: `(k - 1/2) / n` (type 5).
    Hazen,
    /// a = 1/3 (type 8): about median-unbiased for every law; Hyndman and Fan's own advice.
    MedianUnbiased,
}

/// The quantile by one of the other rules of Hyndman and Fan (1996, "Sample quantiles in statistical packages"), for
/// numbers that others computed with them. Beyond the outermost observation it is that observation. `None` for an empty
/// sample.
///
/// # Panics
/// When `q` is not in 0 to 1.
#[must_use]
pub fn quantile_placed(sorted: &[f64], q: f64, placement: Placement) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "a quantile is asked for at a share from 0 to 1, not {q}");
    let last = sorted.len().checked_sub(1)?;
    let a = match placement {
        Placement::Weibull => 0.0,
        Placement::Hazen => 0.5,
        Placement::MedianUnbiased => 1.0 / 3.0,
    };
    let at = (q * (sorted.len() as f64 + 1.0 - 2.0 * a) + a - 1.0).clamp(0.0, last as f64);
    let below = at.floor() as usize;
    Some(sorted[below] + (sorted[(below + 1).min(last)] - sorted[below]) * (at - below as f64))
}

/// The least sample in which some observation bounds the `q` quantile from above with this one-sided confidence:
/// the smallest n with `1 - q^n >= confidence`. 299 for p99 at 0.95, 2,995 for p99.9.
///
/// # Errors
/// When `q` or `confidence` is not between 0 and 1.
pub fn samples_needed(q: f64, confidence: f64) -> Result<usize, StatsError> {
    check_level("q", q)?;
    check_level("confidence", confidence)?;
    let mut n = ((1.0 - confidence).ln() / q.ln()).floor().max(1.0) as usize;
    while q.powf(n as f64) > 1.0 - confidence {
        n += 1;
    }
    Ok(n)
}

/// Ranks between which the `q` quantile lies with at least this confidence, from the binomial distribution of the
/// number of observations below it, equal tails.
///
/// # Errors
/// When the sample is empty or has more than 20 million observations, or `q` or `confidence` is not between 0 and 1.
pub fn order_statistic_interval(n: usize, q: f64, confidence: f64) -> Result<QuantileInterval, StatsError> {
    check_size("a quantile", n, 1)?;
    check_level("q", q)?;
    check_level("confidence", confidence)?;
    check_limit("an interval between order statistics", n, BETA_LIMIT)?;
    let below = Binomial::new(q, n as u64).expect("a share and a count make a binomial distribution");
    let tail = (1.0 - confidence) / 2.0;
    let low = lowest_reaching(&below, n, tail);
    let high = lowest_reaching(&below, n, 1.0 - tail) + 1;
    let missed_low = if low == 0 { 0.0 } else { below.cdf(low as u64 - 1) };
    Ok(QuantileInterval { low, high, coverage: below.cdf(high as u64 - 1) - missed_low })
}

/// The smallest k with P(X <= k) >= p.
fn lowest_reaching(law: &Binomial, n: usize, p: f64) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if law.cdf(middle as u64) >= p { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const Z: [f64; 12] = [5.0, 7.0, 9.0, 12.0, 15.0, 18.0, 22.0, 30.0, 41.0, 60.0, 85.0, 140.0];

    #[test]
    fn quantiles_equal_those_of_numpy() {
        // shared/data/statistics-vectors.json: `quantile_types_p99`.
        assert_eq!(quantile_inverted(&Z, 0.99), Some(140.0));
        assert!((quantile_linear(&Z, 0.99).unwrap() - 133.95).abs() < 1e-12);
        for placement in [Placement::Weibull, Placement::Hazen, Placement::MedianUnbiased] {
            assert_eq!(quantile_placed(&Z, 0.99, placement), Some(140.0), "{placement:?}");
            assert_eq!(quantile_placed(&[], 0.99, placement), None);
        }
        // By hand: ranks 13 * 0.3 = 3.9, 12 * 0.3 + 0.5 = 4.1, (37 * 0.3 + 1) / 3 = 12.1 / 3 of 12 observations.
        for (placement, expected) in [
            (Placement::Weibull, 9.0 + 0.9 * 3.0),
            (Placement::Hazen, 12.0 + 0.1 * 3.0),
            (Placement::MedianUnbiased, 12.0 + (12.1 / 3.0 - 4.0) * 3.0),
        ] {
            let seen = quantile_placed(&Z, 0.3, placement).unwrap();
            assert!((seen - expected).abs() < 1e-12, "{placement:?}: {seen}");
        }
        assert_eq!((quantile_inverted(&[], 0.5), quantile_linear(&[], 0.5)), (None, None));
        assert_eq!(quantile_linear(&[3.0], 0.99), Some(3.0));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for percent in 1..=100 {
            assert_eq!(quantile_inverted(&hundred, f64::from(percent) / 100.0), Some(f64::from(percent)));
        }
        assert_eq!(quantile_inverted(&hundred, 0.0), Some(1.0));
    }

    #[test]
    fn a_stall_that_a_closed_loop_hides_shows_in_latencies_from_due_time() {
        // shared/statistics.md 3a: 100 requests per second for 10 s, 1 ms of service, one stall of 1 s. From their due
        // time 100 requests wait for its end, 1000 ms, 990 ms, ...; a closed loop sends one and waits.
        let due: Vec<f64> =
            (0..1000).map(|i| if i < 900 { 1.0 } else { f64::from(i - 899) * 10.0 }).collect();
        for (q, expected) in [(0.9, 1.0), (0.95, 500.0), (0.99, 900.0), (0.999, 990.0)] {
            assert_eq!(quantile_inverted(&due, q), Some(expected), "q {q}");
        }
        let closed = [vec![1.0; 900], vec![1000.0]].concat();
        assert_eq!(quantile_inverted(&closed, 0.99), Some(1.0));
        assert_eq!(quantile_inverted(&closed, 0.999), Some(1000.0));
    }

    #[test]
    fn order_statistic_intervals_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `quantCI_*_95`.
        for (n, q, low, high, coverage) in [
            (1000, 0.99, 983, 997, 0.976_094_763_497_977),
            (200, 0.95, 184, 197, 0.967_152_163_856_725_6),
            (20, 0.5, 6, 15, 0.958_610_534_667_968_8),
            (100, 0.9, 84, 96, 0.955_690_107_191_223),
            (500, 0.99, 490, 500, 0.980_185_949_857_805_8),
            (10_000, 0.99, 9880, 9920, 0.955_754_682_806_565_2),
        ] {
            let seen = order_statistic_interval(n, q, 0.95).unwrap();
            assert_eq!((seen.low, seen.high), (low, high), "n {n}, q {q}");
            assert!((seen.coverage - coverage).abs() < 1e-9, "{seen:?}");
        }
    }

    #[test]
    fn ranks_of_large_samples_are_as_exact_as_those_of_small_ones() {
        // scipy 1.17.1, binom.ppf.
        for (n, q, low, high) in [
            (1_000_000, 0.5, 499_020, 500_981),
            (10_000_000, 0.5, 4_996_901, 5_003_100),
            (20_000_000, 0.5, 9_995_617, 10_004_384),
            (10_000_000, 0.9, 8_998_140, 9_001_860),
            (10_000_000, 0.99, 9_899_383, 9_900_617),
            (10_000_000, 0.999, 9_989_804, 9_990_196),
        ] {
            let seen = order_statistic_interval(n, q, 0.95).unwrap();
            assert_eq!((seen.low, seen.high), (low, high), "n {n}, q {q}");
        }
        assert!(matches!(order_statistic_interval(20_000_001, 0.5, 0.95), Err(StatsError::TooMany { .. })));
    }

    #[test]
    fn a_tail_needs_its_sample() {
        // shared/data/statistics-vectors.json: `min_n_upper_*_95`.
        for (q, n) in [(0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)] {
            assert_eq!(samples_needed(q, 0.95).unwrap(), n);
        }
        assert!(samples_needed(1.0, 0.95).is_err());
        let small = order_statistic_interval(100, 0.99, 0.95).unwrap();
        assert_eq!(small.high, 101, "no observation of 100 bounds the 99th percentile from above");
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        // Uniform samples of 40: the true 0.8 quantile is 0.8. A splitmix sequence is the source of chance.
        let wanted = order_statistic_interval(40, 0.8, 0.95).unwrap();
        let mut bits = crate::sign_flip::tests::bits(11);
        let trials = 4000;
        let covered = (0..trials)
            .filter(|_| {
                let mut x: Vec<f64> = (0..40).map(|_| (bits() >> 11) as f64 / (1u64 << 53) as f64).collect();
                x.sort_by(f64::total_cmp);
                x[wanted.low - 1] <= 0.8 && 0.8 < x[wanted.high - 1]
            })
            .count() as f64;
        let error = (wanted.coverage * (1.0 - wanted.coverage) / f64::from(trials)).sqrt();
        let share = covered / f64::from(trials);
        assert!((share - wanted.coverage).abs() < 4.0 * error, "{share} against {}", wanted.coverage);
    }

    proptest! {
        #[test]
        fn a_quantile_lies_within_the_sample_and_grows_with_its_share(
            mut x in prop::collection::vec(-1e6..1e6f64, 1..50), a in 0.0..1.0f64, b in 0.0..1.0f64,
        ) {
            x.sort_by(f64::total_cmp);
            let (a, b) = (a.min(b), a.max(b));
            for quantile in [quantile_inverted, quantile_linear] {
                let (low, high) = (quantile(&x, a).unwrap(), quantile(&x, b).unwrap());
                prop_assert!(low <= high && x[0] <= low && high <= x[x.len() - 1]);
            }
        }
    }
}
