//! What goes wrong on purpose: shares of requests, drawn by a seed and the request's number alone.

use acb_types::Seed;
use serde::{Deserialize, Serialize};

/// Shares of requests that something befalls, each from 0 to 1, together at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Status 500 at once.
    pub error: f64,
    /// Status 429 at once, with `retry-after: 1`.
    pub too_many: f64,
    /// Status 503 at once, with `retry-after: 1`.
    pub unavailable: f64,
    /// An error event in the stream after half the tokens.
    pub error_mid: f64,
    /// The connection cut after half the tokens.
    pub truncate: f64,
    /// Silence for ever after half the tokens; the engine goes on, as one does whose front end hangs.
    pub stall: f64,
}

/// What befalls one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    None,
    Status(u16),
    ErrorMid,
    Truncate,
    Stall,
}

impl Faults {
    fn shares(&self) -> [(f64, Strike); 6] {
        [
            (self.error, Strike::Status(500)),
            (self.too_many, Strike::Status(429)),
            (self.unavailable, Strike::Status(503)),
            (self.error_mid, Strike::ErrorMid),
            (self.truncate, Strike::Truncate),
            (self.stall, Strike::Stall),
        ]
    }

    /// Whether the shares are possible.
    #[must_use]
    pub fn are_possible(&self) -> bool {
        let shares = self.shares().map(|(share, _)| share);
        shares.iter().all(|share| (0.0..=1.0).contains(share)) && shares.iter().sum::<f64>() <= 1.0 + 1e-9
    }

    /// What befalls the request with this number.
    pub(crate) fn strike(&self, seed: Seed, number: u64) -> Strike {
        let mut left = seed.unit(number);
        for (share, strike) in self.shares() {
            if left < share {
                return strike;
            }
            left -= share;
        }
        Strike::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_strikes_its_share_and_the_same_requests_again() {
        let faults = Faults { error: 0.1, stall: 0.2, ..Faults::default() };
        let struck = |seed| (0..10_000).map(move |number| faults.strike(Seed(seed), number));
        let count = |wanted| struck(1).filter(|&strike| strike == wanted).count();
        assert!((900..1100).contains(&count(Strike::Status(500))), "{}", count(Strike::Status(500)));
        assert!((1850..2150).contains(&count(Strike::Stall)), "{}", count(Strike::Stall));
        assert_eq!(count(Strike::Truncate), 0);
        assert!(struck(1).eq(struck(1)) && !struck(1).eq(struck(2)));
    }

    #[test]
    fn shares_that_exceed_the_whole_are_impossible() {
        assert!(Faults { error: 0.5, stall: 0.5, ..Faults::default() }.are_possible());
        assert!(!Faults { error: 0.7, stall: 0.5, ..Faults::default() }.are_possible());
        assert!(!Faults { error: -0.1, ..Faults::default() }.are_possible());
        assert!(!Faults { error: f64::NAN, ..Faults::default() }.are_possible());
    }
}
