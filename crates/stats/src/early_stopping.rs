//! MLPerf Inference's early stopping: how many requests may miss a bound on a percentile before a run of this length
//! no longer shows that the bound holds. It takes requests for independent, which those of one run are not: use it to
//! report what MLPerf would, not to compare arms.

use crate::error::{check_level, check_limit};
use crate::{StatsError, normal};
use statrs::function::beta::beta_reg;

/// As [`crate::error::BETA_LIMIT`], in late requests: what counts is the variance of their number.
const LATE_LIMIT: usize = 5_000_000;

/// A percentile to be shown, and how surely. MLPerf: confidence 0.99, tolerance 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStopping {
    /// The share of requests that must be on time, such as 0.99.
    pub percentile: f64,
    /// How far the true share may fall short of it.
    pub tolerance: f64,
    /// Confidence with which the bound is shown.
    pub confidence: f64,
}

impl EarlyStopping {
    /// MLPerf's confidence and tolerance.
    ///
    /// # Errors
    /// When the percentile is not between 0 and 1.
    pub fn mlperf(percentile: f64) -> Result<Self, StatsError> {
        let rule = Self { percentile, tolerance: 0.0, confidence: 0.99 };
        rule.check()?;
        Ok(rule)
    }

    fn check(&self) -> Result<(), StatsError> {
        check_level("the percentile", self.percentile)?;
        check_level("the confidence", self.confidence)?;
        let value = self.tolerance;
        if (0.0..self.percentile).contains(&value) {
            return Ok(());
        }
        Err(StatsError::OutOfRange { name: "the tolerance", value, range: "0 to the percentile" })
    }

