//! What one chunk of an OpenAI stream says: text by channel, counts, the end, or an error.
//!
//! Chat and completions are read by one type, since servers mix their fields. Unknown fields are skipped, `null` is absent, and
//! strings are borrowed from the event unless they hold escapes.

use crate::observation::{Channel, Usage};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// A chunk.
#[derive(Debug, Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub model: Option<Words<'a>>,
    #[serde(borrow, default)]
    choices: Option<SmallVec<[Choice<'a>; 1]>>,
    #[serde(default)]
    usage: Option<UsageBody>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(borrow, default)]
    object: Option<Words<'a>>,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    code: Option<Value>,
}

/// An error as a server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub code: Option<String>,
    pub message: String,
}

/// A string, borrowed where it can be.
#[derive(Debug)]
pub(crate) struct Words<'a>(pub Cow<'a, str>);

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    text: Option<Words<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Words<'a>>,
    #[serde(default)]
    token_ids: Option<Length>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta<'a> {
    #[serde(default)]
    role: Option<IgnoredAny>,
    #[serde(borrow, default)]
    content: Option<Words<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Words<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Words<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<SmallVec<[ToolCall<'a>; 1]>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Words<'a>>,
    #[serde(borrow, default)]
    arguments: Option<Words<'a>>,
}

#[derive(Debug, Deserialize)]
struct UsageBody {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

/// How many elements an array has.
#[derive(Clone, Copy, Debug)]
struct Length(u32);

impl<'a> Chunk<'a> {
    /// Reads one event's data.
    pub fn parse(data: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(data)
    }

    /// The channel that its text belongs to.
    pub fn channel(&self) -> Option<Channel> {
        self.choices().iter().filter_map(Choice::channel).min()
    }

    /// Whether a choice has text, but no letter of it, and nothing else that would explain the chunk: a role or the end.
    ///
    /// Such a chunk is sent for a token that decodes to nothing.
    pub fn holds_empty_text(&self) -> bool {
        self.choices().iter().any(Choice::holds_empty_text)
    }

    /// Whether only a token explains it: it has a choice, and that opens no message and ends none.
    pub fn is_of_tokens(&self) -> bool {
        let opens = |choice: &Choice<'_>| choice.delta.as_ref().is_some_and(|delta| delta.role.is_some());
        !self.choices().is_empty() && self.finish_reason().is_none() && !self.choices().iter().any(opens)
    }

    /// Tokens that it lists by identity.
    pub fn listed_tokens(&self) -> u32 {
        self.choices().iter().filter_map(|choice| choice.token_ids).map(|ids| ids.0).sum()
    }

    /// Why generation stopped.
    pub fn finish_reason(&self) -> Option<&str> {
        self.choices().iter().find_map(|choice| choice.finish_reason.as_ref()).map(|words| words.0.as_ref())
    }

    /// What a reader sees of it.
    pub fn visible(&self) -> impl Iterator<Item = &str> {
        self.choices().iter().flat_map(Choice::visible).map(|words| words.0.as_ref())
    }

    /// Its one text that is not empty, and where that stands; `None` when it says anything else that a reader of a stream keeps
    /// (counts, token identities, an end, an error), or when the text had escapes.
    pub fn only_text(&self) -> Option<(Channel, &'a str)> {
        let [choice] = self.choices() else { return None };
        let told = self.usage.is_some() || self.error().is_some();
        if told || choice.finish_reason.is_some() || choice.token_ids.is_some() {
            return None;
        }
        let mut texts = choice.texts().filter(|(_, words)| words.has_letters());
        match (texts.next()?, texts.next()) {
            ((channel, Words(Cow::Borrowed(text))), None) => Some((channel, text)),
            _ => None,
        }
    }

    /// The server's counts.
    pub fn usage(&self) -> Option<Usage> {
        let usage = self.usage.as_ref()?;
        let details = usage.prompt_tokens_details.as_ref();
        Some(Usage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: details.and_then(|details| details.cached_tokens),
        })
    }

    /// The error that it tells: an `error` field, or `object: "error"` as older vLLM servers write.
    pub fn error(&self) -> Option<ServerError> {
        if let Some(error) = &self.error {
            return Some(ServerError::read(error));
        }
        let is_error = self.object.as_ref().is_some_and(|object| object.0 == "error");
        is_error.then(|| ServerError {
            code: self.code.as_ref().and_then(word),
            message: self.message.as_ref().and_then(word).unwrap_or_default(),
        })
    }

