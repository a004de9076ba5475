//! Intervals for a share of successes.

use crate::error::{BETA_LIMIT, check_level, check_limit, check_size};
use crate::{Interval, StatsError, normal};
use statrs::distribution::{Beta, ContinuousCDF};

/// Wilson's score interval (1927), without continuity correction.
///
/// # Errors
/// When there are no trials, more successes than trials, or the level is not between 0 and 1.
pub fn wilson(successes: u64, trials: u64, level: f64) -> Result<Interval, StatsError> {
    check(successes, trials, level)?;
    let (n, z) = (trials as f64, normal::critical(level));
    let share = successes as f64 / n;
    let scale = 1.0 + z * z / n;
    let centre = (share + z * z / (2.0 * n)) / scale;
    let half = z / scale * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    // None and all reach the ends exactly; rounding would leave them a hair inside.
    let low = if successes == 0 { 0.0 } else { centre - half };
    let high = if successes == trials { 1.0 } else { centre + half };
    Ok(Interval { low, high, level })
}

/// Clopper and Pearson's interval (1934): covers at least `level`, whatever the share.
///
/// # Errors
/// As [`wilson`]; and when there are more than 20 million trials.
pub fn clopper_pearson(successes: u64, trials: u64, level: f64) -> Result<Interval, StatsError> {
    check(successes, trials, level)?;
    check_limit("an exact interval of a share", trials as usize, BETA_LIMIT)?;
    let tail = (1.0 - level) / 2.0;
    let (hits, misses) = (successes as f64, (trials - successes) as f64);
    let low = if successes == 0 { 0.0 } else { beta_quantile(hits, misses + 1.0, tail) };
    let high = if successes == trials { 1.0 } else { beta_quantile(hits + 1.0, misses, 1.0 - tail) };
    Ok(Interval { low, high, level })
}

/// Bisects the distribution function: statrs' own inverse stops at an absolute 1e-8 or so.
fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    let beta = Beta::new(a, b).expect("positive counts make a beta distribution");
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > f64::EPSILON * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if beta.cdf(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

fn check(successes: u64, trials: u64, level: f64) -> Result<(), StatsError> {
    check_size("a share", trials.min(usize::MAX as u64) as usize, 1)?;
    check_level("level", level)?;
    if successes > trials {
        let value = successes as f64;
        return Err(StatsError::OutOfRange { name: "successes", value, range: "0 to the number of trials" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(seen: Interval, low: f64, high: f64, tolerance: f64) {
        assert!((seen.low - low).abs() < tolerance && (seen.high - high).abs() < tolerance, "{seen:?}");
    }

    #[test]
    fn intervals_equal_those_of_statsmodels() {
        // shared/data/statistics-vectors.json: `wilson_18_20`, `cp_18_20`, `cp_995_1000`.
        close(wilson(18, 20, 0.95).unwrap(), 0.698_966_354_771_512_8, 0.972_133_518_786_231_9, 1e-9);
        close(clopper_pearson(18, 20, 0.95).unwrap(), 0.683_017_285_980_920_9, 0.987_651_472_829_704_1, 1e-9);
        close(
            clopper_pearson(995, 1000, 0.95).unwrap(),
            0.988_370_529_440_179_3,
            0.998_374_580_482_626_7,
            1e-9,
        );
    }

    #[test]
    fn all_and_none_reach_the_ends() {
        assert_eq!(clopper_pearson(0, 10, 0.95).unwrap().low, 0.0);
        assert_eq!(clopper_pearson(10, 10, 0.95).unwrap().high, 1.0);
        assert_eq!(wilson(0, 10, 0.95).unwrap().low, 0.0);
    }

    #[test]
    fn impossible_counts_are_refused() {
        assert!(wilson(0, 0, 0.95).is_err());
        assert!(wilson(3, 2, 0.95).is_err());
        assert!(clopper_pearson(1, 2, 1.0).is_err());
        assert!(matches!(clopper_pearson(1, 20_000_001, 0.95), Err(StatsError::TooMany { .. })));
    }
}
