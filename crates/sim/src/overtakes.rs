//! How many requests that came later were admitted earlier: a Fenwick tree over the order of arrival.

/// Counts first admissions by order of arrival at one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overtakes {
    /// Order of arrival that the tree's first leaf stands for; earlier ones no longer matter.
    base: u64,
    tree: Vec<u32>,
    marks: Vec<bool>,
    admitted: u32,
    latest_admitted: Option<u64>,
}

impl Overtakes {
    /// Notes the first admission of arrival number `arrival` and says how many later ones were admitted before it.
    /// `oldest_waiting` is the least arrival number that still waits for its first admission.
    pub(crate) fn admit(&mut self, arrival: u64, oldest_waiting: Option<u64>) -> u32 {
        let in_order = self.latest_admitted.is_none_or(|latest| latest < arrival);
        if in_order && oldest_waiting.is_none_or(|oldest| oldest > arrival) && self.admitted == 0 {
            self.latest_admitted = Some(arrival);
            self.base = arrival + 1;
            return 0;
        }
        self.latest_admitted = self.latest_admitted.max(Some(arrival));
        self.make_room(arrival, oldest_waiting);
        let index = (arrival - self.base) as usize;
        let later = self.admitted - self.marked_through(index);
        self.mark(index);
        later
    }

    fn make_room(&mut self, arrival: u64, oldest_waiting: Option<u64>) {
        if ((arrival - self.base) as usize) < self.marks.len() {
            return;
        }
        let oldest = oldest_waiting.map_or(arrival, |oldest| oldest.min(arrival)).max(self.base);
        let dropped = ((oldest - self.base) as usize).min(self.marks.len());
        let kept: Vec<bool> = self.marks[dropped..].to_vec();
        let span = (arrival - oldest + 1) as usize;
        *self = Self { base: oldest, latest_admitted: self.latest_admitted, ..Self::default() };
        let room = (span * 2).next_power_of_two().max(64);
        self.tree = vec![0; room + 1];
        self.marks = vec![false; room];
        for (index, _) in kept.iter().enumerate().filter(|(_, marked)| **marked) {
            self.mark(index);
        }
    }

    fn mark(&mut self, index: usize) {
        self.marks[index] = true;
        self.admitted += 1;
        let mut at = index + 1;
        while at < self.tree.len() {
            self.tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Marks at or before `index`.
    fn marked_through(&self, index: usize) -> u32 {
        let (mut at, mut sum) = (index + 1, 0);
        while at > 0 {
            sum += self.tree[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_definition(order: &[u64]) -> Vec<u32> {
        let later = |at: usize| order[..at].iter().filter(|&&earlier| earlier > order[at]).count() as u32;
        (0..order.len()).map(later).collect()
    }

    fn counted(order: &[u64]) -> Vec<u32> {
        let mut overtakes = Overtakes::default();
        let mut waiting: std::collections::BTreeSet<u64> = order.iter().copied().collect();
        let mut admit = |&arrival| {
            waiting.remove(&arrival);
            overtakes.admit(arrival, waiting.first().copied())
        };
        order.iter().map(&mut admit).collect()
    }

    #[test]
    fn one_request_passed_by_two() {
        assert_eq!(counted(&[0, 2, 3, 1]), [0, 0, 0, 2]);
    }

    proptest! {
        #[test]
        fn counts_agree_with_the_definition(keys in prop::collection::vec(0u64..50, 1..300)) {
            // Arrivals admitted at time arrival + delay: mostly in order, with long delays now and then.
            let mut order: Vec<u64> = (0..keys.len() as u64).collect();
            order.sort_by_key(|&a| (a + keys[a as usize].pow(2) / 20, a));
            prop_assert_eq!(counted(&order), by_definition(&order));
        }
    }
}
