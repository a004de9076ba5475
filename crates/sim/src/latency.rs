//! The latency model, behind one function: how long a step takes.
//!
//! Every cost is a whole number of 2^-20 ns, so that sums are exact, and no term falls when a step computes more:
//! that is what makes a request alone on an idle replica a lower bound for the same request in company.

use crate::exact::Exact;
use crate::{ClusterSpec, Profile};

/// What a step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Requests that compute a part of their prompt.
    pub(crate) prefills: u64,
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
    /// Waiting requests that were passed over for want of a slot.
    pub(crate) skipped: u64,
}

impl Batch {
    /// Adds a request that computes `tokens` of its prompt after `computed`, `adapted` of them under an adapter.
    pub(crate) fn add_prefill(&mut self, computed: u32, tokens: u32, adapted: u32) {
        let (c, n) = (u64::from(computed), u64::from(tokens));
        self.prefills += 1;
        self.prefill_tokens += n;
        self.prefill_pairs_twice += n * (2 * c + n);
        self.lora_prefill_tokens += u64::from(adapted);
    }

    /// Adds a request that decodes one token after `computed` others.
    pub(crate) fn add_row(&mut self, computed: u32, with_adapter: bool) {
        self.rows += 1;
        self.lora_rows += u64::from(with_adapter);
        self.context_tokens += u64::from(computed) + 1;
    }
}

/// What an engine sets aside for adapters: the LoRA kernels cover all of it whatever is in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Adapter slots.
    pub(crate) count: u32,
    /// Rank that each is sized for.
    pub(crate) max_rank: u32,
}

impl Slots {
    /// Those of a cluster's engine.
    pub(crate) fn of(spec: &ClusterSpec) -> Self {
        let (count, max_rank) = spec.slots();
        Self { count, max_rank }
    }
}

/// A profile made exact for an engine with these slots.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    step: Exact,
    weights: Exact,
    prefill: Exact,
    prefill_token: Exact,
    half_prefill_pair: Exact,
    compute_row: Exact,
    row: Exact,
    context_token: Exact,
    /// Cost of so many distinct adapters, from 0 to the number of slots, the fixed cost included.
    adapters: Vec<Exact>,
    lora_row: Exact,
    lora_row_adapter: Exact,
    lora_prefill_token: Exact,
    skipped: Exact,
}

impl Latency {
    pub(crate) fn new(profile: &Profile, slots: Slots) -> Self {
        let (ms, us) = (Exact::from_millis, |us: f64| Exact::from_millis(us * 1e-3));
        let ns = |ns: f64| Exact::from_millis(ns * 1e-6);
        let count = f64::from(slots.count);
        Self {
            step: ms(profile.step_ms),
            weights: ms(profile.weight_read_ms),
            prefill: us(profile.prefill_request_us),
            prefill_token: us(profile.prefill_token_us),
            half_prefill_pair: ns(profile.prefill_pair_ns / 2.0),
            compute_row: us(profile.decode_compute_us),
            row: us(profile.decode_row_us),
            context_token: ns(profile.context_token_ns),
            adapters: (0..=slots.count)
                .map(|a| ms(profile.adapters_ms(a, slots.count, slots.max_rank)))
                .collect(),
            lora_row: us(profile.lora_row_us + profile.lora_row_slot_us * count),
            lora_row_adapter: us(profile.lora_row_adapter_us),
            lora_prefill_token: us(profile.lora_prefill_token_us),
            skipped: us(profile.skipped_request_us),
        }
    }

    /// How long a step takes that computes this, adapter loads aside.
    pub(crate) fn step_time(&self, batch: &Batch) -> Exact {
        self.least_time(batch, 1)
    }

    /// The least time in which `steps` steps compute this together, however it is divided between them. (The longer of
    /// two sums is never more than the sum of the longer ones.)
    pub(crate) fn least_time(&self, batch: &Batch, steps: u64) -> Exact {
        let compute = self.prefill_token.times(batch.prefill_tokens)
            + self.half_prefill_pair.times(batch.prefill_pairs_twice)
            + self.compute_row.times(batch.rows);
        let mut time = self.step.times(steps)
            + compute.max(self.weights.times(steps))
            + self.prefill.times(batch.prefills.max(steps.min(batch.prefill_tokens)))
            + self.row.times(batch.rows)
            + self.context_token.times(batch.context_tokens)
            + self.skipped.times(batch.skipped);
        if batch.adapters > 0 {
            let most = self.adapters.len() - 1;
            time += self.adapters[most.min(batch.adapters as usize)]
                + self.lora_row.times(batch.lora_rows)
                + self.lora_row_adapter.times(batch.lora_rows * batch.adapters)
                + self.lora_prefill_token.times(batch.lora_prefill_tokens);
        }
        time
    }

