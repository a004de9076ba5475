//! Impossible values of a cluster spec, each with its place and the remedy.

use crate::{ClusterSpec, EngineSpec, KvSpec, Profile, ProfileSpec, SglangSpec, VllmSpec, profiles};

/// Faults found so far: JSON pointer below `cluster`, message.
#[derive(Default)]
pub(crate) struct Faults(Vec<(String, String)>);

/// The largest constant of a profile, in its own unit: 1,000 s where that is ms.
const MOST_COST: f64 = 1e6;
/// The largest exponent of a profile.
const MOST_EXPONENT: f64 = 4.0;

/// Names of adapters that a message offers.
const OFFERED: usize = 8;

/// What to say of an adapter that is not in the catalogue.
pub(crate) fn unknown_adapter(name: &str, adapters: &[(String, u32, u64)]) -> String {
    let names: Vec<&str> = adapters.iter().take(OFFERED).map(|(known, ..)| known.as_str()).collect();
    let more = match adapters.len().saturating_sub(OFFERED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("adapter \"{name}\" is not in adapters; there are {}{more}", names.join(", "))
}

impl Faults {
    pub(crate) fn add(&mut self, pointer: &str, message: String) {
        self.0.push((pointer.to_owned(), message));
    }

    pub(crate) fn at_least_one(&mut self, pointer: &str, value: u64) {
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
        self.check_tiers(&mut faults);
        self.check_what_if(adapters, &mut faults);
        self.check_profile(&mut faults);
        self.check_kv(&mut faults);
        self.check_limits(&mut faults);
        faults.0
    }

    fn check_engine(&self, faults: &mut Faults) {
        match &self.engine {
            EngineSpec::Vllm(vllm) => vllm.check(faults),
            EngineSpec::Sglang(sglang) => sglang.check(faults),
        }
    }

    fn check_lora(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        match &self.engine {
            EngineSpec::Vllm(vllm) => vllm.check_lora(adapters, faults),
            EngineSpec::Sglang(sglang) => sglang.check_lora(adapters, faults),
        }
        self.check_slot_sizes(adapters, faults);
    }

    /// Every adapter has to fit a slot: its rank first, then its bytes.
    fn check_slot_sizes(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        let (_, slot_rank) = self.slots();
        let too_high = adapters.iter().filter(|(_, rank, _)| *rank > slot_rank);
        if let Some((name, rank, _)) = too_high.clone().max_by_key(|(_, rank, _)| *rank) {
            let message = format!(
                "{slot_rank} is below rank {rank} of adapter \"{name}\" ({} adapters in all): raise it to {rank}, or \
                 leave them out",
                too_high.count()
            );
            faults.add("/engine/max_lora_rank", message);
        }
        // Twice, since a file may hold 32-bit weights that the engine loads in 16 bits.
        let slot = self.latency_profile().map(|p| u64::from(slot_rank) * p.lora_bytes_per_rank);
        let Some(most) = slot.filter(|&slot| slot > 0).map(|slot| slot.saturating_mul(2)) else { return };
        let too_large = adapters.iter().filter(|(_, rank, bytes)| *rank <= slot_rank && *bytes > most);
        if let Some((name, _, bytes)) = too_large.clone().next() {
            let message = format!(
                "a slot of rank {slot_rank} holds no adapter of {bytes} bytes: \"{name}\" ({} adapters in all) has more \
                 than {most}; correct its bytes or leave it out",
                too_large.count()
            );
            faults.add("/engine/max_lora_rank", message);
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
            let most = if name.ends_with("_exponent") { MOST_EXPONENT } else { MOST_COST };
            if !(0.0..most).contains(&cost) {
                let message = format!("{cost:?} is impossible; give a number from 0 to below {most:?}");
                faults.add(&format!("{prefix}/{name}"), message);
            }
        }
        let (slots, rank) = self.slots();
        let worst_ms = profile.adapters_ms(slots, slots, rank);
        if worst_ms >= MOST_COST {
            let message = format!(
                "a step with {slots} adapters of rank {rank} would take {worst_ms:e} ms; lower lora_adapter_ms, \
                 lora_slot_ms or the exponents"
            );
            faults.add(&format!("{prefix}/lora_adapter_ms"), message);
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
            Some(0) if matches!(self.kv, KvSpec::Blocks(_)) => faults.at_least_one(pointer, 0),
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
        if !(1e-3..=1e9).contains(&seconds) {
            let message = format!("{seconds:?} is no limit; give seconds from 0.001 to 1e9");
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

impl VllmSpec {
    fn check(&self, faults: &mut Faults) {
        faults.at_least_one("/engine/max_num_seqs", u64::from(self.max_num_seqs));
        faults.at_least_one("/engine/block_size", u64::from(self.block_size));
        faults.at_least_one("/engine/context_tokens", u64::from(self.context_tokens));
        let budget = self.max_num_batched_tokens;
        if budget < self.max_num_seqs {
            let message = format!(
                "max_num_batched_tokens {budget} is below max_num_seqs {}; every running request needs a token per step",
                self.max_num_seqs
            );
            faults.add("/engine/max_num_batched_tokens", message);
        }
        if !self.enable_chunked_prefill && budget < self.context_tokens {
            let message = format!(
                "max_num_batched_tokens {budget} is below context_tokens {}, and without chunked prefill a prompt must fit in one step; raise it or enable chunked prefill",
                self.context_tokens
            );
            faults.add("/engine/max_num_batched_tokens", message);
        }
        if !(0.0..1.0).contains(&self.watermark) {
            let message = format!("{} is not a share of the blocks; give 0 to below 1", self.watermark);
            faults.add("/engine/watermark", message);
        }
    }

    fn check_lora(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        if self.cpu_loras() < self.max_loras {
            let (cpu, gpu) = (self.cpu_loras(), self.max_loras);
            let message = format!(
                "max_cpu_loras {cpu} is below max_loras {gpu}; host memory holds every adapter of the GPU"
            );
            faults.add("/engine/max_cpu_loras", message);
        }
        if let (0, Some((name, ..))) = (self.max_loras, adapters.first()) {
            let message = format!("0 turns LoRA off, and adapter \"{name}\" needs a slot; give at least 1");
            faults.add("/engine/max_loras", message);
        }
    }
}

impl SglangSpec {
    fn check(&self, faults: &mut Faults) {
        faults.at_least_one("/engine/max_running_requests", u64::from(self.max_running_requests));
        faults.at_least_one("/engine/max_prefill_tokens", u64::from(self.max_prefill_tokens));
        faults.at_least_one("/engine/page_size", u64::from(self.page_size));
        faults.at_least_one("/engine/context_tokens", u64::from(self.context_tokens));
        match self.chunked_prefill_size {
            Some(chunk) if chunk == 0 || chunk % self.page_size.max(1) != 0 => {
                let message = format!(
                    "chunked_prefill_size {chunk} is not a multiple of page_size {}; prompts are cut at whole pages",
                    self.page_size
                );
                faults.add("/engine/chunked_prefill_size", message);
            }
            _ => {}
        }
        if self.enable_mixed_chunk {
            self.check_mixed(faults);
        }
        for (pointer, value) in [
            ("/engine/schedule_conservativeness", self.schedule_conservativeness),
            ("/engine/lora_drain_wait_threshold", self.lora_drain_wait_threshold),
        ] {
            if !(0.0..1e6).contains(&value) {
                faults.add(pointer, format!("{value} is impossible; give a number from 0 to below 1e6"));
            }
        }
    }

    /// A step that decodes too must have room for prompts.
    fn check_mixed(&self, faults: &mut Faults) {
        let rows = self.max_running_requests;
        let Some(chunk) = self.chunked_prefill_size else {
            let message = "needs chunked_prefill_size; set it or leave mixing off".to_owned();
            return faults.add("/engine/enable_mixed_chunk", message);
        };
        let sizes = [("chunked_prefill_size", chunk), ("max_prefill_tokens", self.max_prefill_tokens)];
        for (name, tokens) in sizes.into_iter().filter(|&(_, tokens)| tokens <= rows) {
            let message = format!(
                "{name} {tokens} leaves no room for prompts beside {rows} decoding requests; raise it"
            );
            faults.add(&format!("/engine/{name}"), message);
        }
    }

    fn check_lora(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        if let (false, Some((name, ..))) = (self.enable_lora, adapters.first()) {
            let message = format!("false turns LoRA off, and adapter \"{name}\" needs it; leave it on");
            faults.add("/engine/enable_lora", message);
        }
        if self.enable_lora {
            faults.at_least_one("/engine/max_loras_per_batch", u64::from(self.max_loras_per_batch));
        }
        self.check_loaded(faults);
        for (at, name) in self.pinned_loras.iter().enumerate() {
            if !adapters.iter().any(|(known, ..)| known == name) {
                let message = unknown_adapter(name, adapters);
                faults.add(&format!("/engine/pinned_loras/{at}"), message);
            }
            if self.pinned_loras[..at].contains(name) {
                let message = format!("adapter \"{name}\" is pinned twice; name it once");
                faults.add(&format!("/engine/pinned_loras/{at}"), message);
            }
        }
        let most = self.max_loras_per_batch.saturating_sub(1) as usize;
        if self.pinned_loras.len() > most {
            let message = format!(
                "{} pinned adapters leave no slot of {} for others and the base model; pin at most {most}",
                self.pinned_loras.len(),
                self.max_loras_per_batch
            );
            faults.add("/engine/pinned_loras", message);
        }
    }

    fn check_loaded(&self, faults: &mut Faults) {
        let slots = self.max_loras_per_batch;
        if let Some(loaded) = self.max_loaded_loras.filter(|&loaded| loaded < slots) {
            let message = format!("{loaded} is below max_loras_per_batch {slots}; raise it");
            faults.add("/engine/max_loaded_loras", message);
        }
        let most = 2 * u64::from(slots);
        if self.enable_lora_overlap_loading && self.max_loaded_loras.is_none_or(|l| u64::from(l) > most) {
            let message = format!(
                "overlap loading pins host memory: give at most twice max_loras_per_batch, here {most}"
            );
            faults.add("/engine/max_loaded_loras", message);
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
    fn costs_that_no_clock_could_hold_are_refused() {
        let faulty = |change: fn(&mut Profile)| {
            let mut profile = crate::profile("qwen2.5-7b-l4").unwrap();
            change(&mut profile);
            let mut spec = ClusterSpec::new(1, 1000, "");
            spec.engine = EngineSpec::Vllm(VllmSpec { max_loras: 3, ..VllmSpec::default() });
            spec.profile = ProfileSpec::Inline(Box::new(profile));
            pointers(&spec, &[])
        };
        assert_eq!(
            faulty(|p| p.lora_adapter_exponent = 100.0),
            ["/profile/lora_adapter_exponent", "/profile/lora_adapter_ms"]
        );
        assert_eq!(faulty(|p| p.lora_rank_exponent = 2000.0), ["/profile/lora_rank_exponent"]);
        assert_eq!(faulty(|p| p.lora_slot_ms = 999_999.0), ["/profile/lora_adapter_ms"]);
        assert_eq!(faulty(|p| p.step_ms = 1e6), ["/profile/step_ms"]);
        assert_eq!(faulty(|p| p.step_ms = 1e3), [""; 0]);
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
    fn an_sglang_cluster_is_checked_by_its_own_rules() {
        let mut spec = ClusterSpec::new(1, 1000, "qwen2.5-7b-l4");
        let adapters = [("a".to_owned(), 16, 1), ("b".to_owned(), 16, 1)];
        let mut check = |sglang: SglangSpec| {
            spec.engine = EngineSpec::Sglang(sglang);
            pointers(&spec, &adapters)
        };
        let good = SglangSpec::default();
        assert_eq!(check(good.clone()), [""; 0]);
        let chunk = SglangSpec { chunked_prefill_size: Some(100), page_size: 16, ..good.clone() };
        assert_eq!(check(chunk), ["/engine/chunked_prefill_size"]);
        let mixed = SglangSpec { chunked_prefill_size: None, enable_mixed_chunk: true, ..good.clone() };
        assert_eq!(check(mixed), ["/engine/enable_mixed_chunk"]);
        let overlap = SglangSpec { enable_lora_overlap_loading: true, ..good.clone() };
        assert_eq!(check(overlap), ["/engine/max_loaded_loras"]);
        let pinned = vec!["a".to_owned(), "c".to_owned()];
        let pinned = SglangSpec { pinned_loras: pinned, max_loras_per_batch: 2, ..good.clone() };
        assert_eq!(check(pinned), ["/engine/pinned_loras/1", "/engine/pinned_loras"]);
        assert_eq!(check(SglangSpec { enable_lora: false, ..good }), ["/engine/enable_lora"]);
    }

    #[test]
    fn an_unknown_key_of_inline_constants_is_named() {
        let text = r#"{"kv":{"blocks":9},"profile":{"step_ms":1,"prefill_token_us":1,"decode_row_us":1,
            "kv_bytes_per_token":1,"typo":2}}"#;
        let error = serde_json::from_str::<ClusterSpec>(text).unwrap_err().to_string();
        assert!(error.contains("typo"), "{error}");
    }
}
