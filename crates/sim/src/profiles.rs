//! The profiles that ship by name: measured ones are files in `data/profiles`, roofline ones are computed from
//! `data/models.json`, `data/cards.json` and `data/roofline.json`. None is calibrated against a server of ours.

use crate::{Card, Profile, cards};
use serde::Deserialize;
use std::sync::LazyLock;

/// One named profile, for lists.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ProfileInfo {
    /// The name that specs use.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Where its numbers come from.
    pub source: &'static str,
    /// Whether it was fitted to and checked against a server; none that ships is.
    pub calibrated: bool,
}

/// Every profile that ships, in name order.
#[must_use]
pub fn profiles() -> Vec<ProfileInfo> {
    let info = |named: &'static Named| ProfileInfo {
        name: &named.name,
        summary: &named.summary,
        source: &named.source,
        calibrated: named.calibrated,
    };
    NAMED.iter().map(info).collect()
}

/// The profile of this name.
#[must_use]
pub fn profile(name: &str) -> Option<Profile> {
    NAMED.iter().find(|named| named.name == name).map(|named| named.constants.clone())
}

/// A file in `data/profiles`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    summary: String,
    source: String,
    /// What the fit reported of itself; kept for readers of the file.
    #[serde(default, rename = "fit")]
    _fit: serde::de::IgnoredAny,
    calibrated: bool,
    constants: Profile,
}

const MEASURED: [&str; 2] = [
    include_str!("../data/profiles/llama-3.1-8b-vllm-0.8.5.json"),
    include_str!("../data/profiles/qwen2.5-7b-vllm-0.8.5.json"),
];

static NAMED: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let read = |text: &&str| serde_json::from_str(text).expect("a file of data/profiles holds a profile");
    let mut named: Vec<Named> = MEASURED.iter().map(read).collect();
    named.extend(rooflines());
    named.sort_by(|a, b| a.name.cmp(&b.name));
    named
});

/// Bytes and widths of a model, from its public configuration, all in bf16. GEMM parameters leave the embedding and the
/// output layer out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    weight_bytes: u64,
    gemm_parameters: f64,
    layers: f64,
    query_width: f64,
    kv_bytes_per_token: u64,
    lora_bytes_per_rank: u64,
    vocabulary_lora_bytes_per_rank: u64,
}

/// What a roofline assumes beside datasheets and configurations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Roofline {
    source: String,
    compute_efficiency: f64,
    bandwidth_efficiency: f64,
    launch_layer_us: f64,
    launch_step_us: f64,
    lora_launch_layer_us: f64,
    /// Rank that the LoRA terms assume: two bytes a weight read per step, two flops a weight and token.
    lora_rank: f64,
    /// A and B of seven linear modules.
    tensors_per_layer: f64,
    tensor_copy_us: f64,
    disk_open_ms: f64,
    disk_bytes_per_s: f64,
}

/// Every model on every card.
fn rooflines() -> Vec<Named> {
    let models: Vec<Model> = serde_json::from_str(include_str!("../data/models.json"))
        .expect("data/models.json is a list of models");
    let roofline: Roofline = serde_json::from_str(include_str!("../data/roofline.json"))
        .expect("data/roofline.json holds the assumptions");
    let named = |model: &Model, card: &Card| Named {
        name: format!("{}-{}", model.name, card.name),
        summary: format!(
            "roofline from datasheets ({} Tflop/s, {} GB/s, PCIe {} GB/s; {} % of compute, {} % of bandwidth)",
            card.flops_bf16 / 1e12,
            card.bytes_per_s / 1e9,
            card.pcie_bytes_per_s / 1e9,
            roofline.compute_efficiency * 100.0,
            roofline.bandwidth_efficiency * 100.0
        ),
        source: roofline.source.clone(),
        _fit: serde::de::IgnoredAny,
        calibrated: false,
        constants: roofline.profile(model, card),
    };
    models
        .iter()
        .flat_map(|model| cards().iter().map(move |card| (model, card)))
        .map(|(m, c)| named(m, c))
        .collect()
}

