//! Tokens without a tokenizer: a stated, deterministic rule.
//!
//! - A prompt of token ids has these tokens.
//! - A prompt of text has one token per word; words are parted by white space. A chat has the words of its messages, one
//!   after the other; roles and templates add no token.
//! - An answer's tokens are words `KEY.0 KEY.1 ...`, whose key follows from the prompt and the adapter that served it: the
//!   same question gets the same answer, and another adapter another one. When they come back in a later prompt they are
//!   the tokens that were computed then, so that what is cached of the answer is hit. A client that sends token ids has
//!   no words of an answer to send back: it says beforehand, in `acb_answer_ids`, by which ids it will state the answer.

use acb_types::{ContentId, Prompt, RequestId, Segment};
use std::collections::{BTreeMap, VecDeque};

/// Answers that are remembered.
const MOST_ANSWERS: usize = 100_000;

/// The prompt as the server was asked: text or token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Text(String),
    Ids(Vec<u64>),
}

/// Which request last computed which answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    by_key: BTreeMap<u32, RequestId>,
    order: VecDeque<u32>,
    /// Answers by the prompt before them and their first id.
    stated: BTreeMap<Place, Stated>,
    stated_order: VecDeque<Place>,
}

/// Digest of a prompt's ids, and the id after them.
type Place = (u64, u64);

/// By which ids the answer of a request will be stated.
#[derive(Clone, Debug)]
struct Stated {
    ids: Vec<u64>,
    request: RequestId,
}

impl Answers {
    /// Remembers who computes the answer with this key.
    pub(crate) fn remember(&mut self, key: u32, request: RequestId) {
        if self.by_key.insert(key, request).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST_ANSWERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }

    /// Remembers by which ids the answer to a prompt will be stated.
    pub(crate) fn remember_ids(&mut self, asked: &Asked, ids: &[u64], request: RequestId) {
        let (Asked::Ids(prompt), Some(&first)) = (asked, ids.first()) else { return };
        let place = (prompt.iter().fold(1, chained), first);
        if self.stated.insert(place, Stated { ids: ids.to_vec(), request }).is_none() {
            self.stated_order.push_back(place);
        }
        if self.stated_order.len() > MOST_ANSWERS
            && let Some(oldest) = self.stated_order.pop_front()
        {
            self.stated.remove(&oldest);
        }
    }

    /// The tokens of a prompt.
    pub(crate) fn prompt(&self, asked: &Asked) -> Prompt {
        match asked {
            Asked::Ids(ids) if self.stated.is_empty() => Prompt::new(ids.iter().map(one_id)),
            Asked::Ids(ids) => self.ids(ids),
            Asked::Text(text) => self.words(text),
        }
    }

    fn ids(&self, ids: &[u64]) -> Prompt {
        let mut segments = Vec::new();
        let (mut before, mut rest) = (1, ids);
        while let Some(id) = rest.first() {
            let stated = self.stated.get(&(before, *id));
            let (segment, taken) = match stated {
                Some(Stated { ids, request }) => {
                    let same = ids.iter().zip(rest).take_while(|(own, asked)| own == asked).count();
                    (Segment { content: ContentId::of_output(*request), tokens: same as u32 }, same)
                }
                None => (one_id(id), 1),
            };
            segments.push(segment);
            before = rest[..taken].iter().fold(before, chained);
            rest = &rest[taken..];
        }
        Prompt::new(segments)
    }

    fn words(&self, text: &str) -> Prompt {
        let mut segments: Vec<Segment> = Vec::new();
        let mut next: Option<(u32, u32)> = None;
        for word in text.split_whitespace() {
            let place = answer_word(word);
            if let (Some(last), Some(place)) = (segments.last_mut().filter(|_| place == next), place) {
                last.tokens += 1;
                next = Some((place.0, place.1 + 1));
                continue;
            }
            let known = place.filter(|place| place.1 == 0).and_then(|place| self.by_key.get(&place.0));
            next = known.and(place).map(|(key, _)| (key, 1));
            segments.push(match known {
                Some(&request) => Segment { content: ContentId::of_output(request), tokens: 1 },
                None => one(&[b"word", word.as_bytes()]),
            });
        }
        Prompt::new(segments)
    }
}

/// A token of its own.
fn one(parts: &[&[u8]]) -> Segment {
    Segment { content: ContentId(digest(parts) >> 1), tokens: 1 }
}

