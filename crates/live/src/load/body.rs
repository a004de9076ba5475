//! From a request of a workload to the JSON that a server reads.
//!
//! A workload's prompt is runs of token identities. They are sent as token ids, or as one common English word per token:
//! the same identity is the same id or word everywhere in a run, so that servers share exactly what the workload shares.
//! Ids are exact. Words are one token each in the usual vocabularies, and the count that a server reports is kept next to ours.
//! Earlier answers in a conversation are stated by the same rule, not by what the server said: all arms ask the same.

use acb_routing::Decision;
use acb_types::{Adapters, ContentId, Prompt, Request, Seed, Segment, Truth};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use std::sync::Arc;

/// Which endpoint of the OpenAI dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// `/v1/completions`.
    #[default]
    Completions,
    /// `/v1/chat/completions`, one user message.
    Chat,
}

impl Api {
    /// The path that requests go to.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// How a server wants to be told of adapters, salts and lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The adapter is the model; nothing that OpenAI's own schema lacks is sent.
    #[default]
    OpenAi,
    /// The adapter is the model; `cache_salt`, `ignore_eos`.
    Vllm,
    /// `base:adapter` (a bare name is silently answered by the base model); `cache_salt`, `ignore_eos`.
    Sglang,
    /// `lora` with a scale for each adapter by its place at server start; `ignore_eos`.
    LlamaCpp,
}

impl Dialect {
    fn has_extras(self) -> bool {
        self != Self::OpenAi
    }

    fn has_salt(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }
}

/// How the tokens of a prompt are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// Token ids from `first`, `count` different ones: exact, for servers that take ids in `prompt`.
    TokenIds {
        /// The least id.
        first: u32,
        /// How many ids there are to choose from, at least 1.
        count: u32,
    },
    /// Words, for servers that take text alone.
    Words,
}

impl Default for PromptForm {
    /// Ids 1,000 to 20,999: in the vocabulary of every model in use, and clear of the special tokens at its begin.
    fn default() -> Self {
        Self::TokenIds { first: 1_000, count: 20_000 }
    }
}

/// How long answers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerLength {
    /// As the workload drew it: `max_tokens` is that, and the end token is ignored where the dialect can say so.
    #[default]
    AsDrawn,
    /// As long as the model likes, up to the request's own bound.
    UpToBound,
}

/// Whether a server is told beforehand by which token ids later prompts state an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// It is not: no real server could do anything with it.
    #[default]
    Untold,
    /// It is, in `acb_answer_ids`: our fake server takes these ids for the tokens that it computed, as the simulator does.
    ToldToFake,
}

/// Text of a request that is not made of token identities: a row of a dataset.
pub type Texts = Arc<dyn Fn(&Request) -> String + Send + Sync>;

/// Everything that turns a request and a decision into a body.
#[derive(Clone)]
pub struct Bodies {
    /// Which endpoint.
    pub api: Api,
    /// How adapters are named.
    pub dialect: Dialect,
    /// Name of the base model, as the server knows it.
    pub model: Arc<str>,
    /// The catalogue; a server knows its adapters by these names.
    pub adapters: Arc<Adapters>,
    /// How prompts are written.
    pub form: PromptForm,
    /// How long answers are.
    pub length: AnswerLength,
    /// A number of this run: prompts of runs with different numbers share no prefix, so that none finds another's cache.
    /// `None`: the same prompts as any other run without.
    pub nonce: Option<u64>,
    /// What is said of answers.
    pub answers: Answers,
    /// Text in place of tokens.
    pub texts: Option<Texts>,
}

impl Bodies {
    /// The body of one request.
    ///
    /// # Panics
    /// When the decision's adapter is not of the catalogue, which only our own bug can cause.
    #[must_use]
    pub fn body(&self, request: &Request, truth: &Truth, decision: Decision) -> Vec<u8> {
        let body = Body { of: self, request, truth, decision };
        serde_json::to_vec(&body).expect("a request has a form in JSON")
    }

