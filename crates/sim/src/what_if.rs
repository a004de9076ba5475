//! What no runtime does, as an experiment file asks for it. Every record of such a run says so.

use crate::check::{Faults, unknown_adapter};
use crate::{ClusterSpec, EngineSpec, Prefetch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Departures from the engines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhatIf {
    /// Activated LoRA: an adapter applies from an invocation point near the end of the prompt, and what comes before is the
    /// base model's, also in the cache. vLLM only; its rule is that of vLLM's pull request 19710, which was closed.
    pub alora: Option<Alora>,
    /// Replicas with an adapter merged into their weights.
    pub merged: Vec<MergedReplica>,
}

/// Where adapters are invoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alora {
    /// Tokens at the end of every prompt from which the adapter applies. KV blocks that end before them are shared with the
    /// base model and all other adapters.
    #[schemars(range(min = 1))]
    pub invocation_tokens: u32,
}

/// A replica that serves one adapter, merged into its weights, and nothing else: no slots, no LoRA cost, no load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergedReplica {
    /// Which replica, from 0.
    pub replica: u32,
    /// Name of the adapter.
    pub adapter: String,
}

impl ClusterSpec {
    /// What of this cluster no runtime does, in words; none for a cluster that could be real.
    #[must_use]
    pub fn what_ifs(&self) -> Vec<String> {
        let tiers = &self.adapter_tiers;
        let mut words = Vec::new();
        words.extend(self.what_if.alora.as_ref().map(|_| "alora".to_owned()));
        words.extend((!self.what_if.merged.is_empty()).then(|| "merged replicas".to_owned()));
        words.extend((tiers.loads_at_once > 1).then(|| format!("{} loads at once", tiers.loads_at_once)));
        words.extend(
            (tiers.prefetch != Prefetch::None).then(|| format!("prefetch {}", tiers.prefetch.as_str())),
        );
        words
    }

    /// The engine as records name it, such as `vllm-0.33.0 (simulated)` or `vllm-0.33.0 (simulated, what-if: alora)`.
    #[must_use]
    pub fn engine_words(&self) -> String {
        let what_ifs = self.what_ifs();
        match what_ifs.is_empty() {
            true => format!("{} (simulated)", self.engine_label()),
            false => format!("{} (simulated, what-if: {})", self.engine_label(), what_ifs.join(", ")),
        }
    }

    /// The same cluster as a replica without adapters is set up: no slots are taken from its memory.
    pub(crate) fn without_lora(&self) -> Self {
        let mut plain = self.clone();
        match &mut plain.engine {
            EngineSpec::Vllm(vllm) => (vllm.max_loras, vllm.max_cpu_loras) = (0, None),
            EngineSpec::Sglang(sglang) => sglang.enable_lora = false,
        }
        plain.what_if.alora = None;
        plain
    }

    pub(crate) fn check_what_if(&self, adapters: &[(String, u32, u64)], faults: &mut Faults) {
        if self.what_if.alora.is_some() && matches!(self.engine, EngineSpec::Sglang(_)) {
            let message = "is modelled for vLLM only; choose kind: vllm, or leave it out".to_owned();
            faults.add("/what_if/alora", message);
        }
        if let Some(Alora { invocation_tokens: 0 }) = self.what_if.alora {
            let message = "0 would never apply an adapter; give at least 1".to_owned();
            faults.add("/what_if/alora/invocation_tokens", message);
        }
        for (at, merged) in self.what_if.merged.iter().enumerate() {
            let pointer = |key| format!("/what_if/merged/{at}/{key}");
            if merged.replica >= self.replicas {
                let message = format!(
                    "there is no replica {}; there are {}, counted from 0",
                    merged.replica, self.replicas
                );
                faults.add(&pointer("replica"), message);
            }
            if self.what_if.merged[..at].iter().any(|other| other.replica == merged.replica) {
                let message =
                    format!("replica {} has an adapter already; merge one into each", merged.replica);
                faults.add(&pointer("replica"), message);
            }
            if !adapters.iter().any(|(name, ..)| *name == merged.adapter) {
                faults.add(&pointer("adapter"), unknown_adapter(&merged.adapter, adapters));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterTiers, SglangSpec};

    fn merged(replica: u32, adapter: &str) -> MergedReplica {
        MergedReplica { replica, adapter: adapter.to_owned() }
    }

    #[test]
    fn every_departure_is_in_the_name_of_the_engine() {
        let mut spec = ClusterSpec::new(2, 1000, "qwen2.5-7b-l4");
        assert_eq!(spec.engine_words(), "vllm-0.33.0 (simulated)");
        spec.what_if.alora = Some(Alora { invocation_tokens: 8 });
        assert_eq!(spec.engine_words(), "vllm-0.33.0 (simulated, what-if: alora)");
        spec.what_if.merged = vec![merged(0, "a")];
        spec.adapter_tiers = AdapterTiers { loads_at_once: 4, remote: None, prefetch: Prefetch::OnArrival };
        let words = "alora, merged replicas, 4 loads at once, prefetch on_arrival";
        assert_eq!(spec.engine_words(), format!("vllm-0.33.0 (simulated, what-if: {words})"));
    }

    #[test]
    fn impossible_departures_are_named() {
        let mut spec = ClusterSpec::new(2, 1000, "qwen2.5-7b-l4");
        let found = |spec: &ClusterSpec| -> Vec<String> {
            spec.check(&[("a".to_owned(), 16, 1)]).into_iter().map(|(pointer, _)| pointer).collect()
        };
        spec.what_if.merged = vec![merged(0, "a"), merged(0, "a"), merged(2, "b")];
        let at = |key: &str| format!("/what_if/merged/{key}");
        assert_eq!(found(&spec), ["1/replica", "2/replica", "2/adapter"].map(at));
        spec.what_if = WhatIf { alora: Some(Alora { invocation_tokens: 0 }), merged: Vec::new() };
        spec.engine = EngineSpec::Sglang(SglangSpec::default());
        assert_eq!(found(&spec), ["/what_if/alora", "/what_if/alora/invocation_tokens"]);
    }
}
