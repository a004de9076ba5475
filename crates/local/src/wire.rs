//! Requests and answers of `/v1/completions` as JSON.

use crate::generate::Stop;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokenizers::Tokenizer;

/// What a client asks. Fields that are not named here change nothing.
#[derive(Deserialize)]
struct Raw {
    model: String,
    prompt: Json,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    ignore_eos: bool,
}

/// A request that can be answered.
pub(crate) struct Ask {
    pub(crate) model: String,
    prompt: Prompt,
    pub(crate) most: usize,
    pub(crate) stream: bool,
    pub(crate) ignore_eos: bool,
}

enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

impl Ask {
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let raw: Raw = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if raw.temperature.is_some_and(|temperature| temperature != 0.0) {
            return Err("temperature: only 0 is here, the likeliest token; leave it out or send 0".to_owned());
        }
        let prompt = match raw.prompt {
            Json::String(text) => Prompt::Text(text),
            list @ Json::Array(_) => Prompt::Tokens(
                serde_json::from_value(list)
                    .map_err(|_| "prompt: one text or one list of token ids".to_owned())?,
            ),
            _ => return Err("prompt: one text or one list of token ids".to_owned()),
        };
        let most = raw.max_tokens.unwrap_or(16);
        Ok(Self { model: raw.model, prompt, most, stream: raw.stream, ignore_eos: raw.ignore_eos })
    }

    /// The prompt's tokens, those of a text with what the tokenizer adds by itself.
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, String> {
        match &self.prompt {
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Text(text) => {
                let encoded = tokenizer.encode(text.as_str(), true);
                Ok(encoded.map_err(|error| format!("prompt: {error}"))?.get_ids().to_vec())
            }
        }
    }
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::Length => "length",
    }
}

fn usage((prompt, tokens): (usize, usize)) -> Json {
    json!({"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens})
}

fn event(value: &Json) -> String {
    format!("data: {value}\n\n")
}

/// One event of a stream.
pub(crate) fn completion_event(model: &str, text: &str, stop: Option<Stop>) -> String {
    let choice = json!({"index": 0, "text": text, "finish_reason": stop.map(reason)});
    event(&json!({"object": "text_completion", "model": model, "choices": [choice]}))
}

/// The counts at the end of a stream: tokens in and out.
pub(crate) fn usage_event(model: &str, counts: (usize, usize)) -> String {
    event(&json!({"object": "text_completion", "model": model, "choices": [], "usage": usage(counts)}))
}

/// An answer that is not streamed.
pub(crate) fn whole_completion(model: &str, text: &str, stop: Stop, counts: (usize, usize)) -> String {
    let choice = json!({"index": 0, "text": text, "finish_reason": reason(stop)});
    let whole =
        json!({"object": "text_completion", "model": model, "choices": [choice], "usage": usage(counts)});
    whole.to_string()
}

/// An error as this dialect tells it.
pub(crate) fn failure(message: &str) -> String {
    json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string()
}

/// The base model and its adapters, each an own model with its parent.
pub(crate) fn listing(base: &str, adapters: &[String]) -> String {
    let mut models = vec![json!({"id": base, "object": "model", "owned_by": "acb-local"})];
    models.extend(
        adapters
            .iter()
            .map(|name| json!({"id": name, "object": "model", "owned_by": "acb-local", "parent": base})),
    );
    json!({"object": "list", "data": models}).to_string()
}
