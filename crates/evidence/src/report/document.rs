//! A document of headings, sentences, lists and tables, and its two renderings.

use comfy_table::{ContentArrangement, Table, presets};

/// Parts in order.
#[derive(Default)]
pub(super) struct Document {
    parts: Vec<Part>,
}

enum Part {
    Heading(usize, String),
    Text(String),
    Bullets(Vec<String>),
    Table(Vec<String>, Vec<Vec<String>>),
}

impl Document {
    pub(super) fn heading(&mut self, depth: usize, text: impl Into<String>) {
        self.parts.push(Part::Heading(depth, text.into()));
    }

    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    /// A list; nothing when it is empty.
    pub(super) fn bullets(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(Part::Bullets(items));
        }
    }

    /// A table; nothing when it has no rows.
    pub(super) fn table<S: Into<String>>(
        &mut self,
        columns: impl IntoIterator<Item = S>,
        rows: Vec<Vec<String>>,
    ) {
        if !rows.is_empty() {
            self.parts.push(Part::Table(columns.into_iter().map(Into::into).collect(), rows));
        }
    }

    pub(super) fn markdown(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::markdown).collect();
        parts.join("\n")
    }

    pub(super) fn terminal(&self, columns: u16) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.terminal(columns)).collect();
        parts.join("\n")
    }
}

impl Part {
    fn markdown(&self) -> String {
        match self {
            Self::Heading(depth, text) => format!("{} {}\n", "#".repeat(*depth), one_line(text)),
            Self::Text(text) => format!("{}\n", one_line(text)),
            Self::Bullets(items) => items.iter().map(|item| format!("- {}\n", one_line(item))).collect(),
            Self::Table(columns, rows) => {
                let line = |cells: &[String]| {
                    let cells: Vec<String> =
                        cells.iter().map(|cell| one_line(cell).replace('|', "\\|")).collect();
                    format!("| {} |\n", cells.join(" | "))
                };
                let rule = vec!["---".to_owned(); columns.len()];
                line(columns) + &line(&rule) + &rows.iter().map(|row| line(row)).collect::<String>()
            }
        }
    }

    fn terminal(&self, columns: u16) -> String {
        match self {
            Self::Heading(1, text) => wrap(&text.to_uppercase(), columns, ""),
            Self::Heading(_, text) => {
                let line = "-".repeat(text.chars().count().min(columns.into()));
                wrap(text, columns, "") + &line + "\n"
            }
            Self::Text(text) => wrap(text, columns, ""),
            Self::Bullets(items) => {
                items.iter().map(|item| wrap(&format!("- {item}"), columns, "  ")).collect()
            }
            Self::Table(names, rows) => {
                let mut table = Table::new();
                table.load_style(presets::ASCII_MARKDOWN);
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
                table.set_header(names.iter().map(|name| one_line(name)));
                table.add_rows(rows.iter().map(|row| row.iter().map(|cell| one_line(cell))));
                table.to_string() + "\n"
            }
        }
    }
}

/// Text from files may hold line ends and control characters, which would break a table or drive a terminal, and marks that
/// turn the direction of reading.
fn one_line(text: &str) -> String {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// Breaks at spaces; later lines start with `indent`.
fn wrap(text: &str, columns: u16, indent: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in one_line(text).split_whitespace() {
        let needed = word.chars().count();
        if width > 0 && width + 1 + needed > usize::from(columns) {
            lines += "\n";
            lines += indent;
            width = indent.len();
        } else if width > 0 {
            lines += " ";
            width += 1;
        }
        lines += word;
        width += needed;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Document {
        let mut document = Document::default();
        document.heading(1, "Title");
        document.text("one two three");
        document.bullets(vec!["a b c".into()]);
        document.bullets(vec![]);
        document.table(["x", "y"], vec![vec!["a|b".into(), "1\n2".into()]]);
        document.table(["never"], vec![]);
        document
    }

    #[test]
    fn markdown_escapes_what_would_break_a_table() {
        assert_eq!(
            small().markdown(),
            "# Title\n\none two three\n\n- a b c\n\n| x | y |\n| --- | --- |\n| a\\|b | 1 2 |\n"
        );
    }

    #[test]
    fn a_terminal_is_never_overrun() {
        let mut wide = small();
        wide.table(["long"], vec![vec!["word ".repeat(40)]]);
        for line in wide.terminal(30).lines() {
            assert!(line.chars().count() <= 30, "{line}");
        }
        assert!(small().terminal(8).starts_with("TITLE\n\none two\nthree\n\n- a b c\n"));
    }
}
