//! The profiles that ship by name. None is calibrated against a server of ours: measured ones come from other
//! people's logs, roofline ones are computed here from datasheets.

use crate::Profile;

/// One named profile, for lists.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ProfileInfo {
    /// The name that specs use.
    pub name: &'static str,
    /// What it is and where its numbers come from.
    pub summary: &'static str,
    /// Whether it was fitted to and checked against a server; none that ships is.
    pub calibrated: bool,
}

/// Every profile that ships, in name order.
#[must_use]
pub fn profiles() -> Vec<ProfileInfo> {
    NAMED.iter().map(|n| ProfileInfo { name: n.name, summary: n.summary, calibrated: false }).collect()
}

/// The profile of this name.
#[must_use]
pub fn profile(name: &str) -> Option<Profile> {
    NAMED.iter().find(|n| n.name == name).map(|n| (n.profile)())
}

struct Named {
    name: &'static str,
    summary: &'static str,
    profile: fn() -> Profile,
}

const NAMED: [Named; 5] = [
    Named {
        name: "llama-3.1-8b-h100",
        summary: "roofline from datasheets (989 Tflop/s, 3.35 TB/s, PCIe 64 GB/s; 50 % of compute, 80 % of bandwidth)",
        profile: || roofline(&LLAMA_8B, &H100),
    },
    Named {
        name: "llama-3.1-8b-vllm-0.8.5",
        summary: "measured by others: vLLM 0.8.5 on a 64 GB Hopper card (arXiv 2508.08343 logs); LoRA cost by their linear fit",
        profile: || measured(&LLAMA_8B, &LLAMA_FIT),
    },
    Named {
        name: "qwen2.5-1.5b-l4",
        summary: "roofline from datasheets (L4: 121 Tflop/s, 300 GB/s, PCIe 32 GB/s; 50 % of compute, 80 % of bandwidth)",
        profile: || roofline(&QWEN_1_5B, &L4),
    },
    Named {
        name: "qwen2.5-7b-l4",
        summary: "roofline from datasheets (L4: 121 Tflop/s, 300 GB/s, PCIe 32 GB/s; 50 % of compute, 80 % of bandwidth)",
        profile: || roofline(&QWEN_7B, &L4),
    },
    Named {
        name: "qwen2.5-7b-vllm-0.8.5",
        summary: "measured by others: vLLM 0.8.5 on a 64 GB Hopper card (arXiv 2508.08343 logs); LoRA cost by their linear fit",
        profile: || measured(&QWEN_7B, &QWEN_FIT),
    },
];

/// Shape of a model, from its public configuration. All in bf16.
struct Model {
    weight_bytes: f64,
    gemm_parameters: f64,
    layers: f64,
    query_width: f64,
    kv_bytes_per_token: u64,
    lora_bytes_per_rank: u64,
}

/// 28 layers, 28 query heads and 4 KV heads of 128. GEMM parameters leave the embedding and the head out.
const QWEN_7B: Model = Model {
    weight_bytes: 15.23e9,
    gemm_parameters: 6.53e9,
    layers: 28.0,
    query_width: 3584.0,
    kv_bytes_per_token: 57_344,
    lora_bytes_per_rank: 5_050_000,
};

/// 28 layers, 12 query heads and 2 KV heads of 128, hidden 1536, intermediate 8960, tied embedding.
const QWEN_1_5B: Model = Model {
    weight_bytes: 3.09e9,
    gemm_parameters: 1.31e9,
    layers: 28.0,
    query_width: 1536.0,
    kv_bytes_per_token: 28_672,
    lora_bytes_per_rank: 2_310_000,
};

/// 32 layers, 32 query heads and 8 KV heads of 128.
const LLAMA_8B: Model = Model {
    weight_bytes: 16.06e9,
    gemm_parameters: 6.98e9,
    layers: 32.0,
    query_width: 4096.0,
    kv_bytes_per_token: 131_072,
    lora_bytes_per_rank: 5_240_000,
};

/// Datasheet numbers of a card.
struct Card {
    flops: f64,
    bytes_per_s: f64,
    pcie_bytes_per_s: f64,
}

const L4: Card = Card { flops: 121e12, bytes_per_s: 300e9, pcie_bytes_per_s: 32e9 };
const H100: Card = Card { flops: 989e12, bytes_per_s: 3.35e12, pcie_bytes_per_s: 64e9 };

/// Share of peak compute that prefill reaches (MFU), and share of peak bandwidth that decode reaches.
const COMPUTE_EFFICIENCY: f64 = 0.5;
const BANDWIDTH_EFFICIENCY: f64 = 0.8;

