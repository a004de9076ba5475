//! A tree against a JSON schema: all faults in one pass, each with its place, its value and what would be valid.
//!
//! Takes what schemars 1.2 writes (draft 2020-12): types, properties, required, additionalProperties, items,
//! prefixItems, enum, const, bounds of numbers, lengths and lists, pattern, references, unions. Two rules go beyond it:
//! a variant that needs nothing but its tag may be written as text, and the tree is brought to the long form; and of a
//! union only the branch that was meant is reported.

use super::merge::SHORT_FORM;
use super::remedy::type_remedy;
use super::schema::{Schema, Tagged, accepts, choices, required};
use super::tree::{Entry, Node, Value, join};
use super::words::{Limit, cut, dotted, expected, found, limits, list, suggestion};
use super::{Fault, Span};
use serde_json::Value as Json;

/// Checks a tree and brings short forms to their long form.
#[must_use]
pub fn validate(schema: &Json, tree: &mut Node) -> Vec<Fault> {
    let mut validator = Validator { schema: Schema::new(schema), faults: Vec::new() };
    let at = At { pointer: String::new(), span: tree.span };
    validator.check(schema, tree, &at);
    validator.faults
}

/// Where the checked value is: its pointer, and the span to show for it (for a map or list, its key).
struct At {
    pointer: String,
    span: Span,
}

impl At {
    fn key(&self, entry: &Entry) -> Self {
        let span = if entry.value.is_container() { entry.key_span } else { entry.value.span };
        Self { pointer: join(&self.pointer, &entry.key), span }
    }

    fn item(&self, index: usize, item: &Node) -> Self {
        Self { pointer: join(&self.pointer, &index.to_string()), span: item.span }
    }

    fn name(&self) -> String {
        if self.pointer.is_empty() {
            "the experiment".to_string()
        } else {
            format!("`{}`", dotted(&self.pointer))
        }
    }
}

/// Most faults that are looked for: a file with more is no experiment, and finding a good suggestion takes time.
const MOST_FAULTS: usize = 1000;

struct Validator<'s> {
    schema: Schema<'s>,
    faults: Vec<Fault>,
}

impl<'s> Validator<'s> {
    fn check(&mut self, schema: &'s Json, node: &mut Node, at: &At) {
        let branches = self.schema.branches(schema);
        match (branches.as_slice(), &node.value) {
            ([one], value) if !(matches!(value, Value::String(_)) && self.one_variant(one, node)) => {
                self.check_one(one, node, at);
            }
            (_, Value::Null) if branches.iter().any(|branch| accepts(branch, "null")) => {}
            _ => match self.schema.tagged(&branches) {
                Some(tagged) if self.is_tagged(&branches, node) => self.check_tagged(&tagged, node, at),
                _ => self.check_union(schema, &branches, node, at),
            },
        }
    }

    /// Whether text names the only variant of a tagged union.
    fn one_variant(&self, branch: &'s Json, node: &Node) -> bool {
        let tagged = self.schema.tagged(&[branch]);
        tagged.is_some_and(|tagged| self.is_tagged(&[branch], node) && !tagged.variants.is_empty())
    }