    fn choices(&self) -> &[Choice<'a>] {
        self.choices.as_deref().unwrap_or_default()
    }
}

impl ServerError {
    fn read(error: &Value) -> Self {
        let field = |name: &str| error.get(name).and_then(word);
        let message = field("message").or_else(|| word(error)).unwrap_or_else(|| error.to_string());
        Self { code: field("code").or_else(|| field("type")), message }
    }
}

/// A string or a number as text.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl<'a> Choice<'a> {
    fn channel(&self) -> Option<Channel> {
        self.texts().filter(|(_, words)| words.has_letters()).map(|(channel, _)| channel).min()
    }

    /// Every text of it, with where it stands.
    fn texts(&self) -> impl Iterator<Item = (Channel, &Words<'a>)> {
        let of = |channel| move |words| (channel, words);
        let delta = self.delta.iter();
        let calls = delta.clone().flat_map(Delta::calls).flat_map(Function::texts);
        let reasoning = delta.flat_map(|delta| [&delta.reasoning_content, &delta.reasoning]).flatten();
        let visible = self.visible().map(of(Channel::Content));
        visible.chain(calls.map(of(Channel::ToolCall))).chain(reasoning.map(of(Channel::Reasoning)))
    }

    fn visible(&self) -> impl Iterator<Item = &Words<'a>> {
        self.text.iter().chain(self.delta.iter().flat_map(|delta| &delta.content))
    }

    fn holds_empty_text(&self) -> bool {
        if self.finish_reason.is_some() {
            return false;
        }
        match &self.delta {
            None => self.text.is_some(),
            Some(delta) if delta.role.is_some() => false,
            Some(delta) => {
                [&delta.content, &delta.reasoning_content, &delta.reasoning].into_iter().any(Option::is_some)
            }
        }
    }
}

impl<'a> Delta<'a> {
    fn calls(&self) -> impl Iterator<Item = &Function<'a>> {
        let tools = self.tool_calls.iter().flatten().filter_map(|call| call.function.as_ref());
        tools.chain(&self.function_call)
    }
}

impl<'a> Function<'a> {
    fn texts(&self) -> impl Iterator<Item = &Words<'a>> {
        [&self.name, &self.arguments].into_iter().flatten()
    }
}

