//! A least-recently-used set of block ids, for hit curves.

use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

/// Ids in order of use: a linked list in a vector, with a map to find a place in it.
pub(super) struct Lru {
    capacity: usize,
    places: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy)]
struct Node {
    id: u64,
    older: u32,
    newer: u32,
}

impl Lru {
    pub fn new(capacity: usize) -> Self {
        let (nodes, free) = (Vec::new(), Vec::new());
        Self { capacity, places: FxHashMap::default(), nodes, free, newest: NONE, oldest: NONE }
    }

    /// Length of the longest leading run of ids that are present; then uses all ids in order; then drops the least
    /// recently used down to the capacity.
    pub fn visit(&mut self, ids: &[u64]) -> usize {
        let hits = ids.iter().take_while(|id| self.places.contains_key(id)).count();
        for &id in ids {
            self.touch(id);
        }
        while self.places.len() > self.capacity {
            self.drop_oldest();
        }
        hits
    }

    fn touch(&mut self, id: u64) {
        let place = match self.places.get(&id) {
            Some(&place) => {
                self.unlink(place);
                place
            }
            None => {
                let place = self.free.pop().unwrap_or(self.nodes.len() as u32);
                if place as usize == self.nodes.len() {
                    self.nodes.push(Node { id, older: NONE, newer: NONE });
                }
                self.places.insert(id, place);
                place
            }
        };
        self.nodes[place as usize] = Node { id, older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = place,
            newest => self.nodes[newest as usize].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Node { older, newer, .. } = self.nodes[place as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }

    fn drop_oldest(&mut self) {
        let place = self.oldest;
        self.unlink(place);
        self.places.remove(&self.nodes[place as usize].id);
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_counts_its_leading_run_before_it_evicts() {
        let mut lru = Lru::new(2);
        assert_eq!(lru.visit(&[1, 2, 3]), 0, "leaves 2 and 3");
        assert_eq!(lru.visit(&[2, 9, 3]), 1, "3 is there but not in the leading run; leaves 9 and 3");
        assert_eq!(lru.visit(&[3, 9]), 2);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_list(capacity in 1usize..6, rows in prop::collection::vec(prop::collection::vec(0u64..8, 0..5), 0..40)) {
            let (mut lru, mut plain) = (Lru::new(capacity), Vec::<u64>::new());
            for row in rows {
                let hits = row.iter().take_while(|id| plain.contains(id)).count();
                for &id in &row {
                    plain.retain(|&other| other != id);
                    plain.push(id);
                }
                let surplus = plain.len().saturating_sub(capacity);
                plain.drain(..surplus);
                prop_assert_eq!(lru.visit(&row), hits);
            }
        }
    }
}
