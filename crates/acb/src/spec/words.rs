//! Words for what a schema asks for and for what was found instead.

use super::scalar::{Scalar, resolve};
use super::schema::{Schema, accepts, choices};
use super::tree::{Node, Value};
use serde_json::Value as Json;

const SHOWN_CHARS: usize = 40;
const LISTED: usize = 24;

/// What a schema takes, as it follows "must be".
#[must_use]
pub fn expected(schema: Schema<'_>, of: &Json) -> String {
    let branches = schema.branches(of);
    let mut words: Vec<String> = Vec::new();
    let listed: Vec<&Json> = branches.iter().filter_map(|branch| choices(branch)).flatten().collect();
    if !listed.is_empty() {
        words.push(format!("one of {}", list(listed.iter().map(|value| plain(value)))));
    }
    for branch in branches.iter().filter(|branch| choices(branch).is_none()) {
        for (kind, article) in KINDS {
            if explicit(branch, kind) {
                let word = format!("{article}{}", bounds(branch, kind));
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
    }
    if words.is_empty() { "any value".to_string() } else { words.join(" or ") }
}

const KINDS: [(&str, &str); 6] = [
    ("boolean", "true or false"),
    ("integer", "an integer"),
    ("number", "a number"),
    ("string", "text"),
    ("array", "a list"),
    ("object", "a map"),
];

fn explicit(schema: &Json, kind: &str) -> bool {
    schema.get("type").is_some() && accepts(schema, kind)
}

fn bounds(schema: &Json, kind: &str) -> String {
    match kind {
        "integer" | "number" => range(schema),
        "string" => match (schema["pattern"].as_str(), schema["minLength"].as_u64()) {
            (Some(pattern), _) => format!(" that matches {pattern}"),
            (None, Some(_)) => " that is not empty".to_string(),
            (None, None) => String::new(),
        },
        "array" => match schema["minItems"].as_u64() {
            Some(min) if min > 0 => format!(" of at least {min}"),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

fn range(schema: &Json) -> String {
    let (low, high) = limits(schema);
    match (low, high) {
        (Some(Limit::Inclusive(low)), Some(Limit::Inclusive(high))) => format!(" from {low} to {high}"),
        (low, high) => {
            let low = low.map(|limit| match limit {
                Limit::Inclusive(low) => format!("at least {low}"),
                Limit::Exclusive(low) => format!("above {low}"),
            });
            let high = high.map(|limit| match limit {
                Limit::Inclusive(high) => format!("at most {high}"),
                Limit::Exclusive(high) => format!("below {high}"),
            });
            let words: Vec<_> = low.into_iter().chain(high).collect();
            if words.is_empty() { String::new() } else { format!(" {}", words.join(" and ")) }
        }
    }
}

/// A bound of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The bound is allowed.
    Inclusive(f64),
    /// The bound is not allowed.
    Exclusive(f64),
}

/// Lower and upper bound of a number, as the schema writes them.
#[must_use]
pub fn limits(schema: &Json) -> (Option<Limit>, Option<Limit>) {
    let limit = |inclusive: &str, exclusive: &str| {
        let inclusive = schema[inclusive].as_f64().map(Limit::Inclusive);
        schema[exclusive].as_f64().map(Limit::Exclusive).or(inclusive)
    };
    (limit("minimum", "exclusiveMinimum"), limit("maximum", "exclusiveMaximum"))
}

/// A value as it follows "not": in backticks, cut when long.
#[must_use]
pub fn found(node: &Node) -> String {
    match &node.value {
        Value::Null => "empty".to_string(),
        Value::Seq(items) => format!("a list of {}", items.len()),
        Value::Map(_) => "a map".to_string(),
        Value::String(text) if resolve(text) != Scalar::Text => format!("`\"{}\"`", cut(text)),
        Value::String(text) => format!("`{}`", cut(text)),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!("`{}`", node.to_json()),
    }
}

/// Names in backticks with commas between, cut when there are many.
#[must_use]
pub fn list(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len() {
        len if len > LISTED => format!("{} and {} more", names[..LISTED].join(", "), len - LISTED),
        _ => names.join(", "),
    }
}

/// Items, a line each, cut when there are many.
#[must_use]
pub fn lines(items: &[impl ToString]) -> String {
    const MOST: usize = 20;
    let mut lines: Vec<String> =
        items.iter().take(MOST).map(|item| format!("  {}", item.to_string())).collect();
    if items.len() > MOST {
        lines.push(format!("  and {} more", items.len() - MOST));
    }
    lines.join("\n")
}

/// The name that was probably meant.
#[must_use]
pub fn suggestion<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |text: &str| text.to_lowercase().replace('-', "_");
    let wrong = folded(wrong);
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wrong, &folded(name)), name))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// A JSON pointer as a dotted path.
#[must_use]
pub fn dotted(pointer: &str) -> String {
    let names = pointer.split('/').skip(1).map(|token| {
        let name = token.replace("~1", "/").replace("~0", "~");
        if name.contains('.') { format!("\"{name}\"") } else { name }
    });
    names.collect::<Vec<_>>().join(".")
}

/// Text cut to what fits in a message.
#[must_use]
pub fn cut(text: &str) -> String {
    let line: String = text.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > SHOWN_CHARS { format!("{line}...") } else { line }
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
