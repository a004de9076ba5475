//! The answer's body as it comes: pieces with the stamp of their read go in, an [`Observation`]'s figures come out.
//!
//! No socket and no clock: the same pieces give the same figures, which is how they are tested to the nanosecond.

use crate::delta::{Chunk, ServerError};
use crate::observation::{Channel, Ending, Observation, TokenEvent, Usage};
use crate::sse::{SseDecoder, SseEvent};
use crate::template::Template;
use acb_types::Nanos;
use std::num::NonZeroU32;

/// Token events of one answer, beyond which it is taken for one that never ends.
pub const TOKEN_EVENT_LIMIT: usize = 1 << 22;

/// Whether an answer's text is worth its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Text {
    /// Count and stamp, keep nothing.
    #[default]
    Dropped,
    /// Keep what the model wrote, for a scorer or a comparison.
    Kept,
}

/// How the body came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// Whole, at this time.
    Closed(Nanos),
    /// The connection failed, or the body was cut.
    Broken(Box<str>),
    /// The call's bound passed.
    TimedOut,
    /// The caller gave up.
    Cancelled,
}

/// Whether more of the body is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Read on.
    More,
    /// What came is no event stream: close the connection.
    Nothing,
}

/// The reader of one streamed answer.
#[derive(Clone, Debug, Default)]
pub struct StreamReader {
    decoder: SseDecoder,
    seen: Seen,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    first_event_ns: Option<Nanos>,
    token_events: Vec<TokenEvent>,
    usage: Option<Usage>,
    /// The server's running count at the last token event.
    counted: u32,
    counts: Counts,
    model: Option<Box<str>>,
    finish_reason: Option<Box<str>>,
    text: Option<String>,
    bytes: u64,
    done: bool,
    error: Option<ServerError>,
    unreadable: Option<String>,
    template: Option<Template>,
}

/// How far the token counts of single events can be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Counts {
    /// Every token event so far raised the server's running count, or none is running.
    #[default]
    Rising,
    /// A token event left the running count where it was: it does not run with the stream.
    Stuck,
    /// Events list their tokens one by one.
    Listed,
}

impl StreamReader {
    /// A reader at the begin of a body.
    #[must_use]
    pub fn new(text: Text) -> Self {
        let seen = Seen { text: (text == Text::Kept).then(String::new), ..Seen::default() };
        Self { decoder: SseDecoder::default(), seen }
    }

    /// Reads the next piece, which came at `at`.
    pub fn read(&mut self, at: Nanos, mut piece: &[u8]) -> Wanted {
        self.seen.bytes += piece.len() as u64;
        loop {
            match self.decoder.next(&mut piece) {
                Ok(Some(event)) => self.seen.event(at, event),
                Ok(None) => break,
                Err(error) => self.seen.unreadable = Some(error.to_string()),
            }
            if self.seen.unreadable.is_some() {
                return Wanted::Nothing;
            }
        }
        Wanted::More
    }

    /// Whether a token has come.
    #[must_use]
    pub fn has_token(&self) -> bool {
        !self.seen.token_events.is_empty()
    }

    /// Writes what was seen into `observation`, its ending included. `ended_ns` stays the caller's.
    pub fn finish(self, end: BodyEnd, observation: &mut Observation) {
        let mut seen = self.seen;
        if seen.counts == Counts::Stuck {
            seen.token_events.iter_mut().for_each(|event| event.tokens = None);
        }
        if let BodyEnd::Closed(at) = end {
            observation.closed_ns = Some(at);
        }
        observation.ending = seen.ending(end);
        observation.first_event_ns = seen.first_event_ns;
        observation.token_events = seen.token_events;
        observation.usage = seen.usage;
        observation.model = seen.model;
        observation.finish_reason = seen.finish_reason;
        observation.text = seen.text;
        observation.bytes = seen.bytes;
    }
}

