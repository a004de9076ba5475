//! The bootstrap over blocks: percentile and bias-corrected accelerated (BCa) intervals of any statistic.
//!
//! A block is what is drawn again, never a request. Up to nine blocks or so there is no chance in it: all resamples
//! are counted (Fisher and Hall 1991, "Bootstrap algorithms for small samples"). Below twenty blocks the intervals
//! cover less often than they say (`docs/statistics.md` has the table); [`crate::hodges_lehmann_interval`] doesn't.

use crate::error::{check_finite, check_level, check_size};
use crate::{Draws, Interval, StatsError, TestMethod, normal};
use statrs::distribution::ContinuousCDF;

/// Up to this many distinct resamples all of them are counted: 24,310 for nine blocks, 92,378 for ten.
const EXACT_LIMIT: u64 = 50_000;

/// Fewer draws leave the 2.5 % tail to a handful of them (Efron and Tibshirani 1993, section 14.3).
const LEAST_DRAWS: u64 = 999;

/// The distribution of a statistic over resamples.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The statistic of the sample itself.
    pub estimate: f64,
    /// The acceleration, from leaving out one block at a time.
    pub acceleration: f64,
    /// Whether all resamples were counted or some drawn.
    pub method: TestMethod,
    /// Statistics of the resamples, ascending.
    values: Vec<f64>,
    /// How many resamples have this value or one before it.
    up_to: Vec<u64>,
}

/// A statistic that treats observations alike, such as a mean: it gets the strata joined, the observations of each in any
/// order, and for the acceleration one observation fewer.
pub type Statistic<'a> = &'a dyn Fn(&[f64]) -> f64;

impl Bootstrap {
    /// Resamples each stratum by itself (one stratum: the plain bootstrap). All resamples where there are few, else
    /// as many as `draws` says. Time: resamples x the statistic's.
    ///
    /// # Errors
    /// When there are fewer than two observations, an observation or a value of the statistic is not finite, all
    /// values are equal, or fewer than 999 draws are asked for where draws are needed.
    pub fn new(strata: &[&[f64]], statistic: Statistic<'_>, draws: Draws<'_>) -> Result<Self, StatsError> {
        let sample = strata.concat();
        check_finite(&sample)?;
        check_size("a bootstrap", sample.len(), 2)?;
        let (mut weighted, method) = if resamples(strata) <= EXACT_LIMIT {
            (every(strata, statistic), TestMethod::Exact)
        } else {
            let count = draws.count;
            if count < LEAST_DRAWS {
                let value = count as f64;
                return Err(StatsError::OutOfRange { name: "draws", value, range: "999 and up" });
            }
            (drawn(strata, statistic, draws), TestMethod::MonteCarlo { draws: count })
        };
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let values: Vec<f64> = weighted.iter().map(|(value, _)| *value).collect();
        check_finite(&values)?;
        if values.first() == values.last() {
            return Err(StatsError::NoSpread { have: sample.len() });
        }
        let mut sum = 0;
        let up_to = weighted.iter().map(|(_, weight)| {
            sum += weight;
            sum
        });
        let up_to = up_to.collect();
        let acceleration = acceleration(strata, statistic);
        Ok(Self { estimate: statistic(&sample), acceleration, method, values, up_to })
    }

