//! What happens when: events in the total order (time, class, sequence).

use crate::jobs::JobKey;
use acb_types::{Nanos, ReplicaId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What comes first among events of one instant. A decision at an instant knows what ended at it, and a request that
/// comes at an instant takes part in the step that starts at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    StepEnd,
    Deadline,
    Report,
    Scrape,
    Arrival,
    StepStart,
}

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The steps in progress end, unless they were cut short since (`version`).
    StepEnd { replica: ReplicaId, version: u64 },
    /// The earliest deadline passes.
    Deadline,
    /// Rows of server state are due.
    Report,
    /// The router looks at the servers.
    Scrape,
    /// A replica plans its next step.
    StepStart { replica: ReplicaId },
    /// A request alone on its replica gets its first token.
    AloneFirst { key: JobKey },
    /// A request alone on its replica ends.
    AloneEnd { key: JobKey },
}

impl Event {
    fn class(self) -> Class {
        match self {
            Self::StepEnd { .. } | Self::AloneFirst { .. } | Self::AloneEnd { .. } => Class::StepEnd,
            Self::Deadline => Class::Deadline,
            Self::Report => Class::Report,
            Self::Scrape => Class::Scrape,
            Self::StepStart { .. } => Class::StepStart,
        }
    }
}

/// Bits of a place in the order that are the sequence number.
const SEQUENCE_BITS: u32 = 60;

/// Time, class and sequence number as one number, which is in the order of the three.
fn order(at: Nanos, class: Class, sequence: u64) -> u128 {
    u128::from(at.0) << 64 | u128::from((class as u64) << SEQUENCE_BITS | sequence)
}

fn time(order: u128) -> Nanos {
    Nanos((order >> 64) as u64)
}

/// Most events that are kept sorted.
const NEAR: usize = 32;

/// The queue of events.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The next events, the first of them last; empty only when there is none.
    near: Vec<(u128, Event)>,
    /// Those after them.
    far: BinaryHeap<Reverse<(u128, Event)>>,
    sequence: u64,
}

impl Agenda {
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        let entry = (order(at, event.class(), self.sequence), event);
        self.sequence += 1;
        if self.far.peek().is_some_and(|Reverse(first)| first.0 < entry.0) {
            return self.far.push(Reverse(entry));
        }
        let place = self.near.partition_point(|later| later.0 > entry.0);
        self.near.insert(place, entry);
        if self.near.len() > NEAR {
            self.far.push(Reverse(self.near.remove(0)));
        }
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.near.last().map(|&(order, _)| time(order))
    }

    /// Takes the next event if it comes before a request that is due at `due`.
    pub(crate) fn pop_before(&mut self, due: Option<Nanos>) -> Option<(Nanos, Event)> {
        let &(next, event) = self.near.last()?;
        if due.is_some_and(|due| order(due, Class::Arrival, 0) < next) {
            return None;
        }
        self.near.pop();
        if self.near.is_empty() {
            self.near
                .extend(std::iter::from_fn(|| self.far.pop()).take(NEAR / 2).map(|Reverse(entry)| entry));
            self.near.reverse();
        }
        Some((time(next), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_is_time_then_class_then_sequence() {
        let mut agenda = Agenda::default();
        let (a, b) = (ReplicaId(9), ReplicaId(0));
        agenda.push(Nanos(2), Event::Scrape);
        agenda.push(Nanos(1), Event::StepStart { replica: a });
        agenda.push(Nanos(1), Event::StepStart { replica: b });
        agenda.push(Nanos(1), Event::Scrape);
        agenda.push(Nanos(1), Event::Report);
        agenda.push(Nanos(1), Event::Deadline);
        agenda.push(Nanos(1), Event::StepEnd { replica: a, version: 0 });
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop_before(None)).map(|(_, event)| event).collect();
        let expected = [
            Event::StepEnd { replica: a, version: 0 },
            Event::Deadline,
            Event::Report,
            Event::Scrape,
            Event::StepStart { replica: a },
            Event::StepStart { replica: b },
            Event::Scrape,
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_request_comes_after_what_ends_and_before_what_starts_at_its_instant() {
        let mut agenda = Agenda::default();
        agenda.push(Nanos(5), Event::StepStart { replica: ReplicaId(0) });
        assert_eq!(agenda.pop_before(Some(Nanos(5))), None);
        agenda.push(Nanos(5), Event::Scrape);
        assert_eq!(agenda.pop_before(Some(Nanos(5))), Some((Nanos(5), Event::Scrape)));
    }

    proptest! {
        #[test]
        fn many_events_come_in_order(times in prop::collection::vec(prop::option::weighted(0.7, 0u64..200), 1..300)) {
            let (mut agenda, mut expected) = (Agenda::default(), std::collections::BTreeSet::new());
            // Each event is told apart by the number of its push; without a time, one is taken.
            for (push, at) in (0u64..).zip(times.into_iter().chain(vec![None; 300])) {
                let Some(at) = at else {
                    let taken = agenda.pop_before(None);
                    prop_assert_eq!(taken, expected.pop_first());
                    continue;
                };
                let event = Event::StepEnd { replica: ReplicaId(0), version: push };
                agenda.push(Nanos(at), event);
                expected.insert((Nanos(at), event));
                prop_assert_eq!(agenda.next_at(), expected.first().map(|&(at, _)| at));
            }
        }
    }
}
