//! Quantiles of a stream of whole numbers in bounded memory.

use crate::samples_needed;
use std::collections::BTreeMap;

/// Values below this are counted exactly; above, a bucket is 1/128 of its power of two wide.
const EXACT_BITS: u32 = 8;
const STEP_BITS: u32 = EXACT_BITS - 1;

/// Counts of whole numbers in buckets whose width grows with the value: a quantile is exact below 256 and off by at
/// most 0.4 % above. Memory is bounded by the 7,424 buckets that 64 bits have, however many values come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<u16, u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        *self.counts.entry(bucket(value)).or_default() += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Values so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Arithmetic mean, exact; `None` when there is no value.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The greatest value, exact; `None` when there is none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The smallest value with at least a share `q` of the values at or below it, to within the bucket's width; `None`
    /// when there is no value.
    ///
    /// # Panics
    /// When `q` is not in 0 to 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&q), "a quantile is asked for at a share from 0 to 1, not {q}");
        let rank = ((self.count as f64 * q * (1.0 - 1e-14)).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (&bucket, &count) in &self.counts {
            below += count;
            if below >= rank {
                return Some(middle(bucket).min(self.max));
            }
        }
        None
    }

    /// As [`Histogram::quantile`], but `None` too when the sample is too small for some observation to bound the
    /// quantile from above with 95 % confidence ([`samples_needed`]): a p99 of 120 requests is not estimable.
    ///
    /// # Panics
    /// When `q` is not between 0 and 1.
    #[must_use]
    pub fn estimable(&self, q: f64) -> Option<u64> {
        let needed = samples_needed(q, 0.95).expect("the share lies between 0 and 1");
        if self.count < needed as u64 { None } else { self.quantile(q) }
    }
}

fn bucket(value: u64) -> u16 {
    let bits = 64 - value.leading_zeros();
    let shift = bits.saturating_sub(EXACT_BITS);
    let within = (value >> shift) as u16;
    ((shift as u16) << STEP_BITS) + within
}

/// The middle of a bucket.
fn middle(bucket: u16) -> u64 {
    if bucket < 1 << EXACT_BITS {
        return u64::from(bucket);
    }
    let shift = (bucket >> STEP_BITS) - 1;
    let within = u64::from(bucket & ((1 << STEP_BITS) - 1)) | 1 << STEP_BITS;
    (within << shift) + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile_inverted;
    use proptest::prelude::*;

    #[test]
    fn an_empty_histogram_has_no_numbers() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.max(), empty.count()), (None, None, None, 0));
    }

    #[test]
    fn small_values_are_exact_and_a_tail_needs_its_sample() {
        let mut seen = Histogram::default();
        (1..=120).for_each(|value| seen.add(value));
        assert_eq!((seen.quantile(0.5), seen.quantile(0.99), seen.max()), (Some(60), Some(119), Some(120)));
        assert_eq!((seen.estimable(0.95), seen.estimable(0.99)), (Some(114), None));
    }

    #[test]
    fn the_greatest_number_has_a_bucket() {
        let mut seen = Histogram::default();
        seen.add(u64::MAX);
        let off = u64::MAX - seen.quantile(1.0).unwrap();
        assert!(off as f64 <= u64::MAX as f64 * 0.004 && bucket(u64::MAX) < 7_424);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_half_a_percent_of_the_exact_one(
            values in prop::collection::vec(0..u64::MAX >> 20, 1..200), q in 0.0..1.0f64,
        ) {
            let mut seen = Histogram::default();
            values.iter().for_each(|&value| seen.add(value));
            let mut sorted: Vec<f64> = values.iter().map(|&v| v as f64).collect();
            sorted.sort_by(f64::total_cmp);
            let exact = quantile_inverted(&sorted, q).unwrap();
            let near = seen.quantile(q).unwrap() as f64;
            prop_assert!((near - exact).abs() <= 0.004 * exact, "{near} against {exact}");
        }
    }
}
