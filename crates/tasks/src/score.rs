//! Scorers: how far an answer is right, with nothing for an answer that is not one.
//!
//! Before anything else an answer loses surrounding white space and, when all of it is one fenced block, the fence.
//! Words around the answer ("The depth is 382.") are part of the answer and make it wrong: the instruction forbids them.

use crate::Family;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// From 0 (wrong) to 1 (right).
    pub value: f64,
    /// Whether the answer has the form asked for: a word, an object with exactly the keys asked for and integer
    /// values, lines, an integer.
    pub well_formed: bool,
}

/// Scores an answer of a family against the right one.
///
/// qa: equal after lower-casing and dropping a final full stop. code: equal as integers. json: F1 over (path, value)
/// pairs, worth nothing unless all of it is one JSON object. summary: F1 of the longest common subsequence of lines,
/// worth nothing when there are more lines than titles.
#[must_use]
pub fn score(family: Family, gold: &str, answer: &str) -> Score {
    let answer = unfence(answer.trim());
    match family {
        Family::Qa => qa(gold, answer),
        Family::Json => json(gold, answer),
        Family::Summary => lines(gold, answer),
        Family::Code => integer(gold, answer),
    }
}

/// The inside of a text that is one fenced block, or the text itself.
fn unfence(text: &str) -> &str {
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inside.and_then(|inside| inside.split_once('\n')) {
        Some((tag, body)) if !body.contains("```") && !tag.contains(char::is_whitespace) => body.trim(),
        _ => text,
    }
}

fn qa(gold: &str, answer: &str) -> Score {
    let plain = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    let well_formed = !answer.is_empty() && !answer.contains(char::is_whitespace);
    Score { value: f64::from(!answer.is_empty() && plain(gold) == plain(answer)), well_formed }
}

fn integer(gold: &str, answer: &str) -> Score {
    let value = answer.parse::<i64>().ok();
    let right = value.is_some() && value == gold.trim().parse().ok();
    Score { value: f64::from(right), well_formed: value.is_some() }
}

fn lines(gold: &str, answer: &str) -> Score {
    let items = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_lowercase()).filter(|line| !line.is_empty()).collect()
    };
    let (gold, answer) = (items(gold), items(answer));
    if answer.is_empty() || answer.len() > gold.len() {
        return Score { value: 0.0, well_formed: false };
    }
    let common = longest_common_subsequence(&gold, &answer);
    Score { value: f1(common, answer.len(), gold.len()), well_formed: true }
}

fn longest_common_subsequence(a: &[String], b: &[String]) -> usize {
    let mut best = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = best[j + 1];
            best[j + 1] = if x == y { diagonal + 1 } else { above.max(best[j]) };
            diagonal = above;
        }
    }
    best[b.len()]
}

fn json(gold: &str, answer: &str) -> Score {
    let wrong = Score { value: 0.0, well_formed: false };
    let (Ok(gold), Ok(answer)) = (serde_json::from_str::<Value>(gold), serde_json::from_str::<Value>(answer))
    else {
        return wrong;
    };
    let (Value::Object(gold_keys), Value::Object(keys)) = (&gold, &answer) else { return wrong };
    let well_formed = gold_keys.keys().eq(keys.keys()) && keys.values().all(Value::is_i64);
    let (gold, answer) = (leaves(&gold), leaves(&answer));
    let common = answer.iter().filter(|(path, value)| gold.get(*path) == Some(value)).count();
    Score { value: f1(common, answer.len(), gold.len()), well_formed }
}

/// Values that are neither objects nor arrays, by JSON pointer.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) => open.extend(map.iter().map(|(key, v)| (format!("{path}/{key}"), v))),
            Value::Array(list) => {
                open.extend(list.iter().enumerate().map(|(i, v)| (format!("{path}/{i}"), v)));
            }
            leaf => {
                found.insert(path, leaf.clone());
            }
        }
    }
    found
}

/// Harmonic mean of precision and recall; 0 when nothing is common.
fn f1(common: usize, answered: usize, wanted: usize) -> f64 {
    if common == 0 { 0.0 } else { 2.0 * common as f64 / (answered + wanted) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(family: Family, gold: &str, answer: &str, value: f64, well_formed: bool) {
        assert_eq!(score(family, gold, answer), Score { value, well_formed }, "{family}: {answer:?}");
    }

    #[test]
    fn a_value_is_right_alone_and_wrong_in_a_sentence() {
        check(Family::Qa, "382", " 382.\n", 1.0, true);
        check(Family::Qa, "382", "```\n382\n```", 1.0, true);
        check(Family::Qa, "382", "The depth is 382.", 0.0, false);
        check(Family::Qa, "382", "", 0.0, false);
        check(Family::Code, "220", "220", 1.0, true);
        check(Family::Code, "220", "221", 0.0, true);
        check(Family::Code, "220", "17 * 4 + 152", 0.0, false);
    }

    #[test]
    fn an_object_is_worth_the_f1_of_its_paths() {
        let gold = "{\"depth\": 1, \"mass\": 2}";
        check(Family::Json, gold, "{\"mass\":2,\"depth\":1}", 1.0, true);
        check(Family::Json, gold, "```json\n{\"mass\": 2, \"depth\": 1}\n```", 1.0, true);
        check(Family::Json, gold, "{\"mass\": 2}", 2.0 / 3.0, false);
        check(Family::Json, gold, "{\"mass\": 2, \"depth\": \"1\"}", 0.5, false);
        check(Family::Json, gold, "{\"a\": {\"mass\": 2}}", 0.0, false);
        check(Family::Json, gold, "Here it is: {\"mass\": 2, \"depth\": 1}", 0.0, false);
        check(Family::Json, gold, "{}", 0.0, false);
    }

    #[test]
    fn a_list_is_worth_the_f1_of_what_is_in_order() {
        let gold = "amber fog\nblue ice\nred oak";
        check(Family::Summary, gold, "amber fog\nblue ice\nred oak\n", 1.0, true);
        check(Family::Summary, gold, "blue ice\namber fog\nred oak", 2.0 / 3.0, true);
        check(Family::Summary, gold, "red oak", 0.5, true);
        check(Family::Summary, gold, "Titles:\namber fog\nblue ice\nred oak", 0.0, false);
        check(Family::Summary, gold, "", 0.0, false);
    }
}
