//! Lengths of time by the million: packed, sorted once, read by rank.

use crate::metrics::{Value, quantile_by};
use acb_types::Nanos;

/// A sample of lengths of time. One below 4.29 s takes four bytes, a longer one eight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    short: Vec<u32>,
    long: Vec<u64>,
}

/// The same in ascending order.
#[derive(Debug)]
pub(crate) struct Sorted(Sample);

impl Sample {
    /// Adds a length.
    pub(crate) fn push(&mut self, length: Nanos) {
        match u32::try_from(length.0) {
            Ok(short) => self.short.push(short),
            Err(_) => self.long.push(length.0),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    /// In ascending order.
    pub(crate) fn sorted(mut self) -> Sorted {
        sort_by_digits(&mut self.short, |length| u64::from(*length));
        sort_by_digits(&mut self.long, |length| *length);
        Sorted(self)
    }
}

/// Bits of a digit: 2048 counters stay in the first cache.
const DIGIT_BITS: u32 = 11;
/// Samples below this are sorted by comparison.
const FEW: usize = 1 << 13;

/// Sorts ascending by the digits of a key, lowest first (LSD radix sort); several times as fast as comparing millions.
fn sort_by_digits<T: Copy + Ord>(values: &mut Vec<T>, key: impl Fn(&T) -> u64) {
    let Some(largest) = values.iter().max().map(&key) else { return };
    if values.len() < FEW {
        return values.sort_unstable();
    }
    let mask = (1 << DIGIT_BITS) - 1;
    let mut sorted = values.clone();
    for shift in (0..u64::BITS - largest.leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |value: &T| ((key(value) >> shift) & mask) as usize;
        let mut places = vec![0; 1 << DIGIT_BITS];
        values.iter().for_each(|value| places[digit(value)] += 1);
        let mut before = 0;
        for place in &mut places {
            (*place, before) = (before, before + *place);
        }
        for value in values.iter() {
            let place = &mut places[digit(value)];
            sorted[*place] = *value;
            *place += 1;
        }
        std::mem::swap(values, &mut sorted);
    }
}

impl Sorted {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The length of this rank, from 0, in milliseconds.
    ///
    /// # Panics
    /// When there are not so many.
    pub(crate) fn millis(&self, rank: usize) -> f64 {
        let Sample { short, long } = &self.0;
        let nanos = short.get(rank).map_or_else(|| long[rank - short.len()], |short| u64::from(*short));
        Nanos(nanos).as_millis_f64()
    }

    /// The longest, in milliseconds.
    pub(crate) fn longest(&self) -> Option<f64> {
        self.len().checked_sub(1).map(|last| self.millis(last))
    }

    /// The `q` quantile in milliseconds, when it is estimable.
    pub(crate) fn quantile(&self, q: f64) -> Value {
        quantile_by(self.len(), q, |rank| self.millis(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{quantile, sort};
    use proptest::prelude::*;

    #[test]
    fn many_are_sorted_by_digits_as_by_comparison() {
        let scrambled = |bits: u32| {
            (0..3 * FEW as u64).map(move |n| (n * n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits))
        };
        for bits in [1, 11, 12, 31, 40, 64] {
            let mut values: Vec<u64> = scrambled(bits).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            sort_by_digits(&mut values, |value| *value);
            assert_eq!(values, expected, "{bits} bits");
        }
    }

    proptest! {
        #[test]
        fn a_packed_sample_gives_what_a_sorted_list_gives(
            lengths in prop::collection::vec(prop_oneof![0u64..1 << 20, (1u64 << 32) - 2..(1 << 32) + 2, Just(u64::MAX)], 0..400),
        ) {
            let mut packed = Sample::default();
            lengths.iter().for_each(|length| packed.push(Nanos(*length)));
            let mut plain: Vec<f64> = lengths.iter().map(|length| Nanos(*length).as_millis_f64()).collect();
            sort(&mut plain);
            let packed = packed.sorted();
            prop_assert_eq!((packed.len(), packed.longest()), (plain.len(), plain.last().copied()));
            prop_assert!((0..plain.len()).all(|rank| packed.millis(rank) == plain[rank]));
            for q in [0.5, 0.95, 0.99] {
                prop_assert_eq!(packed.quantile(q), quantile(&plain, q));
            }
        }
    }
}