    /// Whether the value means the maps of a union: it is one, or it is text and no branch takes text.
    fn is_tagged(&self, branches: &[&'s Json], node: &Node) -> bool {
        match node.value {
            Value::Map(_) => true,
            Value::String(_) => !branches.iter().any(|branch| accepts(branch, "string")),
            _ => false,
        }
    }

    fn check_tagged(&mut self, tagged: &Tagged<'s>, node: &mut Node, at: &At) {
        if let Some(name) = node.text().map(str::to_string) {
            self.check_short_form(tagged, &name, node, at);
            return;
        }
        if let Value::Map(entries) = &mut node.value {
            let short = entries.iter_mut().filter(|entry| entry.key == SHORT_FORM);
            short.for_each(|entry| entry.key = tagged.tag.to_string());
        }
        let Some(kind) = node.entries().iter().find(|entry| entry.key == tagged.tag) else {
            let message = format!("{} has no `{}`", at.name(), tagged.tag);
            self.fault(at, message, Some(format!("give one of {}", list(tagged.names()))));
            return;
        };
        let kind_at = at.key(kind);
        match kind.value.text().map(|name| (name, tagged.variant(name))) {
            Some((_, Some(variant))) => self.check_one(variant, node, at),
            Some((name, None)) => self.unknown_choice(name, &tagged.names(), &kind_at),
            None => {
                let message = format!("{} must be text, not {}", kind_at.name(), found(&kind.value));
                self.fault(&kind_at, message, Some(format!("give one of {}", list(tagged.names()))));
            }
        }
    }

    fn check_short_form(&mut self, tagged: &Tagged<'s>, name: &str, node: &mut Node, at: &At) {
        let Some(variant) = tagged.variant(name) else {
            self.unknown_choice(name, &tagged.names(), at);
            return;
        };
        let missing: Vec<_> = required(variant).filter(|key| *key != tagged.tag).collect();
        if !missing.is_empty() {
            let message = format!("{} `{name}` also needs {}", at.name(), list(missing));
            self.fault(
                at,
                message,
                Some(format!("write a map with `{}: {name}` and these keys", tagged.tag)),
            );
            return;
        }
        let value = std::mem::replace(node, Node { value: Value::Null, span: node.span });
        let entry = Entry { key: tagged.tag.to_string(), key_span: value.span, value };
        node.value = Value::Map(vec![entry]);
    }

    fn check_union(&mut self, schema: &'s Json, branches: &[&'s Json], node: &mut Node, at: &At) {
        let fitting: Vec<_> =
            branches.iter().copied().filter(|branch| type_fits(branch, &node.value)).collect();
        let listed: Option<Vec<_>> = fitting.iter().map(|branch| choices(branch)).collect();
        match (fitting.as_slice(), listed) {
            ([], _) => self.wrong_type(schema, node, at),
            (_, Some(listed)) => self.check_choice(&listed.concat(), node, at),
            ([one], None) => self.check_one(one, node, at),
            (_, None) => match keyed(&fitting) {
                Some(keyed) => self.check_keyed(&keyed, node, at),
                None => self.check_best(&fitting, node, at),
            },
        }
    }

    /// Maps with one key each, which tells them apart (how serde writes an externally tagged variant).
    fn check_keyed(&mut self, keyed: &[(&'s str, &'s Json)], node: &mut Node, at: &At) {
        let names: Vec<_> = keyed.iter().map(|(name, _)| *name).collect();
        match node.entries() {
            [only] => match keyed.iter().find(|(name, _)| *name == only.key) {
                Some((_, branch)) => self.check_one(branch, node, at),
                None => {
                    let at = At { pointer: join(&at.pointer, &only.key), span: only.key_span };
                    self.unknown_key(&names, &at);
                }
            },
            entries => {
                let message = format!("{} must have one key, not {}", at.name(), entries.len());
                self.fault(at, message, Some(format!("give one of {}", list(names))));
            }
        }
    }

