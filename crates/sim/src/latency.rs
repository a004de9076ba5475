//! The latency model, behind one function: how long a step takes.
//!
//! Every cost is a whole number of 2^-20 ns, so that sums are exact, and no term falls when a step computes more:
//! that is what makes a request alone on an idle replica a lower bound for the same request in company.

use crate::Profile;
use crate::exact::Exact;

/// What a step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Prompt tokens computed.
    pub(crate) prefill_tokens: u64,
    /// Of these, under an adapter.
    pub(crate) lora_prefill_tokens: u64,
    /// Twice the (query, key) pairs of prefill attention: sum of `(c + n)^2 - c^2`, which adds up over chunks.
    pub(crate) prefill_pairs_twice: u64,
    /// Requests that decode one token.
    pub(crate) rows: u64,
    /// Of these, under an adapter.
    pub(crate) lora_rows: u64,
    /// Tokens of context that the decoding requests read, their new token included.
    pub(crate) context_tokens: u64,
    /// Distinct adapters.
    pub(crate) adapters: u64,
}

impl Batch {
    /// Adds a request that computes `tokens` of its prompt after `computed`.
    pub(crate) fn add_prefill(&mut self, computed: u32, tokens: u32, with_adapter: bool) {
        let (c, n) = (u64::from(computed), u64::from(tokens));
        self.prefill_tokens += n;
        self.prefill_pairs_twice += n * (2 * c + n);
        if with_adapter {
            self.lora_prefill_tokens += n;
        }
    }

    /// Adds a request that decodes one token after `computed` others.
    pub(crate) fn add_row(&mut self, computed: u32, with_adapter: bool) {
        self.rows += 1;
        self.lora_rows += u64::from(with_adapter);
        self.context_tokens += u64::from(computed) + 1;
    }
}

/// A profile made exact.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    step: Exact,
    prefill_token: Exact,
    half_prefill_pair: Exact,
    row: Exact,
    context_token: Exact,
    lora_step: Exact,
    lora_adapter: Exact,
    lora_row: Exact,
    lora_row_adapter: Exact,
    lora_prefill_token: Exact,
}

impl Latency {
    pub(crate) fn new(profile: &Profile) -> Self {
        let (ms, us) = (Exact::from_millis, |us: f64| Exact::from_millis(us * 1e-3));
        let ns = |ns: f64| Exact::from_millis(ns * 1e-6);
        Self {
            step: ms(profile.step_ms),
            prefill_token: us(profile.prefill_token_us),
            half_prefill_pair: ns(profile.prefill_pair_ns / 2.0),
            row: us(profile.decode_row_us),
            context_token: ns(profile.context_token_ns),
            lora_step: ms(profile.lora_step_ms),
            lora_adapter: ms(profile.lora_adapter_ms),
            lora_row: us(profile.lora_row_us),
            lora_row_adapter: us(profile.lora_row_adapter_us),
            lora_prefill_token: us(profile.lora_prefill_token_us),
        }
    }

    /// How long a step takes that computes this, adapter loads aside.
    pub(crate) fn step_time(&self, batch: &Batch) -> Exact {
        let mut time = self.step
            + self.prefill_token.times(batch.prefill_tokens)
            + self.half_prefill_pair.times(batch.prefill_pairs_twice)
            + self.row.times(batch.rows)
            + self.context_token.times(batch.context_tokens);
        if batch.adapters > 0 {
            time += self.lora_step
                + self.lora_adapter.times(batch.adapters)
                + self.lora_row.times(batch.lora_rows)
                + self.lora_row_adapter.times(batch.lora_rows * batch.adapters)
                + self.lora_prefill_token.times(batch.lora_prefill_tokens);
        }
        time
    }

    /// By how much a step of `rows` decoding requests is longer than the one before it: each reads one more token.
    pub(crate) fn growth(&self, rows: u64) -> Exact {
        self.context_token.times(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::Nanos;

    fn latency() -> Latency {
        Latency::new(&Profile {
            prefill_pair_ns: 3.0,
            context_token_ns: 7.0,
            ..crate::profile("qwen2.5-7b-vllm-0.8.5").unwrap()
        })
    }

    #[test]
    fn prefill_in_chunks_costs_the_same_attention_as_in_one() {
        let (mut whole, mut chunks) = (Batch::default(), Batch::default());
        whole.add_prefill(100, 900, true);
        chunks.add_prefill(100, 300, true);
        chunks.add_prefill(400, 600, true);
        assert_eq!(latency().step_time(&whole), latency().step_time(&chunks));
    }

    #[test]
    fn a_step_of_decoding_requests_grows_by_one_token_each() {
        let batch = Batch { rows: 10, context_tokens: 5000, ..Batch::default() };
        let next = Batch { context_tokens: 5010, ..batch };
        assert_eq!(latency().step_time(&next), latency().step_time(&batch) + latency().growth(10));
    }

    #[test]
    fn a_step_by_hand() {
        let batch = Batch { rows: 2, lora_rows: 1, adapters: 1, ..Batch::default() };
        let ms = 10.62 + 2.0 * 0.0489 + 10.62 * (0.777 + 0.0167) + 0.0489 * (0.777 + 0.0167);
        assert!(latency().step_time(&batch).floor().0.abs_diff(Nanos::from_millis_f64(ms).0) <= 1);
    }
}
