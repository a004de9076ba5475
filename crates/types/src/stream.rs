//! Named random streams: a new draw in one never shifts another.

use rand::{Rng, SeedableRng};
use rand_distr::{Binomial, Distribution, Exp1, Gamma};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// A seed from which streams and further seeds are derived by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of this name.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        Stream { rng: Pcg64::from_seed(self.key(name)) }
    }

    /// A seed of this name, independent of this one's streams.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        let key = self.key(name);
        Self(u64::from_le_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]))
    }

    /// A number in [0, 1) that depends on this seed and `index` alone: for a draw per request that needs no order.
    #[must_use]
    pub fn unit(self, index: u64) -> f64 {
        // splitmix64 of a counter: passes the usual batteries, needs no state.
        let mut z = self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    fn key(self, name: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(name.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// A random stream (PCG-64). Every draw of the project comes from one of these.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: Pcg64,
}

impl Stream {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform integer in `0..n`, without bias.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no integer lies below zero");
        let zone = u64::MAX - (u64::MAX % n + 1) % n;
        loop {
            let bits = self.bits();
            if bits <= zone {
                return bits % n;
            }
        }
    }

    /// Exponential with mean 1.
    pub fn exp1(&mut self) -> f64 {
        Exp1.sample(&mut self.rng)
    }

    /// Gamma with this shape and scale (mean `shape * scale`).
    ///
    /// # Panics
    /// When shape or scale is not positive and finite.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        match Gamma::new(shape, scale) {
            Ok(gamma) => gamma.sample(&mut self.rng),
            Err(error) => panic!("gamma({shape}, {scale}): {error}"),
        }
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        rand_distr::StandardNormal.sample(&mut self.rng)
    }

    /// Successes among `n` tries of probability `p`.
    ///
    /// # Panics
    /// When `p` is not in [0, 1].
    pub fn binomial(&mut self, n: u32, p: f64) -> u32 {
        match Binomial::new(u64::from(n), p) {
            Ok(binomial) => binomial.sample(&mut self.rng) as u32,
            Err(error) => panic!("binomial({n}, {p}): {error}"),
        }
    }

    /// Fisher-Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_are_independent_of_each_other_and_of_use() {
        let mut a = Seed(7).stream("arrivals");
        let first: Vec<u64> = (0..3).map(|_| a.bits()).collect();
        let mut other = Seed(7).stream("prompts");
        other.bits();
        let mut again = Seed(7).stream("arrivals");
        assert_eq!(first, (0..3).map(|_| again.bits()).collect::<Vec<_>>());
        assert_ne!(first[0], Seed(7).stream("prompts").bits());
        assert_ne!(first[0], Seed(8).stream("arrivals").bits());
    }

    #[test]
    fn draws_are_pinned_so_that_old_runs_stay_reproducible() {
        let mut s = Seed(1).stream("golden");
        let drawn = (s.bits(), s.below(1000), s.exp1(), s.gamma(2.0, 3.0), s.normal());
        check_golden(&format!("{drawn:?}"));
    }

    fn check_golden(seen: &str) {
        assert_eq!(seen, include_str!("stream.golden").trim());
    }

    #[test]
    fn a_binomial_has_its_mean_and_its_edges() {
        let mut s = Seed(2).stream("binomial");
        let mean = (0..20_000).map(|_| f64::from(s.binomial(100, 0.3))).sum::<f64>() / 20_000.0;
        assert!((mean - 30.0).abs() < 0.2, "mean {mean}");
        assert_eq!((s.binomial(50, 0.0), s.binomial(50, 1.0)), (0, 50));
    }

    #[test]
    fn unit_of_a_counter_is_uniform() {
        let n = 100_000;
        let mean = (0..n).map(|i| Seed(3).unit(i)).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.005, "mean {mean}");
    }

    #[test]
    fn below_is_unbiased_at_its_edges() {
        let mut s = Seed(5).stream("below");
        let mut counts = [0u32; 3];
        for _ in 0..30_000 {
            counts[s.below(3) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_600..10_400).contains(&c)), "{counts:?}");
    }
}