impl Roofline {
    /// A step reads all weights once, and computes meanwhile; a decoding request reads its context.
    fn profile(&self, model: &Model, card: &Card) -> Profile {
        let bandwidth = card.bytes_per_s * self.bandwidth_efficiency;
        let compute = card.flops_bf16 * self.compute_efficiency;
        let token_us = 2.0 * model.gemm_parameters / compute * 1e6;
        let lora_weight_bytes = model.lora_bytes_per_rank as f64 * self.lora_rank;
        let lora_token_us = lora_weight_bytes / compute * 1e6;
        Profile {
            step_ms: (self.launch_step_us + model.layers * self.launch_layer_us) * 1e-3,
            weight_read_ms: model.weight_bytes as f64 / bandwidth * 1e3,
            prefill_token_us: token_us,
            prefill_pair_ns: 4.0 * model.layers * model.query_width / compute * 1e9,
            decode_compute_us: token_us,
            prefill_request_us: 0.0,
            decode_row_us: 0.0,
            context_token_ns: model.kv_bytes_per_token as f64 / bandwidth * 1e9,
            lora_step_ms: model.layers * self.lora_launch_layer_us * 1e-3,
            lora_slot_ms: 0.0,
            lora_adapter_ms: lora_weight_bytes / bandwidth * 1e3,
            lora_adapter_exponent: 1.0,
            lora_rank_exponent: 1.0,
            lora_row_us: lora_token_us,
            lora_row_slot_us: 0.0,
            lora_row_adapter_us: 0.0,
            lora_prefill_token_us: lora_token_us,
            skipped_request_us: 0.0,
            load_gpu_ms: model.layers * self.tensors_per_layer * self.tensor_copy_us * 1e-3,
            load_gpu_ms_per_mb: 1e6 / (card.pcie_bytes_per_s * self.bandwidth_efficiency) * 1e3,
            load_cpu_ms: self.disk_open_ms,
            load_cpu_ms_per_mb: 1e6 / self.disk_bytes_per_s * 1e3,
            weight_bytes: model.weight_bytes,
            kv_bytes_per_token: model.kv_bytes_per_token,
            lora_bytes_per_rank: model.lora_bytes_per_rank + model.vocabulary_lora_bytes_per_rank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roofline_gives_the_floors_and_the_prefill_of_the_table() {
        let check = |name: &str, decode_ms: f64, prefill_ms: f64| {
            let profile = profile(name).unwrap();
            assert!(
                (profile.weight_read_ms / decode_ms - 1.0).abs() < 0.02,
                "{name}: {}",
                profile.weight_read_ms
            );
            assert!(
                (profile.prefill_token_us / prefill_ms - 1.0).abs() < 0.03,
                "{name}: {}",
                profile.prefill_token_us
            );
        };
        // Decode floor at 80 % of bandwidth, and ms per thousand prompt tokens at 50 % of compute.
        check("qwen2.5-7b-l4", 63.5, 216.0);
        check("qwen2.5-7b-a100-80", 9.3, 84.0);
        check("qwen2.5-7b-h100", 5.7, 26.0);
        check("qwen2.5-7b-h200", 4.0, 26.0);
        check("llama-3.1-8b-l4", 63.5 * 16.06 / 15.23, 231.0);
        check("llama-3.1-8b-h100", 5.7 * 16.06 / 15.23, 28.0);
    }

    #[test]
    fn the_bytes_of_an_adapter_cross_the_link_in_the_time_of_the_table() {
        let check = |name: &str, bytes: u64, ms: f64| {
            let profile = profile(name).unwrap();
            let link_ms = profile.gpu_load_ms(bytes) - profile.gpu_load_ms(0);
            assert!((link_ms / ms - 1.0).abs() < 0.04, "{name}: {link_ms}");
        };
        // Rank 16 on all linear layers of Qwen2.5-7B at 80 % of PCIe.
        let bytes = 16 * 5_046_272;
        check("qwen2.5-7b-l4", bytes, 3.2);
        check("qwen2.5-7b-a100-80", bytes, 3.2);
        check("qwen2.5-7b-h100", bytes, 1.6);
        check("qwen2.5-7b-h200", bytes, 1.6);
    }

    #[test]
    fn the_fitted_costs_of_qwen_give_the_time_between_tokens_that_was_measured() {
        let p = profile("qwen2.5-7b-vllm-0.8.5").unwrap();
        // Rows that the base's 19.6 ms stand for, over 300 slots of rank 8.
        let rows = (19.6 - p.step_ms) / (p.decode_row_us * 1e-3);
        for (adapters, measured_ms) in [(1.0, 36.6), (32.0, 47.0), (128.0, 71.8), (300.0, 93.8f64)] {
            let distinct = adapters * (1.0 - (-rows / adapters).exp());
            let ms = 19.6 + p.adapters_ms(distinct.round() as u32, 300, 8) + rows * p.lora_row_us * 1e-3;
            assert!((ms / measured_ms - 1.0).abs() < 0.04, "{adapters}: {ms} against {measured_ms}");
        }
    }

    #[test]
    fn profiles_are_listed_in_name_order_and_found_by_name() {
        let names: Vec<&str> = profiles().iter().map(|p| p.name).collect();
        assert!(names.is_sorted());
        assert!(names.iter().all(|n| profile(n).is_some()) && profile("nope").is_none());
        assert!(profiles().iter().all(|p| !p.source.is_empty()));
    }
}
