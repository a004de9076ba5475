//! Wald's sequential probability ratio test.

use crate::StatsError;
use crate::error::check_level;

/// Wald's bounds (1945) on the log likelihood ratio of the alternative over the null hypothesis: `(accept, reject)`.
/// At or below the first the null hypothesis is accepted, at or above the second it is rejected, between them one goes
/// on. `alpha` and `beta` are the wanted errors; together the real ones are no larger than their sum.
///
/// # Errors
/// When an error rate is not between 0 and 1, or they add up to 1 or more.
pub fn sprt_bounds(alpha: f64, beta: f64) -> Result<(f64, f64), StatsError> {
    check_level("alpha", alpha)?;
    check_level("beta", beta)?;
    check_level("alpha + beta", alpha + beta)?;
    Ok(((beta / (1.0 - alpha)).ln(), ((1.0 - beta) / alpha).ln()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_equal_the_reference_values() {
        // shared/statistics.md 3c, item 13: alpha 0.05, beta 0.2.
        let (accept, reject) = sprt_bounds(0.05, 0.2).unwrap();
        assert!((accept + 1.558_144_6).abs() < 5e-8 && (reject - 2.772_588_7).abs() < 5e-8);
    }

    #[test]
    fn a_coin_with_and_without_an_effect_errs_no_more_than_the_bounds_promise() {
        // P(heads) 0.4 against 0.6; the ratio moves by ln 1.5 either way.
        let (accept, reject) = sprt_bounds(0.05, 0.2).unwrap();
        let mut bits = crate::sign_flip::tests::bits(2);
        let mut rejects = |heads: f64| {
            let mut ratio = 0.0;
            while accept < ratio && ratio < reject {
                let unit = (bits() >> 11) as f64 / (1u64 << 53) as f64;
                ratio += if unit < heads { 1.5f64.ln() } else { -(1.5f64.ln()) };
            }
            ratio >= reject
        };
        let trials = 4000;
        let false_alarms = (0..trials).filter(|_| rejects(0.4)).count() as f64 / f64::from(trials);
        let missed = 1.0 - (0..trials).filter(|_| rejects(0.6)).count() as f64 / f64::from(trials);
        assert!(false_alarms + missed < 0.25 && false_alarms < 0.06, "{false_alarms} {missed}");
    }

    #[test]
    fn errors_that_leave_nothing_to_decide_are_refused() {
        assert!(sprt_bounds(0.6, 0.4).is_err());
        assert!(sprt_bounds(0.0, 0.2).is_err());
        assert!(sprt_bounds(0.05, f64::NAN).is_err());
    }
}
