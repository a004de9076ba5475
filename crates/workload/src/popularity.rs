//! Popularity laws as numbers, and a sampler that draws from one in constant time.

use crate::spec::Popularity;

impl Popularity {
    /// The exact share of each of `n` things, in order; sums to 1.
    ///
    /// # Panics
    /// When `n` is zero, or weights are not `n` non-negative numbers of a positive sum, which a checked spec rules out.
    #[must_use]
    pub fn shares(&self, n: usize) -> Vec<f64> {
        assert!(n > 0, "popularity of nothing");
        let ranks = (1..=n).map(|k| k as f64);
        let raw: Vec<f64> = match self {
            Self::Uniform {} => vec![1.0; n],
            Self::Zipf { s } => ranks.map(|k| k.powf(-s)).collect(),
            Self::SloraPower { alpha } => {
                let below = |k: f64| (k / n as f64).powf(*alpha);
                ranks.map(|k| below(k) - below(k - 1.0)).collect()
            }
            Self::PunicaGeometric { alpha } => ranks.map(|k| alpha.powf(1.0 - k)).collect(),
            Self::Linear {} => ranks.map(|k| n as f64 + 1.0 - k).collect(),
            Self::Weights { weights } => weights.clone(),
        };
        assert_eq!(raw.len(), n, "one weight for each thing");
        let total: f64 = raw.iter().sum();
        assert!(total > 0.0 && total.is_finite(), "weights add up to a positive number");
        raw.into_iter().map(|weight| weight / total).collect()
    }
}

/// Draws an index with given shares in constant time (Walker's alias method, built as Vose does).
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    keep: f64,
    other: u32,
}

impl Sampler {
    pub fn new(shares: &[f64]) -> Self {
        let n = shares.len();
        let mut scaled: Vec<f64> = shares.iter().map(|share| share * n as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| scaled[i] < 1.0);
        let mut cells = vec![Cell { keep: 1.0, other: 0 }; n];
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            small.pop();
            cells[s] = Cell { keep: scaled[s], other: l as u32 };
            scaled[l] -= 1.0 - scaled[s];
            if scaled[l] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        // What rounding left over stands for itself; a share of nothing must still never be drawn.
        for i in small {
            if shares[i] == 0.0 {
                let other = shares.iter().position(|&share| share > 0.0).expect("a share is positive");
                cells[i] = Cell { keep: 0.0, other: other as u32 };
            }
        }
        Self { cells }
    }

    pub fn of(popularity: &Popularity, n: usize) -> Self {
        Self::new(&popularity.shares(n))
    }

    /// The index at `unit` in [0, 1).
    pub fn at(&self, unit: f64) -> u32 {
        let place = unit * self.cells.len() as f64;
        let index = (place as usize).min(self.cells.len() - 1);
        let cell = self.cells[index];
        if place - index as f64 >= cell.keep { cell.other } else { index as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::Seed;

    /// Top-1 share, top-10 share, sum of squares.
    fn facts(shares: &[f64]) -> [f64; 3] {
        [shares[0], shares[..10].iter().sum(), shares.iter().map(|p| p * p).sum()]
    }

    fn check(popularity: Popularity, n: usize, expected: [f64; 3]) {
        let shares = popularity.shares(n);
        for (got, wanted) in facts(&shares).into_iter().zip(expected) {
            assert!(wanted.is_nan() || (got - wanted).abs() < 1e-12, "{popularity:?}: {got}, not {wanted}");
        }
        let sampler = Sampler::new(&shares);
        let mut counts = vec![0.0; n];
        let draws = 400_000;
        for i in 0..draws {
            counts[sampler.at(Seed(11).unit(i)) as usize] += 1.0 / draws as f64;
        }
        for (k, (seen, share)) in counts.iter().zip(&shares).enumerate() {
            let sd = (share * (1.0 - share) / draws as f64).sqrt();
            assert!((seen - share).abs() < 5.0 * sd + 1e-12, "{popularity:?}, {k}: drew {seen}, law {share}");
        }
    }

    #[test]
    fn zipf_has_the_reference_shares_and_is_drawn_as_it_says() {
        check(Popularity::Zipf { s: 0.0 }, 100, [0.01, 0.1, 0.01]);
        check(
            Popularity::Zipf { s: 0.8 },
            100,
            [0.12293414655658282, 0.43827455360089357, 0.03295982861860687],
        );
        check(
            Popularity::Zipf { s: 1.0 },
            100,
            [0.19277563597396005, 0.5646337179062695, 0.06076000061563767],
        );
        check(
            Popularity::Zipf { s: 1.5 },
            100,
            [0.4144435055841647, 0.8269542511221655, 0.20646090118632315],
        );
    }

    #[test]
    fn slora_power_has_the_reference_shares_and_is_uniform_at_one() {
        let skip = f64::NAN;
        for (alpha, top, ten) in [
            (0.1, 0.5887040186524746, 0.7411344491069477),
            (0.3, 0.20402857733683696, 0.4070905315369044),
            (0.6, 0.04162766037009366, 0.16572270086699936),
            (1.0, 0.005, 0.05),
        ] {
            check(Popularity::SloraPower { alpha }, 200, [top, ten, skip]);
        }
    }

    #[test]
    fn punica_geometric_saturates_at_five_effective_adapters() {
        for (n, n_eff) in [(8, 4.62), (100, 5.0)] {
            let shares = Popularity::PunicaGeometric { alpha: 1.5 }.shares(n);
            let seen = 1.0 / shares.iter().map(|p| p * p).sum::<f64>();
            assert!((seen - n_eff).abs() < 0.01, "{n}: {seen}");
            assert!((shares[0] / shares[1] - 1.5).abs() < 1e-12);
        }
    }

    #[test]
    fn a_thing_without_weight_is_never_drawn() {
        let sampler = Sampler::of(&Popularity::Weights { weights: vec![0.0, 3.0, 0.0, 1.0, 0.0] }, 5);
        assert!((0..10_000).all(|i| matches!(sampler.at(Seed(1).unit(i)), 1 | 3)));
        assert_eq!(Sampler::of(&Popularity::Linear {}, 1).at(0.999_999), 0);
    }
}
