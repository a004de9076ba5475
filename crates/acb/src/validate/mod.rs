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
pub use page::Origin;
pub use record::{AgainstRecord, recorded};
pub use switching::halved;

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
    /// What was published; null where that is not a number, or the row is an error over many numbers.
    pub theirs: Option<f64>,
    /// Relative error, or what the row says; null when there is none.
    pub error: Option<f64>,
    /// Largest error that passes; null when the row is only shown, or has a bound.
    pub tolerance: Option<f64>,
    /// What ours has to be, where the row is not about an error; else null.
    pub bound: Option<Bound>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why, where the numbers don't say it.
    pub note: Option<String>,
    /// Where a page shows it.
    pub shown_in: ShownIn,
}

/// What a number has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// So much or more.
    AtLeast(f64),
    /// More than that.
    Above(f64),
    /// Less than that.
    Below(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::Above(most) => value > most,
            Self::Below(least) => value < least,
        }
    }
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
            bound: None,
            verdict,
            note: None,
            shown_in: ShownIn::Table,
        }
    }

    /// Ours against theirs without a tolerance.
    fn shown(what: impl Into<String>, ours: f64, theirs: f64) -> Self {
        Self { tolerance: None, verdict: Verdict::Shown, ..Self::compare(what, ours, theirs, 0.0) }
    }

    /// Ours alone: what was published is no number, or there is none.
    fn alone(what: impl Into<String>, ours: f64) -> Self {
        let error = Self::error(what, 0.0, 0.0);
        Self { ours: Some(ours), error: None, tolerance: None, verdict: Verdict::Shown, ..error }
    }

    /// Ours against a bound.
    fn bounded(what: impl Into<String>, ours: f64, bound: Bound) -> Self {
        let verdict = if bound.holds(ours) { Verdict::Pass } else { Verdict::Fail };
        Self { bound: Some(bound), verdict, ..Self::alone(what, ours) }
    }

    fn skipped(what: impl Into<String>, why: &str) -> Self {
        let none = Self { ours: None, ..Self::alone(what, 0.0) };
        Self { verdict: Verdict::Skipped, note: Some(why.to_owned()), ..none }
    }

    /// Beside what was published.
    fn beside(self, theirs: f64) -> Self {
        Self { theirs: Some(theirs), ..self }
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

impl Case {
    /// Runs it on all processors. Says on stderr how far it is when it takes long.
    #[must_use]
    pub fn result(&self) -> CaseResult {
        CaseResult { name: self.name.to_owned(), source: self.source.to_owned(), rows: (self.run)() }
    }
}

impl ValidationDocument {
    /// What came of these cases.
    #[must_use]
    pub fn of(cases: Vec<CaseResult>) -> Self {
        let rows = cases.iter().flat_map(|case| &case.rows);
        let failed = rows.filter(|row| row.verdict == Verdict::Fail).count() as u64;
        Self { inputs: record::inputs(), cases, failed }
    }
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
    fn a_bound_is_shown_as_a_bound_and_has_no_error() {
        let row = Row::bounded("x", 309.9, Bound::AtLeast(50.0)).beside(241.0);
        assert_eq!(page::line(&row), "| x | 309.9 | 241.0 |  | ours >= 50 | pass |\n");
        assert_eq!(Row::bounded("x", 49.9, Bound::AtLeast(50.0)).verdict, Verdict::Fail);
        assert_eq!(Row::bounded("x", 1.0, Bound::Above(1.0)).verdict, Verdict::Fail);
        assert_eq!(Row::bounded("x", 1.0, Bound::Below(1.0)).verdict, Verdict::Fail);
        assert_eq!(Row::bounded("x", f64::NAN, Bound::Below(1.0)).verdict, Verdict::Fail);
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
        let document = ValidationDocument::of(fast.iter().map(|case| case.result()).collect());
        assert_eq!(document.cases.len(), 2);
        assert!(document.markdown(Origin::Computed).contains("| 8 slots of rank 16"));
    }
}
