//! When a request is tried again: only when asked, never in silence.

use crate::{Ending, Observation};
use acb_types::Nanos;

/// Which failures are tried again, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// Exchanges after the first; 0: none.
    pub most: u32,
    /// Wait before the first retry; it doubles with every one. A server's `retry-after` in seconds goes first.
    pub backoff: Nanos,
}

/// Longest wait that a server's `retry-after` may ask for.
const LONGEST: Nanos = Nanos(60_000_000_000);

impl Retries {
    /// How long to wait before the next exchange after `done` of them, the last of which was `seen`; `None`: no more.
    ///
    /// Tried again: no connection, and 408, 429 and all of 500 and above, before a single token came.
    #[must_use]
    pub fn after(&self, done: u32, seen: &Observation) -> Option<Nanos> {
        if done > self.most || !seen.token_events.is_empty() {
            return None;
        }
        let doubled = Nanos(self.backoff.0.saturating_mul(1 << done.saturating_sub(1).min(20)));
        match &seen.ending {
            Ending::ConnectError { .. } => Some(doubled.min(LONGEST)),
            Ending::HttpError { status: 408 | 429 | 500.., retry_after, .. } => {
                let seconds = retry_after.as_ref().and_then(|text| text.trim().parse::<u32>().ok());
                let asked = seconds.map(|s| Nanos(u64::from(s) * 1_000_000_000));
                Some(asked.unwrap_or(doubled).min(LONGEST))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observation;

    fn error(status: u16, retry_after: Option<&str>) -> Observation {
        let retry_after = retry_after.map(Into::into);
        Observation {
            ending: Ending::HttpError { status, retry_after, message: "".into() },
            ..observation(0)
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_only_so_often() {
        let twice = Retries { most: 2, backoff: Nanos(100) };
        assert_eq!(twice.after(1, &error(503, None)), Some(Nanos(100)));
        assert_eq!(twice.after(2, &error(429, None)), Some(Nanos(200)));
        assert_eq!(twice.after(3, &error(429, None)), None);
        assert_eq!(twice.after(1, &error(400, None)), None);
        assert_eq!(twice.after(1, &Observation { ending: Ending::Ok, ..observation(3) }), None);
        assert_eq!(Retries::default().after(1, &error(503, None)), None);
    }

    #[test]
    fn a_server_says_when_and_not_for_ever() {
        let once = Retries { most: 1, backoff: Nanos(100) };
        assert_eq!(once.after(1, &error(429, Some("2"))), Some(Nanos(2_000_000_000)));
        assert_eq!(once.after(1, &error(503, Some("999999"))), Some(LONGEST));
        assert_eq!(once.after(1, &error(503, Some("Wed, 21 Oct"))), Some(Nanos(100)));
    }

    #[test]
    fn an_answer_that_began_is_not_asked_for_again() {
        let broken = Observation { token_events: observation(2).token_events, ..error(500, None) };
        assert_eq!(Retries { most: 5, backoff: Nanos(1) }.after(1, &broken), None);
    }
}
