//! Published results that are not run, and why. A row that says so is better than a table without it.

use super::{Case, Row};

/// Cache ratios of whole traces.
pub const MOONCAKE: Case = Case {
    name: "mooncake_cache_ratios",
    source: "Mooncake FAST'25, Table 2 and Fig. 9: share of cached blocks 40 % (conversation) and 66 % (synthetic)",
    run: mooncake,
};

/// How far batching across adapters carries.
pub const D_LORA: Case = Case {
    name: "d_lora_fig_9",
    source: "dLoRA, Fig. 9 (artefact, a panel whose rates match 128 adapters on 7B): latency bends at 48 to 56 req/s, vLLM's near 4",
    run: d_lora,
};

fn mooncake() -> Vec<Row> {
    vec![Row::skipped(
        "block ratios of the traces",
        "the ratios are those of the whole traces, which are not part of the program; `acb trace info FILE` prints them for a trace",
    )]
}

fn d_lora() -> Vec<Row> {
    vec![Row::skipped(
        "knee of dLoRA over that of vLLM, at least 10",
        "its arrivals are those of the Azure Functions trace of 2019, which is not part of the program, and its vLLM runs one merged \
         model at a time on each of several cards, swapped whole, which no engine modelled here does",
    )]
}