    fn model_name(&self, decision: Decision) -> Cow<'_, str> {
        let Some(adapter) = decision.adapter else { return Cow::Borrowed(&self.model) };
        let name = &self.adapters.get(adapter).name;
        match self.dialect {
            Dialect::OpenAi | Dialect::Vllm => Cow::Borrowed(name),
            Dialect::Sglang => Cow::Owned(format!("{}:{name}", self.model)),
            Dialect::LlamaCpp => Cow::Borrowed(&self.model),
        }
    }

    fn loras(&self, decision: Decision) -> Vec<Lora> {
        let scale = |id| if decision.adapter == Some(id) { 1.0 } else { 0.0 };
        self.adapters.iter().map(|adapter| Lora { id: adapter.id.0, scale: scale(adapter.id) }).collect()
    }

    /// The ids by which later prompts state this request's answer.
    fn answer_ids(&self, request: &Request, truth: &Truth) -> Option<Vec<u32>> {
        let (Answers::ToldToFake, PromptForm::TokenIds { first, count }) = (self.answers, self.form) else {
            return None;
        };
        let answer = Segment { content: ContentId::of_output(request.id), tokens: truth.output_tokens };
        Some(token_ids(&Prompt::new([answer]), self.nonce, first, count))
    }

    fn content(&self, request: &Request) -> Content {
        if let Some(texts) = &self.texts {
            let text = texts(request);
            return Content::Text(match self.nonce {
                Some(nonce) => format!("[{nonce:016x}]\n{text}"),
                None => text,
            });
        }
        match (self.form, self.api) {
            (PromptForm::TokenIds { first, count }, Api::Completions) => {
                Content::Ids(token_ids(&request.prompt, self.nonce, first, count))
            }
            _ => Content::Text(words(&request.prompt, self.nonce)),
        }
    }
}

struct Body<'a> {
    of: &'a Bodies,
    request: &'a Request,
    truth: &'a Truth,
    decision: Decision,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { of, request, truth, decision } = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &of.model_name(decision))?;
        let content = of.content(request);
        match of.api {
            Api::Completions => map.serialize_entry("prompt", &content)?,
            Api::Chat => map.serialize_entry("messages", &[Message { role: "user", content }])?,
        }
        let max_tokens = match of.length {
            AnswerLength::AsDrawn => truth.output_tokens,
            AnswerLength::UpToBound => request.max_output_tokens,
        };
        map.serialize_entry("max_tokens", &max_tokens)?;
        map.serialize_entry("temperature", &0)?;
        map.serialize_entry("stream", &true)?;
        map.serialize_entry("stream_options", &StreamOptions { include_usage: true })?;
        if of.dialect.has_extras() && of.length == AnswerLength::AsDrawn {
            map.serialize_entry("ignore_eos", &true)?;
        }
        if let Some(salt) = request.cache_salt.filter(|_| of.dialect.has_salt()) {
            map.serialize_entry("cache_salt", &format!("salt-{salt:x}"))?;
        }
        if let Some(ids) = of.answer_ids(request, truth) {
            map.serialize_entry("acb_answer_ids", &ids)?;
        }
        if of.dialect == Dialect::LlamaCpp {
            map.serialize_entry("lora", &of.loras(decision))?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Content,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Ids(Vec<u32>),
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Lora {
    id: u32,
    scale: f32,
}

/// The token ids of a prompt: as many as it has tokens, the same wherever the identity and the run's number are the same.
#[must_use]
pub fn token_ids(prompt: &Prompt, nonce: Option<u64>, first: u32, count: u32) -> Vec<u32> {
    draws(prompt, nonce).map(|draw| first + (draw % u64::from(count.max(1))) as u32).collect()
}

/// The words of a prompt: as many as it has tokens.
#[must_use]
pub fn words(prompt: &Prompt, nonce: Option<u64>) -> String {
    let mut text = String::with_capacity(prompt.tokens() as usize * 5);
    for draw in draws(prompt, nonce) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[(draw % WORDS.len() as u64) as usize]);
    }
    text
}

/// A number for each token of a prompt, from its identity alone.
fn draws(prompt: &Prompt, nonce: Option<u64>) -> impl Iterator<Item = u64> {
    let seed = Seed(nonce.unwrap_or(0));
    prompt.segments().iter().flat_map(move |segment| {
        let ContentId(content) = segment.content;
        let of_run = Seed(content ^ seed.0.rotate_left(17));
        (0..segment.tokens).map(move |offset| (of_run.unit(u64::from(offset)) * (1u64 << 53) as f64) as u64)
    })
}

