//! YAML text to a tree. Refuses what makes a file mean something else than it seems to: duplicate keys, anchors,
//! aliases, merge keys, tags, several documents, keys that are not text, numbers that are not finite.

use super::scalar::{Scalar, resolve};
use super::tree::{Entry, Node, Value};
use super::{Fault, SourceId, Sources, Span};
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Deepest nesting of maps and lists.
pub const MAX_DEPTH: usize = 64;

/// Most faults that are looked for in one text.
const MOST_FAULTS: usize = 1000;

/// Parses one text, or the part of it that starts at byte `from`.
///
/// # Errors
/// All faults of the text up to the first that leaves its structure unclear.
pub fn parse(sources: &Sources, id: SourceId, from: usize) -> Result<Node, Vec<Fault>> {
    let mut builder = Builder::new(sources, id, from);
    let root = builder.run();
    match root {
        _ if !builder.faults.is_empty() => Err(builder.faults),
        Some(root) if root.value != Value::Null => Ok(root),
        _ => Err(vec![Fault::new(
            sources.span(id, from..from),
            "the text is empty: write the experiment as a map of keys and values",
        )]),
    }
}

enum Frame {
    Seq { items: Vec<Node>, span: Span },
    Map { entries: Vec<Entry>, seen: BTreeMap<String, Span>, key: Option<(String, Span)>, span: Span },
}

/// The structure can't be followed any further; the fault is recorded.
struct Stop;

struct Builder<'a> {
    sources: &'a Sources,
    id: SourceId,
    from: usize,
    char_offsets: Option<Vec<usize>>,
    stack: Vec<Frame>,
    root: Option<Node>,
    documents: usize,
    faults: Vec<Fault>,
}

impl<'a> Builder<'a> {
    fn new(sources: &'a Sources, id: SourceId, from: usize) -> Self {
        let text = &sources.get(id).text[from..];
        let char_offsets = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self {
            sources,
            id,
            from,
            char_offsets,
            stack: Vec::new(),
            root: None,
            documents: 0,
            faults: Vec::new(),
        }
    }

    fn run(&mut self) -> Option<Node> {
        let sources = self.sources;
        let text = &sources.get(self.id).text[self.from..];
        for item in Parser::new_from_str(text) {
            let step = match item {
                Ok((event, span)) => {
                    let span = self.span(span.start.index()..span.end.index());
                    self.event(event, span)
                }
                Err(error) => {
                    let at = error.marker().index();
                    let span = self.span(at..at + 1);
                    let message = match error.info() {
                        "recursion limit exceeded" => too_deep(),
                        info => format!("this is not YAML: {info}"),
                    };
                    self.faults.push(Fault::new(span, message));
                    Err(Stop)
                }
            };
            if step.is_err() || self.faults.len() >= MOST_FAULTS {
                break;
            }
        }
        self.root.take()
    }

    fn span(&self, chars: Range<usize>) -> Span {
        let len = self.sources.get(self.id).text.len() - self.from;
        let byte = |at: usize| match &self.char_offsets {
            Some(offsets) => offsets.get(at).copied().unwrap_or(len),
            None => at,
        };
        self.sources.span(self.id, self.from + byte(chars.start)..self.from + byte(chars.end))
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(_) => self.document(span),
            Event::Alias(_) => {
                self.fault(span, "aliases (*name) are not allowed: write the value out");
                self.scalar(String::new(), span, Scalar::Text)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.decoration(anchor, tag.as_deref(), span);
                let meaning = if style == ScalarStyle::Plain { resolve(&text) } else { Scalar::Text };
                self.scalar(Cow::into_owned(text), span, meaning)
            }
            Event::SequenceStart(anchor, tag) => {
                self.decoration(anchor, tag.as_deref(), span);
                self.open(Frame::Seq { items: Vec::new(), span })
            }
            Event::MappingStart(anchor, tag) => {
                self.decoration(anchor, tag.as_deref(), span);
                self.open(Frame::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None, span })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn document(&mut self, span: Span) -> Result<(), Stop> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        self.fault(span, "a second document starts here: one file holds one document, so remove the `---`");
        Err(Stop)
    }

    fn decoration(&mut self, anchor: usize, tag: Option<&Tag>, span: Span) {
        if anchor > 0 {
            self.fault(span, "anchors (&name) are not allowed: remove the anchor and write values out");
        }
        if tag.is_some() {
            self.fault(span, "tags (!name) are not allowed: remove the tag");
        }
    }

    fn open(&mut self, frame: Frame) -> Result<(), Stop> {
        let (Frame::Seq { span, .. } | Frame::Map { span, .. }) = &frame;
        let span = *span;
        if matches!(self.stack.last(), Some(Frame::Map { key: None, .. })) {
            self.fault(span, "a key must be text, not a map or list");
            return Err(Stop);
        }
        if self.stack.len() == MAX_DEPTH {
            self.fault(span, too_deep());
            return Err(Stop);
        }
        self.stack.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let frame = self.stack.pop().expect("the parser closes only what it opened");
        let node = match frame {
            Frame::Seq { items, span } => Node { span, value: Value::Seq(items) },
            Frame::Map { entries, span, .. } => {
                let span =
                    if span.len > 0 { span } else { entries.first().map_or(span, |first| first.key_span) };
                Node { span, value: Value::Map(entries) }
            }
        };
        self.place(node);
        Ok(())
    }

    fn scalar(&mut self, text: String, span: Span, meaning: Scalar) -> Result<(), Stop> {
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            self.key(text, span, &meaning);
            return Ok(());
        }
        let value = match meaning {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Float(value) => Value::Float(value),
            Scalar::Text => Value::String(text),
            Scalar::NotFinite => {
                self.fault(
                    span,
                    format!("`{text}` is not a finite number: write a number, or leave the key out"),
                );
                Value::Null
            }
        };
        self.place(Node { value, span });
        Ok(())
    }

    fn key(&mut self, text: String, span: Span, meaning: &Scalar) {
        if text.is_empty() {
            self.fault(span, "a key must not be empty: give it a name, or remove the line");
        } else if text == "<<" {
            self.fault(span, "merge keys (<<) are not allowed: write the keys out");
        } else if *meaning != Scalar::Text {
            self.fault(span, format!("the key `{text}` is not text: quote it if it is meant as a name"));
        }
        let Some(Frame::Map { seen, key, .. }) = self.stack.last_mut() else {
            unreachable!("a key is read only inside a map");
        };
        *key = Some((text.clone(), span));
        if let Some(first) = seen.get(&text) {
            let line = self.sources.position(*first).line;
            let message = format!("the key `{text}` is already given in line {line}: keep one of the two");
            self.faults.push(Fault::new(span, message));
        } else {
            seen.insert(text, span);
        }
    }

    fn place(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::Seq { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key, .. }) => {
                let (key, key_span) = key.take().expect("a value in a map follows its key");
                entries.push(Entry { key, key_span, value: node });
            }
        }
    }

    fn fault(&mut self, span: Span, message: impl Into<String>) {
        self.faults.push(Fault::new(span, message));
    }
}

fn too_deep() -> String {
    format!("maps and lists are nested more than {MAX_DEPTH} deep")
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
