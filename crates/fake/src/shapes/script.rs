//! What a scripted answer is like.

use acb_types::Nanos;

/// An answer: when its tokens come, and the shape of what carries them. The default is the base stream of
/// `docs/load_generation.md`: 16 tokens, the first after 100 ms, then one every 20 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// From the request's head to its first token.
    pub ttft_ns: Nanos,
    /// Between two tokens.
    pub itl_ns: Nanos,
    /// Tokens of the answer.
    pub tokens: u32,
    /// Tokens that one event carries (speculative decoding).
    pub tokens_per_chunk: u32,
    /// Tokens after which a fault strikes; absent: half of them.
    pub after: Option<u32>,
    /// Whether each event is a write of its own.
    pub flush: Flush,
    /// When the status line goes out.
    pub head: Head,
    /// When the role of a chat message is sent.
    pub role: Role,
    /// Which field of the delta carries the tokens.
    pub channel: Channel,
    /// What the tokens say.
    pub text: Text,
    /// How an event is written down.
    pub framing: Framing,
    /// How an event is cut into writes.
    pub pieces: Pieces,
    /// How tokens are reported.
    pub usage: Usage,
    /// Where the reason of the end is.
    pub finish: Finish,
    /// When `[DONE]` comes.
    pub done: Done,
    /// How long the body stays open after its last byte.
    pub linger_ns: Nanos,
    /// What goes wrong.
    pub fault: Fault,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            ttft_ns: Nanos::from_millis(100),
            itl_ns: Nanos::from_millis(20),
            tokens: 16,
            tokens_per_chunk: 1,
            after: None,
            flush: Flush::Each,
            head: Head::WithFirst,
            role: Role::WithFirst,
            channel: Channel::Content,
            text: Text::Plain,
            framing: Framing::Plain,
            pieces: Pieces::Whole,
            usage: Usage::Last,
            finish: Finish::WithLast,
            done: Done::Sent,
            linger_ns: Nanos::ZERO,
            fault: Fault::None,
        }
    }
}

/// Whether each event is a write of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Each.
    Each,
    /// The whole body is one write, when its last token is due.
    Coalesced,
}

/// When the status line and the headers go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// With the first event.
    WithFirst,
    /// At once.
    Early,
}

/// When the role of a chat message is sent (never on `/v1/completions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In the write of the first token, in an event of its own.
    WithFirst,
    /// At once, with empty content.
    Early,
    /// Not at all.
    Absent,
}

/// Which field of a chat delta carries the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// `content`.
    Content,
    /// The first half in this field (`reasoning_content` or `reasoning`), the rest in `content`.
    Reasoning(&'static str),
    /// All in `reasoning_content`, until the limit.
    ReasoningOnly,
    /// `tool_calls[0].function.arguments`.
    Tool,
}

/// What the tokens say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// `" tok"` each.
    Plain,
    /// Characters of two and three bytes.
    Utf8,
    /// The first token decodes to nothing, and its event carries an empty text.
    EmptyFirst,
    /// The first event carries this many characters.
    Big(u32),
}

/// How an event is written down: all of these say the same by the WHATWG grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `data: {..}` and an empty line, LF.
    Plain,
    /// CR LF.
    Crlf,
    /// CR alone.
    LoneCr,
    /// No space after `data:`.
    NoSpace,
    /// With `event:`, `id:` and `retry:` lines.
    EventFields,
    /// A comment before each event.
    Comments,
    /// The data on two lines.
    TwoLines,
    /// A byte order mark before the first event.
    Bom,
}

/// How an event is cut into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// One write.
    Whole,
    /// Two writes, 2 ms apart; inside a character where it has one of several bytes.
    Split,
}

/// How tokens are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// In a last event whose `choices` is empty.
    Last,
    /// As `Last`, and `usage: null` in each event before.
    NullInEach,
    /// The tokens so far in each event.
    Continuous,
    /// Not at all.
    Absent,
    /// Twice as many as there are.
    Wrong,
}

/// Where the reason of the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// In the event of the last token, as vLLM does.
    WithLast,
    /// In an event without content, so long after the last token (SGLang: at once).
    Apart(Nanos),
}

/// When `[DONE]` comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// After the last event.
    Sent,
    /// So long after the last event.
    Late(Nanos),
    /// Never; the body ends.
    Missing,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// An error event in the stream, then `[DONE]`.
    ErrorMid,
    /// Status 200 and `[DONE]`, without a token.
    Empty,
    /// The connection is cut.
    Truncate,
    /// Silence for ever.
    Stall,
    /// The body never ends: a comment every 10 ms.
    NeverEnds,
    /// An error status with a JSON body.
    Status {
        /// The status.
        code: u16,
        /// Seconds of `retry-after`; absent: no such header.
        retry_after_s: Option<u32>,
    },
    /// Status 200 and an HTML page, as a proxy in between would send.
    Html,
}
