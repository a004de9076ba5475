//! Published results against the simulator. A case is one file and one line in [`CASES`]; it says what was published,
//! what we get, and whether that is within its tolerance. What fails is printed as failed.

mod bench;
mod fit;
mod memory;
mod multi_lora;
mod overheads;
mod queues;
mod residency;
mod runs;
mod skipped;

pub use fit::{Fit, fit};

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// A published result that the simulator is held against.
pub struct Case {
    /// What `acb validate NAME` takes.
    pub name: &'static str,
    /// What was published, where.
    pub source: &'static str,
    /// Runs it.
    run: fn() -> Vec<Row>,
}

/// Every case, in the order of the table.
pub const CASES: &[Case] = &[
    multi_lora::CASE,
    multi_lora::SHAPE,
    overheads::AGULLO,
    overheads::PUNICA,
    memory::POOLS,
    memory::STARTS,
    residency::CASE,
    queues::CASE,
    skipped::MOONCAKE,
    skipped::S_LORA,
];

/// One number of a case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// What the number is, with its unit.
    pub what: String,
    /// Ours; null when it was not computed.
    pub ours: Option<f64>,
    /// Theirs; null where the row is an error over many numbers.
    pub theirs: Option<f64>,
    /// Relative error, or what the row says; null when there is none.
    pub error: Option<f64>,
    /// Largest error that passes; null when the row is only shown.
    pub tolerance: Option<f64>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why, where the numbers don't say it.
    pub note: Option<String>,
}

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within its tolerance.
    Pass,
    /// Outside.
    Fail,
    /// Shown for the reader; no tolerance was stated beforehand.
    Shown,
    /// Not run: something that it needs is not here, or is not modelled.
    Skipped,
}

impl Row {
    /// Ours against theirs.
    fn compare(what: impl Into<String>, ours: f64, theirs: f64, tolerance: f64) -> Self {
        let error = (ours / theirs - 1.0).abs();
        Self { ours: Some(ours), theirs: Some(theirs), ..Self::error(what, error, tolerance) }
    }

    /// An error over many numbers.
    fn error(what: impl Into<String>, error: f64, tolerance: f64) -> Self {
        let verdict = if error <= tolerance { Verdict::Pass } else { Verdict::Fail };
        Self {
            what: what.into(),
            ours: None,
            theirs: None,
            error: Some(error),
            tolerance: Some(tolerance),
            verdict,
            note: None,
        }
    }

    /// Ours against theirs without a tolerance.
    fn shown(what: impl Into<String>, ours: f64, theirs: f64) -> Self {
        Self { tolerance: None, verdict: Verdict::Shown, ..Self::compare(what, ours, theirs, 0.0) }
    }

    fn skipped(what: impl Into<String>, why: &str) -> Self {
        let none = Self { error: None, tolerance: None, ..Self::error(what, 0.0, 0.0) };
        Self { verdict: Verdict::Skipped, note: Some(why.to_owned()), ..none }
    }

    fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// What came of one case.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// What was published, where.
    pub source: String,
    /// Its numbers.
    pub rows: Vec<Row>,
}

/// What `acb validate --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ValidationDocument {
    /// Cases, in the order of the table.
    pub cases: Vec<CaseResult>,
    /// Rows that are outside their tolerance.
    pub failed: u64,
}

/// Runs cases, one after the other; each uses all processors.
#[must_use]
pub fn run(cases: &[&Case]) -> ValidationDocument {
    let result = |case: &&Case| CaseResult {
        name: case.name.to_owned(),
        source: case.source.to_owned(),
        rows: (case.run)(),
    };
    let cases: Vec<CaseResult> = cases.iter().map(result).collect();
    let rows = cases.iter().flat_map(|case| &case.rows);
    let failed = rows.filter(|row| row.verdict == Verdict::Fail).count() as u64;
    ValidationDocument { cases, failed }
}

impl ValidationDocument {
    /// The table as text or Markdown, one section for each case.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# Fidelity\n\nPublished results against the simulator, as `acb validate` prints them. A row fails when its error is above \
             the tolerance, and says so.\n",
        );
        for case in &self.cases {
            // Writing to a String can't fail.
            let _ = write!(out, "\n## {}\n\n{}\n\n", case.name, case.source);
            out += "| what | ours | theirs | error | tolerance | verdict |\n|---|---:|---:|---:|---:|---|\n";
            for row in &case.rows {
                out += &row.line();
            }
            for note in case.rows.iter().filter_map(|row| row.note.as_ref().map(|note| (&row.what, note))) {
                let _ = write!(out, "\n- {}: {}", note.0, note.1);
            }
            if case.rows.iter().any(|row| row.note.is_some()) {
                out.push('\n');
            }
        }
        out
    }
}

impl Row {
    fn line(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(String::new, significant);
        let percent = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{:.1} %", v * 100.0));
        let verdict = match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "**fail**",
            Verdict::Shown => "shown",
            Verdict::Skipped => "skipped",
        };
        format!(
            "| {} | {} | {} | {} | {} | {verdict} |\n",
            self.what,
            number(self.ours),
            number(self.theirs),
            percent(self.error),
            percent(self.tolerance)
        )
    }
}

/// Four digits.
fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

/// Mean of the symmetric relative errors of pairs, as the authors of the runs state it; `None` for no pairs.
fn smape(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let errors: Vec<f64> = pairs.map(|(a, b)| 2.0 * (a - b).abs() / (a + b)).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_passes_up_to_its_tolerance_and_says_when_it_fails() {
        assert_eq!(Row::compare("x", 10.4, 10.0, 0.05).verdict, Verdict::Pass);
        let failed = Row::compare("x", 9.0, 10.0, 0.05);
        assert_eq!(failed.verdict, Verdict::Fail);
        assert!(failed.line().contains("10.0 %") && failed.line().contains("fail"));
        assert_eq!(Row::skipped("x", "no data").verdict, Verdict::Skipped);
    }

    #[test]
    fn errors_are_symmetric() {
        assert_eq!(smape([(1.0, 3.0), (3.0, 1.0), (2.0, 2.0)].into_iter()), Some(2.0 / 3.0));
        assert_eq!(smape(std::iter::empty()), None);
    }

    #[test]
    fn the_fast_cases_run_and_the_page_says_what_they_give() {
        let fast: Vec<&Case> =
            CASES.iter().filter(|case| ["memory_pools", "memory_starts"].contains(&case.name)).collect();
        let document = run(&fast);
        assert_eq!(document.cases.len(), 2);
        assert!(document.markdown().contains("| 8 slots of rank 16"));
    }
}
