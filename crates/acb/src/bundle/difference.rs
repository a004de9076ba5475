//! Where two documents that should be the same part.

use serde_json::Value as Json;

/// The first place at which two texts differ: a JSON pointer where both are JSON, a line otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The place.
    pub place: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// Longest text of a difference, characters.
const LONGEST: usize = 120;

/// The first difference; `None` when the bytes are the same.
#[must_use]
pub fn difference(expected: &[u8], found: &[u8]) -> Option<Difference> {
    if expected == found {
        return None;
    }
    let json = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).ok();
    let in_json = json(expected).zip(json(found)).and_then(|(a, b)| in_json(&a, &b, String::new()));
    Some(in_json.unwrap_or_else(|| in_lines(expected, found)))
}

fn in_json(expected: &Json, found: &Json, at: String) -> Option<Difference> {
    let none = &Json::Null;
    match (expected, found) {
        (Json::Object(a), Json::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                in_json(a.get(name).unwrap_or(none), b.get(name).unwrap_or(none), format!("{at}/{name}"))
            })
        }
        (Json::Array(a), Json::Array(b)) => (0..a.len().max(b.len()))
            .find_map(|n| in_json(a.get(n).unwrap_or(none), b.get(n).unwrap_or(none), format!("{at}/{n}"))),
        _ if expected == found => None,
        _ => Some(Difference {
            place: if at.is_empty() { "/".to_owned() } else { at },
            expected: shown(&expected.to_string()),
            found: shown(&found.to_string()),
        }),
    }
}

fn in_lines(expected: &[u8], found: &[u8]) -> Difference {
    let (expected, found) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(found));
    let lines = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (lines(&expected), lines(&found));
    let differs = |n: &usize| a.get(*n) != b.get(*n);
    let n = (0..a.len().max(b.len())).find(differs).unwrap_or(0);
    let line = |lines: &[String]| {
        lines.get(n).map_or("no such line".to_owned(), |line| format!("\"{}\"", shown(line)))
    };
    Difference { place: format!("line {}", n + 1), expected: line(&a), found: line(&b) }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    let dots = if short.len() < text.len() { " ..." } else { "" };
    format!("{}{dots}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, found: &str, place: &str) {
        let difference = difference(expected.as_bytes(), found.as_bytes());
        assert_eq!(difference.map(|d| d.place).as_deref(), Some(place), "{expected} {found}");
    }

    #[test]
    fn the_first_difference_is_named_by_pointer_or_line() {
        assert_eq!(difference(b"x", b"x"), None);
        check("{\"a\":{\"b\":[1,2]}}", "{\"a\":{\"b\":[1,3]}}", "/a/b/1");
        check("{\"a\":1}", "{}", "/a");
        check("{}", "{\"z\":1}", "/z");
        check("[1]", "[1,2]", "/1");
        check("{\"a\":1}", "{\"a\": 1}", "line 1");
        check("one\ntwo\n", "one\n2\n", "line 2");
        check("one\n", "one", "line 2");
    }
}
