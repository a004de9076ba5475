//! What is wrong with an experiment file, where, and what would be right.

use super::tree::Node;
use super::{Sources, Span};
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

/// All faults of an experiment, in the order of their places. Displays as one `file:line:column: message` per fault;
/// as a miette diagnostic each is shown in its source.
#[derive(Debug)]
pub struct Faults {
    rows: Vec<FaultRow>,
    shown: Vec<Shown>,
}

impl Faults {
    /// Faults sorted by place, each once.
    ///
    /// # Panics
    /// When there are none: no fault is not an error.
    #[must_use]
    pub fn new(sources: &Sources, mut faults: Vec<Fault>) -> Self {
        assert!(!faults.is_empty(), "a report of faults has at least one");
        faults.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
        faults.dedup();
        let named: Vec<_> =
            sources.iter().map(|source| Text::new(&source.name, source.text.clone())).collect();
        let row = |fault: &Fault| FaultRow {
            file: sources.get(fault.span.source).name.clone(),
            line: fault.span.line,
            column: fault.span.column,
            pointer: fault.pointer.clone(),
            message: fault.message.clone(),
            help: fault.help.clone(),
        };
        Self {
            rows: faults.iter().map(row).collect(),
            shown: faults
                .into_iter()
                .map(|fault| Shown { text: named[fault.span.source.0].clone(), fault })
                .collect(),
        }
    }

    /// The faults as rows for `--json`.
    #[must_use]
    pub fn rows(&self) -> &[FaultRow] {
        &self.rows
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            let break_before = if index > 0 { "\n" } else { "" };
            write!(f, "{break_before}{}:{}:{}: {}", row.file, row.line, row.column, row.message)?;
            if let Some(help) = &row.help {
                write!(f, "; {help}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// The headline; the faults follow as related diagnostics.
#[derive(Debug)]
pub struct Report(Faults);

impl From<Faults> for Report {
    fn from(faults: Faults) -> Self {
        Self(faults)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.rows.len() {
            1 => write!(f, "the experiment has 1 fault"),
            n => write!(f, "the experiment has {n} faults"),
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
    fault: Fault,
    text: Text,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.fault.span;
        write!(f, "{}:{}:{}: {}", self.text.name(), span.line, span.column, self.fault.message)
    }
}

impl std::error::Error for Shown {}

impl Diagnostic for Shown {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.fault.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.fault.span;
        Some(Box::new(std::iter::once(LabeledSpan::underline((span.offset, span.len)))))
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
