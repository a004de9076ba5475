//! Requests of one replica that decode one token per step in company, kept as sums.
//!
//! As long as nothing interesting happens, every step computes one token for each of them. What a step costs, which
//! blocks it needs and when the next answer is complete follow from sums that change only when a request joins or
//! leaves, so that any number of steps is one computation. Blocks are taken from the pool when somebody looks
//! (*settling*): who of the company gets which one makes no difference to any content in the pool.

use crate::exact::Exact;
use crate::jobs::{Job, JobKey};
use crate::kv::BlockPool;
use crate::latency::Batch;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An answer that will be complete after `at` steps, if its request is still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completes {
    pub(crate) at: u64,
    pub(crate) admission: u64,
    pub(crate) key: JobKey,
}

/// The company of one replica. Steps are named by the number of steps that ended before them.
#[derive(Clone, Debug)]
pub(crate) struct Decoding {
    rows: u64,
    lora_rows: u64,
    /// Context tokens that step 0 would read; each step reads `rows` more.
    context_at_zero: i64,
    /// How many requests need a new block at the steps that leave this remainder.
    phases: Vec<u64>,
    /// (step count at which the answer is complete, admission, job); jobs that left are skipped.
    completions: BinaryHeap<Reverse<(u64, u64, JobKey)>>,
    /// Steps before this one have had their blocks taken.
    settled: u64,
    /// Blocks taken for the company and not yet claimed by one of it.
    owed: u32,
    longest: LongestSteps,
}

impl Decoding {
    pub(crate) fn new(block: u32) -> Self {
        Self {
            rows: 0,
            lora_rows: 0,
            context_at_zero: 0,
            phases: vec![0; block as usize],
            completions: BinaryHeap::new(),
            settled: 0,
            owed: 0,
            longest: LongestSteps::default(),
        }
    }

    /// How many there are.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// What step `step` computes for them, adapters aside.
    pub(crate) fn batch(&self, step: u64) -> Batch {
        let context = self.context_at_zero + (self.rows * step) as i64;
        let context_tokens = u64::try_from(context).expect("contexts have a length");
        Batch { rows: self.rows, lora_rows: self.lora_rows, context_tokens, ..Batch::default() }
    }

    /// Joins from step `step` on; the job holds the blocks of what it computed. Earlier steps are settled.
    pub(crate) fn join(&mut self, job: &mut Job, key: JobKey, step: u64) {
        assert_eq!(self.settled, step, "earlier steps are settled before the company changes");
        job.joined = step;
        job.complete_at = step + u64::from(job.answer - job.produced);
        self.completions.push(Reverse((job.complete_at, job.admission, key)));
        self.count(job, 1);
    }

    /// Leaves before step `step`, with the blocks of what it computed until then.
    pub(crate) fn leave(&mut self, job: &mut Job, step: u64, block: u32) {
        job.itl_max = job.itl_max.max(self.longest_since(job.joined));
        self.part(job, step);
        let missing = job.computed.div_ceil(block) - job.blocks.len();
        self.owed = self.owed.checked_sub(missing).expect("blocks were taken for every token computed");
        job.blocks.add(missing);
        assert!(self.rows > 0 || self.owed == 0, "no block is lost");
    }

    /// Leaves before step `step` when blocks are counted elsewhere.
    pub(crate) fn part(&mut self, job: &mut Job, step: u64) {
        assert_eq!(self.settled, step, "earlier steps are settled before the company changes");
        self.count(job, -1);
        let steps = (step - job.joined) as u32;
        job.produced += steps;
        job.computed += steps;
    }

    fn count(&mut self, job: &Job, sign: i64) {
        let first_context = i64::from(job.computed) + 1 - job.joined as i64;
        self.context_at_zero += sign * first_context;
        self.rows = self.rows.wrapping_add_signed(sign);
        self.lora_rows = self.lora_rows.wrapping_add_signed(sign * i64::from(job.adapter().is_some()));
        let phase = (job.joined as i64 - i64::from(job.computed)).rem_euclid(self.phases.len() as i64);
        let phase = &mut self.phases[phase as usize];
        *phase = phase.wrapping_add_signed(sign);
    }

    /// Blocks still to be taken for the steps before `step`.
    pub(crate) fn unsettled(&self, step: u64) -> u64 {
        let steps = step.saturating_sub(self.settled);
        if steps == 0 {
            return 0;
        }
        let period = self.phases.len();
        let first = (self.settled % period as u64) as usize;
        let end = first + (steps % period as u64) as usize;
        let (ahead, around) = (first..end.min(period), 0..end.saturating_sub(period));
        let partial = self.phases[ahead].iter().sum::<u64>() + self.phases[around].iter().sum::<u64>();
        steps / period as u64 * self.rows + partial
    }

