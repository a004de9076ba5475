//! Chance, the laws that are drawn from, and counting.

use acb_stats::{Interval, StatsError};

/// A splitmix64 sequence (Steele, Lea and Flood 2014).
pub struct Chance(u64);

impl Chance {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform between 0 and 1, both excluded.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// As many of a law.
    pub fn sample(&mut self, law: Law, n: usize) -> Vec<f64> {
        (0..n).map(|_| law.draw(self)).collect()
    }

    /// Differences of two arms that are the same: symmetric about zero.
    pub fn same_arms(&mut self, law: Law, n: usize) -> Vec<f64> {
        (0..n).map(|_| law.draw(self) - law.draw(self)).collect()
    }

    /// A steady first-order autoregression with unit innovations.
    pub fn correlated(&mut self, correlation: f64, n: usize) -> Vec<f64> {
        let mut x = self.normal() / (1.0 - correlation * correlation).sqrt();
        let mut next = || {
            x = correlation * x + self.normal();
            x
        };
        (0..n).map(|_| next()).collect()
    }
}

/// What one block's value follows.
#[derive(Clone, Copy)]
pub enum Law {
    Normal,
    /// e to a standard normal: skewness 6.2.
    Lognormal,
    /// Student's t with three degrees of freedom: no fourth moment.
    Heavy,
}

pub const LAWS: [Law; 3] = [Law::Normal, Law::Lognormal, Law::Heavy];

impl Law {
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal",
            Self::Heavy => "heavy (t, 3 df)",
        }
    }

    fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Self::Normal => chance.normal(),
            Self::Lognormal => chance.normal().exp(),
            Self::Heavy => {
                let squares: f64 = (0..3).map(|_| chance.normal().powi(2)).sum();
                chance.normal() / (squares / 3.0).sqrt()
            }
        }
    }

    pub fn mean(self) -> f64 {
        match self {
            Self::Lognormal => 0.5f64.exp(),
            Self::Normal | Self::Heavy => 0.0,
        }
    }

    /// The median of the mean of two draws, which the Hodges-Lehmann estimate is of. Lognormal: by integration.
    pub fn pseudo_median(self) -> f64 {
        match self {
            Self::Lognormal => PSEUDO_MEDIAN_LOGNORMAL,
            Self::Normal | Self::Heavy => 0.0,
        }
    }
}

const PSEUDO_MEDIAN_LOGNORMAL: f64 = 1.221_582_941_099_384;

/// In how many % of the trials each of the things happened.
pub fn rates<const N: usize>(
    trials: u32,
    seed: u64,
    mut trial: impl FnMut(&mut Chance) -> [bool; N],
) -> [f64; N] {
    let mut chance = Chance(seed);
    let mut hits = [0u32; N];
    for _ in 0..trials {
        for (hits, hit) in hits.iter_mut().zip(trial(&mut chance)) {
            *hits += u32::from(hit);
        }
    }
    hits.map(|hits| 100.0 * f64::from(hits) / f64::from(trials))
}

/// Whether there is an interval and it covers the truth: one that can't be given is a miss.
pub fn covers(interval: Result<Interval, StatsError>, truth: f64) -> bool {
    interval.is_ok_and(|interval| interval.contains(truth))
}

/// A table's title and head.
pub fn head(title: &str, columns: &[&str]) {
    println!("**{title}**\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// A table's row.
pub fn row(names: &[String], rates: &[f64]) {
    let cells: Vec<String> =
        names.iter().cloned().chain(rates.iter().map(|rate| format!("{rate:.1}"))).collect();
    println!("| {} |", cells.join(" | "));
}