    /// Of several branches reports the one with the fewest faults: the one that was probably meant.
    fn check_best(&mut self, branches: &[&'s Json], node: &mut Node, at: &At) {
        let attempts = branches.iter().map(|branch| {
            let mut attempt = Validator { schema: self.schema, faults: Vec::new() };
            let mut copy = node.clone();
            attempt.check_one(branch, &mut copy, at);
            (attempt.faults, copy)
        });
        let best = attempts.min_by_key(|(faults, _)| faults.len());
        let (faults, copy) = best.expect("a union has at least one branch");
        self.faults.extend(faults);
        *node = copy;
    }

    fn check_one(&mut self, schema: &'s Json, node: &mut Node, at: &At) {
        if !type_fits(schema, &node.value) {
            self.wrong_type(schema, node, at);
            return;
        }
        if let Some(choices) = choices(schema) {
            self.check_choice(&choices, node, at);
            return;
        }
        match &mut node.value {
            Value::Map(entries) => self.check_map(schema, entries, at),
            Value::Seq(items) => self.check_list(schema, items, at),
            Value::String(text) => {
                let text = text.clone();
                self.check_text(schema, &text, at);
            }
            Value::Int(value) => {
                let value = *value as f64;
                self.check_number(schema, value, node, at);
            }
            Value::Float(value) => {
                let value = *value;
                self.check_number(schema, value, node, at);
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_choice(&mut self, choices: &[&Json], node: &Node, at: &At) {
        let json = node.to_json();
        if choices.contains(&&json) {
            return;
        }
        match node.text() {
            Some(text) => {
                let names: Vec<_> = choices.iter().filter_map(|choice| choice.as_str()).collect();
                self.unknown_choice(text, &names, at);
            }
            None => {
                let allowed = list(choices.iter().map(ToString::to_string));
                self.fault(at, format!("{} must be {allowed}, not {}", at.name(), found(node)), None);
            }
        }
    }

    fn unknown_choice(&mut self, wrong: &str, names: &[&str], at: &At) {
        let message = format!("{} can't be `{}`", at.name(), cut(wrong));
        let help = match suggestion(wrong, names.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`? Valid are {}", list(names)),
            None => format!("valid are {}", list(names)),
        };
        self.fault(at, message, Some(help));
    }

    fn check_map(&mut self, schema: &'s Json, entries: &mut [Entry], at: &At) {
        for key in required(schema).filter(|key| entries.iter().all(|entry| entry.key != *key)) {
            let wanted = expected(self.schema, &schema["properties"][key]);
            self.fault(at, format!("{} has no `{key}`", at.name()), Some(format!("give {wanted}")));
        }
        for entry in entries {
            if self.faults.len() >= MOST_FAULTS {
                return;
            }
            let inner = at.key(entry);
            let property = schema["properties"].get(&entry.key);
            match property.or_else(|| schema.get("additionalProperties")) {
                Some(Json::Bool(false)) => {
                    let known: Vec<_> = schema["properties"]
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, _)| key.as_str())
                        .collect();
                    self.unknown_key(&known, &At { span: entry.key_span, ..inner });
                }
                Some(value) => self.check(value, &mut entry.value, &inner),
                None => {}
            }
        }
    }

    fn unknown_key(&mut self, known: &[&str], at: &At) {
        let wrong = at.pointer.rsplit('/').next().unwrap_or_default();
        let help = match (suggestion(wrong, known.iter().copied()), known.is_empty()) {
            (Some(meant), _) => format!("did you mean `{meant}`? Known are {}", list(known)),
            (None, false) => format!("known are {}", list(known)),
            (None, true) => "no keys are known here".to_string(),
        };
        self.fault(at, format!("unknown key {}", at.name()), Some(help));
    }

    fn check_list(&mut self, schema: &'s Json, items: &mut [Node], at: &At) {
        let (min, max) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
        let len = items.len() as u64;
        if min.is_some_and(|min| len < min) || max.is_some_and(|max| len > max) {
            let wanted = match (min, max) {
                (Some(min), Some(max)) if min == max => format!("exactly {min}"),
                (Some(min), Some(max)) => format!("{min} to {max}"),
                (Some(min), None) => format!("at least {min}"),
                (None, max) => format!("at most {}", max.unwrap_or(u64::MAX)),
            };
            self.fault(at, format!("{} must have {wanted} items, not {len}", at.name()), None);
        }
        let prefix = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter_mut().enumerate() {
            if self.faults.len() >= MOST_FAULTS {
                return;
            }
            if let Some(schema) = prefix.get(index).or_else(|| schema.get("items")) {
                let inner = at.item(index, item);
                self.check(schema, item, &inner);
            }
        }
        if schema["uniqueItems"] == true {
            self.check_unique(items, at);
        }
    }

    fn check_unique(&mut self, items: &[Node], at: &At) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if !seen.insert(item.to_json().to_string()) {
                let inner = at.item(index, item);
                self.fault(&inner, format!("{} repeats {}: keep one", inner.name(), found(item)), None);
            }
        }
    }

    fn check_text(&mut self, schema: &'s Json, text: &str, at: &At) {
        let chars = text.chars().count() as u64;
        let short = schema["minLength"].as_u64().is_some_and(|min| chars < min);
        let long = schema["maxLength"].as_u64().is_some_and(|max| chars > max);
        let mismatch = schema["pattern"].as_str().is_some_and(|pattern| {
            let pattern = regex_lite::Regex::new(pattern).expect("patterns in our types are valid");
            !pattern.is_match(text)
        });
        if short || long || mismatch {
            let wanted = expected(self.schema, schema);
            self.fault(at, format!("{} must be {wanted}, not `{}`", at.name(), cut(text)), None);
        }
    }

    fn check_number(&mut self, schema: &'s Json, value: f64, node: &Node, at: &At) {
        let (low, high) = limits(schema);
        let above = low.is_none_or(|limit| match limit {
            Limit::Inclusive(low) => value >= low,
            Limit::Exclusive(low) => value > low,
        });
        let below = high.is_none_or(|limit| match limit {
            Limit::Inclusive(high) => value <= high,
            Limit::Exclusive(high) => value < high,
        });
        let width = match (&node.value, schema["format"].as_str()) {
            (Value::Int(value), Some(format)) if accepts(schema, "integer") => integer_fits(*value, format),
            _ => true,
        };
        if !(above && below) {
            let wanted = expected(self.schema, schema);
            self.fault(at, format!("{} must be {wanted}, not {}", at.name(), found(node)), None);
        } else if !width {
            let format = schema["format"].as_str().unwrap_or_default();
            self.fault(at, format!("{} is too large for {format}: {}", at.name(), found(node)), None);
        }
    }

    fn wrong_type(&mut self, schema: &'s Json, node: &Node, at: &At) {
        let wanted = expected(self.schema, schema);
        let message = match node.value {
            Value::Null => format!("{} is empty: it must be {wanted}", at.name()),
            _ => format!("{} must be {wanted}, not {}", at.name(), found(node)),
        };
        let branches = self.schema.branches(schema);
        self.fault(at, message, type_remedy(&branches, &node.value));
    }

    fn fault(&mut self, at: &At, message: String, help: Option<String>) {
        self.faults.push(Fault { span: at.span, pointer: at.pointer.clone(), message, help });
    }
}

fn type_fits(schema: &Json, value: &Value) -> bool {
    match value {
        Value::Null => accepts(schema, "null"),
        Value::Bool(_) => accepts(schema, "boolean"),
        Value::Int(_) => accepts(schema, "integer") || accepts(schema, "number"),
        Value::Float(_) => accepts(schema, "number"),
        Value::String(_) => accepts(schema, "string"),
        Value::Seq(_) => accepts(schema, "array"),
        Value::Map(_) => accepts(schema, "object"),
    }
}

/// The one key of each map, when every branch is a closed map of one required key.
fn keyed<'s>(branches: &[&'s Json]) -> Option<Vec<(&'s str, &'s Json)>> {
    let only_key = |branch: &&'s Json| {
        let branch: &'s Json = branch;
        let closed = branch["additionalProperties"] == false;
        let properties = branch["properties"].as_object().filter(|map| closed && map.len() == 1)?;
        let (name, _) = properties.iter().next()?;
        required(branch).eq([name.as_str()]).then_some((name.as_str(), branch))
    };
    branches.iter().map(only_key).collect()
}

fn integer_fits(value: i128, format: &str) -> bool {
    match format {
        "uint8" => u8::try_from(value).is_ok(),
        "uint16" => u16::try_from(value).is_ok(),
        "uint32" => u32::try_from(value).is_ok(),
        "uint64" | "uint" => u64::try_from(value).is_ok(),
        "int8" => i8::try_from(value).is_ok(),
        "int16" => i16::try_from(value).is_ok(),
        "int32" => i32::try_from(value).is_ok(),
        "int64" | "int" => i64::try_from(value).is_ok(),
        _ => true,
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
