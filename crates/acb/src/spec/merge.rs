//! Several files become one tree, left to right, and `--set` arguments change single values of it.

use super::parse::parse;
use super::tree::{Entry, Node, Value};
use super::{Fault, Sources, Span};

/// The keys that name the variant of a tagged map.
const TAGS: [&str; 2] = ["kind", "law"];

/// The key under which the short form of a variant stands once a `--set` argument has made a map of it. No text that
/// is read has it; [`super::validate`] gives it the tag's name.
pub(super) const SHORT_FORM: &str = "";

/// `over` laid on `base`: maps merge key by key, everything else is replaced. A map whose `kind`
/// or `law` changes is replaced as well, because the other keys of the old one mean nothing to the new one.
#[must_use]
pub fn merge(base: Node, over: Node) -> Node {
    let changes = |tag: &str| matches!((base.get(tag), over.get(tag)), (Some(old), Some(new)) if old.value != new.value);
    let kind_changes = TAGS.into_iter().any(changes);
    match (base.value, over.value) {
        (Value::Map(mut entries), Value::Map(changes)) if !kind_changes => {
            for change in changes {
                match entries.iter().position(|entry| entry.key == change.key) {
                    Some(at) => {
                        let old = entries.remove(at);
                        let value = merge(old.value, change.value);
                        entries.insert(at, Entry { key: change.key, key_span: change.key_span, value });
                    }
                    None => entries.push(change),
                }
            }
            Node { value: Value::Map(entries), span: base.span }
        }
        (_, value) => Node { value, span: over.span },
    }
}

/// Applies one `path=value` argument. The value is read as YAML; a key of the path that is not there yet is added,
/// so whether it may exist is left to the schema.
///
/// # Errors
/// When the argument can't be read, or an item of a list that the path selects does not exist.
pub fn set(sources: &mut Sources, tree: &mut Node, argument: &str) -> Result<(), Vec<Fault>> {
    let id = sources.add("--set", argument);
    let whole = sources.span(id, 0..argument.len());
    let Some(equals) = unquoted_equals(argument) else {
        return Err(vec![Fault::new(whole, format!("`{argument}` has no `=`: write --set path=value"))]);
    };
    let value = match argument[equals + 1..].trim() {
        // YAML's own words for no value: a text of nothing else would be an empty document.
        "" | "null" | "~" => Node { value: Value::Null, span: sources.span(id, equals + 1..argument.len()) },
        _ => parse(sources, id, equals + 1)?,
    };
    let steps = steps(&argument[..equals])
        .map_err(|message| vec![Fault::new(whole, message)])?
        .into_iter()
        .map(|(range, name)| (name, sources.span(id, range)))
        .collect::<Vec<_>>();
    *place(tree, &steps).map_err(|fault| vec![fault])? = value;
    Ok(())
}

/// Sets the value at a dotted path in a tree that was not read from a text.
///
/// # Errors
/// When the path can't be read, or selects an item of a list that does not exist.
pub fn set_path(tree: &mut Node, path: &str, value: Node) -> Result<(), String> {
    let span = tree.span;
    let steps: Vec<_> = steps(path)?.into_iter().map(|(_, name)| (name, span)).collect();
    *place(tree, &steps).map_err(|fault| fault.message)? = value;
    Ok(())
}

/// The JSON pointer of what a dotted path selects in a tree; keys that are not there are taken as written.
///
/// # Errors
/// When the path can't be read, or selects an item of a list that does not exist.
pub fn pointer(tree: &Node, path: &str) -> Result<String, String> {
    let mut pointer = String::new();
    let mut node = Some(tree);
    for (_, name) in steps(path)? {
        let (token, next) = match node.map(|node| &node.value) {
            Some(Value::Seq(items)) => {
                let at = item(items, &name)?;
                (at.to_string(), items.get(at))
            }
            _ => (name.clone(), node.and_then(|node| node.get(&name))),
        };
        pointer = super::tree::join(&pointer, &token);
        node = next;
    }
    Ok(pointer)
}

fn unquoted_equals(argument: &str) -> Option<usize> {
    let mut quoted = false;
    argument.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == '=' && !quoted).then_some(at)
    })
}

type Step = (std::ops::Range<usize>, String);

/// Splits `a.b."c.d".0` into its names and their byte ranges.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        let at = path.len() - rest.len();
        let (name, len) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted
                    .find('"')
                    .ok_or_else(|| format!("the path `{path}` has a quote without an end"))?;
                (&quoted[..end], end + 2)
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        if name.trim() != name || name.is_empty() {
            return Err(format!(
                "the path `{path}` has an empty or padded name: write names with dots between"
            ));
        }
        steps.push((at..at + len, name.to_string()));
        rest = &rest[len..];
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(steps),
            None => return Err(format!("the path `{path}` needs a dot after `\"{name}\"`")),
        }
    }
}

fn place<'a>(tree: &'a mut Node, steps: &[(String, Span)]) -> Result<&'a mut Node, Fault> {
    let mut node = tree;
    for (name, span) in steps {
        node = match node.value {
            Value::Seq(ref mut items) => {
                let at = item(items, name).map_err(|message| Fault::new(*span, message))?;
                &mut items[at]
            }
            _ => child(node, name, *span),
        };
    }
    Ok(node)
}

/// The value under a key, added when it is not there. Text becomes the tag of a map: the short form of a variant
/// grows into the long one.
fn child<'a>(node: &'a mut Node, name: &str, span: Span) -> &'a mut Node {
    if !matches!(node.value, Value::Map(_)) {
        let old = std::mem::replace(node, Node { value: Value::Map(Vec::new()), span });
        if let (Value::Map(entries), Value::String(_)) = (&mut node.value, &old.value) {
            entries.push(Entry { key: SHORT_FORM.to_string(), key_span: old.span, value: old });
        }
    }
    let Value::Map(entries) = &mut node.value else {
        unreachable!("anything else was just replaced by a map");
    };
    let at = entries.iter().position(|entry| entry.key == name).unwrap_or_else(|| {
        let value = Node { value: Value::Null, span };
        entries.push(Entry { key: name.to_string(), key_span: span, value });
        entries.len() - 1
    });
    &mut entries[at].value
}

/// The index that a name selects: a number from 0, or the item whose `name` it is.
fn item(items: &[Node], name: &str) -> Result<usize, String> {
    let names = || items.iter().filter_map(|item| item.get("name").and_then(Node::text));
    if let Some(at) = items.iter().position(|item| item.get("name").and_then(Node::text) == Some(name)) {
        return Ok(at);
    }
    match name.parse::<usize>() {
        Ok(at) if at < items.len() => Ok(at),
        _ => {
            let named = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let named = if named.is_empty() { String::new() } else { format!(", or one of {named}") };
            Err(match items.len() {
                0 => format!("`{name}` selects nothing: the list is empty"),
                len => format!("`{name}` selects nothing: give an index from 0 to {}{named}", len - 1),
            })
        }
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
