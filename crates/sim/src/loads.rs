//! What adapter loads wait for: turns, the one copy engine, the disk and the network.

use crate::adapters::AdapterCosts;
use crate::exact::Exact;
use acb_types::{AdapterId, Tier};
use std::collections::BTreeSet;

/// So many at a time, first asked first served: whoever asks is given its end at once.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    free_at: Vec<Exact>,
}

impl Turns {
    /// All free.
    pub(crate) fn new(at_once: u32) -> Self {
        Self { free_at: vec![Exact::ZERO; at_once as usize] }
    }

    /// All free at `now`, whatever was taken.
    pub(crate) fn reset(&mut self, now: Exact) {
        self.free_at.fill(now);
    }

    /// When the next turn can begin, if asked for at `now`.
    pub(crate) fn next(&self, now: Exact) -> Exact {
        let first = self.free_at.iter().min().expect("at least one load is made at a time");
        (*first).max(now)
    }

    /// Takes the turn that [`Turns::next`] shows, until `end`.
    pub(crate) fn take(&mut self, end: Exact) {
        let first = self.free_at.iter_mut().min().expect("at least one load is made at a time");
        *first = end;
    }
}

/// The loads that one step waits for, each a read, if needed, and a copy into a slot. Copies are made one after the other.
#[derive(Clone, Debug)]
pub(crate) struct StepLoads {
    turns: Turns,
    begin: Exact,
    copied: Exact,
}

impl StepLoads {
    pub(crate) fn new(at_once: u32) -> Self {
        Self { turns: Turns::new(at_once), begin: Exact::ZERO, copied: Exact::ZERO }
    }

    /// A step begins to load at `now`.
    pub(crate) fn begin(&mut self, now: Exact) {
        self.turns.reset(now);
        (self.begin, self.copied) = (now, now);
    }

    /// When its next load begins.
    pub(crate) fn next(&self) -> Exact {
        self.turns.next(self.begin)
    }

    /// The next load's weights are in host memory at `ready`; the copy takes so long. When it is done.
    pub(crate) fn copy(&mut self, ready: Exact, length: Exact) -> Exact {
        self.copied = self.copied.max(ready) + length;
        self.turns.take(self.copied);
        self.copied
    }

    /// How long the step waits for all of them.
    pub(crate) fn wait(&self) -> Exact {
        self.copied - self.begin
    }
}

/// What a replica's disk holds, where not all of it: in order of the last read.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// Order of the last read of each adapter; 0: not on the disk.
    read_at: Vec<u64>,
    held: BTreeSet<(u64, AdapterId)>,
    reads: u64,
}

impl Disk {
    /// A disk that holds none of `count` adapters.
    pub(crate) fn new(count: usize) -> Self {
        Self { read_at: vec![0; count], held: BTreeSet::new(), reads: 0 }
    }

    /// Reads an adapter into host memory, fetching it first where the disk does not hold it: where it was, and how long
    /// that takes.
    pub(crate) fn read(&mut self, adapter: AdapterId, costs: &AdapterCosts) -> (Tier, Exact) {
        let Some(most) = costs.disk_slots else { return (Tier::Disk, costs.cpu_load(adapter)) };
        self.reads += 1;
        let before = std::mem::replace(&mut self.read_at[adapter.index()], self.reads);
        let was_held = self.held.remove(&(before, adapter));
        self.held.insert((self.reads, adapter));
        if self.held.len() > most {
            let (_, victim) = self.held.pop_first().expect("more than none are held");
            self.read_at[victim.index()] = 0;
        }
        match was_held {
            true => (Tier::Disk, costs.cpu_load(adapter)),
            false => (Tier::Remote, costs.fetch(adapter) + costs.cpu_load(adapter)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::Nanos;
    use proptest::prelude::*;

    fn ns(n: u64) -> Exact {
        Exact::from(Nanos(n))
    }

    #[test]
    fn two_at_a_time_and_the_third_when_the_first_is_done() {
        let mut turns = Turns::new(2);
        let ends: Vec<u64> = [(0, 5), (0, 9), (1, 3), (20, 1)]
            .map(|(now, length)| {
                let end = turns.next(ns(now)) + ns(length);
                turns.take(end);
                end.floor().0
            })
            .to_vec();
        assert_eq!(ends, [5, 9, 8, 21]);
    }

    #[test]
    fn loads_of_a_step_one_at_a_time_take_their_sum_and_two_at_a_time_share_only_the_copying() {
        let wait = |at_once| {
            let mut step = StepLoads::new(at_once);
            step.begin(ns(100));
            for _ in 0..2 {
                let ready = step.next() + ns(50);
                step.copy(ready, ns(5));
            }
            step.wait().floor().0
        };
        assert_eq!([wait(1), wait(2), wait(9)], [110, 60, 60]);
    }

    proptest! {
        #[test]
        fn never_more_loads_at_once_than_turns_and_nobody_waits_while_one_is_free(
            asks in prop::collection::vec((0u64..50, 1u64..40), 1..60), at_once in 1u32..5,
        ) {
            let (mut turns, mut now, mut made) = (Turns::new(at_once), 0, Vec::<(u64, u64)>::new());
            for (pause, length) in asks {
                now += pause;
                let begin = turns.next(ns(now));
                turns.take(begin + ns(length));
                let begin = begin.floor().0;
                let busy_at = |t: u64| made.iter().filter(|&&(b, e)| b <= t && t < e).count();
                prop_assert!(busy_at(begin) < at_once as usize);
                prop_assert!((now..begin).all(|t| busy_at(t) == at_once as usize));
                made.push((begin, begin + length));
            }
        }
    }
}
