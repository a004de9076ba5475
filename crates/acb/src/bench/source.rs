//! Requests of a bench: a workload, its time bent by stages, its prompts taken from a file.

use super::rows::Row;
use acb_live::load::Staged;
use acb_types::{ContentId, Nanos, Prompt, Request, RequestId, Segment};
use acb_workload::{Arrival, RequestSource, Workload, WorkloadError};
use std::sync::Arc;

/// What a bench sends.
pub struct BenchSource {
    timed: Timed,
    rows: Option<Arc<[Row]>>,
    /// Whether the rows' answers set the lengths.
    lengths: Lengths,
}

/// A workload as it is, or with its time bent.
pub enum Timed {
    /// As it is.
    Plain(Box<Workload>),
    /// With a rate that changes.
    Staged(Box<Staged<Workload>>),
}

/// Whose lengths answers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The row's, where it has one.
    Rows,
    /// The workload's law.
    Law,
}

impl BenchSource {
    /// A source of these parts.
    pub fn new(timed: Timed, rows: Option<Arc<[Row]>>, lengths: Lengths) -> Self {
        Self { timed, rows, lengths }
    }

    /// Why it ended before its time: a file that changed after it was checked.
    pub fn fault(&self) -> Option<&WorkloadError> {
        match &self.timed {
            Timed::Plain(workload) => workload.fault(),
            Timed::Staged(staged) => staged.inner().fault(),
        }
    }
}

/// The row that a request asks; rows repeat when there are fewer than requests.
pub fn row_of<'a>(rows: &'a [Row], request: &Request) -> (usize, &'a Row) {
    let at = (request.id.0 % rows.len() as u64) as usize;
    (at, &rows[at])
}

impl RequestSource for BenchSource {
    fn next_due(&self) -> Option<Nanos> {
        match &self.timed {
            Timed::Plain(workload) => workload.next_due(),
            Timed::Staged(staged) => staged.next_due(),
        }
    }

    fn take(&mut self) -> Option<Arrival> {
        let mut arrival = match &mut self.timed {
            Timed::Plain(workload) => workload.take(),
            Timed::Staged(staged) => staged.take(),
        }?;
        if let Some(rows) = &self.rows {
            let (at, row) = row_of(rows, &arrival.request);
            let content = ContentId(at as u64);
            arrival.request.prompt = Prompt::new([Segment { content, tokens: row.prompt_tokens }]);
            if let (Some(tokens), Lengths::Rows) = (row.answer_tokens, self.lengths) {
                arrival.truth.output_tokens = tokens;
                arrival.request.max_output_tokens = tokens;
            }
        }
        Some(arrival)
    }

    fn ended(&mut self, request: RequestId, at: Nanos) {
        match &mut self.timed {
            Timed::Plain(workload) => workload.ended(request, at),
            Timed::Staged(staged) => staged.ended(request, at),
        }
    }
}
