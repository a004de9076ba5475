//! Whether an answer can be derived from its prompt: found by reading the prompt's text and nothing else.

use crate::passage::KEYS;
use crate::reader::{Facts, number};
use crate::{Family, Sample};
use serde::Serialize;

/// What reading a sample's prompt gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answerability {
    /// The family of the sample.
    pub family: Family,
    /// The answer that the prompt's text leads to; none when it states none, or contradicts itself.
    pub derived: Option<String>,
    /// Whether that is the answer held to be right.
    pub answerable: bool,
}

/// Derives the answer from the prompt's text alone and compares it with the one held to be right.
#[must_use]
pub fn answerability(sample: &Sample) -> Answerability {
    let derived = derive(sample.family, &sample.prompt);
    let answerable = derived.as_deref() == Some(&sample.gold);
    Answerability { family: sample.family, derived, answerable }
}

fn derive(family: Family, prompt: &str) -> Option<String> {
    let facts = Facts::read(prompt);
    match family {
        Family::Qa => {
            let (key, station) = asked(prompt, "What is the ", "?")?.split_once(" of Station ")?;
            let station = facts.station(number(station, 4)?)?;
            Some(station.values[key_index(key)?].to_string())
        }
        Family::Json => {
            let (keys, station) = asked(prompt, "Give the keys ", ".")?.split_once(" of Station ")?;
            let station = facts.station(number(station, 4)?)?;
            let (a, b) = keys.split_once(" and ")?;
            let (a, b) = (a.trim_matches('"'), b.trim_matches('"'));
            let (x, y) = (station.values[key_index(a)?], station.values[key_index(b)?]);
            Some(format!("{{\"{a}\": {x}, \"{b}\": {y}}}"))
        }
        Family::Summary => {
            asked(prompt, "List all section titles", ".")?;
            (!facts.titles.is_empty()).then(|| facts.titles.join("\n"))
        }
        Family::Code => {
            let program = asked(prompt, "What is the result of Program ", "?")?;
            Some(facts.program(number(program, 4)?)?.result.to_string())
        }
    }
}

/// The rest of the question's line after its opening words. An instruction-first prompt runs on after the question.
fn asked<'a>(prompt: &'a str, opening: &str, end: &str) -> Option<&'a str> {
    let line = prompt.lines().find_map(|line| line.strip_prefix(opening))?;
    line.strip_suffix(end)
}

fn key_index(key: &str) -> Option<usize> {
    KEYS.iter().position(|&known| known == key)
}
