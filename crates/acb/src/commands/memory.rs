//! `acb memory`: how a card's memory is divided, and whether the engine starts.

use super::{Exit, print, print_json};
use crate::cli::MemoryArgs;
use crate::spec::model::{LoraTargets, ModelShape, ModelSpec};
use acb_sim::{Memory, MemoryPlan};
use miette::miette;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

const GIB: f64 = (1u64 << 30) as f64;

/// A division of memory. Sizes are bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryDocument {
    /// Memory of the card.
    pub card_bytes: f64,
    /// What the engine may use of it.
    pub budget_bytes: f64,
    /// The model's weights.
    pub weight_bytes: u64,
    /// Adapter slots.
    pub slots: u32,
    /// One slot, sized for the highest rank.
    pub slot_bytes: u64,
    /// All slots.
    pub slots_bytes: u64,
    /// Activations, graphs and the like, as given.
    pub overhead_bytes: f64,
    /// What is left for keys and values; negative when nothing is.
    pub kv_bytes: f64,
    /// Keys and values of one token.
    pub kv_bytes_per_token: u64,
    /// Whole KV blocks.
    pub kv_blocks: u64,
    /// Tokens in them.
    pub kv_tokens: u64,
    /// Tokens that one slot takes from the KV cache.
    pub slot_kv_tokens: f64,
    /// The length that the next two are about, tokens.
    pub context_tokens: u32,
    /// Requests of that length that fit at once.
    pub concurrency: Option<f64>,
    /// Whether the engine starts: one request of that length fits.
    pub starts: bool,
}

/// Runs the command.
///
/// # Errors
/// When model or card are not known, or a number is impossible.
pub fn command(args: &MemoryArgs) -> miette::Result<Exit> {
    let document = document(args)?;
    match args.json {
        true => print_json(&document)?,
        false => print(&text(&document))?,
    }
    Ok(if document.starts { Exit::Done } else { Exit::Failed })
}

/// What a slot of rank `rank` takes in vLLM: all linear layers, embedding and output layer, bytes.
#[must_use]
pub fn slot_bytes(shape: &ModelShape, rank: u32) -> u64 {
    let per_rank = shape.lora_bytes_per_rank(LoraTargets::AllLinear) + shape.vocabulary_lora_bytes_per_rank();
    u64::from(rank) * per_rank
}

fn document(args: &MemoryArgs) -> miette::Result<MemoryDocument> {
    let shape = model(&args.model)?;
    let memory = Memory {
        card_bytes: card_bytes(&args.gpu)?,
        utilization: share(args.utilization)?,
        overhead_bytes: size(args.overhead_gib, "--overhead-gib")? * GIB,
        weight_bytes: shape.weight_bytes(),
        slots: args.slots,
        slot_bytes: slot_bytes(&shape, args.max_rank),
        kv_bytes_per_token: shape.kv_bytes_per_token(),
        block_tokens: args.block_size,
    };
    Ok(described(&memory, &memory.plan(), args.context))
}

fn described(memory: &Memory, plan: &MemoryPlan, context_tokens: u32) -> MemoryDocument {
    MemoryDocument {
        card_bytes: memory.card_bytes,
        budget_bytes: plan.budget_bytes,
        weight_bytes: memory.weight_bytes,
        slots: memory.slots,
        slot_bytes: memory.slot_bytes,
        slots_bytes: plan.slots_bytes,
        overhead_bytes: memory.overhead_bytes,
        kv_bytes: plan.left_bytes,
        kv_bytes_per_token: memory.kv_bytes_per_token,
        kv_blocks: plan.blocks,
        kv_tokens: plan.kv_tokens,
        slot_kv_tokens: memory.slot_bytes as f64 / memory.kv_bytes_per_token as f64,
        context_tokens,
        concurrency: plan.concurrency(context_tokens),
        starts: plan.starts(context_tokens),
    }
}

