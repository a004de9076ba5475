//! Reading a JSON schema as schemars 1.2 writes it: references, unions, tagged variants. And the schema that editors
//! get, in which the short form of a variant is written out.

use serde_json::{Map, Value as Json, json};

/// A schema with its definitions.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'s> {
    root: &'s Json,
}

/// Branches of a union that are maps told apart by one property.
#[derive(Debug)]
pub struct Tagged<'s> {
    /// The property that tells.
    pub tag: &'s str,
    /// Its values and the schema of the map that each asks for.
    pub variants: Vec<(&'s str, &'s Json)>,
}

impl<'s> Schema<'s> {
    /// A schema whose references point into itself.
    #[must_use]
    pub fn new(root: &'s Json) -> Self {
        Self { root }
    }

    /// The schema itself.
    #[must_use]
    pub fn root(&self) -> &'s Json {
        self.root
    }

    /// Follows references until a schema that is not one.
    ///
    /// # Panics
    /// When a reference leads nowhere, which only our own bug can cause.
    #[must_use]
    pub fn resolve(&self, schema: &'s Json) -> &'s Json {
        let mut schema = schema;
        while let Some(reference) = schema["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').expect("schemars refers within the document");
            schema = self.root.pointer(pointer).expect("schemars defines what it refers to");
        }
        schema
    }

    /// The alternatives of a schema, unions within unions taken apart; the schema itself when it is no union.
    #[must_use]
    pub fn branches(&self, schema: &'s Json) -> Vec<&'s Json> {
        let schema = self.resolve(schema);
        match schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
            Some(list) => list.iter().flat_map(|branch| self.branches(branch)).collect(),
            None => vec![schema],
        }
    }

    /// The tagged variants among branches, when every map among them carries the same tag.
    #[must_use]
    pub fn tagged(&self, branches: &[&'s Json]) -> Option<Tagged<'s>> {
        let maps: Vec<_> = branches.iter().copied().filter(|branch| accepts(branch, "object")).collect();
        let (tag, _) = constant(maps.first()?)?;
        let variants = maps
            .iter()
            .map(|map| constant(map).filter(|(name, _)| *name == tag).map(|(_, value)| (value, *map)))
            .collect::<Option<Vec<_>>>()?;
        Some(Tagged { tag, variants })
    }
}

impl<'s> Tagged<'s> {
    /// The map that a tag's value asks for.
    #[must_use]
    pub fn variant(&self, value: &str) -> Option<&'s Json> {
        self.variants.iter().find(|(name, _)| *name == value).map(|(_, schema)| *schema)
    }

    /// The tag's values.
    #[must_use]
    pub fn names(&self) -> Vec<&'s str> {
        self.variants.iter().map(|(name, _)| *name).collect()
    }
}

/// Whether a schema takes values of a JSON type (`object`, `array`, `string`, `number`, `integer`, `boolean`, `null`).
#[must_use]
pub fn accepts(schema: &Json, kind: &str) -> bool {
    match &schema["type"] {
        Json::String(one) => one == kind,
        Json::Array(list) => list.iter().any(|one| one == kind),
        _ => match choices(schema) {
            Some(choices) => choices.iter().any(|choice| type_of(choice) == kind),
            None => schema != &Json::Bool(false),
        },
    }
}

/// The values that a schema lists, when it lists them.
#[must_use]
pub fn choices(schema: &Json) -> Option<Vec<&Json>> {
    match (schema.get("const"), schema["enum"].as_array()) {
        (Some(one), _) => Some(vec![one]),
        (None, Some(list)) => Some(list.iter().collect()),
        (None, None) => None,
    }
}

/// The keys that a map must have.
pub fn required(schema: &Json) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// The schema for editors: every union of tagged maps also takes, as text, the variants that need nothing but a tag.
#[must_use]
pub fn with_short_forms(root: &Json) -> Json {
    let mut wide = root.clone();
    widen(&mut wide);
    wide
}

fn widen(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(widen),
        Json::Object(map) => {
            map.values_mut().for_each(widen);
            add_short_form(map);
        }
        _ => {}
    }
}

fn add_short_form(map: &mut Map<String, Json>) {
    let Some(Json::Array(branches)) = map.get_mut("oneOf") else { return };
    let short: Vec<_> = branches
        .iter()
        .filter_map(|branch| {
            let (tag, value) = constant(branch)?;
            required(branch).all(|key| key == tag).then_some(value)
        })
        .map(str::to_string)
        .collect();
    if !short.is_empty() {
        branches.push(json!({
            "type": "string",
            "enum": short,
            "description": "Short form of a variant with nothing to say beyond its name.",
        }));
    }
}

/// The property of a map schema that has only one possible value, which is text.
fn constant(schema: &Json) -> Option<(&str, &str)> {
    let properties = schema["properties"].as_object()?;
    properties.iter().find_map(|(name, property)| Some((name.as_str(), property["const"].as_str()?)))
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editors_schema_takes_the_short_form_only_where_a_tag_is_enough() {
        let variant = |tag: &str, required: &[&str]| json!({"type": "object", "properties": {"kind": {"const": tag}}, "required": required});
        let root = json!({"oneOf": [variant("random", &["kind"]), variant("hash", &["kind", "bound"])]});
        let wide = with_short_forms(&root);
        assert_eq!(wide["oneOf"][2]["enum"], json!(["random"]));
        assert_eq!(wide["oneOf"].as_array().map(Vec::len), Some(3));
    }
}
