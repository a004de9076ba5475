//! Draws that depend on a named seed and a counter alone, so that no draw shifts another and the order in which
//! answers come back changes nothing.

use crate::spec::CountLaw;
use acb_types::Seed;

/// Turns that one session can have.
pub(crate) const MAX_TURNS: u32 = 4096;

/// Number of a turn among all turns of all sessions: the counter of its draws.
pub(crate) fn key(start: u64, turn: u32) -> u64 {
    debug_assert!(turn < MAX_TURNS, "turns are cut at {MAX_TURNS}");
    start * u64::from(MAX_TURNS) + u64::from(turn)
}

/// A whole number below `n` from a draw in [0, 1).
pub(crate) fn below(unit: f64, n: u32) -> u32 {
    ((unit * f64::from(n)) as u32).min(n - 1)
}

/// An exponential with mean 1 from a draw in [0, 1).
pub(crate) fn exponential(unit: f64) -> f64 {
    -(-unit).ln_1p()
}

impl CountLaw {
    /// The number that this seed and counter give.
    pub(crate) fn draw(&self, seed: Seed, key: u64) -> u32 {
        match *self {
            Self::Fixed { value } => value,
            Self::Uniform { min, max } => min + below(seed.unit(key), max - min + 1),
            Self::Lognormal { mean, cv } => {
                let variance = (cv * cv).ln_1p();
                let z = normal(seed, key);
                let value = (mean.ln() - variance / 2.0 + variance.sqrt() * z).exp();
                value.round().clamp(1.0, f64::from(u32::MAX)) as u32
            }
            Self::Geometric { mean } if mean <= 1.0 => 1,
            Self::Geometric { mean } => {
                let failures = (-seed.unit(key)).ln_1p() / (-1.0 / mean).ln_1p();
                (1.0 + failures.floor()).min(f64::from(u32::MAX)) as u32
            }
        }
    }

    /// Mean of the law cut at `max`, from ten thousand draws of a fixed seed (within about 2 % for a cv of 1); exact
    /// for `fixed` and an uncut `uniform`.
    pub(crate) fn mean_cut_at(&self, max: u32) -> f64 {
        match *self {
            Self::Fixed { value } => f64::from(value.min(max)),
            Self::Uniform { min, max: top } if top <= max => (f64::from(min) + f64::from(top)) / 2.0,
            _ => {
                let n = 10_000;
                (0..n).map(|key| f64::from(self.draw(MEANS, key).min(max))).sum::<f64>() / n as f64
            }
        }
    }
}

/// The seed of expected means.
const MEANS: Seed = Seed(0x6d65_616e);

/// A standard normal (Box-Muller).
fn normal(seed: Seed, key: u64) -> f64 {
    let (u, v) = (seed.unit(2 * key), seed.unit(2 * key + 1));
    (2.0 * exponential(u)).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(law: CountLaw, mean: f64, cv: f64) {
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|key| f64::from(law.draw(Seed(5), key))).collect();
        let seen = draws.iter().sum::<f64>() / n as f64;
        let sd = (draws.iter().map(|x| (x - seen).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((seen / mean - 1.0).abs() < 0.02, "{law:?}: mean {seen}");
        assert!((sd / seen - cv).abs() < 0.03, "{law:?}: cv {}", sd / seen);
        assert!(draws.iter().all(|&x| x >= 1.0));
    }

    #[test]
    fn lengths_have_the_mean_and_spread_of_their_law() {
        check(CountLaw::Fixed { value: 7 }, 7.0, 0.0);
        check(CountLaw::Uniform { min: 8, max: 511 }, 259.5, 0.5607);
        check(CountLaw::Lognormal { mean: 200.0, cv: 1.0 }, 200.0, 1.0);
        check(CountLaw::Geometric { mean: 20.0 }, 20.0, (1.0f64 - 1.0 / 20.0).sqrt());
        check(CountLaw::Geometric { mean: 1.0 }, 1.0, 0.0);
    }

    #[test]
    fn a_cut_mean_counts_the_cut() {
        assert_eq!(CountLaw::Fixed { value: 100 }.mean_cut_at(64), 64.0);
        assert_eq!(CountLaw::Uniform { min: 1, max: 9 }.mean_cut_at(64), 5.0);
        let half = CountLaw::Uniform { min: 1, max: 100 }.mean_cut_at(50);
        assert!((half - 37.75).abs() < 0.6, "(1 + ... + 50 + 50 * 50) / 100 = 37.75, not {half}");
    }
}