/// A step reads all weights once; a prompt token adds its multiplications; a decoding request reads its context.
fn roofline(model: &Model, card: &Card) -> Profile {
    let bandwidth = card.bytes_per_s * BANDWIDTH_EFFICIENCY;
    let compute = card.flops * COMPUTE_EFFICIENCY;
    let lora_flops_per_rank = model.lora_bytes_per_rank as f64;
    Profile {
        step_ms: model.weight_bytes / bandwidth * 1e3,
        prefill_token_us: 2.0 * model.gemm_parameters / compute * 1e6,
        prefill_pair_ns: 4.0 * model.layers * model.query_width / compute * 1e9,
        decode_row_us: 2.0 * model.gemm_parameters / card.flops * 1e6,
        context_token_ns: model.kv_bytes_per_token as f64 / bandwidth * 1e9,
        lora_step_ms: model.layers * LORA_LAUNCH_US * 1e-3,
        lora_adapter_ms: lora_flops_per_rank * TYPICAL_RANK / bandwidth * 1e3,
        lora_row_us: lora_flops_per_rank * TYPICAL_RANK / card.flops * 1e6,
        lora_row_adapter_us: 0.0,
        lora_prefill_token_us: lora_flops_per_rank * TYPICAL_RANK / compute * 1e6,
        load_gpu_ms: model.layers * TENSORS_PER_LAYER * TENSOR_COPY_US * 1e-3,
        load_gpu_ms_per_mb: 1e6 / (card.pcie_bytes_per_s * BANDWIDTH_EFFICIENCY) * 1e3,
        load_cpu_ms: DISK_OPEN_MS,
        load_cpu_ms_per_mb: 1e6 / DISK_BYTES_PER_S * 1e3,
        weight_bytes: model.weight_bytes as u64,
        kv_bytes_per_token: model.kv_bytes_per_token,
        lora_bytes_per_rank: model.lora_bytes_per_rank,
    }
}

/// Rank that the roofline's LoRA terms assume: two bytes a weight read per step, two flops a weight and token.
const TYPICAL_RANK: f64 = 16.0;
/// Time to start the extra kernels of one layer.
const LORA_LAUNCH_US: f64 = 30.0;
/// A and B of seven linear modules.
const TENSORS_PER_LAYER: f64 = 14.0;
/// Measured activations take 3.0 to 8.1 ms whatever the rank: 10 to 15 us a tensor.
const TENSOR_COPY_US: f64 = 12.5;
/// First loads of Llama-2-7B adapters took 104, 263 and 510 ms at rank 8, 16 and 32 in the same logs.
const DISK_OPEN_MS: f64 = 20.0;
const DISK_BYTES_PER_S: f64 = 0.35e9;

/// Constants fitted by others: a decode step is `(step + row * D) * (200 + slope * A) %`.
struct Fit {
    step_ms: f64,
    row_us: f64,
    first_adapter: f64,
    each_adapter: f64,
    load_gpu_ms: f64,
}

const LLAMA_FIT: Fit =
    Fit { step_ms: 10.54, row_us: 43.8, first_adapter: 1.0, each_adapter: 0.0193, load_gpu_ms: 6.4 };
const QWEN_FIT: Fit =
    Fit { step_ms: 10.62, row_us: 48.9, first_adapter: 0.777, each_adapter: 0.0167, load_gpu_ms: 3.25 };

/// Measured on the same card for Llama; the Qwen logs give no number of their own.
const MEASURED_PREFILL_TOKEN_US: f64 = 13.2;

/// The product of the fit, multiplied out: a fixed part, one per adapter, one per row and one per row and adapter.
fn measured(model: &Model, fit: &Fit) -> Profile {
    Profile {
        step_ms: fit.step_ms,
        prefill_token_us: MEASURED_PREFILL_TOKEN_US,
        prefill_pair_ns: 0.0,
        decode_row_us: fit.row_us,
        context_token_ns: 0.0,
        lora_step_ms: fit.step_ms * fit.first_adapter,
        lora_adapter_ms: fit.step_ms * fit.each_adapter,
        lora_row_us: fit.row_us * fit.first_adapter,
        lora_row_adapter_us: fit.row_us * fit.each_adapter,
        lora_prefill_token_us: 0.0,
        load_gpu_ms: fit.load_gpu_ms,
        load_gpu_ms_per_mb: 0.0,
        load_cpu_ms: DISK_OPEN_MS,
        load_cpu_ms_per_mb: 1e6 / DISK_BYTES_PER_S * 1e3,
        weight_bytes: model.weight_bytes as u64,
        kv_bytes_per_token: model.kv_bytes_per_token,
        lora_bytes_per_rank: model.lora_bytes_per_rank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roofline_gives_the_floors_computed_by_hand() {
        let l4 = profile("qwen2.5-7b-l4").unwrap();
        assert!((l4.step_ms - 63.5).abs() < 0.1, "15.23 GB at 240 GB/s, got {}", l4.step_ms);
        let per_thousand = l4.prefill_token_us;
        assert!((per_thousand - 215.9).abs() < 0.5, "216 ms per 1k tokens, got {per_thousand}");
    }

    #[test]
    fn the_measured_fit_is_the_product_multiplied_out() {
        let p = profile("llama-3.1-8b-vllm-0.8.5").unwrap();
        let (rows, adapters) = (220.0, 32.0);
        let product = (10.54 + 0.0438 * rows) * (2.0 + 0.0193 * adapters);
        let sum = p.step_ms
            + p.lora_step_ms
            + adapters * p.lora_adapter_ms
            + rows * (p.decode_row_us + p.lora_row_us + adapters * p.lora_row_adapter_us) * 1e-3;
        assert!((product - sum).abs() < 1e-9);
    }

    #[test]
    fn profiles_are_listed_in_name_order_and_found_by_name() {
        let names: Vec<&str> = profiles().iter().map(|p| p.name).collect();
        assert!(names.is_sorted());
        assert!(names.iter().all(|n| profile(n).is_some()) && profile("nope").is_none());
    }
}
