//! Impossible values of a cluster spec, each with its place and the remedy.

use crate::{ClusterSpec, KvSpec, Profile, ProfileSpec, profiles};

/// Faults found so far: JSON pointer below `cluster`, message.
#[derive(Default)]
struct Faults(Vec<(String, String)>);

impl Faults {
    fn add(&mut self, pointer: &str, message: String) {
        self.0.push((pointer.to_owned(), message));
    }

    fn at_least_one(&mut self, pointer: &str, value: u64) {
        if value == 0 {
            self.add(pointer, "0 is impossible; give at least 1".to_owned());
        }
    }
}

impl ClusterSpec {
    /// Everything that the schema can't express: (JSON pointer below `cluster`, message with remedy). `adapters` are
    /// (name, rank, bytes).
    #[must_use]
    pub fn check(&self, adapters: &[(String, u32, u64)]) -> Vec<(String, String)> {
        let mut faults = Faults::default();
        faults.at_least_one("/replicas", u64::from(self.replicas));
        faults.at_least_one("/server_interval_ms", self.server_interval_ms);
        self.check_engine(&mut faults);
        self.check_lora(adapters, &mut faults);
        self.check_profile(&mut faults);
        self.check_kv(&mut faults);
        self.check_limits(&mut faults);
        faults.0
    }

    fn check_engine(&self, faults: &mut Faults) {
        let vllm = self.vllm();
        faults.at_least_one("/engine/max_num_seqs", u64::from(vllm.max_num_seqs));
        faults.at_least_one("/engine/block_size", u64::from(vllm.block_size));
        faults.at_least_one("/engine/context_tokens", u64::from(vllm.context_tokens));
        let budget = vllm.max_num_batched_tokens;
        if budget < vllm.max_num_seqs {
            let message = format!(
                "{budget} is below max_num_seqs {}; every running request needs a token per step",
                vllm.max_num_seqs
            );
            faults.add("/engine/max_num_batched_tokens", message);
        }
        if !vllm.enable_chunked_prefill && budget < vllm.context_tokens {
            let message = format!(
                "{budget} is below context_tokens {}, and without chunked prefill a prompt must fit in one step; raise it or enable chunked prefill",
                vllm.context_tokens
            );
            faults.add("/engine/max_num_batched_tokens", message);
        }
        if !(0.0..1.0).contains(&vllm.watermark) {
            let message = format!("{} is not a share of the blocks; give 0 to below 1", vllm.watermark);
            faults.add("/engine/watermark", message);
        }
    }

    fn check_lora(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        let vllm = self.vllm();
        if vllm.cpu_loras() < vllm.max_loras {
            let (cpu, gpu) = (vllm.cpu_loras(), vllm.max_loras);
            let message =
                format!("{cpu} is below max_loras {gpu}; host memory holds every adapter of the GPU");
            faults.add("/engine/max_cpu_loras", message);
        }
        if let (0, Some((name, ..))) = (vllm.max_loras, adapters.first()) {
            let message = format!("0 turns LoRA off, and adapter \"{name}\" needs a slot; give at least 1");
            faults.add("/engine/max_loras", message);
        }
        // Twice, since a file may hold 32-bit weights that the engine loads in 16 bits.
        let slot = self.latency_profile().map(|p| u64::from(vllm.max_lora_rank) * p.lora_bytes_per_rank);
        let most = slot.filter(|&slot| slot > 0).map(|slot| 2 * slot);
        for (name, _, bytes) in adapters {
            if let Some(most) = most.filter(|most| bytes > most) {
                let message = format!(
                    "a slot of rank {} holds no adapter of {bytes} bytes: \"{name}\" has more than {most}; correct its \
                     bytes or leave it out",
                    vllm.max_lora_rank
                );
                faults.add("/engine/max_lora_rank", message);
            }
        }
        for (name, rank, _) in adapters {
            if *rank > vllm.max_lora_rank {
                let message = format!(
                    "{} is below rank {rank} of adapter \"{name}\"; raise it or leave the adapter out",
                    vllm.max_lora_rank
                );
                faults.add("/engine/max_lora_rank", message);
            }
        }
    }

