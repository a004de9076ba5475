//! How much a prefill step may take in (`PrefillAdder` and `mem_cache/prefill_budget.py`).

use super::memory::Memory;
use super::ratio::{MOST_NEW_TOKENS, TOKEN};
use super::rules::SglangRules;
use crate::jobs::Job;

/// Whether the next waiting request is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// Memory is short.
    NoToken,
    /// The step is full.
    Other,
}

/// What a request gets of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) tokens: u32,
    /// Whether its prompt is not whole with it.
    pub(super) cut: bool,
}

/// What a step still has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adder {
    page: i64,
    /// Tokens that what was admitted and what runs will need, in 2^-32 tokens.
    total_offset: i128,
    /// Tokens that the step itself needs.
    current_offset: i64,
    input: i64,
    chunk: Option<i64>,
}

impl Adder {
    /// For a step beside running requests that are expected to write `expected` tokens (in 2^-32), `decoding` of which
    /// decode in the same step.
    pub(super) fn new(rules: &SglangRules, expected: i128, decoding: u64) -> Self {
        let decoding = decoding as i64;
        Self {
            page: i64::from(rules.page),
            total_offset: expected + i128::from(decoding) * TOKEN,
            current_offset: decoding,
            input: i64::from(rules.max_prefill_tokens) - decoding,
            chunk: rules.chunk.map(|chunk| i64::from(chunk) - decoding),
        }
    }

    /// Room for tokens in all, in 2^-32 tokens.
    fn total(&self, available: u64) -> i128 {
        i128::from(available) * TOKEN - self.total_offset
    }

    /// `budget_state`.
    pub(super) fn verdict(&self, memory: &Memory) -> Verdict {
        let available = memory.available();
        if self.total(available) <= 0 || available as i64 <= self.current_offset {
            return Verdict::NoToken;
        }
        let full = self.input <= 0 || self.chunk.is_some_and(|chunk| chunk <= 0);
        if full { Verdict::Other } else { Verdict::Continue }
    }

    /// What a waiting request would get, whose cached prefix was just found (`_select_prefill_admission`); `first`
    /// in a step that cuts no prompts may exceed its size.
    pub(super) fn portion(&self, memory: &Memory, job: &Job, first: First) -> Result<Portion, Verdict> {
        let (found, fill) = (job.shared.tokens, job.tokens());
        let tokens = fill - found;
        let allowed = job.request.max_output_tokens.saturating_sub(job.produced).min(MOST_NEW_TOKENS);
        let needed = i64::from(tokens) + i64::from(allowed) + self.page;
        if i128::from(needed) * TOKEN >= self.total(memory.available_beside(job)) {
            return Err(Verdict::NoToken);
        }
        let paged = i64::from(memory.ceil(tokens));
        match self.chunk {
            None if first == First::No && paged >= self.input => Err(Verdict::Other),
            Some(chunk) if paged > chunk => {
                let end = memory.floor(found + memory.floor(chunk.max(0) as u32));
                let tokens = end.saturating_sub(found);
                if tokens == 0 { Err(Verdict::Other) } else { Ok(Portion { tokens, cut: true }) }
            }
            _ => Ok(Portion { tokens, cut: false }),
        }
    }

    /// What the request whose prompt is not whole gets next (`add_chunked_req`): never less than it takes to go on, but
    /// what memory holds.
    pub(super) fn next_portion(&self, memory: &Memory, job: &Job) -> Portion {
        let left = job.tokens() - job.computed;
        let chunk = self.chunk.expect("only a chunk size cuts prompts").max(0);
        let room = (self.total(memory.available()) / TOKEN).min(i128::from(chunk)) as i64;
        let room = if room > 0 { room } else { chunk };
        let held = memory.ceil(job.computed) - job.computed;
        let physical = memory.available() + u64::from(held);
        let tokens = left.min(room as u32).min(physical.min(u64::from(u32::MAX)) as u32);
        Portion { tokens, cut: tokens < left }
    }

    /// Takes a portion; who is then whole may write its answer.
    pub(super) fn take(&mut self, memory: &Memory, job: &Job, portion: Portion) {
        let paged = i64::from(memory.ceil(portion.tokens));
        let answer = if portion.cut { 0 } else { job.request.max_output_tokens.min(MOST_NEW_TOKENS) };
        self.current_offset += paged + self.page;
        self.total_offset += i128::from(paged + self.page + i64::from(answer)) * TOKEN;
        self.input -= paged;
        self.chunk = self.chunk.map(|chunk| chunk - paged);
    }
}

/// Whether a request is the first of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Yes,
    No,
}
