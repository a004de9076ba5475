//! Before a run: how many blocks, and the smallest effect that so many can show.
//!
//! These are the paired t test's. Where it has 80 %, the exact sign-flip test has 62 % at 6 blocks, 78 % at 8 and 80 % at 12
//! (`docs/statistics.md`), and below [`crate::blocks_needed`] it can't reject at all.

use crate::error::{check_level, check_positive};
use crate::noncentral_t::noncentral_t_cdf;
use crate::{StatsError, normal};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Power of the two-sided paired t test (Cohen 1988, chapter 2; by the noncentral t distribution) with `pairs` blocks,
/// which need not be whole, for a mean difference of `effect` standard deviations of the differences.
///
/// # Errors
/// When there is no degree of freedom (`pairs` at or below 1), the effect is not finite, or `alpha` not between 0 and 1.
pub fn paired_power(pairs: f64, effect: f64, alpha: f64) -> Result<f64, StatsError> {
    check_level("alpha", alpha)?;
    if !(pairs > 1.0 && pairs.is_finite()) {
        return Err(StatsError::OutOfRange { name: "pairs", value: pairs, range: "the numbers above 1" });
    }
    if !effect.is_finite() {
        return Err(StatsError::OutOfRange {
            name: "the effect",
            value: effect,
            range: "the finite numbers",
        });
    }
    let freedom = pairs - 1.0;
    let law = StudentsT::new(0.0, 1.0, freedom).expect("a positive degree of freedom makes a t distribution");
    let (critical, delta) = (law.inverse_cdf(1.0 - alpha / 2.0), effect.abs() * pairs.sqrt());
    let power =
        1.0 - noncentral_t_cdf(critical, freedom, delta) + noncentral_t_cdf(-critical, freedom, delta);
    Ok(power.clamp(0.0, 1.0))
}

/// The smallest effect, in standard deviations of the differences, that `pairs` blocks show with this power: the
/// minimal detectable effect. Times a pilot's deviation of log ratios it is a log ratio.
///
/// # Errors
/// As [`paired_power`]; when `power` is not between `alpha` and 1.
pub fn minimal_effect(pairs: f64, alpha: f64, power: f64) -> Result<f64, StatsError> {
    check_power(alpha, power)?;
    let mut high = 1.0;
    while paired_power(pairs, high, alpha)? < power {
        high *= 2.0;
    }
    bisect(0.0, high, |effect| Ok(paired_power(pairs, effect, alpha)? >= power))
}

/// The number of blocks, not rounded, with which an effect in standard deviations is shown with this power. Take the
/// next whole number.
///
/// # Errors
/// When the effect is zero or not finite, or so small that a million blocks don't do; when `alpha` is not between 0 and
/// 1 or `power` not between `alpha` and 1.
pub fn pairs_needed(effect: f64, alpha: f64, power: f64) -> Result<f64, StatsError> {
    check_power(alpha, power)?;
    check_positive("the size of the effect", effect.abs())?;
    // At two pairs and fewer the t distribution is all tail: start above.
    let (low, mut high) = (1.5, 4.0);
    while paired_power(high, effect, alpha)? < power {
        high *= 2.0;
        if high > 1e6 {
            let (name, range) = ("the size of the effect", "what a million pairs can show");
            return Err(StatsError::OutOfRange { name, value: effect, range });
        }
    }
    bisect(low, high, |pairs| Ok(paired_power(pairs, effect, alpha)? >= power))
}

/// Successes and trials per arm to tell two shares apart: trials per arm for the two-sided normal test with pooled
/// variance (Fleiss, Levin and Paik 2003, "Statistical methods for rates and proportions", chapter 4), no continuity
/// correction, not rounded.
///
/// # Errors
/// When the shares are equal or not between 0 and 1; when `alpha` is not between 0 and 1 or `power` not between `alpha`
/// and 1.
pub fn trials_needed(shares: (f64, f64), alpha: f64, power: f64) -> Result<f64, StatsError> {
    check_power(alpha, power)?;
    check_level("the first share", shares.0)?;
    check_level("the second share", shares.1)?;
    let apart = (shares.0 - shares.1).abs();
    check_positive("the distance of the shares", apart)?;
    let pooled = 0.5 * (shares.0 + shares.1);
    let variance = |share: f64| share * (1.0 - share);
    let null = normal::critical(1.0 - alpha) * (2.0 * variance(pooled)).sqrt();
    let alternative =
        normal::standard().inverse_cdf(power) * (variance(shares.0) + variance(shares.1)).sqrt();
    Ok(((null + alternative) / apart).powi(2))
}

