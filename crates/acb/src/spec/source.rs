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
        let source = self.get(id);
        let offset = floor_char_boundary(&source.text, bytes.start);
        let end = floor_char_boundary(&source.text, bytes.end.max(bytes.start));
        let line = source.line_starts.partition_point(|&start| start <= offset);
        let column = source.text[source.line_starts[line - 1]..offset].chars().count() + 1;
        Span { source: id, offset, len: end - offset, line, column }
    }

    /// `file:line:column` of a place.
    #[must_use]
    pub fn place(&self, span: Span) -> String {
        format!("{}:{}:{}", self.get(span.source).name, span.line, span.column)
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
