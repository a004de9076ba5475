//! The truth about the servers' speed, in the terms that a routing policy understands.

use crate::latency::{Batch, Latency, Slots};
use crate::{ClusterSpec, Profile};
use acb_routing::{CostModel, PrefixIndexSpec};
use acb_types::Adapters;

/// Requests that decode together in what is called a usual batch, and the context that each reads.
const USUAL_ROWS: u64 = 32;
const USUAL_CONTEXT_TOKENS: u64 = 1024;

impl ClusterSpec {
    /// What a policy that is told the truth believes of a replica's speed: the profile at a batch of 32 requests with
    /// 1024 tokens of context each and as many adapters as have slots. The mean answer length is the workload's
    /// business and keeps its default. With an unknown profile all are defaults.
    #[must_use]
    pub fn costs(&self, adapters: &Adapters) -> CostModel {
        let ((gpu_slots, _), unknown) = (self.slots(), CostModel::default());
        let Some(profile) = self.latency_profile() else { return unknown };
        let mean = |cost: &dyn Fn(u64) -> f64| match adapters.len() {
            0 => 0.0,
            count => adapters.iter().map(|a| cost(a.bytes)).sum::<f64>() / count as f64,
        };
        let load_ms_cpu = mean(&|bytes| profile.gpu_load_ms(bytes));
        let lora_tokens = profile.prefill_token_us + profile.lora_prefill_token_us;
        CostModel {
            ms_per_prefill_token: profile.prefill_token_us * 1e-3,
            step_ms: usual_step_ms(&profile, Slots::of(self), adapters.len() as u64),
            adapter_slowdown: if profile.prefill_token_us > 0.0 {
                lora_tokens / profile.prefill_token_us
            } else {
                unknown.adapter_slowdown
            },
            load_ms_cpu,
            load_ms_disk: load_ms_cpu + mean(&|bytes| profile.cpu_load_ms(bytes)),
            gpu_slots,
            cpu_slots: self.cpu_slots().unwrap_or(adapters.len() as u32),
            max_running: self.max_running(),
            output_tokens_mean: unknown.output_tokens_mean,
        }
    }

    /// A router's prefix index that knows the replicas' block size and as many blocks as they hold.
    #[must_use]
    pub fn prefix_index(&self) -> PrefixIndexSpec {
        let capacity_blocks = self.kv_blocks().unwrap_or_else(|| PrefixIndexSpec::default().capacity_blocks);
        PrefixIndexSpec { block_tokens: self.block_tokens(), capacity_blocks }
    }
}

fn usual_step_ms(profile: &Profile, slots: Slots, adapters: u64) -> f64 {
    let adapters = adapters.min(u64::from(slots.count)).min(USUAL_ROWS);
    let batch = Batch {
        rows: USUAL_ROWS,
        lora_rows: if adapters > 0 { USUAL_ROWS } else { 0 },
        context_tokens: USUAL_ROWS * USUAL_CONTEXT_TOKENS,
        adapters,
        ..Batch::default()
    };
    Latency::new(profile, slots).step_time(&batch).floor().0 as f64 * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::AdapterRole;

    #[test]
    fn costs_are_the_profile_at_a_usual_batch() {
        let adapters = Adapters::new([("a".to_owned(), 16, 84_000_000, AdapterRole::Placebo)]).unwrap();
        let costs = ClusterSpec::new(1, 1000, "qwen2.5-7b-vllm-0.8.5").costs(&adapters);
        let step_ms = 10.62 + 0.0489 * 32.0 + 4.312 + 0.0017 + 0.1826 + 0.06474 * 32.0;
        assert!((costs.step_ms - step_ms).abs() < 1e-5, "{}", costs.step_ms);
        assert_eq!((costs.load_ms_cpu, costs.gpu_slots), (3.25, 1));
        assert!((costs.load_ms_disk - (3.25 + 20.0 + 240.0)).abs() < 1e-9, "{}", costs.load_ms_disk);
    }
}