    /// Whether it makes a difference how many waiting requests are passed over.
    pub(crate) fn counts_skipped(&self) -> bool {
        self.skipped > Exact::ZERO
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
    use proptest::prelude::*;

    fn profile() -> Profile {
        let qwen = crate::profile("qwen2.5-7b-vllm-0.8.5").unwrap();
        Profile { prefill_pair_ns: 3.0, context_token_ns: 7.0, ..qwen }
    }

    fn latency() -> Latency {
        Latency::new(&profile(), Slots { count: 8, max_rank: 16 })
    }

    #[test]
    fn prefill_in_chunks_costs_the_same_attention_as_in_one() {
        let (mut whole, mut chunks) = (Batch::default(), Batch::default());
        whole.add_prefill(100, 900, 900);
        chunks.add_prefill(100, 300, 300);
        chunks.add_prefill(400, 600, 600);
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
        let ms = 10.62 + 2.0 * 0.0489 + 4.312 + 8.0 * 0.0017 + 0.1826 + 0.06474;
        assert!(latency().step_time(&batch).floor().0.abs_diff(Nanos::from_millis_f64(ms).0) <= 1);
    }

    #[test]
    fn compute_hides_behind_the_reading_of_weights_until_it_is_longer() {
        let profile = Profile { step_ms: 1.0, weight_read_ms: 10.0, prefill_token_us: 100.0, ..bare() };
        let latency = Latency::new(&profile, Slots::default());
        let ms = |tokens| {
            latency.step_time(&Batch { prefill_tokens: tokens, ..Batch::default() }).floor().0 / 1_000_000
        };
        assert_eq!([0, 50, 100, 101, 200].map(ms), [11, 11, 11, 11, 21]);
    }

    #[test]
    fn slots_cost_when_an_adapter_is_there_and_the_cost_of_adapters_bends() {
        let lora = Profile { lora_slot_ms: 0.5, lora_adapter_ms: 2.0, lora_adapter_exponent: 0.5, ..bare() };
        let ms = |slots, adapters| {
            let latency = Latency::new(&lora, Slots { count: slots, max_rank: 8 });
            latency.step_time(&Batch { adapters, ..Batch::default() }).floor().0 / 1_000_000
        };
        assert_eq!([ms(16, 0), ms(16, 1), ms(16, 4), ms(16, 16), ms(20, 16)], [0, 10, 12, 16, 18]);
        let ranked = Profile { lora_rank_exponent: 1.0, ..lora };
        let at =
            |max_rank| Latency::new(&ranked, Slots { count: 1, max_rank }).adapters[1].floor().0 / 100_000;
        assert_eq!([at(16), at(32)], [25, 45]);
    }

    fn bare() -> Profile {
        let none = r#"{"step_ms":0,"prefill_token_us":0,"decode_row_us":0,"kv_bytes_per_token":1}"#;
        serde_json::from_str(none).unwrap()
    }

    proptest! {
        #[test]
        fn no_division_into_steps_is_faster_than_the_least_time(
            chunks in prop::collection::vec(1u32..500, 1..8), weights in 0.0f64..10.0, token in 0.0f64..50.0,
        ) {
            let profile = Profile { weight_read_ms: weights, prefill_token_us: token, prefill_request_us: 3.0, ..profile() };
            let latency = Latency::new(&profile, Slots::default());
            let (mut whole, mut computed, mut divided) = (Batch::default(), 0, Exact::ZERO);
            for &tokens in &chunks {
                let mut step = Batch::default();
                step.add_prefill(computed, tokens, 0);
                divided += latency.step_time(&step);
                computed += tokens;
            }
            whole.add_prefill(0, computed, 0);
            prop_assert!(latency.least_time(&whole, chunks.len() as u64) <= divided);
            prop_assert!(latency.least_time(&whole, 1) <= divided);
        }

        #[test]
        fn no_step_is_shorter_for_computing_more(
            less in prop::array::uniform8(0u64..50), more in prop::array::uniform8(0u64..50),
        ) {
            let batch = |n: [u64; 8]| Batch {
                prefills: n[0], prefill_tokens: n[1], lora_prefill_tokens: n[2], prefill_pairs_twice: n[3], rows: n[4],
                lora_rows: n[5], context_tokens: n[6], adapters: n[5].min(8),
                skipped: n[7],
            };
            let more = std::array::from_fn(|at| less[at] + more[at]);
            for name in ["qwen2.5-7b-l4", "llama-3.1-8b-vllm-0.8.5"] {
                let latency = Latency::new(&crate::profile(name).unwrap(), Slots { count: 8, max_rank: 16 });
                prop_assert!(latency.step_time(&batch(less)) <= latency.step_time(&batch(more)));
            }
        }
    }
}
