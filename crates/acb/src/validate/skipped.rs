//! Published results that are not run, and why. A row that says so is better than a table without it.

use super::{Case, Row};

/// Cache ratios of whole traces.
pub const MOONCAKE: Case = Case {
    name: "mooncake_cache_ratios",
    source: "Mooncake FAST'25, Table 2 and Fig. 9: share of cached blocks 40 % (conversation) and 66 % (synthetic)",
    run: mooncake,
};

/// Thousands of adapters.
pub const S_LORA: Case = Case {
    name: "s_lora_table_3",
    source: "S-LoRA, Table 3: an A100-80 at 10 req/s serves 8.05 req/s with 5 adapters and 7.61 with 2,000",
    run: s_lora,
};

fn mooncake() -> Vec<Row> {
    vec![Row::skipped(
        "block ratios of the traces",
        "the ratios are those of the whole traces, which are not part of the program; `acb trace info FILE` prints them for a trace",
    )]
}

fn s_lora() -> Vec<Row> {
    vec![Row::skipped(
        "throughput with 2,000 adapters over that with 5",
        "S-LoRA pages adapters and keys and values in one pool without slots; the engines modelled here have slots",
    )]
}
