//! Looking at the data before all are in, with the error of all looks together kept: alpha spending.

use crate::error::check_level;
use crate::{StatsError, normal};
use statrs::distribution::{Continuous, ContinuousCDF};

/// How alpha is spent over the course of a study (Lan and DeMets 1983, "Discrete sequential boundaries").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// `2 - 2 Phi(z / sqrt t)` with z for two-sided alpha: next to nothing early, nearly all at the end. Programs that
    /// apply this formula to each side by itself, at half of alpha, are stricter early and laxer at the end.
    OBrienFleming,
    /// `alpha ln(1 + (e - 1) t)`: nearly even.
    Pocock,
}

/// Steps of the integration over where the process is at a look: even, for Simpson's rule.
const STEPS: usize = 800;

impl Spending {
    /// Two-sided alpha spent when this share of the information (blocks so far over blocks planned) is in.
    ///
    /// # Errors
    /// When `alpha` is not between 0 and 1 or the share not in 0 (excluded) to 1.
    pub fn spent(self, share: f64, alpha: f64) -> Result<f64, StatsError> {
        check_level("alpha", alpha)?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(out_of_order(share));
        }
        Ok(match self {
            Self::OBrienFleming => 2.0 * upper(normal::critical(1.0 - alpha) / share.sqrt()),
            Self::Pocock => alpha * (1.0 + (std::f64::consts::E - 1.0) * share).ln(),
        })
    }

    /// The critical value of |z| at each look, for shares of information that ascend to at most 1. z is the normal
    /// quantile of the look's own p-value: for few blocks take it from an exact or t test, not from mean over error.
    /// Armitage, McPherson and Rowe's (1969) recursive integration.
    ///
    /// # Errors
    /// As [`Spending::spent`]; and when the shares don't ascend.
    pub fn boundaries(self, shares: &[f64], alpha: f64) -> Result<Vec<f64>, StatsError> {
        let mut boundaries = Vec::with_capacity(shares.len());
        let mut process: Option<Process> = None;
        let (mut spent, mut before) = (0.0, 0.0);
        for &share in shares {
            let total = self.spent(share, alpha)?;
            if share <= before {
                return Err(out_of_order(share));
            }
            let crossing = |z: f64| match &process {
                None => 2.0 * upper(z),
                Some(process) => process.crossing(z, share),
            };
            let z = critical(crossing, total - spent);
            boundaries.push(z);
            process = Some(Process::after(process.as_ref(), z, share));
            (spent, before) = (total, share);
        }
        Ok(boundaries)
    }
}

fn out_of_order(value: f64) -> StatsError {
    StatsError::OutOfRange { name: "a share of the information", value, range: "0 to 1, ascending" }
}

