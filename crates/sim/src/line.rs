//! How many requests of a queue are before one of them, without walking there.

/// Counts of the waiting requests by place: a Fenwick tree that grows at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// The place of its first entry.
    from: u64,
    /// Entry `i` (from 1) holds the count of the places `(i - lowest bit of i, i]`.
    sums: Vec<u32>,
}

impl Line {
    /// Nobody waits; the next place is `from`.
    pub(crate) fn restart(&mut self, from: u64) {
        self.from = from;
        self.sums.clear();
    }

    /// Somebody waits at the next place.
    pub(crate) fn push(&mut self) {
        let entry = self.sums.len() + 1;
        let covered = self.first(entry - 1) - self.first(entry - lowest_bit(entry));
        self.sums.push(covered + 1);
    }

    /// The one at `place` left.
    pub(crate) fn remove(&mut self, place: u64) {
        let mut entry = (place - self.from) as usize + 1;
        while let Some(sum) = self.sums.get_mut(entry - 1) {
            *sum -= 1;
            entry += lowest_bit(entry);
        }
    }

    /// How many wait before `place`.
    pub(crate) fn before(&self, place: u64) -> u32 {
        self.first((place - self.from) as usize)
    }

    /// How many wait at the first `entries` places.
    fn first(&self, mut entries: usize) -> u32 {
        let mut sum = 0;
        while entries > 0 {
            sum += self.sums[entries - 1];
            entries -= lowest_bit(entries);
        }
        sum
    }
}

fn lowest_bit(entry: usize) -> usize {
    entry & entry.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_many_are_before_a_place_as_counting_finds(from in 0u64..9, steps in prop::collection::vec(0usize..7, 1..200)) {
            let mut line = Line::default();
            line.restart(from);
            let (mut waiting, mut next) = (Vec::new(), from);
            for step in steps {
                if step < 4 || waiting.is_empty() {
                    line.push();
                    waiting.push(next);
                    next += 1;
                } else {
                    line.remove(waiting.remove(step % waiting.len()));
                }
                for place in from..next {
                    let before = waiting.iter().filter(|&&p| p < place).count() as u32;
                    prop_assert_eq!(line.before(place), before);
                }
            }
        }
    }
}
