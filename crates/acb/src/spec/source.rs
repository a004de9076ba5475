//! Texts that an experiment was read from, and places in them.

use std::ops::Range;
use std::sync::Arc;

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub usize);

/// A place in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Which text.
    pub source: SourceId,
    /// First byte.
    pub offset: usize,
    /// Length in bytes, 0 where something is missing.
    pub len: usize,
}

/// A place as editors count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One text: a file, or a `--set` argument.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path as the user gave it, or `--set`.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
    line_starts: Vec<usize>,
}

impl Source {
    fn new(name: String, text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Self { name, text: text.into(), line_starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// Bytes of the longest of a line (from 1) and its neighbours.
    #[must_use]
    pub fn longest_around(&self, line: usize) -> usize {
        let start = |line: usize| self.line_starts.get(line).copied().unwrap_or(self.text.len());
        (line.saturating_sub(2)..=line).map(|line| start(line + 1) - start(line)).max().unwrap_or(0)
    }
}

/// All texts of one experiment, in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, name: impl Into<String>, text: &str) -> SourceId {
        self.list.push(Source::new(name.into(), text));
        SourceId(self.list.len() - 1)
    }

    /// The text with this id.
    ///
    /// # Panics
    /// When the id is not of these sources, which only our own bug can cause.
    #[must_use]
    pub fn get(&self, id: SourceId) -> &Source {
        &self.list[id.0]
    }

    /// All texts in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Source> {
        self.list.iter()
    }

    /// The place of a range of bytes; a range past the end is cut there.
    #[must_use]
    pub fn span(&self, id: SourceId, bytes: Range<usize>) -> Span {
        let text = &self.get(id).text;
        let offset = floor_char_boundary(text, bytes.start);
        let end = floor_char_boundary(text, bytes.end.max(bytes.start));
        Span { source: id, offset, len: end - offset }
    }

    /// Line and column of a place. Takes time with the length of the line, so it is for reports.
    #[must_use]
    pub fn position(&self, span: Span) -> Position {
        let source = self.get(span.source);
        let line = source.line_starts.partition_point(|&start| start <= span.offset);
        let column = source.text[source.line_starts[line - 1]..span.offset].chars().count() + 1;
        Position { line, column }
    }

    /// `file:line:column` of a place.
    #[must_use]
    pub fn place(&self, span: Span) -> String {
        let Position { line, column } = self.position(span);
        format!("{}:{line}:{column}", self.get(span.source).name)
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
