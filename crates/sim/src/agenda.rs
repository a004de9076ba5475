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

/// The queue of events.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Nanos, Class, u64, Event)>>,
    sequence: u64,
}

impl Agenda {
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.heap.push(Reverse((at, event.class(), self.sequence, event)));
        self.sequence += 1;
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event if it comes before a request that is due at `due`.
    pub(crate) fn pop_before(&mut self, due: Option<Nanos>) -> Option<(Nanos, Event)> {
        let &Reverse((at, class, _, event)) = self.heap.peek()?;
        if due.is_some_and(|due| (due, Class::Arrival) < (at, class)) {
            return None;
        }
        self.heap.pop();
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