    fn check_profile(&self, faults: &mut Faults) {
        let (profile, prefix): (Profile, _) = match (&self.profile, self.latency_profile()) {
            (_, Some(profile)) => (profile, "/profile"),
            (ProfileSpec::Name(name), None) => {
                let known: Vec<&str> = profiles().iter().map(|p| p.name).collect();
                let message = format!("no profile \"{name}\"; there are {}", known.join(", "));
                return faults.add("/profile", message);
            }
            (ProfileSpec::Inline(_), None) => return,
        };
        for (name, cost) in profile.costs() {
            if !(0.0..1e9).contains(&cost) {
                let message = format!("{cost} is not a cost; give a number from 0 to below 1e9");
                faults.add(&format!("{prefix}/{name}"), message);
            }
        }
        if profile.step_ms + profile.weight_read_ms == 0.0
            && profile.prefill_token_us == 0.0
            && profile.decode_row_us == 0.0
        {
            faults.add("/profile/step_ms", "all costs are 0, and time would stand still".to_owned());
        }
        faults.at_least_one("/profile/kv_bytes_per_token", profile.kv_bytes_per_token);
    }

    fn check_kv(&self, faults: &mut Faults) {
        const MOST_BLOCKS: u64 = 1 << 28;
        let pointer = match &self.kv {
            KvSpec::Blocks(_) => "/kv/blocks",
            KvSpec::Memory(memory) => {
                let numbers = [
                    ("gpu_gib", memory.gpu_gib, 0.0..=1e6),
                    ("utilization", memory.utilization, 0.0..=1.0),
                    ("overhead_gib", memory.overhead_gib, 0.0..=1e6),
                ];
                for (name, value, allowed) in numbers {
                    if !allowed.contains(&value) {
                        let (low, high) = (allowed.start(), allowed.end());
                        let message = format!("{value} is impossible; give {low} to {high}");
                        return faults.add(&format!("/kv/memory/{name}"), message);
                    }
                }
                "/kv/memory"
            }
        };
        match self.kv_blocks() {
            Some(0) => faults.add(
                pointer,
                "no KV block is left after weights and adapter slots; give more memory or fewer slots"
                    .to_owned(),
            ),
            Some(blocks) if blocks > MOST_BLOCKS => {
                faults.add(
                    pointer,
                    format!("{blocks} blocks are more than any card holds; at most {MOST_BLOCKS}"),
                );
            }
            _ => {}
        }
    }

    fn check_limits(&self, faults: &mut Faults) {
        let seconds = self.limits.max_sim_seconds;
        if !(seconds > 0.0 && seconds <= 1e9) {
            let message = format!("{seconds} is no limit; give a number above 0, at most 1e9");
            faults.add("/limits/max_sim_seconds", message);
        }
        if self.limits.request_timeout_ms == Some(0) {
            faults.add(
                "/limits/request_timeout_ms",
                "0 gives up at once; give at least 1 or leave it out".to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(spec: &ClusterSpec, adapters: &[(String, u32, u64)]) -> Vec<String> {
        spec.check(adapters).into_iter().map(|(pointer, _)| pointer).collect()
    }

    #[test]
    fn a_sound_cluster_has_no_faults() {
        assert_eq!(pointers(&ClusterSpec::new(2, 1000, "qwen2.5-7b-l4"), &[("a".into(), 16, 1)]), [""; 0]);
    }

    #[test]
    fn several_faults_are_reported_at_once() {
        let mut spec = ClusterSpec::new(0, 0, "qwen");
        spec.limits.max_sim_seconds = f64::NAN;
        let found = pointers(&spec, &[("a".into(), 64, 1)]);
        assert_eq!(
            found,
            ["/replicas", "/engine/max_lora_rank", "/profile", "/kv/blocks", "/limits/max_sim_seconds"]
        );
    }

    #[test]
    fn an_adapter_has_to_fit_its_slot() {
        let spec = ClusterSpec::new(1, 1000, "qwen2.5-7b-l4");
        let slot = 16 * spec.latency_profile().unwrap().lora_bytes_per_rank;
        assert_eq!(pointers(&spec, &[("a".into(), 16, 2 * slot)]), [""; 0]);
        assert_eq!(pointers(&spec, &[("a".into(), 16, 2 * slot + 1)]), ["/engine/max_lora_rank"]);
    }

    #[test]
    fn an_unknown_key_of_inline_constants_is_named() {
        let text = r#"{"kv":{"blocks":9},"profile":{"step_ms":1,"prefill_token_us":1,"decode_row_us":1,
            "kv_bytes_per_token":1,"typo":2}}"#;
        let error = serde_json::from_str::<ClusterSpec>(text).unwrap_err().to_string();
        assert!(error.contains("typo"), "{error}");
    }
}
