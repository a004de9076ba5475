//! Draining (`lora/lora_drainer.py`): when an adapter's requests wait too long and all slots are taken, the adapter that
//! will be done first takes no more requests but short ones.

use super::slots::Holder;
use crate::exact::Exact;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What runs and what waits, by adapter.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Longest time that a request waits.
    pub(super) waited: BTreeMap<Holder, Exact>,
    /// Most tokens that a running request may still write.
    pub(super) remaining: BTreeMap<Holder, u32>,
}

/// Who drains for whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Drainer {
    draining: BTreeMap<Holder, Holder>,
}

impl Drainer {
    /// Looks at the demand before a pass over the waiting requests.
    pub(super) fn update(&mut self, demand: &Demand, slots: usize, threshold: Exact) {
        if demand.remaining.len() >= slots {
            self.choose(demand, threshold);
        }
        self.draining.retain(|holder, _| demand.remaining.contains_key(holder));
    }

    fn choose(&mut self, demand: &Demand, threshold: Exact) {
        let served: BTreeSet<Holder> = self.draining.values().copied().collect();
        let starving =
            demand.waited.iter().filter(|&(holder, &time)| time > threshold && !served.contains(holder));
        let mut starving: Vec<(Reverse<Exact>, Holder)> =
            starving.map(|(&holder, &time)| (Reverse(time), holder)).collect();
        starving.sort_unstable();
        let free = demand.remaining.iter().filter(|(holder, _)| !self.draining.contains_key(holder));
        let mut eligible: Vec<(u32, Holder)> = free.map(|(&holder, &left)| (left, holder)).collect();
        eligible.sort_unstable();
        for ((_, hungry), (_, victim)) in starving.into_iter().zip(eligible) {
            // The server notes "draining for the base model" as "not draining".
            if hungry.is_some() {
                self.draining.insert(victim, hungry);
            }
        }
    }

    /// Whether a request may be scheduled: its adapter does not drain, or it asks for at most 1.2 times what the longest
    /// running one may still write.
    pub(super) fn allows(&self, holder: Holder, allowed: u32, demand: &Demand) -> bool {
        let left = demand.remaining.get(&holder).copied().unwrap_or(0);
        !self.draining.contains_key(&holder) || u64::from(allowed) * 5 <= u64::from(left) * 6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::{AdapterId, Nanos};

    fn seconds(s: u64) -> Exact {
        Exact::from(Nanos(s * 1_000_000_000))
    }

    #[test]
    fn the_adapter_that_is_done_first_drains_for_the_one_that_waits_longest() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| Some(AdapterId(i)));
        let mut demand = Demand {
            waited: BTreeMap::from([(c, seconds(3)), (d, seconds(5))]),
            remaining: BTreeMap::from([(a, 100), (b, 50)]),
        };
        let mut drainer = Drainer::default();
        drainer.update(&demand, 2, seconds(4));
        assert_eq!(drainer.draining, BTreeMap::from([(b, d)]));
        assert!(drainer.allows(a, 9999, &demand) && drainer.allows(b, 60, &demand));
        assert!(!drainer.allows(b, 61, &demand), "1.2 times 50 is the most");
        drainer.update(&demand, 2, seconds(2));
        assert_eq!(drainer.draining, BTreeMap::from([(a, c), (b, d)]), "each drains for one");
        demand.remaining.remove(&b);
        drainer.update(&demand, 2, seconds(9));
        assert_eq!(drainer.draining, BTreeMap::from([(a, c)]), "who has drained is free again");
    }

    #[test]
    fn nobody_drains_while_a_slot_is_free() {
        let [a, c] = [0, 2].map(|i| Some(AdapterId(i)));
        let demand =
            Demand { waited: BTreeMap::from([(c, seconds(9))]), remaining: BTreeMap::from([(a, 100)]) };
        let mut drainer = Drainer::default();
        drainer.update(&demand, 2, seconds(1));
        assert!(drainer.draining.is_empty());
    }
}
