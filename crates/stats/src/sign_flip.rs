//! The sign-flip test of paired differences: under the null hypothesis each block's difference could as well have
//! had the other sign, so all sign patterns are equally likely. It assumes nothing about the differences' shape.

use crate::StatsError;
use crate::error::{check_finite, check_size};

/// Up to here all sign patterns are counted; beyond, they are drawn.
const EXACT_LIMIT: usize = 40;

/// Sums within this share of the total absolute difference of the observed one count as equal to it, so that
/// rounding in the last digit never decides a p-value.
const TIE_TOLERANCE: f64 = 1e-12;

/// Which deviations count against the null hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// In both directions.
    Two,
    /// Differences above zero.
    Greater,
    /// Differences below zero.
    Less,
}

/// How a p-value was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestMethod {
    /// From all `2^n` sign patterns.
    Exact,
    /// From this many random sign patterns, the observed one added.
    MonteCarlo {
        /// Patterns drawn.
        draws: u64,
    },
}

/// Chance for the case that there are too many patterns to count: how many to draw, and 64 random bits at a time.
pub struct Draws<'a> {
    /// Patterns to draw.
    pub count: u64,
    /// The source.
    pub bits: &'a mut dyn FnMut() -> u64,
}

/// Result of a sign-flip test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignFlip {
    /// Mean difference.
    pub mean: f64,
    /// The p-value. The smallest possible two-sided one is `2 / 2^n`.
    pub p: f64,
    /// How it was found.
    pub method: TestMethod,
}

/// Tests whether paired differences are symmetric about zero, with the mean as statistic. Exact up to 40
/// differences (the sums of two halves are sorted and joined); beyond that `(hits + 1) / (draws + 1)` over random
/// patterns.
///
/// # Errors
/// When there is no difference or one is not finite.
pub fn sign_flip(differences: &[f64], sides: Sides, draws: Draws<'_>) -> Result<SignFlip, StatsError> {
    check_finite(differences)?;
    check_size("a sign-flip test", differences.len(), 1)?;
    let sum: f64 = differences.iter().sum();
    let tolerance = TIE_TOLERANCE * differences.iter().map(|d| d.abs()).sum::<f64>();
    let observed = match sides {
        Sides::Two => sum.abs(),
        Sides::Greater => sum,
        Sides::Less => -sum,
    };
    // The distribution is symmetric, so one tail is enough; a pattern is in both tails only when all of them are.
    let both = if sides == Sides::Two { 2.0 } else { 1.0 };
    let (tail, method) = if differences.len() <= EXACT_LIMIT {
        (exact_tail(differences, observed - tolerance), TestMethod::Exact)
    } else {
        let count = draws.count;
        (drawn_tail(differences, observed - tolerance, draws), TestMethod::MonteCarlo { draws: count })
    };
    let p = if sides == Sides::Two && observed <= tolerance { 1.0 } else { (both * tail).min(1.0) };
    Ok(SignFlip { mean: sum / differences.len() as f64, p, method })
}

/// Share of all sign patterns whose sum is at least `bound`.
fn exact_tail(differences: &[f64], bound: f64) -> f64 {
    let (left, right) = differences.split_at(differences.len() / 2);
    let (left, right) = (signed_sums(left), signed_sums(right));
    // Ascending left sums need descending partners: walk the right list from its end.
    let (mut partners, mut hits) = (right.len(), 0u64);
    for sum in &left {
        while partners > 0 && sum + right[partners - 1] >= bound {
            partners -= 1;
        }
        hits += (right.len() - partners) as u64;
    }
    hits as f64 / 2f64.powi(differences.len() as i32)
}

/// The `2^n` signed sums of a list, ascending.
fn signed_sums(differences: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for d in differences {
        sums = sums.iter().flat_map(|sum| [sum + d, sum - d]).collect();
    }
    sums.sort_by(f64::total_cmp);
    sums
}

