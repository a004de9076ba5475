//! The prefix cache, as a client sees it: how long a block is, and whether adapters share what is cached.

use super::server::{Ask, Reply, Start};
use acb_types::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// The text that is repeated.
const TEXT: u64 = 1;
/// Its length, tokens.
const LENGTH: u32 = 1536;
/// Lengths of its beginnings are this far apart; no block length in use is a multiple.
const STEP: u32 = 37;

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CacheFinding {
    /// Tokens in one block: the greatest common divisor of the cached tokens reported for prompts of many lengths. Null
    /// when the server reports none.
    pub block_tokens: Option<u32>,
    /// Whether what one adapter cached is of no use to another and to the base model.
    pub per_adapter: Option<bool>,
    /// Time to first token of the whole text when it was new, ms.
    pub cold_ttft_ms: f64,
    /// The same when it was cached, ms.
    pub warm_ttft_ms: f64,
}

/// A text, its beginnings, and the text under two adapters (when the server has them), one after the other.
pub fn plan(adapters: u32) -> Vec<Ask> {
    let beginnings = (1..).map(|i| LENGTH - i * STEP).take_while(|&n| n > LENGTH / 8);
    let mut asked: Vec<(u32, Option<u32>)> = vec![(LENGTH, None), (LENGTH, None)];
    asked.extend(beginnings.map(|tokens| (tokens, None)));
    asked.extend((0..adapters.min(2)).map(|adapter| (LENGTH, Some(adapter))));
    let start = |place: usize| match place.checked_sub(1) {
        None => Start::At(Nanos::ZERO),
        Some(ask) => Start::After { ask, wait: Nanos::from_millis(20) },
    };
    let ask = |(place, &(prompt_tokens, adapter)): (usize, &(u32, Option<u32>))| Ask {
        start: start(place),
        text: TEXT,
        prompt_tokens,
        output_tokens: 1,
        adapter,
    };
    asked.iter().enumerate().map(ask).collect()
}

/// What the replies say.
pub fn read(plan: &[Ask], replies: &[Reply]) -> CacheFinding {
    let cached = |of: &dyn Fn(&Ask) -> bool| -> Vec<Option<u32>> {
        plan.iter()
            .zip(replies)
            .skip(1)
            .filter(|(ask, _)| of(ask))
            .map(|(_, reply)| reply.cached_tokens)
            .collect()
    };
    let base: Option<Vec<u32>> = cached(&|ask| ask.adapter.is_none()).into_iter().collect();
    let adapters: Option<Vec<u32>> = cached(&|ask| ask.adapter.is_some()).into_iter().collect();
    let ttft = |reply: &Reply| (reply.first - reply.sent).as_millis_f64();
    CacheFinding {
        block_tokens: base.map(|cached| cached.into_iter().fold(0, gcd)).filter(|&block| block > 0),
        per_adapter: adapters
            .filter(|cached| !cached.is_empty())
            .map(|c| c.iter().all(|&tokens| tokens == 0)),
        cold_ttft_ms: ttft(&replies[0]),
        warm_ttft_ms: ttft(&replies[1]),
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
