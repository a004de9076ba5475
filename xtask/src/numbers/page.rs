//! A Markdown page in pieces: sections of paragraphs, tables and fenced blocks.

use std::fmt;

/// From a heading to the next.
pub struct Section<'a> {
    pub chunks: Vec<Chunk<'a>>,
    dated: bool,
}

/// A paragraph or list item, a table, or a fenced block.
pub struct Chunk<'a> {
    pub kind: Kind,
    /// Its lines with their numbers, from 1; of a block those between the fences.
    pub lines: Vec<(usize, &'a str)>,
    /// The file of the reference above it.
    pub from: Option<&'a str>,
    /// Whether it says why it has no record.
    pub no_record: bool,
}

/// What a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prose,
    Table,
    Block,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Prose => "paragraph",
            Self::Table => "table",
            Self::Block => "block",
        })
    }
}

impl Section<'_> {
    /// Whether it has a reference, the date of a run, or a command with its output.
    pub fn is_of_results(&self) -> bool {
        let has = |chunk: &Chunk<'_>| match chunk.kind {
            Kind::Prose => chunk.lines.iter().any(|(_, line)| line.contains("<!-- from: ")),
            Kind::Table => chunk.from.is_some(),
            Kind::Block => chunk.from.is_some() || chunk.has_output(),
        };
        self.dated || self.chunks.iter().any(has)
    }
}

impl Chunk<'_> {
    /// The text as one, lines joined by line ends.
    pub fn text(&self) -> String {
        self.lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    }

    /// The number of the line in which a byte of [`Self::text`] lies.
    pub fn line_of(&self, byte: usize) -> usize {
        let before = self.text()[..byte].matches('\n').count();
        self.lines.get(before).map_or(0, |line| line.0)
    }

    /// Whether a block shows a command and what it printed.
    pub fn has_output(&self) -> bool {
        self.lines.iter().any(|(_, line)| line.starts_with("$ "))
    }
}

/// The sections of a page, in order.
pub fn sections(text: &str) -> Vec<Section<'_>> {
    let mut reading = Reading::default();
    for (index, line) in text.lines().enumerate() {
        reading.line(index + 1, line);
    }
    reading.heading("");
    reading.sections
}

#[derive(Default)]
struct Reading<'a> {
    sections: Vec<Section<'a>>,
    chunks: Vec<Chunk<'a>>,
    open: Option<Chunk<'a>>,
    from: Option<&'a str>,
    no_record: bool,
    dated: bool,
    fenced: bool,
}

impl<'a> Reading<'a> {
    fn line(&mut self, number: usize, line: &'a str) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            self.close();
            self.fenced = !self.fenced;
            if self.fenced {
                self.start(Kind::Block);
            }
        } else if self.fenced {
            self.push(Kind::Block, number, line);
        } else if trimmed.starts_with('#') {
            self.heading(trimmed);
        } else if trimmed.starts_with("<!-- ")
            && trimmed.ends_with(" -->")
            && trimmed.matches("<!--").count() == 1
        {
            self.comment(trimmed);
        } else if trimmed.is_empty() {
            self.close();
        } else if trimmed.starts_with('|') {
            self.push(Kind::Table, number, line);
        } else {
            if trimmed.starts_with("- ") {
                self.close();
            }
            self.dated |= has_date(line);
            self.push(Kind::Prose, number, line);
        }
    }

    /// A comment on a line of its own is about the tables and blocks below it; an excuse at the end of a paragraph is its own.
    fn comment(&mut self, trimmed: &'a str) {
        let inside = trimmed.trim_start_matches("<!-- ").trim_end_matches(" -->");
        let excuse = inside.starts_with("no record: ");
        if let Some(open) = self.open.as_mut().filter(|open| excuse && open.kind == Kind::Prose) {
            open.no_record = true;
            return;
        }
        self.close();
        if let Some(from) = inside.strip_prefix("from: ") {
            (self.from, self.no_record) = (Some(from), false);
        } else if excuse {
            (self.from, self.no_record) = (None, true);
        }
    }

    fn heading(&mut self, heading: &str) {
        self.close();
        let chunks = std::mem::take(&mut self.chunks);
        self.sections.push(Section { chunks, dated: self.dated });
        self.dated = has_date(heading);
        (self.from, self.no_record) = (None, false);
    }

    fn start(&mut self, kind: Kind) {
        let no_record = self.no_record && kind != Kind::Prose;
        self.open = Some(Chunk { kind, lines: Vec::new(), from: self.from, no_record });
    }

    fn push(&mut self, kind: Kind, number: usize, line: &'a str) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close();
            self.start(kind);
        }
        if let Some(open) = &mut self.open {
            open.lines.push((number, line));
            open.no_record |= kind == Kind::Prose && line.contains("<!-- no record: ");
        }
    }

    fn close(&mut self) {
        self.chunks.extend(self.open.take());
    }
}

/// Whether a line has a day of this century: `2026-12-01` or `1 December 2026`.
fn has_date(line: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let iso = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        let digits = |part: &&str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
        matches!(&parts[..], [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2))
    };
    let words: Vec<&str> =
        line.split(|c: char| !(c.is_alphanumeric() || c == '-')).filter(|w| !w.is_empty()).collect();
    let spelt = |three: &[&str]| {
        MONTHS.contains(&three[1])
            && three[0].parse::<u8>().is_ok()
            && three[2].parse::<u16>().is_ok_and(|y| y >= 2000)
    };
    words.iter().any(|word| iso(word)) || words.windows(3).any(spelt)
}
