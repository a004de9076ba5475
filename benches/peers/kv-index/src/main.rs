//! kv-index's token tree on a case of `benches/peers/crosscheck.py` whose requests come one at a time: the tokens of each
//! prompt that earlier ones brought in, floored to pages.

use anyhow::{Context, Result};
use kv_index::TokenTree;
use serde_json::Value;

/// Contents of prompts are told apart by tokens this far from each other.
const CONTENT_TOKENS: u64 = 1 << 15;
const TENANT: &str = "replica";

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: kv-index-peer CASE")?;
    let case: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let page = case["engine"]["page_size"].as_u64().context("page_size")? as usize;
    let tree = TokenTree::with_config(page, Default::default());
    println!("request,hit_tokens");
    for (at, asked) in case["requests"].as_array().context("requests")?.iter().enumerate() {
        let mut tokens: Vec<u32> = Vec::new();
        for run in asked["prompt"].as_array().context("prompt")? {
            let (content, length) = (run[0].as_u64().context("content")?, run[1].as_u64().context("length")?);
            let first = content * CONTENT_TOKENS;
            tokens.extend((first..first + length).map(|token| token as u32));
        }
        // The last token is always computed.
        let matched = tree.match_prefix_with_counts(&tokens[..tokens.len() - 1]).matched_token_count;
        tree.insert_tokens(&tokens, TENANT);
        println!("{at},{matched}");
    }
    Ok(())
}
