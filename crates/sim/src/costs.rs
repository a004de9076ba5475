//! The truth about the servers' speed, in the terms that a routing policy understands.

use crate::{ClusterSpec, Profile};
use acb_routing::{CostModel, PrefixIndexSpec};
use acb_types::Adapters;

/// Requests that decode together in what is called a usual batch, and the context that each reads.
const USUAL_ROWS: u32 = 32;
const USUAL_CONTEXT_TOKENS: f64 = 1024.0;

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
            step_ms: usual_step_ms(&profile, gpu_slots.min(adapters.len() as u32)),
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

fn usual_step_ms(profile: &Profile, adapters: u32) -> f64 {
    let rows = f64::from(USUAL_ROWS);
    let base = profile.step_ms
        + rows * profile.decode_row_us * 1e-3
        + rows * USUAL_CONTEXT_TOKENS * profile.context_token_ns * 1e-6;
    if adapters == 0 {
        return base;
    }
    let adapters = f64::from(adapters.min(USUAL_ROWS));
    base + profile.lora_step_ms
        + adapters * profile.lora_adapter_ms
        + rows * (profile.lora_row_us + adapters * profile.lora_row_adapter_us) * 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::AdapterRole;

    #[test]
    fn costs_are_the_profile_at_a_usual_batch() {
        let adapters = Adapters::new([("a".to_owned(), 16, 84_000_000, AdapterRole::Placebo)]).unwrap();
        let costs = ClusterSpec::new(1, 1000, "llama-3.1-8b-vllm-0.8.5").costs(&adapters);
        assert!((costs.step_ms - (10.54 + 0.0438 * 32.0) * 2.0193).abs() < 1e-9, "{}", costs.step_ms);
        assert_eq!((costs.load_ms_cpu, costs.gpu_slots), (6.4, 1));
        assert!((costs.load_ms_disk - (6.4 + 20.0 + 240.0)).abs() < 1e-9, "{}", costs.load_ms_disk);
    }
}
