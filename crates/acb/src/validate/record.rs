//! The last recorded run of all cases: what `docs/fidelity.md` is rendered from, so that the page can be checked without
//! the minutes that the cases take. Its digest says when the data that the numbers come from have changed since;
//! a change of the program is not seen by it.

use super::{CaseResult, Row, ValidationDocument, Verdict, page};
use std::fmt;

const RECORD: &str = include_str!("../../data/validation.json");

/// The recorded run.
///
/// # Panics
/// When the file that is part of the program is malformed.
#[must_use]
pub fn recorded() -> ValidationDocument {
    serde_json::from_str(RECORD).expect("data/validation.json is what `acb validate --json` printed")
}

/// A run beside the record: what tells a regression from the failures that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgainstRecord {
    /// Rows with a tolerance or a bound.
    pub judged: usize,
    /// Those outside.
    pub outside: usize,
    /// Those outside that the record doesn't have outside, as `case: row`.
    pub fresh: Vec<String>,
    /// Rows that print otherwise than in the record, as `case: row`.
    pub moved: Vec<String>,
}

impl AgainstRecord {
    /// Compares the rows that were run with those of the same name in `record`.
    #[must_use]
    pub fn of(run: &ValidationDocument, record: &ValidationDocument) -> Self {
        let mut found = Self { judged: 0, outside: 0, fresh: Vec::new(), moved: Vec::new() };
        for case in &run.cases {
            let then = record.cases.iter().find(|then| then.name == case.name);
            case.rows.iter().for_each(|row| found.note(case, row, then));
        }
        found
    }

    fn note(&mut self, case: &CaseResult, row: &Row, then: Option<&CaseResult>) {
        let then = then.and_then(|then| then.rows.iter().find(|other| other.what == row.what));
        let name = || format!("{}: {}", case.name, row.what);
        self.judged += usize::from(matches!(row.verdict, Verdict::Pass | Verdict::Fail));
        if row.verdict == Verdict::Fail {
            self.outside += 1;
            if then.is_none_or(|then| then.verdict != Verdict::Fail) {
                self.fresh.push(name());
            }
        }
        if then.is_none_or(|then| page::line(then) != page::line(row)) {
            self.moved.push(name());
        }
    }
}

impl fmt::Display for AgainstRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { judged, outside, fresh, moved } = self;
        write!(out, "{outside} of {judged} rows are outside their tolerance or bound")?;
        match (outside, fresh.len()) {
            (0, _) => {}
            (_, 0) => write!(out, ", all as recorded")?,
            (_, count) => write!(out, ", {count} of them not so in the record:")?,
        }
        fresh.iter().try_for_each(|row| write!(out, "\n  {row}"))?;
        if let Some(first) = moved.first() {
            let count = moved.len();
            write!(
                out,
                "\n{count} rows print other numbers than `acb validate --recorded` does, the first: {first}"
            )?;
        }
        Ok(())
    }
}

/// Profiles that the cases use.
const PROFILES: [&str; 5] = [
    "llama-2-7b-a100-80",
    "llama-3.1-8b-a100-80",
    "llama-3.1-8b-h100",
    "llama-3.1-8b-vllm-0.8.5",
    "qwen2.5-7b-vllm-0.8.5",
];

/// Digest of the profiles' costs that are not zero (a new kind of cost that a profile doesn't have changes nothing) and
/// of the measured runs.
pub(super) fn inputs() -> String {
    let mut hasher = blake3::Hasher::new();
    for name in PROFILES {
        let profile = acb_sim::profile(name).expect("the profile ships");
        let costs = serde_json::to_value(profile).expect("a profile is plain data");
        for (cost, value) in
            costs.as_object().into_iter().flatten().filter(|(_, value)| value.as_f64() != Some(0.0))
        {
            hasher.update(format!("{name} {cost} {value}\n").as_bytes());
        }
    }
    hasher.update(super::runs::CSV.as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{Bound, CASES};

    fn document(rows: Vec<Row>) -> ValidationDocument {
        ValidationDocument::of(vec![CaseResult { name: "c".to_owned(), source: String::new(), rows }])
    }

    #[test]
    fn a_failure_that_is_recorded_is_told_from_one_that_is_not() {
        let row = |ours| Row::compare("x", ours, 10.0, 0.05);
        let bound = |ours| Row::bounded("y", ours, Bound::Below(1.0));
        let record = document(vec![row(9.0), bound(0.5), Row::shown("z", 1.0, 2.0)]);
        let says = |rows| AgainstRecord::of(&document(rows), &record).to_string();
        let all = "1 of 2 rows are outside their tolerance or bound, all as recorded";
        assert_eq!(says(vec![row(9.0), bound(0.5)]), all);
        let moved = "rows print other numbers than `acb validate --recorded` does, the first: c: x";
        assert_eq!(says(vec![row(8.0), bound(0.5)]), format!("{all}\n1 {moved}"));
        let fresh =
            "2 of 2 rows are outside their tolerance or bound, 1 of them not so in the record:\n  c: y";
        assert_eq!(says(vec![row(8.0), bound(2.0)]), format!("{fresh}\n2 {moved}"));
        assert_eq!(says(vec![bound(0.5)]), "0 of 1 rows are outside their tolerance or bound");
    }

    #[test]
    fn the_record_is_of_these_cases_and_of_these_profiles() {
        let recorded = recorded();
        assert_eq!(
            recorded.inputs,
            inputs(),
            "profiles or runs changed: `acb validate --json > crates/acb/data/validation.json`, then `cargo xtask docs`"
        );
        let of = |name: &str, source: &str| (name.to_owned(), source.to_owned());
        let cases: Vec<_> = CASES.iter().map(|case| of(case.name, case.source)).collect();
        let found: Vec<_> = recorded.cases.iter().map(|case| of(&case.name, &case.source)).collect();
        assert_eq!(found, cases);
    }
}
