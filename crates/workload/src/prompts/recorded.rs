//! Prompts of a trace: its lengths, and its prefix blocks where it has them.

use super::synthetic::split;
use super::{Place, Said};
use crate::WorkloadError;
use crate::content::{Space, content};
use crate::draw::key;
use crate::spec::Plan;
use crate::trace::{TraceReader, TraceRow};
use acb_types::{Prompt, Segment};

/// Replays the rows of a trace, one for each request.
pub(crate) struct Recorded {
    rows: TraceReader,
    block_tokens: u32,
    shared_fraction: f64,
}

impl Recorded {
    pub fn new(plan: &Plan, rows: TraceReader, block_tokens: u32) -> Self {
        Self { rows, block_tokens, shared_fraction: plan.shared_fraction }
    }

    /// What the next row says.
    pub fn next(&mut self, place: Place) -> Result<Option<Said>, WorkloadError> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        let prompt = if row.blocks.is_empty() {
            split(place.task, row.input_tokens, self.shared_fraction, key(place.start, place.turn))
        } else {
            self.blocks(&row)
        };
        Ok(Some(Said { document: None, prompt, max_output: None, recorded_output: Some(row.output_tokens) }))
    }

    fn blocks(&self, row: &TraceRow) -> Prompt {
        let mut rest = row.input_tokens;
        Prompt::new(row.blocks.iter().map(|&id| {
            let tokens = rest.min(self.block_tokens);
            rest -= tokens;
            Segment { content: content(Space::Block, id), tokens }
        }))
    }
}