/// Common words that start a token of their own in the usual byte-pair and sentence-piece vocabularies.
const WORDS: [&str; 96] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not",
    "he", "this", "are", "or", "his", "from", "at", "which", "but", "have", "an", "had", "they", "you",
    "were", "their", "one", "all", "we", "can", "her", "has", "there", "been", "if", "more", "when", "will",
    "would", "who", "so", "no", "out", "up", "into", "than", "them", "only", "time", "some", "could",
    "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like", "our", "over", "man",
    "me", "even", "most", "made", "after", "also", "did", "many", "before", "must", "through", "back",
    "years", "where", "much", "your", "way", "well", "down", "should", "because", "each", "just", "those",
    "people",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{adapters, workload};
    use acb_routing::Reason;
    use acb_types::{AdapterId, ReplicaId};
    use acb_workload::{Arrivals, RequestSource};
    use serde_json::{Value, json};

    fn bodies(api: Api, dialect: Dialect) -> Bodies {
        Bodies {
            api,
            dialect,
            model: "base".into(),
            adapters: Arc::new(adapters()),
            form: PromptForm::default(),
            length: AnswerLength::default(),
            nonce: None,
            answers: Answers::Untold,
            texts: None,
        }
    }

    fn body(bodies: &Bodies, adapter: Option<u32>) -> Value {
        let mut arrival = workload(Arrivals::Constant { rate_rps: 1.0 }, 1, 1).take().unwrap();
        arrival.request.cache_salt = Some(255);
        let decision =
            Decision { replica: ReplicaId(0), adapter: adapter.map(AdapterId), reason: Reason::RoundRobin };
        serde_json::from_slice(&bodies.body(&arrival.request, &arrival.truth, decision)).unwrap()
    }

    fn prompt(runs: &[(u64, u32)]) -> Prompt {
        Prompt::new(runs.iter().map(|&(content, tokens)| Segment { content: ContentId(content), tokens }))
    }

    #[test]
    fn each_dialect_names_an_adapter_in_its_own_way() {
        let named = |dialect, adapter| body(&bodies(Api::Completions, dialect), adapter)["model"].clone();
        assert_eq!(named(Dialect::Vllm, Some(1)), "b");
        assert_eq!(named(Dialect::OpenAi, None), "base");
        assert_eq!(named(Dialect::Sglang, Some(1)), "base:b");
        let llama = body(&bodies(Api::Completions, Dialect::LlamaCpp), Some(1));
        assert_eq!(llama["model"], "base");
        let scale = |id: u32, scale: f32| json!({"id": id, "scale": scale});
        assert_eq!(llama["lora"], json!([scale(0, 0.0), scale(1, 1.0), scale(2, 0.0)]));
    }

    #[test]
    fn openai_is_sent_nothing_that_it_does_not_know() {
        let plain = body(&bodies(Api::Completions, Dialect::OpenAi), None);
        assert!(plain.get("ignore_eos").is_none() && plain.get("cache_salt").is_none(), "{plain}");
        let vllm = body(&bodies(Api::Completions, Dialect::Vllm), None);
        assert_eq!((&vllm["ignore_eos"], &vllm["cache_salt"]), (&json!(true), &json!("salt-ff")));
        assert_eq!((&vllm["max_tokens"], &vllm["stream"]), (&json!(4), &json!(true)));
        assert_eq!(vllm["stream_options"]["include_usage"], true);
    }

    #[test]
    fn a_prompt_has_as_many_ids_or_words_as_tokens() {
        let ids = body(&bodies(Api::Completions, Dialect::Vllm), None);
        let ids = ids["prompt"].as_array().unwrap();
        assert!(ids.len() == 16 && ids.iter().all(|id| (1_000..21_000).contains(&id.as_u64().unwrap())));
        let chat = body(&bodies(Api::Chat, Dialect::Vllm), None);
        assert_eq!(chat["messages"][0]["content"].as_str().unwrap().split(' ').count(), 16);
    }

    #[test]
    fn ids_agree_exactly_as_far_as_prompts_do() {
        let ids = |runs: &[(u64, u32)], nonce| token_ids(&prompt(runs), nonce, 1_000, 20_000);
        let (short, long) = (ids(&[(7, 40), (1, 10)], None), ids(&[(7, 60)], None));
        assert_eq!(short[..40], long[..40]);
        assert_ne!(short[40..], long[40..50]);
    }

    #[test]
    fn runs_of_another_number_share_nothing_and_one_run_still_shares_within() {
        let ids = |runs: &[(u64, u32)], nonce| token_ids(&prompt(runs), Some(nonce), 1_000, 20_000);
        let same = ids(&[(7, 50)], 1).iter().zip(ids(&[(7, 50)], 2)).filter(|(a, b)| **a == *b).count();
        assert!(same < 3, "{same} of 50 ids agree by chance");
        assert_ne!(ids(&[(7, 50)], 1)[0], ids(&[(7, 50)], 2)[0]);
        assert_eq!(ids(&[(7, 50)], 1)[..20], ids(&[(7, 20), (8, 5)], 1)[..20]);
    }

    #[test]
    fn texts_take_the_place_of_tokens_with_the_runs_number_before_them() {
        let texts: Texts = Arc::new(|request: &Request| format!("row {}", request.id));
        let with = Bodies { texts: Some(texts), nonce: Some(10), ..bodies(Api::Chat, Dialect::OpenAi) };
        assert_eq!(body(&with, None)["messages"][0]["content"], "[000000000000000a]\nrow 0");
    }
}
