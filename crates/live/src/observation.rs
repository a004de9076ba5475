//! What a client saw of one exchange. Stamps are taken when bytes are read, before anything is parsed.

use acb_types::Nanos;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// One exchange, from the look for a connection to the end of the answer. What never happened is `None`.
///
/// Times are ns on the client's [`Clock`](crate::Clock). Measures are functions of it: see [`Observation::ttft`] and below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// When the exchange began: a connection was looked for.
    pub begun_ns: Nanos,
    /// When the first byte of the request was handed to the system.
    pub sent_ns: Option<Nanos>,
    /// Which connection carried it.
    pub connection: Connection,
    /// Status of the answer.
    pub status: Option<u16>,
    /// When the end of the answer's head was read.
    pub headers_ns: Option<Nanos>,
    /// When the last byte of the first event was read, whatever it held.
    pub first_event_ns: Option<Nanos>,
    /// Events that carried tokens, in order.
    pub token_events: Vec<TokenEvent>,
    /// When the end of a whole answer was read, after the last token and whatever followed it.
    pub closed_ns: Option<Nanos>,
    /// When the exchange was over for the client, well or badly.
    pub ended_ns: Nanos,
    /// How it ended.
    pub ending: Ending,
    /// The server's own counts, from the last event that had them.
    pub usage: Option<Usage>,
    /// The model that the server says has answered.
    pub model: Option<Box<str>>,
    /// Why generation stopped, in the server's word.
    pub finish_reason: Option<Box<str>>,
    /// What the model wrote in all channels, in order; `None` when it was not asked for. It is never written to a row.
    #[serde(default, skip_serializing)]
    pub text: Option<String>,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// Whether the server says that it only simulates one.
    pub simulated: bool,
}

/// How the connection of an exchange came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Connection {
    /// There was none.
    None,
    /// Made for this exchange.
    New {
        /// From the look for an address to the end of the handshakes.
        connecting_ns: Nanos,
    },
    /// Kept from an earlier exchange.
    Reused,
}

/// An event that carried at least one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEvent {
    /// When its last byte was read.
    pub at_ns: Nanos,
    /// Tokens in it; `None` when the server doesn't say.
    pub tokens: Option<NonZeroU32>,
    /// Where its text stood.
    pub channel: Channel,
}

/// The part of an answer that an event adds to. In an event with several, the first of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// `text` of a completion or `delta.content` of a chat: what a reader sees.
    Content,
    /// `delta.tool_calls`, or the older `delta.function_call`.
    ToolCall,
    /// `delta.reasoning_content` or `delta.reasoning`.
    Reasoning,
    /// A token that decodes to no text.
    Silent,
}

/// What the server counted. A count that it doesn't give is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens in.
    pub prompt_tokens: Option<u32>,
    /// Tokens out.
    pub completion_tokens: Option<u32>,
    /// Tokens in that the prefix cache held.
    pub cached_tokens: Option<u32>,
}

/// How an exchange ended. Only `Ok` enters latency figures; all are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Ending {
    /// Answered in full: at least one token, and its end announced.
    Ok,
    /// Answered with a status other than 200.
    HttpError {
        /// The status.
        status: u16,
        /// The `retry-after` header as sent.
        retry_after: Option<Box<str>>,
        /// The server's message, or the begin of its answer.
        message: Box<str>,
    },
    /// An error told inside an answer of status 200.
    InbandError {
        /// Code or type as the server names it.
        code: Option<Box<str>>,
        /// The server's message.
        message: Box<str>,
    },
    /// The answer broke off: its connection failed, or it ended with neither `[DONE]` nor a finish reason.
    Truncated {
        /// What broke.
        cause: Box<str>,
    },
    /// A whole answer without a single token.
    Empty,
    /// The answer is no event stream of chunks.
    ParseError {
        /// What could not be read.
        message: Box<str>,
    },
    /// Not whole within the call's bound.
    TimedOut,
    /// Given up by the caller.
    Cancelled,
    /// No connection, or one that closed before a byte of the answer.
    ConnectError {
        /// Which step failed.
        fault: ConnectFault,
        /// The system's words, with the address and the remedy.
        message: Box<str>,
    },
}

impl Observation {
    /// An exchange that has just begun, and would end `cancelled` if it ended now.
    #[must_use]
    pub fn begun(begun_ns: Nanos) -> Self {
        Self {
            begun_ns,
            sent_ns: None,
            connection: Connection::None,
            status: None,
            headers_ns: None,
            first_event_ns: None,
            token_events: Vec::new(),
            closed_ns: None,
            ended_ns: begun_ns,
            ending: Ending::Cancelled,
            usage: None,
            model: None,
            finish_reason: None,
            text: None,
            bytes: 0,
            simulated: false,
        }
    }

    /// Passes every text that came from outside through `redacted`.
    pub(crate) fn redact(&mut self, redacted: impl Fn(&str) -> Box<str>) {
        let texts = [self.model.as_mut(), self.finish_reason.as_mut()].into_iter().flatten();
        texts.chain(self.ending.texts()).for_each(|text| *text = redacted(text));
        if let Some(text) = &mut self.text {
            *text = redacted(text).into();
        }
    }
}

impl Ending {
    fn texts(&mut self) -> impl Iterator<Item = &mut Box<str>> {
        let (message, code) = match self {
            Self::HttpError { message, retry_after, .. } => (Some(message), retry_after.as_mut()),
            Self::InbandError { message, code } => (Some(message), code.as_mut()),
            Self::Truncated { cause: message }
            | Self::ParseError { message }
            | Self::ConnectError { message, .. } => (Some(message), None),
            Self::Ok | Self::Empty | Self::TimedOut | Self::Cancelled => (None, None),
        };
        message.into_iter().chain(code)
    }

    /// The class as records and reports name it.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HttpError { .. } => "http_error",
            Self::InbandError { .. } => "inband_error",
            Self::Truncated { .. } => "truncated",
            Self::Empty => "empty",
            Self::ParseError { .. } => "parse_error",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::ConnectError { .. } => "connect_error",
        }
    }
}

/// The step of connecting that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectFault {
    /// The host's name has no address.
    Dns,
    /// Nothing listens there.
    Refused,
    /// The network or the system gave another error.
    Unreachable,
    /// This process or this machine has no descriptor left.
    TooManyFiles,
    /// The server's certificate is out of its dates.
    TlsExpired,
    /// The server's certificate is signed by nobody known, or is for another name.
    TlsUntrusted,
    /// Any other failure of the TLS handshake.
    Tls,
    /// The HTTP handshake failed.
    Http,
    /// The connection closed before a byte of the answer.
    ClosedBeforeAnswer,
}
