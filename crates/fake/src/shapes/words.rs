//! Shapes as words: `crlf,tokens=8,ttft-ms=50`.

use super::script::{Channel, Done, Fault, Finish, Flush, Framing, Head, Pieces, Role, Script, Text, Usage};
use acb_types::Nanos;

/// The request header that changes the server's script for one request.
pub const SHAPE_HEADER: &str = "x-acb-shape";

/// A word of a shape that nobody knows, or a value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// No such shape.
    #[error("\"{word}\" is not known; there are: {known}; and settings: {settings}")]
    Unknown {
        /// The word.
        word: String,
        /// All shapes.
        known: String,
        /// All settings.
        settings: String,
    },
    /// A setting's value is not possible.
    #[error("\"{setting}={value}\": the value must be {expected}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What would be possible.
        expected: &'static str,
    },
}

/// A shape that has a name.
#[derive(Clone, Copy, Debug)]
pub struct ShapeInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, one clause.
    pub does: &'static str,
    apply: fn(&mut Script),
}

const fn shape(name: &'static str, does: &'static str, apply: fn(&mut Script)) -> ShapeInfo {
    ShapeInfo { name, does, apply }
}

const LATE: Nanos = Nanos(300_000_000);
const FINISH_LATE: Nanos = Nanos(200_000_000);

const SHAPES: &[ShapeInfo] = &[
    shape("normal", "role and first token in one write, then one event a token", |_| {}),
    shape("role-early", "the role, with empty content, at once", |s| s.role = Role::Early),
    shape("no-role", "no role at all", |s| s.role = Role::Absent),
    shape("head-early", "status and headers at once", |s| s.head = Head::Early),
    shape("coalesce", "the whole body in one write", |s| s.flush = Flush::Coalesced),
    shape("reasoning", "first half in reasoning_content", |s| {
        s.channel = Channel::Reasoning("reasoning_content");
    }),
    shape("reasoning2", "first half in reasoning", |s| s.channel = Channel::Reasoning("reasoning")),
    shape("reasoning-only", "all in reasoning_content, cut by the limit", |s| {
        s.channel = Channel::ReasoningOnly;
    }),
    shape("tool", "tokens are arguments of a tool call", |s| s.channel = Channel::Tool),
    shape("utf8", "events cut inside a three-byte character, 2 ms apart", |s| {
        (s.text, s.pieces) = (Text::Utf8, Pieces::Split);
    }),
    shape("empty-text", "the first token decodes to nothing", |s| s.text = Text::EmptyFirst),
    shape("bigchunk", "the first event has 200 000 characters, or as many as size says", |s| {
        s.text = Text::Big(200_000);
    }),
    shape("crlf", "lines end with CR LF", |s| s.framing = Framing::Crlf),
    shape("lone-cr", "lines end with CR", |s| s.framing = Framing::LoneCr),
    shape("nospace", "no space after data:", |s| s.framing = Framing::NoSpace),
    shape("event-fields", "event, id and retry lines", |s| s.framing = Framing::EventFields),
    shape("comments", "a comment before each event", |s| s.framing = Framing::Comments),
    shape("two-lines", "the data of an event on two lines", |s| s.framing = Framing::TwoLines),
    shape("bom", "a byte order mark first", |s| s.framing = Framing::Bom),
    shape("split", "each event in two writes, 2 ms apart", |s| s.pieces = Pieces::Split),
    shape("usage-last", "usage in a last event with empty choices", |s| s.usage = Usage::Last),
    shape("usage-null", "usage: null in each event, then usage", |s| s.usage = Usage::NullInEach),
    shape("usage-continuous", "usage so far in each event", |s| s.usage = Usage::Continuous),
    shape("usage-wrong", "usage says twice as many tokens", |s| s.usage = Usage::Wrong),
    shape("no-usage", "no usage", |s| s.usage = Usage::Absent),
    shape("finish-apart", "the finish reason in an event of its own, as SGLang", |s| {
        s.finish = Finish::Apart(Nanos::ZERO);
    }),
    shape("finish-late", "the finish reason 200 ms after the last token", |s| {
        s.finish = Finish::Apart(FINISH_LATE);
    }),
    shape("done-late", "[DONE] 300 ms after the last event", |s| s.done = Done::Late(LATE)),
    shape("no-done", "no [DONE]", |s| s.done = Done::Missing),
    shape("conn-linger", "the body ends 300 ms after [DONE]", |s| s.linger_ns = LATE),
    shape("error-mid", "an error event after half the tokens", |s| s.fault = Fault::ErrorMid),
    shape("empty-200", "status 200 without a token", |s| s.fault = Fault::Empty),
    shape("truncate", "the connection cut after half the tokens", |s| s.fault = Fault::Truncate),
    shape("stall", "silence for ever after half the tokens", |s| s.fault = Fault::Stall),
    shape("never-ends", "comments for ever after the tokens", |s| s.fault = Fault::NeverEnds),
    shape("500", "an internal error", |s| s.fault = status(500)),
    shape("429", "too many requests, with retry-after", |s| s.fault = status(429)),
    shape("503", "unavailable, with retry-after", |s| s.fault = status(503)),
    shape("html", "status 200 and an HTML page", |s| s.fault = Fault::Html),
];

