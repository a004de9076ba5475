//! Prompts from files: ShareGPT conversations and JSON lines.

use miette::miette;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Most rows that are kept: they are held in memory.
const MOST_ROWS: usize = 100_000;
/// Characters of English per token: the usual rule of thumb, only used where nothing better is known.
const CHARACTERS_PER_TOKEN: usize = 4;

/// A prompt of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its text.
    pub text: String,
    /// Tokens of it, estimated: the server's own count is recorded.
    pub prompt_tokens: u32,
    /// Tokens of its recorded answer; estimated for ShareGPT.
    pub answer_tokens: Option<u32>,
}

impl Row {
    fn new(text: String, answer_tokens: Option<u32>) -> Self {
        Self { prompt_tokens: estimate(&text), text, answer_tokens }
    }
}

fn estimate(text: &str) -> u32 {
    (text.chars().count().div_ceil(CHARACTERS_PER_TOKEN).max(1)).try_into().unwrap_or(u32::MAX)
}

/// One line of a JSONL file.
#[derive(Deserialize)]
struct Line {
    prompt: String,
    #[serde(alias = "max_tokens")]
    output_tokens: Option<u32>,
}

/// The first rows of a file of JSON lines with `prompt` and, if known, `output_tokens`.
///
/// # Errors
/// When the file can't be read, a line is no such object, or there is none.
pub fn jsonl(path: &Path) -> miette::Result<Vec<Row>> {
    let file = File::open(path).map_err(|error| miette!("{}: {error}", path.display()))?;
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()).take(MOST_ROWS) {
        let line = line.map_err(|error| miette!("{}:{number}: {error}", path.display()))?;
        if line.trim().is_empty() {
            continue;
        }
        let Line { prompt, output_tokens } = serde_json::from_str(&line).map_err(|error| {
            miette!(
                "{}:{number}: {error}; a line is an object with \"prompt\" and maybe \"output_tokens\"",
                path.display()
            )
        })?;
        rows.push(Row::new(prompt, output_tokens.filter(|tokens| *tokens > 0)));
    }
    some(rows, path)
}

/// First question and answer of each conversation of a ShareGPT file, read as a stream.
///
/// # Errors
/// When the file can't be read, is no list of conversations, or none begins with a question and an answer.
pub fn sharegpt(path: &Path) -> miette::Result<Vec<Row>> {
    let file = File::open(path).map_err(|error| miette!("{}: {error}", path.display()))?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, file));
    let read = Conversations.deserialize(&mut json);
    let rows = read.map_err(|error| {
        miette!("{}: {error}; a ShareGPT file is a list of objects with \"conversations\"", path.display())
    })?;
    some(rows, path)
}

fn some(rows: Vec<Row>, path: &Path) -> miette::Result<Vec<Row>> {
    match rows.is_empty() {
        true => Err(miette!("{}: holds no prompt; name a file that does", path.display())),
        false => Ok(rows),
    }
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation", default)]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    value: String,
}

/// Keeps the rows of a list while it is read, and passes over what comes after the last one wanted.
struct Conversations;

impl<'de> DeserializeSeed<'de> for Conversations {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Conversations {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while rows.len() < MOST_ROWS {
            let Some(Conversation { conversations }) = list.next_element()? else { return Ok(rows) };
            let mut turns = conversations.into_iter();
            if let (Some(question), Some(answer)) = (turns.next(), turns.next())
                && !question.value.is_empty()
            {
                rows.push(Row::new(question.value, Some(estimate(&answer.value))));
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        if rows.is_empty() { Err(A::Error::custom("no conversation")) } else { Ok(rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn the_first_question_and_answer_of_each_conversation_are_kept() {
        let written = file(
            r#"[{"id":"a","conversations":[{"from":"human","value":"eight ch"},{"from":"gpt","value":"ok"}]},
                {"conversations":[{"from":"human","value":"alone"}]}, {"conversations":[]}]"#,
        );
        let rows = sharegpt(written.path()).unwrap();
        assert_eq!(rows, [Row { text: "eight ch".into(), prompt_tokens: 2, answer_tokens: Some(1) }]);
        assert!(sharegpt(file("{}").path()).unwrap_err().to_string().contains("list of"));
    }

    #[test]
    fn a_faulty_line_is_named() {
        let rows =
            jsonl(file("{\"prompt\":\"a b\",\"output_tokens\":7}\n\n{\"prompt\":\"c\"}\n").path()).unwrap();
        assert_eq!(rows.iter().map(|row| row.answer_tokens).collect::<Vec<_>>(), [Some(7), None]);
        let error = jsonl(file("{\"prompt\":\"a\"}\n{\"text\":1}\n").path()).unwrap_err().to_string();
        assert!(error.contains(":2:"), "{error}");
        assert!(jsonl(file("").path()).is_err());
    }
}
