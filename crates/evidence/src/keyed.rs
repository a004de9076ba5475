//! Values by key, found by hash and given back in the order of keys.

use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::hash::Hash;

/// A value for each key that was asked for. The hash map is for look-up only and never iterated.
pub(crate) struct Keyed<K, V> {
    places: FxHashMap<K, usize>,
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Self { places: FxHashMap::default(), entries: Vec::new() }
    }
}

impl<K: Hash + Ord + Clone, V: Default> Keyed<K, V> {
    /// The value of a key, a fresh one when there was none.
    pub(crate) fn of<Q>(&mut self, key: &Q) -> &mut V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let (key, place) = (key.to_owned(), self.entries.len());
                self.places.insert(key.clone(), place);
                self.entries.push((key, V::default()));
                place
            }
        };
        &mut self.entries[place].1
    }

    /// Keys and values, ascending.
    pub(crate) fn sorted(mut self) -> Vec<(K, V)> {
        self.entries.sort_by(|a, b| a.0.cmp(&b.0));
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_the_order_of_keys() {
        let mut counts: Keyed<String, u64> = Keyed::default();
        for key in ["b", "a", "b", "c", "a", "b"] {
            *counts.of(key) += 1;
        }
        assert_eq!(counts.sorted(), [("a".to_owned(), 2), ("b".to_owned(), 3), ("c".to_owned(), 1)]);
    }
}
