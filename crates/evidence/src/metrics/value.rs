//! What families share: a value with its sample, quantiles of a sample, sums that don't depend on order.

use crate::Wall;
use acb_stats::{inverted_rank, order_statistic_interval, samples_needed};
use acb_types::Source;

/// Confidence of the interval around a quantile, and of the bound that makes it estimable.
const CONFIDENCE: f64 = 0.95;

/// A number or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    /// The number.
    pub number: Result<f64, String>,
    /// Observations behind it.
    pub n: u64,
    /// Interval of a quantile.
    pub low: Option<f64>,
    /// As above.
    pub high: Option<f64>,
    /// Who saw it, when that isn't the source of the records.
    pub source: Option<Source>,
}

impl Value {
    /// A number over `n` observations.
    pub(crate) fn of(number: f64, n: u64) -> Self {
        Self::from(Ok(number), n)
    }

    /// No number, though there were `n` observations.
    pub(crate) fn absent(reason: impl Into<String>, n: u64) -> Self {
        Self::from(Err(reason.into()), n)
    }

    pub(crate) fn from(number: Result<f64, String>, n: u64) -> Self {
        Self { number, n, low: None, high: None, source: None }
    }

    /// `total / n`, absent for no observation.
    pub(crate) fn ratio(total: f64, n: u64, none: &str) -> Self {
        if n == 0 { Self::absent(none, 0) } else { Self::of(total / n as f64, n) }
    }

    /// `amount` per second of wall time.
    pub(crate) fn rate(amount: f64, n: u64, wall: Option<Wall>) -> Self {
        match wall.map(|wall| wall.length().as_secs_f64()) {
            None => Self::absent("there are no records", n),
            Some(seconds) if seconds > 0.0 => Self::of(amount / seconds, n),
            Some(_) => Self::absent("the wall time is zero", n),
        }
    }
}

/// Sorts a sample for [`quantile`].
pub(crate) fn sort(sample: &mut [f64]) {
    sample.sort_unstable_by(f64::total_cmp);
}

/// The `q` quantile of an ascending sample, when it is estimable.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Value {
    quantile_by(sorted.len(), q, |rank| sorted[rank])
}

/// The `q` quantile of `n` observations of which `at` gives the one of a rank, from 0, when it is estimable.
pub(crate) fn quantile_by(n: usize, q: f64, at: impl Fn(usize) -> f64) -> Value {
    let needed = samples_needed(q, CONFIDENCE).expect("quantiles of the registry lie between 0 and 1");
    if n < needed {
        return Value::absent(format!("not estimable: needs {needed} answers, there are {n}"), n as u64);
    }
    let rank = inverted_rank(n, q).expect("a sample of the needed size is not empty");
    let ranks = order_statistic_interval(n, q, CONFIDENCE).expect("a sample of the needed size is not empty");
    let low = ranks.low.checked_sub(1).map(&at);
    let high = (ranks.high <= n).then(|| at(ranks.high - 1));
    Value { low, high, ..Value::of(at(rank), n as u64) }
}

/// A sum of qualities in fixed point, so that it does not depend on their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QualitySum(u128);

impl QualitySum {
    const ONE: f64 = (1u64 << 60) as f64;

    /// Adds a quality.
    pub(crate) fn add(&mut self, quality: f64) {
        assert!((0.0..=1.0).contains(&quality), "a quality lies in 0 to 1, not {quality}");
        self.0 += (quality * Self::ONE) as u128;
    }

    /// The sum.
    pub(crate) fn total(self) -> f64 {
        self.0 as f64 / Self::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_of_too_few_answers_is_absent_and_says_how_many_it_needs() {
        let sample: Vec<f64> = (1..=299).map(f64::from).collect();
        let p99 = quantile(&sample, 0.99);
        assert_eq!((p99.number, p99.n), (Ok(297.0), 299));
        assert_eq!(p99.high, None, "two-sided, 299 give no upper end yet");
        let few = quantile(&sample[..298], 0.99).number.unwrap_err();
        assert_eq!(few, "not estimable: needs 299 answers, there are 298");
    }

    #[test]
    fn a_median_has_the_interval_of_its_order_statistics() {
        // Ranks 6 and 15 of 20 (shared/data/statistics-vectors.json, `quantCI_n20_q0.5_95`).
        let sample: Vec<f64> = (1..=20).map(f64::from).collect();
        let p50 = quantile(&sample, 0.5);
        assert_eq!((p50.number, p50.low, p50.high), (Ok(10.0), Some(6.0), Some(15.0)));
    }

    #[test]
    fn a_sum_of_qualities_does_not_depend_on_order() {
        let qualities = [0.1, 0.7, 1.0, 1e-9, 0.3];
        let sum = |order: &mut dyn Iterator<Item = &f64>| {
            let mut sum = QualitySum::default();
            order.for_each(|quality| sum.add(*quality));
            sum.total()
        };
        assert_eq!(sum(&mut qualities.iter()), sum(&mut qualities.iter().rev()));
        assert!((sum(&mut qualities.iter()) - 2.100_000_001).abs() < 1e-15);
    }
}