    /// The least number of requests on time that outweigh `late` late ones: the smallest h with
    /// `I_(p - d)(h, late + 1) <= 1 - c` (regularised incomplete beta; MLPerf Inference rules, section "early
    /// stopping"). A run is long enough at `h + late` requests.
    ///
    /// # Errors
    /// When a field is out of its range or more than five million are late.
    pub fn on_time_needed(&self, late: u64) -> Result<u64, StatsError> {
        self.check()?;
        check_limit("early stopping (counted in late requests)", late as usize, LATE_LIMIT)?;
        let share = self.percentile - self.tolerance;
        let enough = |h: u64| beta_reg(h as f64, late as f64 + 1.0, share) <= 1.0 - self.confidence;
        let mut high = 1;
        while !enough(high) {
            high *= 2;
        }
        let mut low = high / 2;
        // Not enough at `low`, enough at `high`.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if enough(middle) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// How many of this many requests may be late; `None` when the run is too short even for none.
    ///
    /// # Errors
    /// When a field is out of its range or more than five million may be late.
    pub fn late_allowed(&self, requests: u64) -> Result<Option<u64>, StatsError> {
        let fits = |late: u64| Ok::<bool, StatsError>(self.on_time_needed(late)? + late <= requests);
        if !fits(0)? {
            return Ok(None);
        }
        let mut high = 1;
        while fits(high)? {
            high *= 2;
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }

    /// An upper bound on the percentile with this confidence: the largest observation after leaving out as many as
    /// may be late. MLPerf's LoadGen takes the observation one above it, and so reports a slightly larger number.
    ///
    /// # Errors
    /// `NotEstimable` when the run is too short; when a field is out of its range.
    ///
    /// # Panics
    /// When the observations are not ascending.
    pub fn upper_bound(&self, sorted: &[f64]) -> Result<f64, StatsError> {
        assert!(sorted.is_sorted(), "an upper bound is read from ascending observations");
        let have = sorted.len();
        let Some(late) = self.late_allowed(have as u64)? else {
            let (what, needed) = ("an upper bound of a percentile", self.on_time_needed(0)? as usize);
            return Err(StatsError::NotEstimable { what, have, needed });
        };
        Ok(sorted[have - 1 - late as usize])
    }
}

/// Requests that bound a share within `margin` at this confidence, `z^2 p (1 - p) / m^2` (MLPerf Inference rules,
/// table of query counts). MLPerf's margin is a twentieth of `1 - p`, its confidence 0.99.
///
/// # Errors
/// When an argument is not between 0 and 1.
pub fn requests_for_margin(percentile: f64, margin: f64, confidence: f64) -> Result<f64, StatsError> {
    check_level("the percentile", percentile)?;
    check_level("the margin", margin)?;
    check_level("the confidence", confidence)?;
    Ok(normal::critical(confidence).powi(2) * percentile * (1.0 - percentile) / margin.powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn run_lengths_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `mlperf_es`, h and h + t for t = 0, 1, 2, 5, 10, 50, 100.
        let rows: [(f64, [u64; 7]); 4] = [
            (0.9, [44, 63, 79, 122, 187, 631, 1146]),
            (0.95, [90, 129, 163, 254, 388, 1322, 2404]),
            (0.99, [459, 661, 836, 1302, 2000, 6848, 12_471]),
            (0.999, [4603, 6635, 8401, 13_100, 20_130, 69_008, 125_726]),
        ];
        for (percentile, expected) in rows {
            let rule = EarlyStopping::mlperf(percentile).unwrap();
            for (late, h) in [0, 1, 2, 5, 10, 50, 100].into_iter().zip(expected) {
                assert_eq!(rule.on_time_needed(late).unwrap(), h, "p {percentile}, {late} late");
            }
        }
    }

    #[test]
    fn long_runs_are_as_exact_as_short_ones() {
        // scipy 1.17.1, betainc: t = 1,000, 10,000, 100,000.
        for (percentile, expected) in [
            (0.9, [9722, 92_231, 907_003]),
            (0.99, [106_569, 1_013_394, 9_973_443]),
            (0.999, [1_075_032, 10_224_999, 100_637_761]),
        ] {
            let rule = EarlyStopping::mlperf(percentile).unwrap();
            for (late, h) in [1000, 10_000, 100_000].into_iter().zip(expected) {
                assert_eq!(rule.on_time_needed(late).unwrap(), h, "p {percentile}, {late} late");
            }
        }
        for (percentile, h) in [(0.5, 5_007_361), (0.9, 45_049_373), (0.99, 495_517_826)] {
            let rule = EarlyStopping::mlperf(percentile).unwrap();
            assert_eq!(rule.on_time_needed(5_000_000).unwrap(), h, "p {percentile}");
            assert!(matches!(rule.on_time_needed(5_000_001), Err(StatsError::TooMany { .. })));
        }
    }

    #[test]
    fn query_counts_equal_those_of_the_rules() {
        // shared/data/statistics-vectors.json: `mlperf_n_*`, rounded up to multiples of 8,192 as the rules do.
        for (percentile, exact, rounded) in [
            (0.9, 23_885.627_763_676_363, 24_576),
            (0.95, 50_425.214_167_761_26, 57_344),
            (0.97, 85_811.329_373_207_76, 90_112),
            (0.99, 262_741.905_400_440_33, 270_336),
        ] {
            let seen = requests_for_margin(percentile, (1.0 - percentile) / 20.0, 0.99).unwrap();
            assert!((seen / exact - 1.0).abs() < 1e-9, "{seen}");
            assert_eq!((seen.ceil() as u64).div_ceil(8192) * 8192, rounded);
        }
    }

    #[test]
    fn a_run_may_have_as_many_late_requests_as_its_length_carries() {
        let rule = EarlyStopping::mlperf(0.99).unwrap();
        for (requests, late) in [
            (458, None),
            (459, Some(0)),
            (661, Some(0)),
            (662, Some(1)),
            (2010, Some(10)),
            (12_571, Some(100)),
        ] {
            assert_eq!(rule.late_allowed(requests).unwrap(), late, "{requests}");
        }
    }

    #[test]
    fn the_bound_leaves_out_those_that_may_be_late() {
        let sorted: Vec<f64> = (1..=662).map(f64::from).collect();
        let rule = EarlyStopping::mlperf(0.99).unwrap();
        assert_eq!(rule.upper_bound(&sorted), Ok(661.0));
        assert_eq!(rule.upper_bound(&sorted[..459]), Ok(459.0));
        assert!(matches!(
            rule.upper_bound(&sorted[..458]),
            Err(StatsError::NotEstimable { have: 458, needed: 459, .. })
        ));
        assert!(EarlyStopping::mlperf(1.0).is_err());
        assert!(EarlyStopping { tolerance: 0.99, ..rule }.on_time_needed(0).is_err());
    }

    #[test]
    fn without_late_requests_it_is_the_sample_that_a_tail_needs() {
        for percentile in [0.5, 0.9, 0.99, 0.999] {
            let rule = EarlyStopping { confidence: 0.95, ..EarlyStopping::mlperf(percentile).unwrap() };
            let needed = crate::samples_needed(percentile, 0.95).unwrap() as u64;
            assert_eq!(rule.on_time_needed(0).unwrap(), needed);
        }
    }

    proptest! {
        #[test]
        fn the_answer_is_the_least_by_the_binomial_sum(late in 0u64..6, percentile in 0.5..0.95f64) {
            // P(at most `late` of h + late requests are late) when the true share is the percentile.
            let odds = |h: u64| {
                let n = h + late;
                let mut term = percentile.powi(n as i32);
                let mut sum = term;
                for k in 1..=late {
                    term *= (n - k + 1) as f64 / k as f64 * (1.0 - percentile) / percentile;
                    sum += term;
                }
                sum
            };
            let h = EarlyStopping::mlperf(percentile).unwrap().on_time_needed(late).unwrap();
            prop_assert!(odds(h) <= 0.01 + 1e-12 && odds(h - 1) > 0.01 - 1e-12);
        }
    }
}
