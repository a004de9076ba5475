//! Recorded traces: readers of two public formats, and what a trace holds.

mod azure;
mod info;
pub(crate) mod input;
mod lru;
mod mooncake;

pub use info::{BlockReuse, Lengths, LruPoint, TraceInfo, info};

use crate::WorkloadError;
use acb_types::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Tokens of a prefix block in the Mooncake traces.
pub const MOONCAKE_BLOCK_TOKENS: u32 = 512;

/// How a trace file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// CSV `TIMESTAMP,ContextTokens,GeneratedTokens`, wall-clock times with up to seven decimals (Azure LLM 2023, 2024).
    Azure,
    /// JSON lines `timestamp` (ms), `input_length`, `output_length`, `hash_ids` (Mooncake FAST'25).
    Mooncake,
}

impl TraceFormat {
    /// The format that a file's name suggests: `.csv` is Azure, `.jsonl` is Mooncake.
    #[must_use]
    pub fn guess(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Azure),
            "jsonl" => Some(Self::Mooncake),
            _ => None,
        }
    }
}

/// What to do with rows whose prompt or answer has no tokens (failed requests, in some traces).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ZeroTokens {
    /// Stop with an error that names the line.
    #[default]
    Error,
    /// Leave them out and count them.
    Skip,
}

/// What to do with rows that are earlier than the row before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unsorted {
    /// Stop with an error that names the line.
    #[default]
    Error,
    /// Read the whole file into memory and sort it by time; ties keep the order of the file.
    Sort,
}

/// A trace file and how to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// The file. A relative path starts from the working directory.
    pub path: PathBuf,
    /// How it is written.
    pub format: TraceFormat,
    /// Rows without tokens.
    #[serde(default)]
    pub zero_tokens: ZeroTokens,
    /// Rows out of order.
    #[serde(default)]
    pub unsorted: Unsorted,
    /// Tokens of a prefix block, for formats that have them. Default 512.
    #[serde(default = "mooncake_block")]
    #[schemars(range(min = 1, max = 65_536))]
    pub block_tokens: u32,
}

impl TraceSpec {
    /// A trace read strictly: any oddity is an error.
    #[must_use]
    pub fn strict(path: PathBuf, format: TraceFormat) -> Self {
        Self {
            path,
            format,
            zero_tokens: ZeroTokens::Error,
            unsorted: Unsorted::Error,
            block_tokens: MOONCAKE_BLOCK_TOKENS,
        }
    }
}

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Time since the first row.
    pub at: Nanos,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Answer tokens.
    pub output_tokens: u32,
    /// Ids of the prompt's blocks, the last one partial; empty when the format has none.
    pub blocks: Vec<u64>,
}

/// Reads a trace row by row.
pub struct TraceReader {
    path: PathBuf,
    rows: Rows,
    zero_tokens: ZeroTokens,
    skipped: u64,
    origin: Option<Nanos>,
    last: Option<(Nanos, u64)>,
}

enum Rows {
    Azure(azure::Reader),
    Mooncake(mooncake::Reader),
    Sorted(std::vec::IntoIter<TraceRow>),
}

impl TraceReader {
    /// Opens a trace.
    ///
    /// # Errors
    /// When the file can't be read, or is to be sorted and a line of it is faulty.
    pub fn open(spec: &TraceSpec) -> Result<Self, WorkloadError> {
        let path = spec.path.clone();
        let rows = match spec.format {
            TraceFormat::Azure => Rows::Azure(azure::Reader::open(&path)?),
            TraceFormat::Mooncake => Rows::Mooncake(mooncake::Reader::open(&path, spec.block_tokens)?),
        };
        let zero_tokens = spec.zero_tokens;
        let reader = Self { path, rows, zero_tokens, skipped: 0, origin: None, last: None };
        if spec.unsorted == Unsorted::Error { Ok(reader) } else { reader.sorted() }
    }

    pub(crate) fn needed(spec: Option<&TraceSpec>) -> Result<Self, WorkloadError> {
        let missing = || WorkloadError::Spec {
            pointer: "/trace".to_owned(),
            message: "a trace is needed here; name its path and format".to_owned(),
        };
        Self::open(spec.ok_or_else(missing)?)
    }

    /// Rows left out so far because they have no tokens.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn sorted(mut self) -> Result<Self, WorkloadError> {
        let mut all = Vec::new();
        while let Some(row) = self.next_usable()? {
            all.push(row);
        }
        all.sort_by_key(|row| (row.at, row.line));
        Ok(Self { rows: Rows::Sorted(all.into_iter()), ..self })
    }

    fn next_usable(&mut self) -> Result<Option<TraceRow>, WorkloadError> {
        loop {
            let row = match &mut self.rows {
                Rows::Azure(reader) => reader.next().transpose()?,
                Rows::Mooncake(reader) => reader.next().transpose()?,
                Rows::Sorted(rows) => rows.next(),
            };
            match row {
                Some(row) if row.input_tokens == 0 || row.output_tokens == 0 => self.pass_over(&row)?,
                other => return Ok(other),
            }
        }
    }

    fn pass_over(&mut self, row: &TraceRow) -> Result<(), WorkloadError> {
        if self.zero_tokens == ZeroTokens::Skip {
            self.skipped += 1;
            return Ok(());
        }
        let message = format!(
            "prompt of {} and answer of {} tokens: a request has both; set zero_tokens to skip to leave such rows out",
            row.input_tokens, row.output_tokens
        );
        Err(WorkloadError::Line { path: self.path.clone(), line: row.line, message })
    }

    /// Makes times relative to the first row and refuses steps back.
    fn placed(&mut self, mut row: TraceRow) -> Result<TraceRow, WorkloadError> {
        if let Some((last, line)) = self.last
            && row.at < last
        {
            let message = format!(
                "is {} earlier than line {line}; sort the file, or set unsorted to sort",
                last.since(row.at)
            );
            return Err(WorkloadError::Line { path: self.path.clone(), line: row.line, message });
        }
        self.last = Some((row.at, row.line));
        let origin = *self.origin.get_or_insert(row.at);
        row.at = row.at.since(origin);
        Ok(row)
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRow, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_usable() {
            Err(error) => Some(Err(error)),
            Ok(None) => None,
            Ok(Some(row)) => Some(self.placed(row)),
        }
    }
}

fn mooncake_block() -> u32 {
    MOONCAKE_BLOCK_TOKENS
}
