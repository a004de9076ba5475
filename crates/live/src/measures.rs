//! Measures of one exchange: pure functions of its [`Observation`], absent unless it ended [`Ending::Ok`].
//!
//! *From send* counts from the first byte of the request handed to the system, so it leaves out the making of a connection;
//! *from due* counts from when the schedule wanted it sent, so it holds the generator's own lateness too.

use crate::observation::{Channel, Ending, Observation, TokenEvent};
use acb_types::Nanos;
use std::num::NonZeroU32;

/// The time between two token events, with how many tokens the later one brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// From the event before to this one.
    pub gap_ns: Nanos,
    /// Tokens of this one; `None` when the server doesn't say.
    pub tokens: Option<NonZeroU32>,
}

impl Observation {
    /// Whether it ended well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ending == Ending::Ok
    }

    /// When the first token came, however the exchange ended.
    #[must_use]
    pub fn first_token_ns(&self) -> Option<Nanos> {
        self.token_events.first().map(|event| event.at_ns)
    }

    /// When the last token came, however the exchange ended.
    #[must_use]
    pub fn last_token_ns(&self) -> Option<Nanos> {
        self.token_events.last().map(|event| event.at_ns)
    }

    /// Time to first token, from send.
    #[must_use]
    pub fn ttft(&self) -> Option<Nanos> {
        self.ttft_from(self.sent_ns?)
    }

    /// Time to first token, from `start`: the due time.
    #[must_use]
    pub fn ttft_from(&self, start: Nanos) -> Option<Nanos> {
        self.ok()?.first_token_ns().map(|at| at.since(start))
    }

    /// Time to the first event of any kind, from send.
    #[must_use]
    pub fn first_event(&self) -> Option<Nanos> {
        Some(self.ok()?.first_event_ns?.since(self.sent_ns?))
    }

    /// Time to the first text that a reader sees, from send; absent when there was none.
    #[must_use]
    pub fn first_visible(&self) -> Option<Nanos> {
        let visible = self.ok()?.token_events.iter().find(|event| event.channel == Channel::Content)?;
        Some(visible.at_ns.since(self.sent_ns?))
    }

    /// Send to last token. What follows it (usage, `[DONE]`, a connection that lingers) is not the answer's.
    #[must_use]
    pub fn e2e(&self) -> Option<Nanos> {
        self.e2e_from(self.sent_ns?)
    }

    /// `start`, the due time, to last token.
    #[must_use]
    pub fn e2e_from(&self, start: Nanos) -> Option<Nanos> {
        self.ok()?.last_token_ns().map(|at| at.since(start))
    }

    /// Times between token events; none for a failed exchange or a single event.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> {
        let events: &[TokenEvent] = if self.is_ok() { &self.token_events } else { &[] };
        events
            .windows(2)
            .map(|pair| Gap { gap_ns: pair[1].at_ns.since(pair[0].at_ns), tokens: pair[1].tokens })
    }

    /// Mean time per token after those of the first event: (last - first) / (N - n1), in ns.
    ///
    /// N is the server's count and n1 the tokens of the first event, 1 when unknown. Absent without N, or when one event held all.
    #[must_use]
    pub fn tpot_ns(&self) -> Option<f64> {
        let first = self.token_events.first()?.tokens.map_or(1, NonZeroU32::get);
        self.time_per_token_beyond(first)
    }

    /// As [`Observation::tpot_ns`] by the older rule, (last - first) / (N - 1), which is too small when events hold several tokens.
    #[must_use]
    pub fn legacy_tpot_ns(&self) -> Option<f64> {
        self.time_per_token_beyond(1)
    }

    /// Tokens out, by the server's count.
    #[must_use]
    pub fn output_tokens(&self) -> Option<u32> {
        self.usage?.completion_tokens
    }

    /// Events that carried tokens of one channel.
    #[must_use]
    pub fn events_in(&self, channel: Channel) -> usize {
        self.token_events.iter().filter(|event| event.channel == channel).count()
    }

    /// Tokens received and of no use, because the exchange did not end well; an event of unknown size counts as one.
    #[must_use]
    pub fn wasted_tokens(&self) -> u64 {
        if self.is_ok() {
            return 0;
        }
        self.token_events.iter().map(|event| u64::from(event.tokens.map_or(1, NonZeroU32::get))).sum()
    }

    fn ok(&self) -> Option<&Self> {
        self.is_ok().then_some(self)
    }

    fn time_per_token_beyond(&self, first: u32) -> Option<f64> {
        let ok = self.ok()?;
        let rest = self.output_tokens()?.checked_sub(first).filter(|rest| *rest > 0)?;
        let events = &ok.token_events;
        let (from, to) = (events.first()?.at_ns, events.last()?.at_ns);
        (events.len() > 1).then(|| to.since(from).0 as f64 / f64::from(rest))
    }
}
