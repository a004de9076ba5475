//! Published results against the simulator. A case is one file and one line in [`CASES`]; it says what was published,
//! what we get, and whether that is within its tolerance. What fails is printed as failed.

mod adapters_itl;
mod bench;
mod fit;
mod memory;
mod merging;
mod multi_lora;
mod overheads;
mod page;
mod queues;
mod record;
mod residency;
mod runs;
mod s_lora;
mod skipped;
mod switching;

pub use fit::{Fit, Fits, fit};
pub use record::recorded;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    adapters_itl::CASE,
    overheads::AGULLO,
    overheads::PUNICA,
    switching::CLIFF,
    switching::DRAINING,
    s_lora::TABLE_3,
    merging::CASE,
    memory::POOLS,
    memory::STARTS,
    residency::CASE,
    queues::CASE,
    skipped::MOONCAKE,
    skipped::D_LORA,
];

/// One number of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Where a page shows it.
    pub shown_in: ShownIn,
}

/// Where a page shows a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShownIn {
    /// In the table of its case.
    Table,
    /// Among the many that a reader opens.
    Details,
}

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
            shown_in: ShownIn::Table,
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

    /// One of many.
    fn detail(self) -> Self {
        Self { shown_in: ShownIn::Details, ..self }
    }

    fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// What came of one case.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// What was published, where.
    pub source: String,
    /// Its numbers.
    pub rows: Vec<Row>,
}

/// What `acb validate --json` prints.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValidationDocument {
    /// Digest of the profiles and measured runs that the numbers come from.
    pub inputs: String,
    /// Cases, in the order of the table.
    pub cases: Vec<CaseResult>,
    /// Rows that are outside their tolerance.
    pub failed: u64,
}

/// Runs cases, one after the other; each uses all processors. `done` is told the name of each when it is over.
pub fn run(cases: &[&Case], done: impl Fn(&str)) -> ValidationDocument {
    let result = |case: &&Case| {
        let rows = (case.run)();
        done(case.name);
        CaseResult { name: case.name.to_owned(), source: case.source.to_owned(), rows }
    };
    let cases: Vec<CaseResult> = cases.iter().map(result).collect();
    let rows = cases.iter().flat_map(|case| &case.rows);
    let failed = rows.filter(|row| row.verdict == Verdict::Fail).count() as u64;
    ValidationDocument { inputs: record::inputs(), cases, failed }
}

/// A ratio that has to be large; its shortfall is the error.
fn least(what: &str, ratio: f64, least: f64) -> Row {
    Row { ours: Some(ratio), theirs: Some(least), ..Row::error(what, (1.0 - ratio / least).max(0.0), 0.0) }
}

/// A ratio that has to be small; what it is above is the error.
fn most(what: &str, ratio: f64, most: f64) -> Row {
    Row { ours: Some(ratio), theirs: Some(most), ..Row::error(what, (ratio / most - 1.0).max(0.0), 0.0) }
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
        assert!(page::line(&failed).contains("10.0 %") && page::line(&failed).contains("fail"));
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
        let document = run(&fast, |_| {});
        assert_eq!(document.cases.len(), 2);
        assert!(document.markdown().contains("| 8 slots of rank 16"));
    }
}
