//! The Mooncake traces: JSON lines with the ids of prefix blocks.

use super::TraceRow;
use super::input::Lines;
use crate::WorkloadError;
use acb_types::Nanos;
use serde::Deserialize;
use std::path::Path;

/// The year 2500, in milliseconds since 1970.
const MAX_TIMESTAMP_MS: u64 = 16_725_225_600_000;

/// Rows of a file.
pub(super) struct Reader {
    lines: Lines,
    block_tokens: u32,
}

#[derive(Deserialize)]
struct Row {
    timestamp: u64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

impl Reader {
    pub fn open(path: &Path, block_tokens: u32) -> Result<Self, WorkloadError> {
        Ok(Self { lines: Lines::open(path)?, block_tokens })
    }

    pub fn next(&mut self) -> Option<Result<TraceRow, WorkloadError>> {
        let parsed = match self.lines.next() {
            Err(error) => return Some(Err(error)),
            Ok(None) => return None,
            Ok(Some((line, text))) => parse(text, self.block_tokens).map(|row| TraceRow { line, ..row }),
        };
        Some(parsed.map_err(|message| self.lines.fault(message)))
    }
}

fn parse(line: &str, block_tokens: u32) -> Result<TraceRow, String> {
    let row: Row = serde_json::from_str(line).map_err(|error| {
        format!("{error}; a row has timestamp (whole ms), input_length, output_length and hash_ids")
    })?;
    if row.timestamp > MAX_TIMESTAMP_MS {
        return Err(format!(
            "timestamp {} is no number of milliseconds; is it in nanoseconds?",
            row.timestamp
        ));
    }
    let blocks = row.input_length.div_ceil(block_tokens) as usize;
    if row.hash_ids.len() != blocks {
        return Err(format!(
            "{} tokens in blocks of {block_tokens} are {blocks} blocks, but hash_ids has {}; set block_tokens to the \
             block size of the trace",
            row.input_length,
            row.hash_ids.len()
        ));
    }
    Ok(TraceRow {
        line: 0,
        at: Nanos::from_millis(row.timestamp),
        input_tokens: row.input_length,
        output_tokens: row.output_length,
        blocks: row.hash_ids,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_may_be_partial_and_none_may_be_missing() {
        let line = |n, ids| {
            format!("{{\"timestamp\": 3, \"input_length\": {n}, \"output_length\": 5, \"hash_ids\": {ids}}}")
        };
        let row = parse(&line(513, "[7, 8]"), 512).unwrap();
        assert_eq!((row.at, row.blocks), (Nanos::from_millis(3), vec![7, 8]));
        let error = parse(&line(513, "[7]"), 512).unwrap_err();
        assert!(error.contains("are 2 blocks, but hash_ids has 1; set block_tokens"), "{error}");
        assert!(parse(&line(513, "[7, 8]"), 16).unwrap_err().contains("33 blocks"));
        assert!(parse("{\"timestamp\": 1.5}", 512).unwrap_err().contains("whole ms"));
    }
}
