//! What differs between two JSON values, field by field.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Characters of a value that a sentence shows.
const SHOWN: usize = 120;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Dotted path of the field.
    pub field: String,
    /// Its registered value; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its new value; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.field, shown(self.before.as_ref()), shown(self.after.as_ref()))
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.chars().count() > SHOWN {
        true => text.chars().take(SHOWN).chain("...".chars()).collect(),
        false => text,
    }
}

/// The fields that differ. Maps are compared key by key, lists of maps of one length item by item; anything else is one
/// field.
pub(super) fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    collect(&mut found, String::new(), (Some(before), Some(after)));
    found
}

fn collect(found: &mut Vec<Change>, field: String, pair: (Option<&Value>, Option<&Value>)) {
    if pair.0 == pair.1 {
        return;
    }
    let below = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    match pair {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                collect(found, below(key), (a.get(key), b.get(key)));
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b)))
            if a.len() == b.len() && a.iter().chain(b).all(Value::is_object) =>
        {
            for (at, pair) in a.iter().zip(b).enumerate() {
                collect(found, below(&at.to_string()), (Some(pair.0), Some(pair.1)));
            }
        }
        (before, after) => found.push(Change { field, before: before.cloned(), after: after.cloned() }),
    }
}

/// Every value that is neither map nor list, with the dotted path of the field that it stands in.
pub(super) fn leaves(value: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    collect_leaves(&mut found, String::new(), value);
    found
}

fn collect_leaves<'a>(found: &mut Vec<(String, &'a Value)>, field: String, value: &'a Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let below = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                collect_leaves(found, below, value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_leaves(found, field.clone(), item)),
        _ => found.push((field, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &[&str]) {
        let seen: Vec<String> = between(&before, &after).iter().map(Change::to_string).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn maps_are_compared_by_key_and_lists_of_maps_by_item() {
        check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), &["a.c: 2 -> 3"]);
        check(json!({"a": 1}), json!({"b": 1}), &["a: 1 -> nothing", "b: nothing -> 1"]);
        let arms = |name: &str| json!({"arms": [{"name": "x"}, {"name": name}]});
        check(arms("y"), arms("z"), &["arms.1.name: \"y\" -> \"z\""]);
        check(json!({"seeds": [1, 2]}), json!({"seeds": [1, 2, 3]}), &["seeds: [1,2] -> [1,2,3]"]);
        check(json!({"a": [1]}), json!({"a": [1]}), &[]);
    }

    #[test]
    fn a_long_value_is_cut_in_a_sentence() {
        let text = between(&json!({"a": "x".repeat(500)}), &json!({"a": null})).remove(0).to_string();
        assert!(text.len() < 200 && text.contains("...") && text.ends_with("-> null"), "{text}");
    }
}