    /// Standard deviation of the statistic over resamples.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let total = self.total() as f64;
        let mean = self.weighted().map(|(x, weight)| x * weight).sum::<f64>() / total;
        (self.weighted().map(|(x, weight)| (x - mean).powi(2) * weight).sum::<f64>() / total).sqrt()
    }

    /// The percentile interval (Efron 1981): what lies between the two tails, linear between resamples.
    ///
    /// # Errors
    /// When the level is not between 0 and 1.
    pub fn percentile(&self, level: f64) -> Result<Interval, StatsError> {
        check_level("level", level)?;
        let tail = 0.5 * (1.0 - level);
        Ok(Interval { low: self.quantile(tail), high: self.quantile(1.0 - tail), level })
    }

    /// Efron's bias-corrected accelerated interval (1987, "Better bootstrap confidence intervals"). Resamples equal
    /// to the estimate count half as below it.
    ///
    /// # Errors
    /// When the level is not between 0 and 1, all resamples lie on one side of the estimate, or the acceleration is
    /// so large that the correction has no meaning.
    pub fn bca(&self, level: f64) -> Result<Interval, StatsError> {
        let (low, high) = self.bca_shares(level)?;
        Ok(Interval { low: self.quantile(low), high: self.quantile(high), level })
    }

    /// The shares of resamples below the two ends of the BCa interval.
    fn bca_shares(&self, level: f64) -> Result<(f64, f64), StatsError> {
        check_level("level", level)?;
        let bias = self.bias()?;
        let share = |p: f64| {
            let z = bias + normal::standard().inverse_cdf(p);
            let scale = 1.0 - self.acceleration * z;
            if scale <= 0.0 {
                let (value, range) = (self.acceleration, "what leaves 1 - a z positive: use the percentile");
                return Err(StatsError::OutOfRange { name: "the acceleration", value, range });
            }
            Ok(normal::standard().cdf(bias + z / scale))
        };
        let tail = 0.5 * (1.0 - level);
        Ok((share(tail)?, share(1.0 - tail)?))
    }

    /// The normal quantile of the share of resamples below the estimate.
    fn bias(&self) -> Result<f64, StatsError> {
        // Sums of the same blocks in another order differ in the last digits.
        let tolerance = 1e-12 * self.estimate.abs().max(self.values[self.values.len() - 1] - self.values[0]);
        let count = |end: usize| if end == 0 { 0 } else { self.up_to[end - 1] };
        let below = count(self.values.partition_point(|x| *x < self.estimate - tolerance));
        let with_equal = count(self.values.partition_point(|x| *x <= self.estimate + tolerance));
        let value = 0.5 * (below + with_equal) as f64 / self.total() as f64;
        check_level("the share of resamples below the estimate", value)?;
        Ok(normal::standard().inverse_cdf(value))
    }

    /// The quantile of all resamples, linear between neighbours (Hyndman and Fan type 7).
    fn quantile(&self, share: f64) -> f64 {
        let at = (self.total() - 1) as f64 * share;
        let below = at.floor() as u64;
        let value = |rank: u64| self.values[self.up_to.partition_point(|up_to| *up_to <= rank)];
        let (low, high) = (value(below), value((below + 1).min(self.total() - 1)));
        low + (high - low) * (at - below as f64)
    }

    fn total(&self) -> u64 {
        self.up_to[self.up_to.len() - 1]
    }

    /// Values with the number of resamples that have them.
    fn weighted(&self) -> impl Iterator<Item = (f64, f64)> {
        let before = std::iter::once(&0).chain(&self.up_to);
        self.values
            .iter()
            .zip(&self.up_to)
            .zip(before)
            .map(|((x, up_to), before)| (*x, (up_to - before) as f64))
    }
}

/// Distinct resamples: `C(2n - 1, n)` per stratum; saturates.
fn resamples(strata: &[&[f64]]) -> u64 {
    let of_one = |n: u64| (1..n).fold(1u64, |found, k| found.saturating_mul(n + k) / k);
    strata.iter().fold(1, |found, stratum| found.saturating_mul(of_one(stratum.len() as u64)))
}

/// The statistic of every distinct resample with the number of ways to draw it.
fn every(strata: &[&[f64]], statistic: Statistic<'_>) -> Vec<(f64, u64)> {
    let mut found = Vec::new();
    let start = Choice { sample: Vec::new(), ways: 1 };
    choose(strata, start, &mut |choice| found.push((statistic(&choice.sample), choice.ways)));
    found
}

struct Choice {
    sample: Vec<f64>,
    ways: u64,
}

fn choose(strata: &[&[f64]], chosen: Choice, visit: &mut dyn FnMut(&Choice)) {
    match strata.split_first() {
        None => visit(&chosen),
        Some((first, rest)) => {
            repeat(first, first.len() as u64, chosen, &mut |choice| choose(rest, choice, visit));
        }
    }
}

/// Chooses how often each observation is drawn, `left` draws in all.
fn repeat(observations: &[f64], left: u64, chosen: Choice, visit: &mut dyn FnMut(Choice)) {
    let Some((first, rest)) = observations.split_first() else { return visit(chosen) };
    // The last observation takes all that is left.
    let least = if rest.is_empty() { left } else { 0 };
    // Ways to place so many draws of the first among those left.
    let mut ways = 1;
    for times in 0..=left {
        if times >= least {
            let mut next = Choice { sample: chosen.sample.clone(), ways: chosen.ways * ways };
            next.sample.extend(std::iter::repeat_n(first, times as usize));
            repeat(rest, left - times, next, visit);
        }
        ways = ways * (left - times) / (times + 1);
    }
}