fn check_power(alpha: f64, power: f64) -> Result<(), StatsError> {
    check_level("alpha", alpha)?;
    check_level("power", power)?;
    if power > alpha {
        return Ok(());
    }
    Err(StatsError::OutOfRange { name: "power", value: power, range: "alpha to 1, both excluded" })
}

/// Where a condition that holds at `high` begins to hold.
fn bisect(
    mut low: f64,
    mut high: f64,
    holds: impl Fn(f64) -> Result<bool, StatsError>,
) -> Result<f64, StatsError> {
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if holds(middle)? { high = middle } else { low = middle }
    }
    Ok(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_effects_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `mde_paired`, alpha 0.05, power 0.8.
        for (pairs, expected) in [
            (5.0, 1.681_997_083_323_267_4),
            (8.0, 1.156_035_271_959_959),
            (10.0, 0.996_001_910_762_417_8),
            (20.0, 0.660_441_654_438_031_2),
            (30.0, 0.529_235_704_523_894_8),
        ] {
            let seen = minimal_effect(pairs, 0.05, 0.8).unwrap();
            assert!((seen - expected).abs() < 1e-6, "{pairs}: {seen}");
        }
    }

    #[test]
    fn pairs_needed_equal_the_reference_values() {
        // shared/data/statistics-vectors.json: `n_for_d`, alpha 0.05, power 0.8.
        for (effect, expected) in [
            (0.5, 33.367_131_184_317_79),
            (0.8, 14.302_764_558_129_43),
            (1.0, 9.937_850_941_054_38),
            (1.5, 5.686_142_097_745_736),
        ] {
            let seen = pairs_needed(effect, 0.05, 0.8).unwrap();
            assert!((seen - expected).abs() < 1e-4, "{effect}: {seen}");
            let back = minimal_effect(seen, 0.05, 0.8).unwrap();
            assert!((back - effect).abs() < 1e-6, "{effect}: {back}");
        }
    }

    #[test]
    fn trials_per_arm_equal_the_reference_value() {
        // shared/statistics.md 3c, item 12: 0.90 against 0.93.
        let seen = trials_needed((0.9, 0.93), 0.05, 0.8).unwrap();
        assert!((seen - 1355.37).abs() < 0.005, "{seen}");
        assert_eq!(seen, trials_needed((0.93, 0.9), 0.05, 0.8).unwrap());
    }

    #[test]
    fn the_power_without_an_effect_is_alpha_and_grows_from_there() {
        assert!((paired_power(8.0, 0.0, 0.05).unwrap() - 0.05).abs() < 1e-7);
        let mut last = 0.05;
        for effect in [0.2, 0.5, 1.0, 2.0, 4.0] {
            let power = paired_power(8.0, effect, 0.05).unwrap();
            assert!(power > last && power == paired_power(8.0, -effect, 0.05).unwrap());
            last = power;
        }
        assert!(last > 0.999);
    }

    #[test]
    fn the_power_is_how_often_the_test_rejects() {
        let mut bits = crate::sign_flip::tests::bits(21);
        let mut normal =
            || normal::standard().inverse_cdf(((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64);
        let trials = 4000;
        let rejected = (0..trials)
            .filter(|_| {
                let d: Vec<f64> = (0..8).map(|_| 1.0 + normal()).collect();
                crate::paired_t(&d, 0.95).unwrap().p <= 0.05
            })
            .count() as f64;
        let (share, power) = (rejected / f64::from(trials), paired_power(8.0, 1.0, 0.05).unwrap());
        assert!(
            (share - power).abs() < 4.0 * (power * (1.0 - power) / f64::from(trials)).sqrt(),
            "{share} {power}"
        );
    }

    #[test]
    fn what_no_number_of_blocks_answers_is_refused() {
        assert!(paired_power(1.0, 1.0, 0.05).is_err());
        assert!(paired_power(5.0, f64::NAN, 0.05).is_err());
        assert!(minimal_effect(8.0, 0.05, 0.04).is_err());
        assert!(pairs_needed(0.0, 0.05, 0.8).is_err());
        assert!(pairs_needed(1e-4, 0.05, 0.8).is_err());
        assert!(trials_needed((0.9, 0.9), 0.05, 0.8).is_err());
        assert!(trials_needed((0.9, 1.0), 0.05, 0.8).is_err());
    }
}