fn one_id(id: &u64) -> Segment {
    one(&[b"id".as_slice(), &id.to_le_bytes()])
}

/// The digest of ids with one more.
fn chained(all: u64, id: &u64) -> u64 {
    digest(&[&all.to_le_bytes(), &id.to_le_bytes()])
}

fn digest(parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    });
    let mut word = [0; 8];
    word.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(word)
}

/// A number for a salt or another text that parts caches.
pub(crate) fn salt(text: &str) -> u64 {
    digest(&[b"salt", text.as_bytes()])
}

/// The key of the answer to this prompt under this adapter's name and path (none: base).
pub(crate) fn answer_key(asked: &Asked, adapter: Option<(&str, &str)>) -> u32 {
    let (name, path) = adapter.unwrap_or_default();
    let prompt = match asked {
        Asked::Text(text) => digest(&[text.as_bytes()]),
        Asked::Ids(ids) => ids.iter().fold(1, chained),
    };
    digest(&[name.as_bytes(), path.as_bytes(), &prompt.to_le_bytes()]) as u32
}

/// The text of an answer's token, with the space before it.
pub(crate) fn answer_text(key: u32, index: u32) -> String {
    let space = if index == 0 { "" } else { " " };
    format!("{space}{key:08x}.{index}")
}

/// The key and the place that a word of an answer names.
fn answer_word(word: &str) -> Option<(u32, u32)> {
    let (key, index) = word.split_once('.').filter(|(key, _)| key.len() == 8)?;
    Some((u32::from_str_radix(key, 16).ok()?, index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Asked {
        Asked::Text(text.to_owned())
    }

    #[test]
    fn prompts_share_as_many_tokens_as_their_words_or_ids_agree() {
        let answers = Answers::default();
        let common = |a: &Asked, b: &Asked| answers.prompt(a).common_prefix(&answers.prompt(b));
        assert_eq!(common(&text("a b  c d"), &text("a b c\ne f")), 3);
        assert_eq!(common(&Asked::Ids(vec![1, 2, 3]), &Asked::Ids(vec![1, 2, 4, 5])), 2);
        assert_eq!(common(&text("1 2"), &Asked::Ids(vec![1, 2])), 0);
        assert_eq!(answers.prompt(&text("a a a")).tokens(), 3);
        assert_eq!(answers.prompt(&text(" ")).tokens(), 0);
    }

    #[test]
    fn an_answer_that_comes_back_is_the_tokens_that_were_computed() {
        let mut answers = Answers::default();
        let key = answer_key(&text("q"), Some(("sql", "/sql")));
        answers.remember(key, RequestId(7));
        let words: String = (0..3).map(|index| answer_text(key, index)).collect();
        let prompt = answers.prompt(&text(&format!("q {words} then")));
        let answer = Segment { content: ContentId::of_output(RequestId(7)), tokens: 3 };
        assert_eq!((prompt.tokens(), prompt.segments()[1]), (5, answer));
        let from_the_middle = answers.prompt(&text(&answer_text(key, 1)));
        assert_ne!(from_the_middle.segments()[0].content, answer.content);
    }

    #[test]
    fn an_answer_in_ids_is_what_was_computed_where_its_client_said_so_and_nowhere_else() {
        let mut answers = Answers::default();
        answers.remember_ids(&Asked::Ids(vec![1, 2]), &[8, 9], RequestId(7));
        let tokens =
            |ids: &[u64]| -> Vec<Segment> { answers.prompt(&Asked::Ids(ids.to_vec())).segments().to_vec() };
        let answer = |tokens| Segment { content: ContentId::of_output(RequestId(7)), tokens };
        let after = tokens(&[1, 2, 8, 9, 3]);
        assert_eq!((after.len(), after[2]), (4, answer(2)));
        assert_eq!(tokens(&[1, 2, 8, 5])[2], answer(1));
        assert!(!tokens(&[1, 8, 9]).contains(&answer(2)) && !tokens(&[8, 9]).contains(&answer(2)));
    }

    #[test]
    fn answers_differ_by_prompt_and_by_adapter_and_by_nothing_else() {
        let keys = [
            answer_key(&text("q"), None),
            answer_key(&text("q"), Some(("sql", "/sql"))),
            answer_key(&text("q"), Some(("sql", "/other"))),
            answer_key(&text("r"), None),
            answer_key(&Asked::Ids(vec![1]), None),
        ];
        let mut distinct = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
        assert_eq!(keys[0], answer_key(&text("q"), None));
    }
}
