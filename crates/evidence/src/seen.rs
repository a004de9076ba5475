//! Which request ids a file has had.

use std::collections::BTreeMap;

/// Ids below this are a bit each, 8 MiB when all are there; ids are numbers within a run, so hardly any lies above.
const DENSE: u64 = 1 << 26;

/// A set of ids.
#[derive(Default)]
pub(crate) struct Seen {
    dense: Vec<u64>,
    sparse: Ranges,
}

impl Seen {
    /// Adds an id; false when it was there.
    pub(crate) fn insert(&mut self, id: u64) -> bool {
        if id >= DENSE {
            return self.sparse.insert(id);
        }
        let (word, bit) = ((id / 64) as usize, 1 << (id % 64));
        if word >= self.dense.len() {
            self.dense.resize((word + 1).next_power_of_two(), 0);
        }
        let is_new = self.dense[word] & bit == 0;
        self.dense[word] |= bit;
        is_new
    }
}

/// A set of numbers as disjoint ranges, first to last.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a number; false when it was there.
    fn insert(&mut self, number: u64) -> bool {
        let (mut first, mut last) = (number, number);
        if let Some((&start, &end)) = self.0.range(..=number).next_back() {
            if end >= number {
                return false;
            }
            if end + 1 == number {
                first = start;
            }
        }
        if let Some(end) = number.checked_add(1).and_then(|next| self.0.remove(&next)) {
            last = end;
        }
        self.0.insert(first, last);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_a_set(numbers in prop::collection::vec(prop_oneof![0u64..40, Just(u64::MAX), Just(u64::MAX - 1)], 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.insert(number), set.insert(number));
            }
            let members: usize = ranges.0.iter().map(|(first, last)| (last - first + 1) as usize).sum();
            prop_assert_eq!(members, set.len());
        }

        #[test]
        fn ids_are_a_set_on_both_sides_of_the_bound(
            ids in prop::collection::vec(prop_oneof![0u64..200, DENSE - 2..DENSE + 2, Just(u64::MAX)], 0..80),
        ) {
            let (mut seen, mut set) = (Seen::default(), BTreeSet::new());
            for id in ids {
                prop_assert_eq!(seen.insert(id), set.insert(id));
            }
        }
    }
}