    /// Takes the blocks of all steps before `step`.
    pub(crate) fn settle(&mut self, step: u64, pool: &mut BlockPool) {
        if step <= self.settled {
            return;
        }
        let blocks = self.settle_count(step);
        pool.take(blocks);
        self.owed += blocks;
    }

    /// How many blocks all steps before `step` still take; the caller takes them.
    pub(crate) fn settle_count(&mut self, step: u64) -> u32 {
        let blocks = u32::try_from(self.unsettled(step)).expect("a pool has fewer blocks");
        self.settled = self.settled.max(step);
        blocks
    }

    /// Blocks taken and not yet claimed.
    #[cfg(test)]
    pub(crate) fn owed(&self) -> u32 {
        self.owed
    }

    /// Whether `free` blocks suffice for the steps before `step`.
    pub(crate) fn suffices(&self, free: u64, step: u64) -> bool {
        let (steps, period) = (step.saturating_sub(self.settled), self.phases.len() as u64);
        // Whole periods are quickly counted, and mostly they settle it.
        (steps + period - 1) * self.rows <= free * period || self.unsettled(step) <= free
    }

    /// The step count up to which `free` blocks suffice, at most `most`.
    pub(crate) fn affordable(&self, free: u32, most: u64) -> u64 {
        let (free, period) = (u64::from(free), self.phases.len() as u64);
        if self.suffices(free, most) {
            return most;
        }
        let mut left = free % self.rows;
        let mut step = self.settled + free / self.rows * period;
        while left >= self.phases[(step % period) as usize] {
            left -= self.phases[(step % period) as usize];
            step += 1;
        }
        step
    }

    /// The step count at which the next answer is complete. `current` tells whether an entry still holds.
    pub(crate) fn next_completion(&mut self, current: impl Fn(Completes) -> bool) -> Option<u64> {
        while let Some(&Reverse((at, admission, key))) = self.completions.peek() {
            if current(Completes { at, admission, key }) {
                return Some(at);
            }
            self.completions.pop();
        }
        None
    }

    /// Takes the entry that [`Decoding::next_completion`] gave.
    pub(crate) fn pop_completion(&mut self) -> JobKey {
        let Reverse((.., key)) = self.completions.pop().expect("the next completion was just seen");
        key
    }

    /// Notes the length of the longest step of a stretch whose last step is `step`.
    pub(crate) fn note_longest(&mut self, step: u64, length: Exact) {
        self.longest.note(step, length);
    }

    /// Length of the longest step that ended from step `step` on; zero when there is none.
    pub(crate) fn longest_since(&self, step: u64) -> Exact {
        self.longest.since(step).unwrap_or(Exact::ZERO)
    }

    /// Steps whose lengths are kept.
    pub(crate) fn kept_lengths(&self) -> usize {
        self.longest.lengths.len()
    }

    /// Forgets the lengths of steps before `step`.
    pub(crate) fn forget_lengths_before(&mut self, step: u64) {
        self.longest.forget_before(step);
    }
}

/// The longest step since any step: each kept step is longer than all after it.
#[derive(Clone, Debug, Default)]
struct LongestSteps {
    lengths: VecDeque<(u64, Exact)>,
}

impl LongestSteps {
    fn note(&mut self, step: u64, length: Exact) {
        while self.lengths.back().is_some_and(|&(_, shorter)| shorter <= length) {
            self.lengths.pop_back();
        }
        self.lengths.push_back((step, length));
    }

    fn since(&self, step: u64) -> Option<Exact> {
        let at = self.lengths.partition_point(|&(s, _)| s < step);
        self.lengths.get(at).map(|&(_, length)| length)
    }

    fn forget_before(&mut self, step: u64) {
        let at = self.lengths.partition_point(|&(s, _)| s < step);
        self.lengths.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_step_since_any_step_is_found(lengths in prop::collection::vec(1u128..20, 1..60)) {
            let mut kept = LongestSteps::default();
            for (step, &length) in (0..).zip(&lengths) {
                kept.note(step, Exact(length));
            }
            for from in 0..lengths.len() {
                let longest = lengths[from..].iter().max().map(|&l| Exact(l));
                prop_assert_eq!(kept.since(from as u64), longest);
            }
        }

        #[test]
        fn the_step_at_which_the_pool_runs_dry_is_found_in_closed_form(
            phases in prop::collection::vec(0u64..4, 1..6), settled in 0u64..20, free in 0u32..100, more in 0u64..200,
        ) {
            let mut company = Decoding::new(phases.len() as u32);
            company.rows = phases.iter().sum();
            company.phases = phases;
            company.settled = settled;
            prop_assume!(company.rows > 0);
            let most = settled + more;
            let dry = company.affordable(free, most);
            prop_assert!(dry <= most);
            prop_assert!(company.unsettled(dry) <= u64::from(free));
            prop_assert!(dry == most || company.unsettled(dry + 1) > u64::from(free));
        }
    }
}
