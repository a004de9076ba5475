//! Figures in README and docs that came from a run lead to a committed result that says the same.
//!
//! A reference is a comment that no reader sees. Behind a figure, `<!-- from: FILE#PLACE -->` names where it is: a JSON
//! pointer in a `.json` file, `ROW|CELLS;COLUMN` in a Markdown table, with `TITLE: ` before it where several have such a cell. On a line of its own, `<!-- from: FILE -->` says
//! that the tables and blocks below it, up to the next heading or reference, stand in that file line by line.
//!
//! A section is one of results when it has a reference, the date of a run, or a block with a command and its output. In
//! such a section every table, every block with output, and every figure with a decimal point, a thousands comma or a
//! percent sign needs one, or the paragraph says why it has none: `<!-- no record: REASON -->`. Generated pages are
//! compared with what the program prints and need none.

mod committed;
mod figures;
mod page;

use crate::fault::Fault;
use crate::generated;
use crate::tree::TextFile;
use committed::Results;
use figures::{Figure, figures};
use page::{Chunk, Kind, Section, sections};

/// What was found.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Figures that lead nowhere, or to another number.
    pub faults: Vec<Fault>,
    /// References that hold.
    pub held: usize,
    /// Paragraphs, tables and blocks that say why they have no record.
    pub without: usize,
}

/// Checks every page that a person wrote.
pub fn check(files: &[TextFile]) -> Numbers {
    let results = Results::new(files);
    let mut found = Numbers::default();
    let written = |file: &&TextFile| {
        let in_docs = file.path.strip_prefix("docs/").is_some_and(|name| !name.contains('/'));
        file.has_extension("md") && (in_docs || file.path == "README.md") && !generated::is_page(&file.path)
    };
    for file in files.iter().filter(written) {
        for section in sections(&file.text) {
            found.section(file, &section, &results);
        }
    }
    found
}

impl Numbers {
    fn section(&mut self, file: &TextFile, section: &Section<'_>, results: &Results<'_>) {
        let is_of_results = section.is_of_results();
        for chunk in &section.chunks {
            if chunk.no_record {
                self.without += 1;
                continue;
            }
            match chunk.kind {
                Kind::Prose => self.prose(file, chunk, results, is_of_results),
                Kind::Table => self.lines(file, chunk, results, is_of_results),
                Kind::Block => self.lines(file, chunk, results, is_of_results && chunk.has_output()),
            }
        }
    }

    /// Every line of a table or block stands in the file that the reference names, in the same order.
    fn lines(&mut self, file: &TextFile, chunk: &Chunk<'_>, results: &Results<'_>, needed: bool) {
        let Some(from) = chunk.from else {
            if needed {
                let first = chunk.lines.first().map_or(0, |line| line.0);
                self.faults.push(Fault::at(
                    &file.path,
                    first,
                    format!("this {} came from a run: {REMEDY}", chunk.kind),
                ));
            }
            return;
        };
        let wanted = chunk.lines.iter().filter(|(_, line)| chunk.kind == Kind::Table || is_output(line));
        match results.lines_missing(from, wanted) {
            Ok(None) => self.held += 1,
            Ok(Some(line)) => {
                let message =
                    format!("is not in {from} (at this place): run it again and paste what it prints");
                self.faults.push(Fault::at(&file.path, line, message));
            }
            Err(error) => {
                let first = chunk.lines.first().map_or(0, |line| line.0);
                self.faults.push(Fault::at(&file.path, first, error));
            }
        }
    }

    /// A paragraph that stands in the file named above it, line by line, is output too, such as the title of a table.
    /// Otherwise every figure that has a reference equals what it leads to; in a section of results, every figure has one.
    fn prose(&mut self, file: &TextFile, chunk: &Chunk<'_>, results: &Results<'_>, needed: bool) {
        if chunk.from.is_some_and(|from| results.lines_missing(from, chunk.lines.iter()) == Ok(None)) {
            self.held += 1;
            return;
        }
        let text = chunk.text();
        let all = figures(&text);
        for (n, figure) in all.iter().enumerate() {
            let end = all.get(n + 1).map_or(text.len(), |next| next.start);
            let line = chunk.line_of(figure.start);
            match reference(&text[figure.end..end]) {
                Some(from) => match disagreement(figure, from, results) {
                    None => self.held += 1,
                    Some(message) => self.faults.push(Fault::at(&file.path, line, message)),
                },
                None if needed && figure.is_a_result() => {
                    let message = format!("{} stands among results of runs: {REMEDY}", figure.text);
                    self.faults.push(Fault::at(&file.path, line, message));
                }
                None => {}
            }
        }
    }
}

/// What is wrong with a figure and the place that it names.
fn disagreement(figure: &Figure<'_>, from: &str, results: &Results<'_>) -> Option<String> {
    match results.value(from) {
        Ok(value) if figure.is(value) => None,
        Ok(value) => Some(format!("{} is {value} in {from}: correct one of them", figure.text)),
        Err(error) => Some(error),
    }
}

const REMEDY: &str = "name the committed result behind it (<!-- from: FILE#PLACE -->), or say why there is none \
                      (<!-- no record: REASON -->); CONTRIBUTING.md, \"Numbers in prose\"";

/// Whether a line of a block is output, and not the command, the reader's ellipsis, or empty.
fn is_output(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty() || line.starts_with("$ ") || line.starts_with("..."))
}

