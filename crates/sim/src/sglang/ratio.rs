//! What running requests are expected to still write: the admission estimate of `managers/schedule_policy.py` and
//! `scheduler_components/new_token_ratio_tracker.py`.
//!
//! Shares are whole numbers of 2^-32, so that any number of decay steps is one multiplication. (The engine adds floats
//! one by one; both agree but for float rounding.)

use crate::jobs::{Job, JobKey};
use std::collections::BTreeMap;

/// One token in the unit of estimates.
pub(super) const TOKEN: i128 = 1 << 32;

/// More tokens than this are not expected of any request (`CLIP_MAX_NEW_TOKENS`).
pub(super) const MOST_NEW_TOKENS: u32 = 4096;

/// Share of its allowed tokens that a running request is expected to write, in 2^-32.
#[derive(Clone, Debug)]
pub(super) struct NewTokenRatio {
    floor: i128,
    decay: i128,
    current: i128,
}

impl NewTokenRatio {
    /// At start: 0.7 of the conservativeness, at most 1; it falls to 0.14 of that over 600 decode steps.
    pub(super) fn new(conservativeness: f64) -> Self {
        let start = ((0.7 * conservativeness).min(1.0) * TOKEN as f64) as i128;
        let floor = start * 14 / 100;
        Self { floor, decay: (start - floor) / 600, current: start }
    }

    pub(super) fn current(&self) -> i128 {
        self.current
    }

    /// After so many decode steps that had memory.
    pub(super) fn decay(&mut self, steps: u64) {
        self.current = (self.current - self.decay * i128::from(steps)).max(self.floor);
    }

    /// After a retraction, from what the requests that stay have written and may write: 20 more steps of each.
    pub(super) fn estimate(&mut self, requests: u64, written: u64, allowed: u64) {
        let expected = i128::from(written + 20 * requests) * TOKEN / i128::from(allowed + 1);
        self.current = expected.min(TOKEN);
    }
}

/// Tokens that the company may still write, each request's clipped: a sum that is kept, not counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Remaining {
    /// Requests below the clip, and what they could write at decode step 0 if they had run since.
    rows: i64,
    at_zero: i64,
    /// Requests above the clip, by the decode step at which they come below it.
    clipped: BTreeMap<(u64, JobKey), i64>,
}

impl Remaining {
    /// A request that has written `job.produced` tokens joins before decode step `step`.
    pub(super) fn join(&mut self, job: &Job, key: JobKey, step: u64) {
        let left = job.request.max_output_tokens.saturating_sub(job.produced);
        let at_zero = i64::from(left) + step as i64;
        match left.checked_sub(MOST_NEW_TOKENS) {
            Some(above @ 1..) => {
                self.clipped.insert((step + u64::from(above), key), at_zero);
            }
            _ => self.add(at_zero),
        }
    }

    fn add(&mut self, at_zero: i64) {
        self.rows += 1;
        self.at_zero += at_zero;
    }

    /// The request that joined before decode step `joined`, having written `produced` then, leaves.
    pub(super) fn leave(&mut self, job: &Job, key: JobKey) {
        let left = job.request.max_output_tokens.saturating_sub(job.produced);
        let at_zero = i64::from(left) + job.joined as i64;
        let crossing = job.joined + u64::from(left.saturating_sub(MOST_NEW_TOKENS));
        if self.clipped.remove(&(crossing, key)).is_none() {
            self.rows -= 1;
            self.at_zero -= at_zero;
        }
    }

    /// The sum before decode step `step`.
    pub(super) fn tokens(&mut self, step: u64) -> i64 {
        while let Some(entry) = self.clipped.first_entry().filter(|entry| entry.key().0 <= step) {
            let at_zero = entry.remove();
            self.add(at_zero);
        }
        self.at_zero - self.rows * step as i64 + self.clipped.len() as i64 * i64::from(MOST_NEW_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_falls_to_fourteen_hundredths_of_its_start_in_600_steps() {
        let mut ratio = NewTokenRatio::new(1.0);
        assert!((ratio.current() as f64 / TOKEN as f64 - 0.7).abs() < 1e-6);
        let mut by_steps = ratio.clone();
        (0..300).for_each(|_| by_steps.decay(1));
        ratio.decay(300);
        assert_eq!(ratio.current(), by_steps.current());
        ratio.decay(300);
        assert!((ratio.current() as f64 / TOKEN as f64 - 0.098).abs() < 1e-6);
        ratio.decay(1000);
        assert!((ratio.current() as f64 / TOKEN as f64 - 0.098).abs() < 1e-6, "it falls no further");
    }

    #[test]
    fn a_retraction_sets_the_ratio_from_what_was_written() {
        let mut ratio = NewTokenRatio::new(1.0);
        ratio.estimate(2, 60, 399);
        assert_eq!(ratio.current(), TOKEN / 4, "(60 + 2 * 20) / (399 + 1)");
        ratio.estimate(1, 500, 100);
        assert_eq!(ratio.current(), TOKEN, "at most 1");
    }
}