fn drawn(strata: &[&[f64]], statistic: Statistic<'_>, draws: Draws<'_>) -> Vec<(f64, u64)> {
    let mut sample = Vec::new();
    let mut one = |_| {
        sample.clear();
        for stratum in strata {
            // The top 64 bits of a product are below its second factor.
            let index = |bits: u64| ((u128::from(bits) * stratum.len() as u128) >> 64) as usize;
            sample.extend((0..stratum.len()).map(|_| stratum[index((draws.bits)())]));
        }
        (statistic(&sample), 1)
    };
    (0..draws.count).map(&mut one).collect()
}

/// A sixth of the skewness of the jackknife's influence values (Efron and Tibshirani 1993, equation 14.15). Over strata
/// the sums run over all of them, each value divided by its stratum's size (Davison and Hinkley 1997, section 5.3.2).
fn acceleration(strata: &[&[f64]], statistic: Statistic<'_>) -> f64 {
    let (mut squares, mut cubes) = (0.0, 0.0);
    // Of a stratum of one nothing can be left out.
    for (position, stratum) in strata.iter().enumerate().filter(|(_, stratum)| stratum.len() > 1) {
        let n = stratum.len() as f64;
        let without = |left_out: usize| {
            let mut rest = strata.to_vec();
            let shorter = [&stratum[..left_out], &stratum[left_out + 1..]].concat();
            rest[position] = &shorter;
            statistic(&rest.concat())
        };
        let values: Vec<f64> = (0..stratum.len()).map(without).collect();
        let mean = values.iter().sum::<f64>() / n;
        for value in values {
            let influence = (n - 1.0) * (mean - value) / n;
            squares += influence.powi(2);
            cubes += influence.powi(3);
        }
    }
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign_flip::tests::bits;
    use proptest::prelude::*;

    const X: [f64; 10] = [1.2, 0.8, 2.5, 3.1, 0.4, 1.9, 2.2, 5.6, 0.9, 1.4];

    fn mean(x: &[f64]) -> f64 {
        x.iter().sum::<f64>() / x.len() as f64
    }

    fn of(strata: &[&[f64]]) -> Bootstrap {
        Bootstrap::new(strata, &mean, Draws { count: 99_999, bits: &mut bits(5) }).unwrap()
    }

    fn close(seen: f64, wanted: f64, tolerance: f64) {
        assert!((seen - wanted).abs() <= tolerance, "{seen} is not {wanted}");
    }

    #[test]
    fn bca_by_full_enumeration_equals_the_reference_values() {
        // shared/data/statistics-vectors.json: `bca_enum_n5`.
        let seen = of(&[&[3.0, 1.0, 4.0, 1.5, 9.0]]);
        assert_eq!((seen.method, seen.total()), (TestMethod::Exact, 3125));
        close(seen.estimate, 3.7, 1e-15);
        close(normal::standard().cdf(seen.bias().unwrap()), 0.530_56, 1e-12);
        close(seen.bias().unwrap(), 0.076_677_631_020_090_66, 1e-12);
        close(seen.acceleration, 0.075_611_211_126_426_98, 1e-14);
        let (low, high) = seen.bca_shares(0.95).unwrap();
        // statrs' normal law is good to 1e-11 or so.
        close(low, 0.057_991_411_677_850_47, 1e-10);
        close(high, 0.993_504_854_129_265_6, 1e-10);
        let interval = seen.bca(0.95).unwrap();
        close(interval.low, 1.9, 1e-12);
        close(interval.high, 7.283_665_719_930_286, 1e-6);
        // The same by the inverse of the distribution function: the next resample up.
        let rank = (high * 3125.0).ceil() as u64 - 1;
        close(seen.values[seen.up_to.partition_point(|up_to| *up_to <= rank)], 7.4, 1e-12);
        close(seen.standard_error(), 1.277_497_553_813_705, 1e-12);
    }

    #[test]
    fn drawn_intervals_lie_where_those_of_scipy_lie() {
        // shared/data/statistics-vectors.json: `bca_accel_mean`, `bca_mean_scipy_seed12345_B99999`, `pct_mean`. Ten
        // observations have 92,378 distinct resamples, so that they are drawn.
        let seen = of(&[&X]);
        assert_eq!(seen.method, TestMethod::MonteCarlo { draws: 99_999 });
        close(seen.acceleration, 0.071_307_916_532_338_55, 1e-14);
        close(seen.standard_error(), 0.454_033_823_338_275_85, 0.005);
        let (bca, percentile) = (seen.bca(0.95).unwrap(), seen.percentile(0.95).unwrap());
        close(bca.low, 1.33, 0.03);
        close(bca.high, 3.25, 0.03);
        close(percentile.low, 1.22, 0.03);
        close(percentile.high, 2.97, 0.03);
    }

    #[test]
    fn counting_by_multiplicity_is_the_same_as_all_resamples_one_by_one() {
        let (x, y) = ([1.0, 2.0, 4.0], [10.0, 30.0]);
        let mut all = Vec::new();
        for i in 0..27usize {
            for j in 0..4usize {
                let resample = [x[i % 3], x[i / 3 % 3], x[i / 9], y[j % 2], y[j / 2]];
                all.push(mean(&resample));
            }
        }
        all.sort_by(f64::total_cmp);
        let seen = of(&[&x, &y]);
        assert_eq!((seen.total(), resamples(&[&x, &y])), (108, 30));
        for share in [0.0, 0.1, 0.333, 0.5, 0.9, 1.0] {
            close(seen.quantile(share), crate::quantile_linear(&all, share).unwrap(), 1e-12);
        }
        close(seen.estimate, 9.4, 1e-12);
    }

    #[test]
    fn a_stratum_of_one_is_kept_and_strata_never_mix() {
        let seen = of(&[&[1.0, 2.0], &[100.0]]);
        // The stratum of one is in each resample once: sums 102, 103 (twice), 104.
        assert_eq!((seen.total(), seen.values.len()), (4, 3));
        close(seen.values[0], 34.0, 1e-12);
        close(seen.values[2], 104.0 / 3.0, 1e-12);
    }

    #[test]
    fn what_has_no_distribution_is_refused() {
        let new = |x: &[f64], count| Bootstrap::new(&[x], &mean, Draws { count, bits: &mut bits(1) });
        assert!(matches!(new(&[1.0], 999), Err(StatsError::NotEstimable { needed: 2, .. })));
        assert!(matches!(new(&[2.0; 5], 999), Err(StatsError::NoSpread { have: 5 })));
        assert!(matches!(new(&[1.0, f64::NAN], 999), Err(StatsError::NotFinite { index: 1, .. })));
        assert!(matches!(new(&X, 998), Err(StatsError::OutOfRange { name: "draws", .. })));
        assert!(new(&X[..5], 0).is_ok(), "five observations need no draws");
        // The largest observation: no resample lies above the estimate, a third of them or so below.
        let largest = |x: &[f64]| x.iter().copied().fold(f64::MIN, f64::max);
        let seen = Bootstrap::new(&[&X[..5]], &largest, Draws { count: 0, bits: &mut bits(1) }).unwrap();
        assert!(seen.percentile(0.95).is_ok() && seen.percentile(1.0).is_err());
    }

    proptest! {
        #[test]
        fn intervals_move_and_stretch_with_the_sample(
            x in prop::collection::vec(-50..50i32, 4..8), shift in -9..9i32, scale in 1..5i32,
        ) {
            let x: Vec<f64> = x.into_iter().map(f64::from).collect();
            prop_assume!(x.iter().any(|other| *other != x[0]));
            let y: Vec<f64> = x.iter().map(|x| x * f64::from(scale) + f64::from(shift)).collect();
            let (of_x, of_y) = (of(&[&x]), of(&[&y]));
            for (a, b) in [
                (of_x.bca(0.95).unwrap(), of_y.bca(0.95).unwrap()),
                (of_x.percentile(0.9).unwrap(), of_y.percentile(0.9).unwrap()),
            ] {
                let moved = a.map(|end| end * f64::from(scale) + f64::from(shift));
                prop_assert!((moved.low - b.low).abs() < 1e-6 && (moved.high - b.high).abs() < 1e-6, "{a:?} {b:?}");
            }
        }

        #[test]
        fn the_order_of_observations_does_not_matter(x in prop::collection::vec(-50..50i32, 4..8)) {
            let x: Vec<f64> = x.into_iter().map(f64::from).collect();
            prop_assume!(x.iter().any(|other| *other != x[0]));
            let mut sorted = x.clone();
            sorted.sort_by(f64::total_cmp);
            let (a, b) = (of(&[&x]).bca(0.95).unwrap(), of(&[&sorted]).bca(0.95).unwrap());
            prop_assert!((a.low - b.low).abs() < 1e-9 && (a.high - b.high).abs() < 1e-9);
        }
    }
}
