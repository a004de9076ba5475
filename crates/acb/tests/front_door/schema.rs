//! As much of JSON schema as the program's own documents use, strict about keys: one that no schema names is a fault.

use serde_json::Value as Json;

/// Everything in which a document departs from its schema.
pub fn departures(schema: &Json, document: &Json) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, document, "$", &mut found);
    found
}

fn check(root: &Json, schema: &Json, value: &Json, at: &str, found: &mut Vec<String>) {
    if let Some(target) = schema["$ref"].as_str() {
        let pointer = target.strip_prefix('#').expect("references stay within the schema");
        let target = root.pointer(pointer).unwrap_or_else(|| panic!("{at}: {target} leads nowhere"));
        return check(root, &with_siblings(target, schema), value, at, found);
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[word].as_array() {
            let fits = |choice: &&Json| {
                let mut faults = Vec::new();
                check(root, choice, value, at, &mut faults);
                faults.is_empty()
            };
            if !choices.iter().any(|choice| fits(&choice)) {
                found.push(format!("{at}: {value} is none of {word}"));
            }
            return;
        }
    }
    check_scalar(schema, value, at, found);
    match value {
        Json::Object(map) => check_object(root, schema, map, at, found),
        Json::Array(items) if schema["items"].is_object() => {
            let each = items.iter().enumerate();
            each.for_each(|(n, item)| check(root, &schema["items"], item, &format!("{at}[{n}]"), found));
        }
        _ => {}
    }
}

fn check_scalar(schema: &Json, value: &Json, at: &str, found: &mut Vec<String>) {
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|wanted| is(value, wanted)) {
        found.push(format!("{at}: {value} is not of type {types:?}"));
    }
    if !schema["const"].is_null() && &schema["const"] != value {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        found.push(format!("{at}: {value} is not among {}", schema["enum"]));
    }
}

fn is(value: &Json, wanted: &str) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("{wanted} is no type of JSON schema"),
    }
}

fn check_object(
    root: &Json,
    schema: &Json,
    map: &serde_json::Map<String, Json>,
    at: &str,
    found: &mut Vec<String>,
) {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    for key in required.filter(|key| !map.contains_key(*key)) {
        found.push(format!("{at}: {key} is missing"));
    }
    for (key, value) in map {
        let place = format!("{at}.{key}");
        match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Json::Null, Json::Null) if schema["properties"].is_object() => {
                found.push(format!("{place}: no schema names this key"));
            }
            (Json::Null, additional) if additional.is_object() => {
                check(root, additional, value, &place, found)
            }
            (Json::Null, Json::Bool(false)) => found.push(format!("{place}: not allowed")),
            (Json::Null, _) => {}
            (own, _) => check(root, own, value, &place, found),
        }
    }
}

/// What a reference means with the words beside it: the properties and requirements of both.
fn with_siblings(target: &Json, schema: &Json) -> Json {
    let mut both = target.clone();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            both["properties"][name] = property.clone();
        }
    }
    if let Some(required) = schema["required"].as_array() {
        let all = both["required"].as_array().into_iter().flatten().chain(required).cloned().collect();
        both["required"] = Json::Array(all);
    }
    both
}

#[test]
fn the_checker_finds_what_it_should() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {"$ref": "#/$defs/c"}},
        "$defs": {"c": {"oneOf": [{"const": "x"}, {"const": "y"}]}},
    });
    let faults = |document: Json| departures(&schema, &document).len();
    assert_eq!(faults(serde_json::json!({"a": 1, "b": null, "c": "y"})), 0);
    assert_eq!(faults(serde_json::json!({"a": 1.5, "b": 2, "c": "z", "d": 0})), 4);
    assert_eq!(faults(serde_json::json!({})), 1);
}