impl Words<'_> {
    fn has_letters(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Words<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Words<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Words(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Words(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;
        impl<'de> Visitor<'de> for Counter {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
                let mut length = 0;
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                Ok(Length(length))
            }
        }
        deserializer.deserialize_seq(Counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(json: &str) -> Chunk<'_> {
        Chunk::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    fn check(choice: &str, expected: Option<Channel>) {
        let json = format!(r#"{{"id":"x","choices":[{choice}],"usage":null}}"#);
        assert_eq!(chunk(&json).channel(), expected, "{choice}");
    }

    #[test]
    fn text_is_found_in_every_channel() {
        check(r#"{"text":"a"}"#, Some(Channel::Content));
        check(r#"{"delta":{"content":"a"}}"#, Some(Channel::Content));
        check(r#"{"delta":{"content":"\n"}}"#, Some(Channel::Content));
        check(r#"{"delta":{"content":null,"reasoning_content":"a"}}"#, Some(Channel::Reasoning));
        check(r#"{"delta":{"content":"","reasoning":"a"}}"#, Some(Channel::Reasoning));
        check(
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}"#,
            Some(Channel::ToolCall),
        );
        check(
            r#"{"delta":{"tool_calls":[{"function":{"name":"f","arguments":""}}]}}"#,
            Some(Channel::ToolCall),
        );
        check(r#"{"delta":{"function_call":{"arguments":"1"}}}"#, Some(Channel::ToolCall));
        check(r#"{"delta":{"content":"a","reasoning":"b"}}"#, Some(Channel::Content));
    }

    #[test]
    fn a_chunk_without_a_letter_has_no_channel() {
        for choice in [
            r#"{"text":""}"#,
            r#"{"delta":{}}"#,
            r#"{"delta":null}"#,
            r#"{"delta":{"role":"assistant","content":""}}"#,
            r#"{"delta":{"tool_calls":[]}}"#,
            r#"{"delta":{"tool_calls":[{"id":"c","function":{"arguments":""}}]}}"#,
        ] {
            check(choice, None);
        }
        assert_eq!(chunk(r#"{"choices":[]}"#).channel(), None);
        assert_eq!(chunk(r#"{"choices":null}"#).channel(), None);
        assert_eq!(chunk("{}").channel(), None);
    }

    #[test]
    fn empty_text_is_a_token_unless_a_role_or_the_end_explains_it() {
        let empty = |choice: &str| chunk(&format!(r#"{{"choices":[{choice}]}}"#)).holds_empty_text();
        assert!(empty(r#"{"text":"","finish_reason":null}"#));
        assert!(empty(r#"{"delta":{"content":"","role":null}}"#));
        assert!(empty(r#"{"delta":{"reasoning_content":"","content":null}}"#));
        assert!(!empty(r#"{"delta":{"role":"assistant","content":""}}"#));
        assert!(!empty(r#"{"delta":{"content":""},"finish_reason":"stop"}"#));
        assert!(!empty(r#"{"text":"","finish_reason":"length"}"#));
        assert!(!empty(r#"{"delta":{}}"#));
        assert!(!chunk(r#"{"choices":[],"usage":{}}"#).holds_empty_text());
    }

    #[test]
    fn the_first_chunk_the_last_and_the_counts_are_not_of_tokens() {
        let of_tokens = |choices: &str| chunk(&format!(r#"{{"choices":[{choices}]}}"#)).is_of_tokens();
        assert!(of_tokens(r#"{"delta":{}}"#) && of_tokens(r#"{"text":"a"}"#));
        assert!(!of_tokens("") && !of_tokens(r#"{"delta":{"role":"assistant"}}"#));
        assert!(!of_tokens(r#"{"delta":{},"finish_reason":"stop"}"#));
    }

    #[test]
    fn usage_is_read_whole_in_part_or_not_at_all() {
        let usage = |json: &str| chunk(&format!(r#"{{"usage":{json}}}"#)).usage();
        assert_eq!(usage("null"), None);
        assert_eq!(usage("{}"), Some(Usage::default()));
        let whole = r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}"#;
        let expected = Usage { prompt_tokens: Some(5), completion_tokens: Some(2), cached_tokens: Some(4) };
        assert_eq!(usage(whole), Some(expected));
        let no_cache = usage(r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":null}}"#);
        assert_eq!(no_cache, Some(Usage { prompt_tokens: Some(5), ..Usage::default() }));
        assert_eq!(usage(r#"{"prompt_tokens_details":null}"#), Some(Usage::default()));
    }

    #[test]
    fn an_error_is_read_in_each_form_that_servers_write() {
        let error = |json: &str| chunk(json).error().map(|error| (error.code, error.message));
        let told = |code: Option<&str>, message: &str| Some((code.map(str::to_owned), message.to_owned()));
        assert_eq!(error(r#"{"error":{"message":"m","type":"t","code":500}}"#), told(Some("500"), "m"));
        assert_eq!(error(r#"{"error":{"message":"m","type":"t","code":null}}"#), told(Some("t"), "m"));
        assert_eq!(error(r#"{"error":"m"}"#), told(None, "m"));
        assert_eq!(error(r#"{"error":{"detail":1}}"#), told(None, r#"{"detail":1}"#));
        assert_eq!(error(r#"{"object":"error","message":"m","code":400}"#), told(Some("400"), "m"));
        assert_eq!(error(r#"{"error":null,"object":"chat.completion.chunk","code":0}"#), None);
    }

    #[test]
    fn token_identities_are_counted_and_strings_without_escapes_are_borrowed() {
        let json = r#"{"model":"m","choices":[{"text":"ab","token_ids":[1,2,3]}]}"#;
        let read = chunk(json);
        assert_eq!(read.listed_tokens(), 3);
        assert!(matches!(read.model, Some(Words(Cow::Borrowed("m")))));
        assert_eq!(chunk(r#"{"choices":[{"text":"a\nb"}]}"#).visible().collect::<String>(), "a\nb");
    }

    #[test]
    fn what_is_no_chunk_is_an_error() {
        for json in ["", "x", "[1", r#"{"choices":[{"text":7}]}"#, r#"{"usage":{"completion_tokens":-1}}"#] {
            assert!(Chunk::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
