//! The table as a page: what failed first, then one section for each case, its many rows folded away.

use super::{CaseResult, Row, ShownIn, ValidationDocument, Verdict};
use std::fmt::Write;

const HEAD: &str = "\
# Fidelity

Published results against the simulator, as `acb validate` finds them. A row fails when its error is above the tolerance, which was
stated before it was run; then it says so here. Rows that are *shown* have no tolerance. The numbers are those of the last recorded
run (`crates/acb/data/validation.json`); `acb validate` computes them again. What an independent engine makes of the same requests
is in [the cross-check](fidelity_crosscheck.md).
";

const COLUMNS: &str =
    "| what | ours | theirs | error | tolerance | verdict |\n|---|---:|---:|---:|---:|---|\n";

impl ValidationDocument {
    /// The table as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::from(HEAD);
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
    let percent = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{:.1} %", v * 100.0));
    let verdict = match row.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "**fail**",
        Verdict::Shown => "shown",
        Verdict::Skipped => "skipped",
    };
    format!(
        "| {} | {} | {} | {} | {} | {verdict} |\n",
        row.what,
        number(row.ours),
        number(row.theirs),
        percent(row.error),
        percent(row.tolerance)
    )
}

/// Four digits.
fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}
