//! The table as a page: what failed first, then one section for each case, its many rows folded away.

use super::{Bound, CaseResult, Row, ShownIn, ValidationDocument, Verdict};
use std::fmt::Write;

/// Where the numbers of a page come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The record that is part of the program.
    Recorded,
    /// This program, just now.
    Computed,
}

const RECORDED: &str = "\
Published results against the simulator, as `acb validate` finds them. The numbers are those of the last recorded run
(`crates/acb/data/validation.json`); `acb validate` computes them again, in about two minutes on two cores, and says at its end what
differs from the record. What an independent engine makes of the same requests is in [the cross-check](fidelity_crosscheck.md).
";

const COMPUTED: &str = concat!(
    "Published results against the simulator, computed now by acb ",
    env!("CARGO_PKG_VERSION"),
    "; `acb validate --recorded` prints the recorded run.\n"
);

const RULES: &str = "\
A row fails when its error is above the tolerance, or ours is out of the bound, which was stated before it was run; then it says so
here. Rows that are *shown* have neither. *theirs* is what was published, and empty where that is not a number.
";

const COLUMNS: &str =
    "| what | ours | theirs | error | passes when | verdict |\n|---|---:|---:|---:|---|---|\n";

impl ValidationDocument {
    /// The table as Markdown.
    #[must_use]
    pub fn markdown(&self, origin: Origin) -> String {
        let head = match origin {
            Origin::Recorded => RECORDED,
            Origin::Computed => COMPUTED,
        };
        let mut out = format!("# Fidelity\n\n{head}\n{RULES}");
        out += "\n| case | pass | fail | shown | skipped |\n|---|---:|---:|---:|---:|\n";
        for case in &self.cases {
            let count = |verdict| case.rows.iter().filter(|row| row.verdict == verdict).count();
            let counts = [Verdict::Pass, Verdict::Fail, Verdict::Shown, Verdict::Skipped].map(count);
            let [pass, fail, shown, skipped] = counts;
            let name = &case.name;
            // Writing to a String can't fail.
            let _ = writeln!(out, "| [{name}](#{name}) | {pass} | {fail} | {shown} | {skipped} |");
        }
        for case in &self.cases {
            section(&mut out, case);
        }
        out
    }
}

fn section(out: &mut String, case: &CaseResult) {
    let _ = write!(out, "\n## {}\n\n{}\n\n", case.name, case.source);
    let rows = |place| case.rows.iter().filter(move |row| row.shown_in == place);
    *out += COLUMNS;
    rows(ShownIn::Table).for_each(|row| *out += &line(row));
    let notes: Vec<String> = case
        .rows
        .iter()
        .filter_map(|row| row.note.as_ref().map(|note| format!("- {}: {note}\n", row.what)))
        .collect();
    if !notes.is_empty() {
        *out += "\n";
        *out += &notes.concat();
    }
    let details: String = rows(ShownIn::Details).map(line).collect();
    if !details.is_empty() {
        let count = rows(ShownIn::Details).count();
        let _ = write!(
            out,
            "\n<details><summary>{count} rows, run by run</summary>\n\n{COLUMNS}{details}\n</details>\n"
        );
    }
}

/// One row of the table.
pub(super) fn line(row: &Row) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, significant);
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    let passes_when = match (row.bound, row.tolerance) {
        (Some(Bound::AtLeast(least)), _) => format!("ours >= {least}"),
        (Some(Bound::Above(most)), _) => format!("ours > {most}"),
        (Some(Bound::Below(least)), _) => format!("ours < {least}"),
        (None, Some(tolerance)) => format!("error <= {}", percent(tolerance)),
        (None, None) => String::new(),
    };
    let verdict = match row.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "**fail**",
        Verdict::Shown => "shown",
        Verdict::Skipped => "skipped",
    };
    format!(
        "| {} | {} | {} | {} | {passes_when} | {verdict} |\n",
        row.what,
        number(row.ours),
        number(row.theirs),
        row.error.map_or_else(String::new, percent)
    )
}

/// Four digits.
fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}
