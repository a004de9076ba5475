//! YAML as a tree in which every value knows where it was written.

use super::Span;
use serde_json::{Map, Number};

/// A value and its place. The place of a map or list is its first item, or its bracket.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What.
    pub value: Value,
    /// Where.
    pub span: Span,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Truth.
    Bool(bool),
    /// From -2^63 to 2^64 - 1.
    Int(i128),
    /// Finite.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Seq(Vec<Node>),
    /// A map in the order of writing; keys are unique.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key is written.
    pub key_span: Span,
    /// What it maps to.
    pub value: Node,
}

impl Node {
    /// The value under a key, when this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Keys and values; none when this is not a map.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text, when this is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether this is a map or a list.
    #[must_use]
    pub fn is_container(&self) -> bool {
        matches!(self.value, Value::Seq(_) | Value::Map(_))
    }

    /// The same value without places.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => integer(*value).into(),
            Value::Float(value) => {
                Number::from_f64(*value).expect("the parser lets finite numbers through").into()
            }
            Value::String(text) => text.clone().into(),
            Value::Seq(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<Map<_, _>>()
                .into(),
        }
    }

    /// A tree of a value that was not read from a text: every node is at `span`.
    #[must_use]
    pub fn from_json(json: &serde_json::Value, span: Span) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i128() {
                Some(value) => Value::Int(value),
                None => Value::Float(number.as_f64().expect("a JSON number is an integer or a float")),
            },
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Seq(items.iter().map(|item| Self::from_json(item, span)).collect()),
            Json::Object(map) => {
                let entry = |(key, value)| Entry {
                    key: String::clone(key),
                    key_span: span,
                    value: Self::from_json(value, span),
                };
                Value::Map(map.iter().map(entry).collect())
            }
        };
        Self { value, span }
    }

    /// The place that best shows what a JSON pointer means: the value, for a map or list its key, and for
    /// something that was not written its nearest parent that was.
    #[must_use]
    pub fn nearest(&self, pointer: &str) -> Span {
        let mut node = self;
        let mut span = self.span;
        for token in pointer.split('/').skip(1) {
            let token = unescape(token);
            let next = match &node.value {
                Value::Map(entries) => entries.iter().find(|entry| entry.key == token).map(|entry| {
                    let at = if entry.value.is_container() { entry.key_span } else { entry.value.span };
                    (&entry.value, at)
                }),
                Value::Seq(items) => {
                    token.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (item, item.span))
                }
                _ => None,
            };
            let Some((child, at)) = next else { break };
            (node, span) = (child, at);
        }
        span
    }
}

/// A JSON pointer with one more token.
#[must_use]
pub fn join(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn integer(value: i128) -> Number {
    match u64::try_from(value) {
        Ok(value) => value.into(),
        Err(_) => i64::try_from(value).expect("the parser keeps integers within 64 bits").into(),
    }
}