/// The place that a comment names, when there is one before the next figure.
fn reference(between: &str) -> Option<&str> {
    let (_, rest) = between.split_once("<!-- from: ")?;
    rest.split_once(" -->").map(|(from, _)| from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_page(text: &str) -> Numbers {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        check(&[
            file("docs/a.md", text),
            file("results/a.json", "{\"runs\": [{\"rate\": 1234567.8, \"share\": 0.4567}]}"),
            file(
                "results/a.md",
                "# Power\n\n| law | n | t |\n|---|---|---|\n| normal | 8 | 80.5 |\n\n# A\n\n| law | n | t |\n|---|---|---|\n| normal | 8 | 5.1 |\n\n| law | n | t | BCa |\n|---|---|---|---|\n| normal | 6 | 95.1 | 86.9 |\n| heavy | 6 | 96.3 | - |\n",
            ),
            file("results/a.txt", "one 1\ntwo 2\nthree 3\nhalf 0.5 %\n"),
        ])
    }

    fn faults(text: &str) -> Vec<(usize, String)> {
        check_page(text).faults.into_iter().map(|fault| (fault.line, fault.message)).collect()
    }

    #[test]
    fn a_figure_that_equals_its_result_to_its_own_digits_holds() {
        let text = "It reads 1,234,568<!-- from: results/a.json#/runs/0/rate --> rows, 45.7 %<!-- from: \
                    results/a.json#/runs/0/share --> of them,\nwith a power of 80 %<!-- from: results/a.md#Power: normal|8;t -->, and covers 87 %<!-- from: results/a.md#normal|6;BCa -->.\n";
        let found = check_page(text);
        assert_eq!((found.faults, found.held), (vec![], 4));
    }

    #[test]
    fn a_figure_that_is_off_or_leads_nowhere_is_a_fault_at_its_line() {
        let of = |from: &str| faults(&format!("Text.\nIt is 95.2<!-- from: {from} --> here.\n"));
        let words = |found: &[(usize, String)]| found[0].1.clone();
        assert!(words(&of("results/a.md#normal|6;t")).contains("95.2 is 95.1 in results/a.md#normal|6;t"));
        assert_eq!(of("results/a.md#normal|6;t")[0].0, 2);
        assert!(words(&of("results/gone.json#/a")).contains("is no committed file"));
        assert!(words(&of("results/a.json#/runs/1/rate")).contains("has nothing at /runs/1/rate"));
        assert!(words(&of("results/a.md#normal|7;t")).contains("has no such cell"));
        assert!(words(&of("results/a.md#normal|8;t")).contains("has 2 such cells"));
        assert!(words(&of("results/a.md#heavy|6;BCa")).contains("is no number"));
    }

    #[test]
    fn a_result_without_a_reference_is_a_fault_where_results_stand() {
        let dated = "## Speed\nRun on 2026-12-01 on two cores of p95 kind, version 0.33.0.\n\n- It took 3.5 s.\n- Then `4.5`.\n";
        let found = faults(dated);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == 4 && found[0].1.contains("3.5 stands among results"), "{found:?}");
        assert!(faults("## Rules\nThe bound is 3.5 s and 5 %.\n").is_empty(), "nothing says that it was run");
        assert!(faults("Run on 1 December 2026.\n\nIt took 3.5 s.\n").len() == 1);
        let excused = check_page("Run on 2026-12-01. It took 3.5 s. <!-- no record: nobody kept it -->\n");
        assert_eq!((excused.faults.len(), excused.without), (0, 1));
    }

    #[test]
    fn tables_and_blocks_stand_in_their_file_line_by_line() {
        let block = |body: &str| format!("<!-- from: results/a.txt -->\n```\n$ run\n{body}```\n");
        assert_eq!(check_page(&block("one 1\n...\nthree 3\n")).held, 1);
        assert_eq!(faults(&block("three 3\none 1\n"))[0].0, 5, "the order counts");
        assert!(faults(&block("two 3\n"))[0].1.contains("is not in results/a.txt"));
        let table = "<!-- from: results/a.md -->\n\n| law | n | t | BCa |\n|---|---|---|---|\n| normal | 6 | 95.1 | 86.9 |\n";
        assert_eq!(check_page(table).held, 1);
        assert_eq!(faults(&table.replace("95.1", "95.0")).len(), 1);
        assert_eq!(faults("```\n$ run\none 1\n```\n").len(), 1, "output without a reference");
        assert!(faults("```\nacb run a.yaml\n```\n").is_empty(), "commands are no output");
    }

    #[test]
    fn a_paragraph_of_output_is_held_as_output_and_another_is_not() {
        let page = |title: &str| format!("<!-- from: results/a.txt -->\n\n{title}\n\n| a |\n");
        assert!(faults(&page("half 0.5 %")).iter().all(|fault| fault.0 == 5), "the table alone");
        assert_eq!(faults(&page("half 0.6 %")).len(), 2, "{:?}", faults(&page("half 0.6 %")));
    }

    #[test]
    fn a_reference_reaches_to_the_next_heading_and_no_further() {
        let table = "| law | n | t | BCa |\n|---|---|---|---|\n";
        let text =
            format!("<!-- from: results/a.md -->\n{table}\nAnd:\n\n{table}\n## Next, 2026-12-01\n{table}");
        let found = check_page(&text);
        assert_eq!((found.held, found.faults.len()), (2, 1));
    }

    #[test]
    fn the_rule_is_stated_where_contributors_look() {
        let page = std::fs::read_to_string(crate::root().join("CONTRIBUTING.md")).expect("it is there");
        assert!(page.contains("<!-- from: ") && page.contains("<!-- no record: "));
    }
}