fn drawn_tail(differences: &[f64], bound: f64, draws: Draws<'_>) -> f64 {
    let mut hits = 0u64;
    for _ in 0..draws.count {
        let mut sum = 0.0;
        for chunk in differences.chunks(64) {
            let signs = (draws.bits)();
            sum += chunk
                .iter()
                .enumerate()
                .fold(0.0, |sum, (i, d)| if signs >> i & 1 == 1 { sum + d } else { sum - d });
        }
        hits += u64::from(sum >= bound);
    }
    (hits + 1) as f64 / (draws.count + 1) as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::signed_rank::tests::differences;
    use proptest::prelude::*;

    /// A splitmix64 sequence: chance for tests.
    pub(crate) fn bits(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }

    pub(crate) fn test(d: &[f64], sides: Sides) -> SignFlip {
        sign_flip(d, sides, Draws { count: 20_000, bits: &mut bits(5) }).unwrap()
    }

    /// All patterns one by one, as the definition says.
    fn by_definition(d: &[f64], sides: Sides) -> f64 {
        let observed: f64 = d.iter().sum();
        let tolerance = TIE_TOLERANCE * d.iter().map(|d| d.abs()).sum::<f64>();
        let counts = |sum: f64| match sides {
            Sides::Two => sum.abs() >= observed.abs() - tolerance,
            Sides::Greater => sum >= observed - tolerance,
            Sides::Less => sum <= observed + tolerance,
        };
        let hits = (0u64..1 << d.len())
            .filter(|signs| {
                counts(d.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { *d } else { -d }).sum())
            })
            .count();
        hits as f64 / 2f64.powi(d.len() as i32)
    }

    #[test]
    fn mean_and_p_equal_those_of_scipy() {
        // shared/data/statistics-vectors.json: `signflip_perm`.
        let two = test(&differences(), Sides::Two);
        assert!((two.mean - 29.1875).abs() < 1e-9 && two.method == TestMethod::Exact, "{two:?}");
        assert_eq!(two.p, 0.007_812_5);
        assert_eq!(test(&differences(), Sides::Greater).p, 0.003_906_25);
        assert_eq!(test(&differences(), Sides::Less).p, 1.0);
    }

    #[test]
    fn five_blocks_can_never_reach_five_percent() {
        assert_eq!(test(&[9.0, 8.0, 7.0, 6.0, 5.0], Sides::Two).p, 0.0625);
        assert_eq!(test(&[9.0, 8.0, 7.0, 6.0, 5.0, 4.0], Sides::Two).p, 0.031_25);
    }

    #[test]
    fn no_difference_at_all_is_no_evidence() {
        assert_eq!(test(&[0.0; 8], Sides::Two).p, 1.0);
        assert_eq!(test(&[1.0, -1.0], Sides::Two).p, 1.0);
        assert_eq!(test(&[0.1, 0.2, -0.3], Sides::Two).p, 1.0, "rounding must not decide");
    }

    #[test]
    fn forty_one_blocks_are_drawn_and_agree_with_forty() {
        let mut next = bits(3);
        let mut d: Vec<f64> = (0..40).map(|_| (next() >> 11) as f64 / (1u64 << 53) as f64 - 0.4).collect();
        let exact = test(&d, Sides::Two);
        d.push(0.0);
        let drawn = test(&d, Sides::Two);
        assert_eq!(
            (exact.method, drawn.method),
            (TestMethod::Exact, TestMethod::MonteCarlo { draws: 20_000 })
        );
        // The 41st difference is zero, so the true p is the same; 4 standard errors of 20,000 draws.
        assert!(
            (exact.p - drawn.p).abs() < 4.0 * (exact.p * (1.0 - exact.p) / 20_000.0).sqrt(),
            "{exact:?} {drawn:?}"
        );
    }

    #[test]
    fn without_an_effect_it_rejects_as_rarely_as_it_says() {
        let mut next = bits(17);
        let mut unit = || (next() >> 11) as f64 / (1u64 << 53) as f64;
        let trials = 4000;
        let rejected = (0..trials)
            .filter(|_| {
                // Symmetric with unequal spread per block: what normal theory does not cover.
                let d: Vec<f64> = (1..=8).map(|scale| (unit() - 0.5) * f64::from(scale)).collect();
                test(&d, Sides::Two).p <= 0.05
            })
            .count() as f64;
        // 12 of 256 patterns have p <= 0.05: the exact size is 0.046875.
        let (size, share) = (12.0 / 256.0, rejected / f64::from(trials));
        assert!((share - size).abs() < 4.0 * (size * (1.0 - size) / f64::from(trials)).sqrt(), "{share}");
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        let mut chance = bits(1);
        assert!(sign_flip(&[], Sides::Two, Draws { count: 1, bits: &mut chance }).is_err());
        assert!(sign_flip(&[f64::NAN], Sides::Two, Draws { count: 1, bits: &mut chance }).is_err());
    }

    proptest! {
        #[test]
        fn joined_halves_count_what_the_definition_counts(d in prop::collection::vec(-3i8..=3, 1..11)) {
            let d: Vec<f64> = d.into_iter().map(|d| f64::from(d) * 0.1).collect();
            for sides in [Sides::Two, Sides::Greater, Sides::Less] {
                prop_assert_eq!(test(&d, sides).p, by_definition(&d, sides));
            }
        }
    }
}
