//! A map of bounded size that forgets the least recently touched key. Its order never depends on hashing.

use rustc_hash::FxHashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

/// Constant-time map with an age order, kept as a list threaded through a dense table.
#[derive(Clone, Debug)]
pub(crate) struct Lru<K, V> {
    slots: FxHashMap<K, u32>,
    nodes: Vec<Node<K, V>>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    newer: u32,
    older: u32,
}

/// What [`Lru::touch`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched<K> {
    /// The key was there.
    Known,
    /// The key was added.
    Added,
    /// The key was added and this one forgotten.
    Replaced(K),
    /// Nothing is ever remembered.
    Refused,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(NONE as usize);
        Self { slots: FxHashMap::default(), nodes: Vec::new(), newest: NONE, oldest: NONE, capacity }
    }

    /// Keys remembered.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.slots.contains_key(&key)
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.slots.get(&key).map(|&slot| &self.nodes[slot as usize].value)
    }

    /// Stores the value and makes the key the newest, forgetting the oldest when full.
    pub(crate) fn touch(&mut self, key: K, value: V) -> Touched<K> {
        if self.capacity == 0 {
            return Touched::Refused;
        }
        if let Some(&slot) = self.slots.get(&key) {
            self.nodes[slot as usize].value = value;
            self.unlink(slot);
            self.link_newest(slot);
            return Touched::Known;
        }
        if self.nodes.len() < self.capacity {
            let slot = self.nodes.len() as u32;
            self.nodes.push(Node { key, value, newer: NONE, older: NONE });
            self.slots.insert(key, slot);
            self.link_newest(slot);
            return Touched::Added;
        }
        let slot = self.oldest;
        self.unlink(slot);
        let node = &mut self.nodes[slot as usize];
        let forgotten = std::mem::replace(&mut node.key, key);
        node.value = value;
        self.slots.remove(&forgotten);
        self.slots.insert(key, slot);
        self.link_newest(slot);
        Touched::Replaced(forgotten)
    }

    fn unlink(&mut self, slot: u32) {
        let Node { newer, older, .. } = self.nodes[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = self.newest;
        let node = &mut self.nodes[slot as usize];
        node.newer = NONE;
        node.older = older;
        match older {
            NONE => self.oldest = slot,
            older => self.nodes[older as usize].newer = slot,
        }
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_touched_key_goes_first() {
        let mut lru = Lru::new(2);
        assert_eq!(lru.touch('a', 1), Touched::Added);
        assert_eq!(lru.touch('b', 2), Touched::Added);
        assert_eq!(lru.touch('a', 3), Touched::Known);
        assert_eq!(lru.touch('c', 4), Touched::Replaced('b'));
        assert_eq!((lru.get('a'), lru.get('b'), lru.get('c')), (Some(&3), None, Some(&4)));
    }

    #[test]
    fn a_map_without_room_remembers_nothing() {
        let mut lru = Lru::new(0);
        assert_eq!(lru.touch(1, ()), Touched::Refused);
        assert!(!lru.contains(1));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list_that_is_searched(
            capacity in 1u64..6, keys in proptest::collection::vec(0u8..10, 0..200)
        ) {
            let mut lru = Lru::new(capacity);
            let mut list: Vec<u8> = Vec::new();
            for key in keys {
                lru.touch(key, key);
                list.retain(|&k| k != key);
                list.insert(0, key);
                list.truncate(capacity as usize);
                for k in 0..10 {
                    prop_assert_eq!(lru.contains(k), list.contains(&k));
                }
            }
        }
    }
}
