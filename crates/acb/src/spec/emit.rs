//! Values as YAML that this crate reads back as the same values: keys in alphabetical order, text quoted where it
//! could be taken for something else.

use super::scalar::{Scalar, resolve};
use serde_json::Value as Json;
use std::fmt::Write;

/// A value as a YAML document.
#[must_use]
pub fn to_yaml(value: &Json) -> String {
    let mut out = String::new();
    match value {
        Json::Object(map) if !map.is_empty() => entries(&mut out, map, 0),
        Json::Array(items) if !inline(items) => list(&mut out, items, 0),
        _ => {
            flow(&mut out, value);
            out.push('\n');
        }
    }
    out
}

fn entries(out: &mut String, map: &serde_json::Map<String, Json>, indent: usize) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            spaces(out, indent);
        }
        text(out, key);
        out.push(':');
        match value {
            Json::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                spaces(out, indent + 2);
                entries(out, inner, indent + 2);
            }
            Json::Array(items) if !inline(items) => {
                out.push('\n');
                spaces(out, indent + 2);
                list(out, items, indent + 2);
            }
            _ => {
                out.push(' ');
                flow(out, value);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, items: &[Json], indent: usize) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            spaces(out, indent);
        }
        out.push_str("- ");
        match item {
            Json::Object(map) if !map.is_empty() => entries(out, map, indent + 2),
            Json::Array(inner) if !inline(inner) => list(out, inner, indent + 2),
            _ => {
                flow(out, item);
                out.push('\n');
            }
        }
    }
}

fn flow(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::String(string) => text(out, string),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                flow(out, item);
            }
            out.push(']');
        }
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => out.push_str(&value.to_string()),
    }
}

/// Whether a list goes on one line: it holds scalars only.
fn inline(items: &[Json]) -> bool {
    items.iter().all(|item| !matches!(item, Json::Array(_) | Json::Object(_)))
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

fn text(out: &mut String, text: &str) {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(word)
        && resolve(text) == Scalar::Text;
    if plain {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            _ if c.is_alphanumeric() => out.push(c),
            _ => write!(out, "\\U{:08x}", u32::from(c)).expect("writing to a string does not fail"),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Sources, parse::parse};
    use proptest::prelude::*;
    use serde_json::json;

    fn read(yaml: &str) -> Json {
        let mut sources = Sources::default();
        let id = sources.add("x.yaml", yaml);
        parse(&sources, id, 0).unwrap_or_else(|faults| panic!("{faults:?}\n{yaml}")).to_json()
    }

    #[test]
    fn nested_values_are_laid_out_in_blocks() {
        let value = json!({"a": [{"b": 1, "c": {"d": [1, 2]}}, [[1], {}]], "e": {}, "f": "yes: no", "g": "12", "h": null});
        let yaml = to_yaml(&value);
        insta::assert_snapshot!(yaml, @r#"
        a:
          - b: 1
            c:
              d: [1, 2]
          - - [1]
            - {}
        e: {}
        f: "yes: no"
        g: "12"
        h: null
        "#);
        assert_eq!(read(&yaml), value);
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let number = any::<f64>().prop_filter("finite", |value| value.is_finite());
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            number.prop_map(Json::from),
            any::<String>().prop_map(Json::from),
            "[-+.:0-9a-z#~_ ]{0,6}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                proptest::collection::btree_map("[^0-9~<]{1,8}", inner, 0..5)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_as_the_same_value(value in any_json()) {
            let value = json!({ "root": value });
            prop_assert_eq!(read(&to_yaml(&value)), value);
        }
    }
}
