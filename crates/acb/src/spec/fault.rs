//! What is wrong with an experiment file, where, and what would be right.

use super::tree::Node;
use super::{Position, Sources, Span};
use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub span: Span,
    /// JSON pointer of the value, empty for the whole file or where the text could not be read.
    pub pointer: String,
    /// What is wrong, with the offending value.
    pub message: String,
    /// What would be right, when that is not part of the message.
    pub help: Option<String>,
}

impl Fault {
    /// A fault of a text that is not yet a tree.
    #[must_use]
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, pointer: String::new(), message: message.into(), help: None }
    }

    /// The same with the value's JSON pointer.
    #[must_use]
    pub fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), ..self }
    }

    /// The same with what would be right.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A fault as `--json` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FaultRow {
    /// File, or `--set`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// JSON pointer of the value, empty for the whole file.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What would be right; null when the message says it.
    pub help: Option<String>,
}

/// Most faults that a report shows.
const MOST_SHOWN: usize = 100;

/// Longest line in bytes that is shown with a fault in it.
const LONGEST_SHOWN: usize = 1000;

/// All faults of an experiment, in the order of their places. Displays as one `file:line:column: message` per fault;
/// [`Report`] shows each in its source.
#[derive(Debug)]
pub struct Faults {
    shown: Vec<Shown>,
    more: usize,
}

impl Faults {
    /// Faults sorted by place, each once; of more than a hundred the first are kept and the rest counted.
    ///
    /// # Panics
    /// When there are none: no fault is not an error.
    #[must_use]
    pub fn new(sources: &Sources, mut faults: Vec<Fault>) -> Self {
        assert!(!faults.is_empty(), "a report of faults has at least one");
        faults.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
        faults.dedup();
        let texts: Vec<_> =
            sources.iter().map(|source| Text::new(&source.name, source.text.clone())).collect();
        let more = faults.len().saturating_sub(MOST_SHOWN);
        faults.truncate(MOST_SHOWN);
        let shown = |fault: Fault| {
            let span = fault.span;
            let Position { line, column } = sources.position(span);
            let source = sources.get(span.source);
            let Fault { pointer, message, help, .. } = fault;
            let row = FaultRow { file: source.name.clone(), line, column, pointer, message, help };
            let readable = source.longest_around(line) <= LONGEST_SHOWN;
            let text = readable.then(|| texts[span.source.0].clone());
            Shown { row, label: (span.offset, span.len), text }
        };
        Self { shown: faults.into_iter().map(shown).collect(), more }
    }

    /// The faults as rows for `--json`.
    #[must_use]
    pub fn rows(&self) -> Vec<&FaultRow> {
        self.shown.iter().map(|shown| &shown.row).collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Shown { row, .. }) in self.shown.iter().enumerate() {
            let break_before = if index > 0 { "\n" } else { "" };
            write!(f, "{break_before}{}:{}:{}: {}", row.file, row.line, row.column, row.message)?;
            if let Some(help) = &row.help {
                write!(f, "; {help}")?;
            }
        }
        if self.more > 0 { write!(f, "\nand {} more faults", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for Faults {}

/// Faults as a diagnostic: a headline, and each fault in its source.
#[derive(Debug)]
pub struct Report(Faults);

impl From<Faults> for Report {
    fn from(faults: Faults) -> Self {
        Self(faults)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.shown.len(), self.0.more) {
            (1, 0) => write!(f, "the experiment has 1 fault"),
            (n, 0) => write!(f, "the experiment has {n} faults"),
            (n, more) => write!(f, "the experiment has {} faults, the first {n} of which follow", n + more),
        }
    }
}

impl std::error::Error for Report {}

impl Diagnostic for Report {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.0.shown.iter().map(|shown| shown as &dyn Diagnostic)))
    }
}

type Text = NamedSource<Arc<str>>;

#[derive(Debug)]
struct Shown {
    row: FaultRow,
    /// First byte and number of bytes.
    label: (usize, usize),
    /// Absent where the lines are too long to be read.
    text: Option<Text>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultRow { file, line, column, message, .. } = &self.row;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

impl std::error::Error for Shown {}

impl Diagnostic for Shown {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.row.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.text.as_ref().map(|text| text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(LabeledSpan::underline(self.label))))
    }
}

/// A validated tree with its texts: finds the place of whatever a later check complains about.
#[derive(Clone, Debug)]
pub struct Located {
    sources: Sources,
    tree: Node,
}

impl Located {
    /// A tree and the texts that its places point into.
    #[must_use]
    pub fn new(sources: Sources, tree: Node) -> Self {
        Self { sources, tree }
    }

    /// The texts and the tree.
    #[must_use]
    pub fn into_parts(self) -> (Sources, Node) {
        (self.sources, self.tree)
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &Node {
        &self.tree
    }

    /// `file:line:column` of the value that a JSON pointer means, or of its nearest parent that was written.
    #[must_use]
    pub fn place(&self, pointer: &str) -> String {
        self.sources.place(self.tree.nearest(pointer))
    }

    /// Faults that a check found, as (JSON pointer, message); `None` when it found none.
    #[must_use]
    pub fn faults(&self, found: impl IntoIterator<Item = (String, String)>) -> Option<Faults> {
        let fault = |(pointer, message): (String, String)| {
            Fault::new(self.tree.nearest(&pointer), message).at(pointer)
        };
        let faults: Vec<_> = found.into_iter().map(fault).collect();
        (!faults.is_empty()).then(|| Faults::new(&self.sources, faults))
    }
}
