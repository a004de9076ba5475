//! What a request to `/v1/completions` or `/v1/chat/completions` asks for.

use crate::dialect::Dialect;
use crate::tokens::Asked;
use serde::Deserialize;

/// Tokens of an answer on `/v1/completions` when nobody says how many (OpenAI's own rule).
const DEFAULT_MAX_TOKENS: u32 = 16;
/// Tokens of a chat's answer when nobody says how many: its model would stop by itself.
const DEFAULT_CHAT_TOKENS: u32 = 128;

/// Which endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
}

/// The body, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Body {
    pub(crate) model: String,
    prompt: Option<PromptField>,
    messages: Option<Vec<Message>>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    pub(crate) stream: bool,
    stream_options: Option<StreamOptions>,
    ignore_eos: bool,
    n: Option<u32>,
    cache_salt: Option<String>,
    extra_key: Option<String>,
    pub(crate) lora_path: Option<String>,
    /// The token ids by which a later prompt will state the answer to this one.
    pub(crate) acb_answer_ids: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PromptField {
    Text(String),
    Ids(Vec<u64>),
    Texts(Vec<String>),
    Lists(Vec<Vec<u64>>),
}

#[derive(Clone, Debug, Deserialize)]
struct Message {
    content: Option<Content>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
    continuous_usage_stats: bool,
}

/// How a stream reports its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageWish {
    Unasked,
    Last,
    Continuous,
}

/// How long an answer may be and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) max_tokens: u32,
    pub(crate) tokens: u32,
}

impl Body {
    /// # Errors
    /// What is wrong with it, for the client.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let body: Self =
            serde_json::from_slice(bytes).map_err(|fault| format!("the body is not a request: {fault}"))?;
        match body.n {
            Some(n) if n != 1 => Err(format!("n is {n}: this simulated server gives one answer a request")),
            _ => Ok(body),
        }
    }

    /// The prompt.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub(crate) fn asked(&self, endpoint: Endpoint) -> Result<Asked, String> {
        if endpoint == Endpoint::Chat {
            let messages = self.messages.as_deref().filter(|messages| !messages.is_empty());
            let messages = messages.ok_or("messages is missing or empty")?;
            let texts = messages.iter().filter_map(|message| message.content.as_ref()).map(Content::text);
            return Ok(Asked::Text(texts.collect::<Vec<_>>().join("\n")));
        }
        match &self.prompt {
            Some(PromptField::Text(text)) => Ok(Asked::Text(text.clone())),
            Some(PromptField::Ids(ids)) if !ids.is_empty() => Ok(Asked::Ids(ids.clone())),
            Some(PromptField::Texts(texts)) if texts.len() == 1 => Ok(Asked::Text(texts[0].clone())),
            Some(PromptField::Lists(lists)) if lists.len() == 1 => Ok(Asked::Ids(lists[0].clone())),
            Some(_) => Err("prompt must be one text or one list of token ids".to_owned()),
            None => Err("prompt is missing".to_owned()),
        }
    }

    /// How long the answer is: `max_tokens`, or what the header `x-acb-output-tokens` says, if that is less and the end
    /// is not ignored. `left` tokens of the context are left by the prompt.
    pub(crate) fn length(&self, endpoint: Endpoint, wished: Option<u32>, left: u32) -> Length {
        let said = self.max_completion_tokens.or(self.max_tokens);
        let (max_tokens, stops_after) = match (said, endpoint) {
            (Some(said), _) => (said, said),
            (None, Endpoint::Completions) => (DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS),
            (None, Endpoint::Chat) => (left.max(1), DEFAULT_CHAT_TOKENS),
        };
        let wished = wished.filter(|_| !self.ignore_eos).unwrap_or(stops_after);
        Length { max_tokens, tokens: wished.min(max_tokens).max(1) }
    }

    pub(crate) fn usage(&self) -> UsageWish {
        match self.stream_options {
            Some(StreamOptions { continuous_usage_stats: true, .. }) => UsageWish::Continuous,
            Some(StreamOptions { include_usage: true, .. }) => UsageWish::Last,
            _ => UsageWish::Unasked,
        }
    }

    /// What parts this request's cache from others', besides its adapter.
    pub(crate) fn salt(&self, dialect: Dialect) -> Option<u64> {
        let extra = self.extra_key.as_deref().filter(|_| dialect == Dialect::Sglang);
        match (self.cache_salt.as_deref(), extra) {
            (None, None) => None,
            (salt, extra) => Some(crate::tokens::salt(&format!(
                "{}\n{}",
                salt.unwrap_or_default(),
                extra.unwrap_or_default()
            ))),
        }
    }
}

impl Content {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Body {
        Body::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn prompts_are_one_text_or_one_list_of_ids() {
        let asked = |text: &str, endpoint| body(text).asked(endpoint);
        assert_eq!(asked(r#"{"prompt": [1, 2]}"#, Endpoint::Completions), Ok(Asked::Ids(vec![1, 2])));
        assert_eq!(asked(r#"{"prompt": [[1, 2]]}"#, Endpoint::Completions), Ok(Asked::Ids(vec![1, 2])));
        assert_eq!(asked(r#"{"prompt": ["a b"]}"#, Endpoint::Completions), Ok(Asked::Text("a b".to_owned())));
        assert!(asked(r#"{"prompt": ["a", "b"]}"#, Endpoint::Completions).is_err());
        assert!(asked("{}", Endpoint::Completions).is_err());
        let chat = r#"{"messages": [{"role": "user", "content": "a"}, {"content": [{"type": "text", "text": "b"}]}, {"content": null}]}"#;
        assert_eq!(asked(chat, Endpoint::Chat), Ok(Asked::Text("a\nb".to_owned())));
        assert!(Body::read(b"{").is_err() && Body::read(br#"{"n": 2}"#).is_err());
    }

    #[test]
    fn an_answer_is_as_long_as_allowed_unless_a_shorter_one_is_asked_for() {
        let length = |text: &str, wished| {
            let length = body(text).length(Endpoint::Completions, wished, 1000);
            (length.max_tokens, length.tokens)
        };
        assert_eq!(length(r#"{"max_tokens": 50}"#, None), (50, 50));
        assert_eq!(length(r#"{"max_tokens": 50}"#, Some(7)), (50, 7));
        assert_eq!(length(r#"{"max_tokens": 50, "ignore_eos": true}"#, Some(7)), (50, 50));
        assert_eq!(length(r#"{"max_tokens": 5}"#, Some(7)), (5, 5));
        assert_eq!(length("{}", None), (16, 16));
        let chat = body("{}").length(Endpoint::Chat, None, 1000);
        assert_eq!((chat.max_tokens, chat.tokens), (1000, 128));
    }

    #[test]
    fn salts_part_caches_and_an_extra_key_does_on_sglang_alone() {
        let salt = |text: &str, dialect| body(text).salt(dialect);
        let (a, b) = (r#"{"cache_salt": "a"}"#, r#"{"cache_salt": "b"}"#);
        assert_ne!(salt(a, Dialect::Vllm), salt(b, Dialect::Vllm));
        assert_eq!(salt("{}", Dialect::Vllm), None);
        let extra = r#"{"extra_key": "t"}"#;
        assert!(salt(extra, Dialect::Vllm).is_none() && salt(extra, Dialect::Sglang).is_some());
    }
}