/// The z whose probability of being crossed, which falls with z, is this.
fn critical(crossing: impl Fn(f64) -> f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 38.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if crossing(middle) > probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Upper tail of the standard normal, exact far out.
fn upper(z: f64) -> f64 {
    normal::standard().cdf(-z)
}

/// The sum process at a look, with the paths that have crossed a boundary left out: its density at even steps from
/// `-end` to `end`, times Simpson's weights. The variance of the process is the share of information.
struct Process {
    share: f64,
    end: f64,
    mass: Vec<f64>,
}

impl Process {
    fn after(before: Option<&Self>, z: f64, share: f64) -> Self {
        // Beyond eight deviations there is nothing to integrate.
        let end = z.min(8.0) * share.sqrt();
        let step = 2.0 * end / STEPS as f64;
        let density = |x: f64| match before {
            None => normal::standard().pdf(x / share.sqrt()) / share.sqrt(),
            Some(before) => {
                let deviation = (share - before.share).sqrt();
                let sum: f64 = before
                    .points()
                    .map(|(from, mass)| mass * normal::standard().pdf((x - from) / deviation))
                    .sum();
                sum / deviation
            }
        };
        let weight = |i: usize| match i {
            0 | STEPS => 1.0,
            i if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let mass = (0..=STEPS).map(|i| density(-end + i as f64 * step) * weight(i) * step / 3.0).collect();
        Self { share, end, mass }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let step = 2.0 * self.end / STEPS as f64;
        self.mass.iter().enumerate().map(move |(i, mass)| (-self.end + i as f64 * step, *mass))
    }

    /// Probability that the process crosses `z` on either side at the next look, at this share of information.
    fn crossing(&self, z: f64, share: f64) -> f64 {
        let (bound, deviation) = (z * share.sqrt(), (share - self.share).sqrt());
        let one_side: f64 = self.points().map(|(from, mass)| mass * upper((bound - from) / deviation)).sum();
        2.0 * one_side
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_spent_as_the_reference_values_say() {
        // shared/data/statistics-vectors.json: `ldm_obf`, `ldm_pocock`.
        for (share, obf, pocock) in [
            (0.25, 8.857_543_832_130_332e-5, 0.017_868_700_975_439_42),
            (0.5, 0.005_574_596_680_784_305, 0.031_005_725_347_913_876),
            (0.75, 0.023_625_121_317_601_305, 0.041_399_446_962_143_49),
            (1.0, 0.05, 0.05),
        ] {
            let seen = Spending::OBrienFleming.spent(share, 0.05).unwrap();
            assert!((seen - obf).abs() < 1e-10, "{share}: {seen}");
            assert!((Spending::Pocock.spent(share, 0.05).unwrap() - pocock).abs() < 1e-14);
        }
    }

    #[test]
    fn boundaries_of_five_even_looks_equal_the_reference_values() {
        // Pocock: Reboussin, DeMets, Kim and Lan (2000), "Computations for group sequential boundaries". O'Brien and
        // Fleming: the same recursion by Gauss-Legendre integration in scipy 1.17.1. The published 4.8769, 3.3569, ...
        // spend half of alpha on each side, each by the formula for one side.
        let shares = [0.2, 0.4, 0.6, 0.8, 1.0];
        for (spending, expected) in [
            (
                Spending::OBrienFleming,
                [
                    4.382_612_702_882_909,
                    3.099_727_477_589_886,
                    2.553_354_972_617_137,
                    2.253_847_898_334_322,
                    2.063_501_103_569_47,
                ],
            ),
            (Spending::Pocock, [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
        ] {
            let seen = spending.boundaries(&shares, 0.05).unwrap();
            let tolerance = if spending == Spending::Pocock { 1e-4 } else { 1e-6 };
            for (seen, wanted) in seen.iter().zip(expected) {
                assert!((seen - wanted).abs() < tolerance, "{spending:?}: {seen} is not {wanted}");
            }
        }
    }

    #[test]
    fn one_look_at_the_end_is_the_fixed_test() {
        for spending in [Spending::OBrienFleming, Spending::Pocock] {
            let seen = spending.boundaries(&[1.0], 0.05).unwrap();
            assert!((seen[0] - 1.959_963_984_540_054).abs() < 1e-9, "{seen:?}");
        }
    }

    #[test]
    fn without_an_effect_some_look_crosses_as_often_as_alpha_says() {
        let shares = [0.4, 0.7, 1.0];
        let bounds = Spending::Pocock.boundaries(&shares, 0.05).unwrap();
        let mut bits = crate::sign_flip::tests::bits(41);
        let mut normal = || {
            let unit = ((bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            normal::standard().inverse_cdf(unit)
        };
        let trials = 20_000;
        let mut crossed = 0;
        for _ in 0..trials {
            let (mut sum, mut before) = (0.0, 0.0f64);
            let looks = shares.iter().zip(&bounds).map(|(share, bound)| {
                sum += normal() * (share - before).sqrt();
                before = *share;
                (sum / share.sqrt()).abs() >= *bound
            });
            crossed += u32::from(looks.fold(false, |any, crosses| any | crosses));
        }
        let share = f64::from(crossed) / f64::from(trials);
        assert!((share - 0.05).abs() < 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt(), "{share}");
    }

    #[test]
    fn looks_out_of_order_are_refused() {
        assert!(Spending::Pocock.boundaries(&[0.5, 0.5], 0.05).is_err());
        assert!(Spending::Pocock.boundaries(&[0.5, 1.1], 0.05).is_err());
        assert!(Spending::OBrienFleming.spent(0.0, 0.05).is_err());
        assert!(Spending::OBrienFleming.spent(0.5, 1.0).is_err());
    }
}