impl Seen {
    fn event(&mut self, at: Nanos, event: SseEvent<'_>) {
        self.first_event_ns.get_or_insert(at);
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let told = event.name == b"error";
        let known = self.template.as_ref().filter(|_| !told).and_then(|template| template.text(data));
        if let Some((channel, text)) = known {
            return self.text(at, channel, text);
        }
        match Chunk::parse(data) {
            Ok(chunk) => {
                self.chunk(at, &chunk);
                self.template = Template::of(&chunk, data, self.template.take());
            }
            Err(_) if told => {}
            Err(error) => self.unclear(at, data, &error),
        }
        if told && self.error.is_none() {
            self.error = Some(ServerError { code: None, message: excerpt(data) });
        }
    }

    /// Reads data that is no JSON as it stands: bytes that are no UTF-8 become replacement characters, as the grammar says.
    fn unclear(&mut self, at: Nanos, data: &[u8], error: &serde_json::Error) {
        if std::str::from_utf8(data).is_err() {
            let text = String::from_utf8_lossy(data);
            if let Ok(chunk) = Chunk::parse(text.as_bytes()) {
                return self.chunk(at, &chunk);
            }
        }
        self.unreadable = Some(format!("an event's data is no chunk ({error}): {}", excerpt(data)));
    }

    fn chunk(&mut self, at: Nanos, chunk: &Chunk<'_>) {
        if let Some(error) = chunk.error() {
            self.error.get_or_insert(error);
            return;
        }
        self.usage = chunk.usage().or(self.usage);
        if let (None, Some(model)) = (&self.model, &chunk.model) {
            self.model = Some(model.0.as_ref().into());
        }
        if let Some(reason) = chunk.finish_reason() {
            self.finish_reason = Some(reason.into());
        }
        if let Some(text) = &mut self.text {
            text.extend(chunk.visible());
        }
        self.tokens(at, chunk);
    }

    /// A chunk of the template's with this text.
    fn text(&mut self, at: Nanos, channel: Channel, text: &str) {
        if let (Some(kept), Channel::Content) = (&mut self.text, channel) {
            kept.push_str(text);
        }
        self.token_event(TokenEvent { at_ns: at, tokens: None, channel });
    }

    fn tokens(&mut self, at: Nanos, chunk: &Chunk<'_>) {
        let listed = chunk.listed_tokens();
        let counted = chunk.usage().and_then(|usage| usage.completion_tokens);
        let rise = counted.map(|counted| counted.saturating_sub(self.counted));
        // The end-of-sequence token of the last chunk is counted and is no part of the text: it makes no event.
        let evidence = listed > 0 || (rise > Some(0) && chunk.is_of_tokens());
        let silent = (evidence || chunk.holds_empty_text()).then_some(Channel::Silent);
        let Some(channel) = chunk.channel().or(silent) else { return };
        self.counted = counted.unwrap_or(self.counted);
        self.counts = match (self.counts, rise) {
            _ if listed > 0 => Counts::Listed,
            (Counts::Rising, Some(0)) => Counts::Stuck,
            (counts, _) => counts,
        };
        let tokens = NonZeroU32::new(if listed > 0 { listed } else { rise.unwrap_or(0) });
        self.token_event(TokenEvent { at_ns: at, tokens, channel });
    }

    fn token_event(&mut self, event: TokenEvent) {
        self.token_events.push(event);
        if self.token_events.len() >= TOKEN_EVENT_LIMIT {
            self.unreadable = Some(format!("the answer has {TOKEN_EVENT_LIMIT} token events and goes on"));
        }
    }

    fn ending(&mut self, end: BodyEnd) -> Ending {
        if let Some(error) = self.error.take() {
            return Ending::InbandError { code: error.code.map(Into::into), message: error.message.into() };
        }
        if let Some(message) = self.unreadable.take() {
            return Ending::ParseError { message: message.into() };
        }
        let whole = if self.token_events.is_empty() { Ending::Empty } else { Ending::Ok };
        match end {
            _ if self.done => whole,
            BodyEnd::Closed(_) if whole == Ending::Empty || self.finish_reason.is_some() => whole,
            BodyEnd::Closed(_) => {
                Ending::Truncated { cause: "it ended with neither [DONE] nor a finish reason".into() }
            }
            BodyEnd::Broken(cause) => Ending::Truncated { cause },
            BodyEnd::TimedOut => Ending::TimedOut,
            BodyEnd::Cancelled => Ending::Cancelled,
        }
    }
}

/// The begin of something unreadable, for a message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", text.trim().replace(char::is_control, " "))
}