/// A known name, or `layers=28,hidden=3584,...`.
pub(super) fn model(text: &str) -> miette::Result<ModelShape> {
    let value = if text.contains('=') { Value::Object(pairs(text)?) } else { Value::from(text) };
    let spec: Result<ModelSpec, _> = serde_json::from_value(value.clone());
    match (spec, value) {
        (Ok(spec), _) => possible(spec.shape()),
        (Err(_), Value::Object(map)) => serde_json::from_value::<ModelShape>(Value::Object(map))
            .map_err(|error| miette!("--model {text}: {error}"))
            .and_then(possible),
        _ => Err(miette!(
            "--model {text}: not known; give qwen2.5-7b, qwen2.5-1.5b, llama-3.1-8b, llama-2-7b, or a shape such as \
             layers=28,hidden=3584,q_heads=28,kv_heads=4,head_dim=128,ffn=18944,vocab=152064"
        )),
    }
}

fn possible(shape: ModelShape) -> miette::Result<ModelShape> {
    match shape.kv_bytes_per_token() {
        0 => Err(miette!(
            "--model: a token without keys and values; layers, kv_heads, head_dim, dtype_bytes are at least 1"
        )),
        _ => Ok(shape),
    }
}

fn pairs(text: &str) -> miette::Result<Map<String, Value>> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.trim().to_owned(), serde_json::from_str(value.trim()).ok()?))
    };
    text.split(',')
        .map(|part| {
            pair(part).ok_or_else(|| miette!("--model {text}: \"{part}\" is not key=number or key=true"))
        })
        .collect()
}

fn card_bytes(text: &str) -> miette::Result<f64> {
    if let Some(card) = acb_sim::card(text) {
        return Ok(card.memory_mib as f64 * f64::from(1u32 << 20));
    }
    match text.parse::<f64>() {
        Ok(gib) => Ok(size(gib, "--gpu")? * GIB),
        Err(_) => {
            let known: Vec<&str> = acb_sim::cards().iter().map(|card| card.name.as_str()).collect();
            Err(miette!("--gpu {text}: not known; give {} or the memory in GiB", known.join(", ")))
        }
    }
}

fn size(gib: f64, option: &str) -> miette::Result<f64> {
    match (0.0..=1e6).contains(&gib) {
        true => Ok(gib),
        false => Err(miette!("{option} {gib} is impossible; give GiB from 0 to 1000000")),
    }
}

fn share(share: f64) -> miette::Result<f64> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(miette!("--utilization {share} is no share; give 0 to 1")),
    }
}

fn text(document: &MemoryDocument) -> String {
    let gib = |bytes: f64| format!("{:>10.3} GiB", bytes / GIB);
    let mut out = String::new();
    let mut line = |name: &str, value: String| out += &format!("{name:<22}{value}\n");
    line("card", gib(document.card_bytes));
    line("the engine may use", gib(document.budget_bytes));
    line("weights", gib(document.weight_bytes as f64));
    let each =
        format!("{:.1} MB, {:.0} tokens of KV", document.slot_bytes as f64 / 1e6, document.slot_kv_tokens);
    let slots = match document.slots {
        0 => format!("none; one would take {each}"),
        count => format!("{count} x {each}"),
    };
    line("adapter slots", format!("{} ({slots})", gib(document.slots_bytes as f64)));
    line("overhead (as given)", gib(document.overhead_bytes));
    line("KV cache", gib(document.kv_bytes));
    line("KV tokens", format!("{:>10} in {} blocks", document.kv_tokens, document.kv_blocks));
    if let Some(concurrency) = document.concurrency {
        line("concurrency", format!("{concurrency:>10.2} requests of {} tokens", document.context_tokens));
    }
    line("starts", verdict(document));
    out
}

/// Whether the engine starts, and what stands in the way.
fn verdict(document: &MemoryDocument) -> String {
    let weights = document.weight_bytes as f64 + document.overhead_bytes;
    if document.starts {
        return "yes".to_owned();
    }
    if weights > document.budget_bytes {
        return "no: the weights and the overhead alone don't fit".to_owned();
    }
    if document.kv_bytes < 0.0 {
        return "no: the slots leave nothing for keys and values; take fewer, or a lower rank".to_owned();
    }
    format!("no: not one request of {} tokens (--context) fits", document.context_tokens)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
