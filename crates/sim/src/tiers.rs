//! How adapters reach a replica, as an experiment file says it: disk, network, loads at a time, reading ahead.

use crate::check::Faults;
use crate::{ClusterSpec, EngineSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of an adapter to a replica's host memory. The copy from there into a GPU slot, and the reading of a disk, cost
/// what the latency profile says. The defaults are what the engines do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdapterTiers {
    /// Loads that a replica makes at a time; the others wait their turn. The engines make one (vLLM
    /// `lora/worker_manager.py`, `_apply_adapters`; SGLang's tokenizer under one lock): more is a what-if, for vLLM only.
    #[schemars(range(min = 1, max = 4096))]
    pub loads_at_once: u32,
    /// Where adapters lie that a replica's disk does not hold; absent: every disk holds all of them.
    pub remote: Option<RemoteTier>,
    /// Which adapters are read into host memory before a step needs them; all but `none` are what-ifs, for vLLM only.
    pub prefetch: Prefetch,
}

impl Default for AdapterTiers {
    fn default() -> Self {
        Self { loads_at_once: 1, remote: None, prefetch: Prefetch::None }
    }
}

/// A store behind a network. What is fetched is written to the replica's disk and read from there, while whoever waits for
/// the disk waits for both (vLLM `lora/utils.py`, `get_adapter_absolute_path`, which the worker calls inside the step).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteTier {
    /// Time until the first byte comes, ms.
    pub latency_ms: f64,
    /// Bandwidth to one replica, megabytes (10^6 bytes) per second.
    pub mb_per_s: f64,
    /// Adapters that a replica's disk holds, the one read longest ago given up first; absent: all that were fetched.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_disk_loras: Option<u32>,
}

impl RemoteTier {
    /// Time to fetch so many bytes, ms.
    pub(crate) fn fetch_ms(&self, bytes: u64) -> f64 {
        self.latency_ms + bytes as f64 * 1e-3 / self.mb_per_s
    }
}

/// Reading adapters into host memory ahead of need, beside the steps. It takes turns with the loads that steps wait for, and
/// what it brings makes an unused adapter leave like any other; where all of host memory is in use, it is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prefetch {
    /// Nothing is read before a step needs it, as in the engines.
    #[default]
    None,
    /// The adapter of a request, as soon as the request comes to the replica.
    OnArrival,
    /// At each request that comes to the replica, the adapter asked for most often there that is not in host memory, if
    /// there is room, or if it was asked for more often than the one that would leave.
    Popular,
}

impl Prefetch {
    /// The word that files use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OnArrival => "on_arrival",
            Self::Popular => "popular",
        }
    }
}

impl ClusterSpec {
    pub(crate) fn check_tiers(&self, faults: &mut Faults) {
        let tiers = &self.adapter_tiers;
        faults.at_least_one("/adapter_tiers/loads_at_once", u64::from(tiers.loads_at_once));
        if let Some(remote) = &tiers.remote {
            check_remote(remote, faults);
        }
        if matches!(self.engine, EngineSpec::Vllm(_)) {
            return;
        }
        if tiers.loads_at_once > 1 {
            let message = "SGLang reads one adapter at a time, under a lock; leave it at 1".to_owned();
            faults.add("/adapter_tiers/loads_at_once", message);
        }
        if tiers.prefetch != Prefetch::None {
            let message = format!(
                "{} is modelled for vLLM only; SGLang loads ahead with engine.enable_lora_overlap_loading",
                tiers.prefetch.as_str()
            );
            faults.add("/adapter_tiers/prefetch", message);
        }
    }
}

fn check_remote(remote: &RemoteTier, faults: &mut Faults) {
    let numbers = [("latency_ms", remote.latency_ms, 0.0), ("mb_per_s", remote.mb_per_s, 1e-3)];
    for (name, value, least) in numbers {
        if !(least..=1e9).contains(&value) {
            let message = format!("{value} is impossible; give a number from {least} to 1e9");
            faults.add(&format!("/adapter_tiers/remote/{name}"), message);
        }
    }
    if remote.max_disk_loras == Some(0) {
        let message = "0 leaves no room for what is fetched; give at least 1, or leave it out".to_owned();
        faults.add("/adapter_tiers/remote/max_disk_loras", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SglangSpec;

    fn pointers(spec: &ClusterSpec) -> Vec<String> {
        spec.check(&[]).into_iter().map(|(pointer, _)| pointer).collect()
    }

    #[test]
    fn impossible_tiers_are_named() {
        let mut spec = ClusterSpec::new(1, 1000, "qwen2.5-7b-l4");
        let remote = RemoteTier { latency_ms: -1.0, mb_per_s: 0.0, max_disk_loras: Some(0) };
        spec.adapter_tiers =
            AdapterTiers { loads_at_once: 0, remote: Some(remote), prefetch: Prefetch::Popular };
        let at = |key: &str| format!("/adapter_tiers/{key}");
        let remote = ["remote/latency_ms", "remote/mb_per_s", "remote/max_disk_loras"];
        let expected: Vec<String> = ["loads_at_once"].into_iter().chain(remote).map(at).collect();
        assert_eq!(pointers(&spec), expected);
    }

    #[test]
    fn what_only_vllm_is_modelled_with_is_refused_for_sglang() {
        let mut spec = ClusterSpec::new(1, 1000, "qwen2.5-7b-l4");
        spec.engine = EngineSpec::Sglang(SglangSpec::default());
        spec.adapter_tiers = AdapterTiers { loads_at_once: 2, remote: None, prefetch: Prefetch::OnArrival };
        assert_eq!(pointers(&spec), ["/adapter_tiers/loads_at_once", "/adapter_tiers/prefetch"]);
    }
}