fn status(code: u16) -> Fault {
    Fault::Status { code, retry_after_s: (code != 500).then_some(1) }
}

/// All shapes that have a name.
#[must_use]
pub fn shapes() -> &'static [ShapeInfo] {
    SHAPES
}

type Set = fn(&mut Script, &str) -> Option<()>;

/// Settings: name, what its value must be, and what it sets.
const SETTINGS: &[(&str, &str, Set)] = &[
    ("ttft-ms", "a time in ms, 0 or more", |s, v| millis(v).map(|ns| s.ttft_ns = ns)),
    ("itl-ms", "a time in ms, 0 or more", |s, v| millis(v).map(|ns| s.itl_ns = ns)),
    ("tokens", "a count from 1 to 1000000", |s, v| count(v, 1).map(|n| s.tokens = n)),
    ("tokens-per-chunk", "a count from 1 to 1000000", |s, v| count(v, 1).map(|n| s.tokens_per_chunk = n)),
    ("after", "a count of tokens", |s, v| count(v, 0).map(|n| s.after = Some(n))),
    ("size", "a number of characters up to 64000000", |s, v| {
        let size = v.parse().ok().filter(|&size| size <= 64_000_000);
        size.map(|size| s.text = Text::Big(size))
    }),
    ("retry-after", "a number of seconds, after a status such as 429", |s, v| match &mut s.fault {
        Fault::Status { retry_after_s, .. } => v.parse().ok().map(|seconds| *retry_after_s = Some(seconds)),
        _ => None,
    }),
];

fn millis(text: &str) -> Option<Nanos> {
    let millis: f64 = text.parse().ok()?;
    (0.0..=86_400_000.0).contains(&millis).then(|| Nanos::from_millis_f64(millis))
}

fn count(text: &str, least: u32) -> Option<u32> {
    text.parse().ok().filter(|count| (least..=1_000_000).contains(count))
}

impl Script {
    /// Changes the script as words say, separated by commas: shapes by name, settings as `name=value`, left to right.
    ///
    /// # Errors
    /// The first word that is not known or has an impossible value.
    pub fn apply(&mut self, words: &str) -> Result<(), ShapeError> {
        let mut words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.try_for_each(|word| self.apply_word(word))
    }

    fn apply_word(&mut self, word: &str) -> Result<(), ShapeError> {
        if let Some((name, value)) = word.split_once('=') {
            if let Some(&(setting, expected, set)) = SETTINGS.iter().find(|(known, ..)| *known == name) {
                let fault = || ShapeError::Value { setting, value: value.to_owned(), expected };
                return set(self, value).ok_or_else(fault);
            }
        } else if let Some(shape) = SHAPES.iter().find(|shape| shape.name == word) {
            (shape.apply)(self);
            return Ok(());
        }
        Err(ShapeError::Unknown {
            word: word.to_owned(),
            known: SHAPES.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", "),
            settings: SETTINGS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", "),
        })
    }
}
