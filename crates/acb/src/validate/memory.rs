//! The memory planner against measured pools and starts.

use super::{Case, Row, Verdict};
use crate::commands::memory::slot_bytes;
use crate::spec::model::{KnownModel, ModelShape, ModelSpec};
use acb_sim::{Memory, MemoryPlan};

/// KV tokens over the number of slots.
pub const POOLS: Case = Case {
    name: "memory_pools",
    source: "KV tokens of vLLM 0.8.5 with Llama-3.1-8B on a 64 GB card over slots and rank (logs published with arXiv 2508.08343). The \
             overhead, which the logs don't say, is read off the first row. That version keeps 256 more rows of vocabulary for each \
             slot at both ends of the model (`lora_extra_vocab_size` in `lora/layers.py`), whatever the rank; later ones don't.",
    run: pools,
};

/// Which configurations start.
pub const STARTS: Case = Case {
    name: "memory_starts",
    source: "Qwen2.5-7B, rank 8, 4096 tokens on vLLM 0.23.0: on an L4 at 0.85, 5 adapters start, 8 fail (0.09 GiB free, 0.22 needed), 10 \
             fail; on an H100 at 0.90, 10 start with 998,768 tokens. Overhead 4.50 GiB for both, read off the L4's row of 8.",
    run: starts,
};

const GIB: f64 = (1u64 << 30) as f64;
const OVERHEAD_GIB: f64 = 4.5035;

/// What a slot of vLLM 0.8.5 takes beside its ranks: 256 rows of vocabulary for the embedding and for the output layer,
/// 4096 wide in bf16.
const EXTRA_VOCABULARY_BYTES: f64 = 2.0 * 256.0 * 4096.0 * 2.0;

fn plan(model: KnownModel, card_bytes: f64, (slots, rank): (u32, u32), overhead_bytes: f64) -> MemoryPlan {
    let shape: ModelShape = ModelSpec::Known(model).shape();
    let memory = Memory {
        card_bytes,
        utilization: 1.0,
        overhead_bytes,
        weight_bytes: shape.weight_bytes(),
        slots,
        slot_bytes: slot_bytes(&shape, rank),
        kv_bytes_per_token: shape.kv_bytes_per_token(),
        block_tokens: 16,
    };
    memory.plan()
}

fn pools() -> Vec<Row> {
    let measured = [
        (8, 8, 305_104.0),
        (8, 16, 302_000.0),
        (8, 32, 296_352.0),
        (64, 8, 282_640.0),
        (64, 16, 256_640.0),
        (64, 32, 215_104.0),
        (128, 16, 212_032.0),
        (320, 8, 180_160.0),
    ];
    let card = 64.0 * GIB * 0.9;
    let extra = |slots: u32| f64::from(slots) * EXTRA_VOCABULARY_BYTES;
    let left = plan(KnownModel::Llama31B8, card, (8, 8), extra(8)).left_bytes;
    let overhead = left - measured[0].2 * 131_072.0;
    let row = |&(slots, rank, tokens): &(u32, u32, f64)| {
        let ours = plan(KnownModel::Llama31B8, card, (slots, rank), overhead + extra(slots)).kv_tokens as f64;
        Row::compare(format!("{slots} slots of rank {rank}, KV tokens"), ours, tokens, 0.03)
    };
    measured.iter().skip(1).map(row).collect()
}

fn starts() -> Vec<Row> {
    let card = |name: &str, share: f64| {
        let card = acb_sim::card(name).expect("the card is known");
        card.memory_mib as f64 * f64::from(1u32 << 20) * share
    };
    let on =
        |name, share, slots| plan(KnownModel::Qwen25B7, card(name, share), (slots, 8), OVERHEAD_GIB * GIB);
    let mut rows: Vec<Row> = [(5, true), (8, false), (10, false)]
        .map(|(slots, starts)| {
            let plan = on("l4", 0.85, slots);
            let found = plan.starts(4096);
            let number = |starts| if starts { 1.0 } else { 0.0 };
            Row {
                ours: Some(number(found)),
                theirs: Some(number(starts)),
                error: None,
                tolerance: None,
                verdict: if found == starts { Verdict::Pass } else { Verdict::Fail },
                ..Row::skipped(format!("L4 with {slots} adapters starts (1) or not (0)"), "")
            }
            .noted(format!("{:.3} GiB are left for keys and values", plan.left_bytes / GIB))
        })
        .to_vec();
    rows.push(Row::compare(
        "H100 with 10 adapters, KV tokens",
        on("h100", 0.9, 10).kv_tokens as f64,
        998_768.0,
        0.02,
    ));
    rows
}
