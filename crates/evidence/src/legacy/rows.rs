//! Rows of the original harness: read one at a time, checked, and kept as columns.

use super::files::{OldResponse, OldRow};
use super::folder::{LegacyFolder, not_json};
use crate::lines::Lines;
use crate::{EvidenceError, LineFault};
use acb_types::Digest;
use std::collections::BTreeSet;

/// What the rows of a run hold. Samples are in the order of the file, one per answer.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub digest: Option<Digest>,
    pub ttft_ms: Vec<f64>,
    pub e2e_ms: Vec<f64>,
    pub itl_ms: Vec<f64>,
    pub tpot_ms: Vec<f64>,
    pub output_tokens: f64,
    /// One per answer; `None` where no scorer looked.
    pub quality: Vec<Option<f64>>,
    pub failures: u64,
    /// Questions whose answer is a text, and those of them whose prompt holds it.
    pub askable: u64,
    pub answerable: u64,
    /// Whether cached tokens are called simulated.
    pub named_simulated: bool,
    /// Whether the last line ends in the middle.
    pub cut_off: bool,
}

impl Rows {
    /// Rows with an answer.
    pub(super) fn answers(&self) -> u64 {
        self.ttft_ms.len() as u64
    }

    /// Reads `requests.jsonl`; no rows when there is none.
    ///
    /// # Errors
    /// When it is no plain file, or a line is too long, no row, has an id twice, or a number that can't be.
    pub(super) fn read(folder: &LegacyFolder) -> Result<Self, EvidenceError> {
        let mut rows = Self::default();
        let Some(path) = folder.plain("requests.jsonl")? else { return Ok(rows) };
        let (mut lines, mut seen) = (Lines::hashed(&path)?, BTreeSet::new());
        loop {
            match lines.advance() {
                Ok(false) => break,
                Ok(true) => {}
                // What a killed writer leaves: the run says below that it was interrupted.
                Err(EvidenceError::Line { fault: LineFault::Truncated, .. }) => {
                    rows.cut_off = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            let taken = row(lines.bytes()).and_then(|row| {
                if !seen.insert(row.request.request_id.clone()) {
                    let id = &row.request.request_id;
                    return Err(broken(format!(
                        "request \"{id}\" has a second row; two runs were written into one file: leave this run out"
                    )));
                }
                rows.add(row)
            });
            taken.map_err(|fault| lines.fault(fault))?;
        }
        rows.digest = lines.digest()?;
        Ok(rows)
    }

    fn add(&mut self, row: OldRow) -> Result<(), LineFault> {
        let id = &row.request.request_id;
        if let (Some(serde_json::Value::String(truth)), Some(prompt)) =
            (&row.request.ground_truth, &row.request.prompt)
        {
            self.askable += 1;
            self.answerable += u64::from(prompt.to_lowercase().contains(&truth.to_lowercase()));
        }
        let response = match (row.response, row.error) {
            (Some(response), None) => response,
            (None, Some(_)) => {
                self.failures += 1;
                return Ok(());
            }
            _ => return Err(broken(format!("request \"{id}\" needs either a response or an error"))),
        };
        check(&response).map_err(|rule| broken(format!("request \"{id}\": {rule}; leave this run out")))?;
        let times = &response.metrics;
        self.ttft_ms.push(times.ttft_ms);
        self.e2e_ms.push(times.e2e_ms);
        self.itl_ms.extend(times.itl_ms);
        self.tpot_ms.extend(times.tpot_ms);
        self.output_tokens += times.output_tokens.unwrap_or(0.0);
        self.quality.push(response.quality.map(|quality| quality.score));
        self.named_simulated |= times.simulated_cached_prompt_tokens.is_some();
        Ok(())
    }
}

/// Numbers that can be: lengths that are not negative, a quality in 0 to 1.
fn check(response: &OldResponse) -> Result<(), String> {
    let times = &response.metrics;
    let measured = [("ttft_ms", Some(times.ttft_ms)), ("e2e_ms", Some(times.e2e_ms))];
    let more = [("itl_ms", times.itl_ms), ("tpot_ms", times.tpot_ms), ("output_tokens", times.output_tokens)];
    let mut all = measured.into_iter().chain(more);
    if let Some((name, _)) = all.find(|(_, value)| value.is_some_and(|value| value < 0.0)) {
        return Err(format!("{name} is negative"));
    }
    match response.quality.as_ref().map(|quality| quality.score) {
        Some(score) if !(0.0..=1.0).contains(&score) => Err(format!("quality {score} is not in 0 to 1")),
        _ => Ok(()),
    }
}

fn row(line: &[u8]) -> Result<OldRow, LineFault> {
    let text = std::str::from_utf8(line).map_err(|error| LineFault::NotUtf8 { byte: error.valid_up_to() })?;
    if text.trim_ascii().is_empty() {
        return Err(LineFault::Empty);
    }
    serde_json::from_str(text).map_err(|error| LineFault::Malformed { message: not_json(text, &error) })
}

fn broken(rule: String) -> LineFault {
    LineFault::Inconsistent { rule }
}
