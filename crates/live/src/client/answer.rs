//! An answer by its head: an event stream, a refusal, or a document that nobody asked for.

use crate::delta::Chunk;
use crate::observation::{Ending, Observation};
use crate::stream::{BodyEnd, StreamReader, Text, Wanted, excerpt};
use acb_types::Nanos;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Response, StatusCode};

/// Bytes kept of an answer that is no event stream.
const KEPT: usize = 64 << 10;

/// The reader of an answer's body.
pub(super) enum Answer {
    /// Status 200 and chunks.
    Stream(Box<StreamReader>),
    /// Another status.
    Refusal { status: StatusCode, retry_after: Option<Box<str>>, body: Document },
    /// Status 200, and a body of a kind that is no stream.
    Other { content_type: Box<str>, body: Document },
}

/// The begin of a body, and its length.
#[derive(Default)]
pub(super) struct Document {
    kept: Vec<u8>,
    bytes: u64,
}

impl Answer {
    /// The reader that a head calls for.
    pub fn of<B>(response: &Response<B>, text: Text) -> Self {
        let (status, headers) = (response.status(), response.headers());
        if status != StatusCode::OK {
            let retry_after = header(headers, &RETRY_AFTER);
            return Self::Refusal { status, retry_after, body: Document::default() };
        }
        match header(headers, &CONTENT_TYPE) {
            Some(content_type) if is_document(&content_type) => {
                Self::Other { content_type, body: Document::default() }
            }
            _ => Self::Stream(Box::new(StreamReader::new(text))),
        }
    }

    /// Reads the next piece, which came at `at`.
    pub fn read(&mut self, at: Nanos, piece: &[u8]) -> Wanted {
        match self {
            Self::Stream(reader) => reader.read(at, piece),
            Self::Refusal { body, .. } | Self::Other { body, .. } => body.read(piece),
        }
    }

    /// Whether a token has come.
    pub fn has_token(&self) -> bool {
        matches!(self, Self::Stream(reader) if reader.has_token())
    }

    /// Writes what was seen into `observation`, its ending included.
    pub fn finish(self, end: BodyEnd, observation: &mut Observation) {
        let (ending, body) = match self {
            Self::Stream(reader) => return reader.finish(end, observation),
            Self::Refusal { status, retry_after, body } => {
                let message = body.message().into();
                (Ending::HttpError { status: status.as_u16(), retry_after, message }, body)
            }
            Self::Other { content_type, body } => (body.unwanted(&content_type, &end), body),
        };
        if let BodyEnd::Closed(at) = end {
            observation.closed_ns = Some(at);
        }
        observation.bytes = body.bytes;
        observation.ending = ending;
    }
}

impl Document {
    fn read(&mut self, piece: &[u8]) -> Wanted {
        self.bytes += piece.len() as u64;
        let room = KEPT - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        if self.kept.len() < KEPT { Wanted::More } else { Wanted::Nothing }
    }

    /// The server's error, or the begin of what it wrote.
    fn message(&self) -> String {
        let told = Chunk::parse(&self.kept).ok().and_then(|chunk| chunk.error());
        told.map_or_else(|| excerpt(&self.kept), |error| error.message)
    }

    fn unwanted(&self, content_type: &str, end: &BodyEnd) -> Ending {
        if let Some(error) = Chunk::parse(&self.kept).ok().and_then(|chunk| chunk.error()) {
            return Ending::InbandError { code: error.code.map(Into::into), message: error.message.into() };
        }
        match end {
            BodyEnd::TimedOut => return Ending::TimedOut,
            BodyEnd::Cancelled => return Ending::Cancelled,
            BodyEnd::Closed(_) | BodyEnd::Broken(_) => {}
        }
        let begin = excerpt(&self.kept);
        let message = format!(
            "the answer is {content_type} and no event stream; does the request ask to stream? {begin}"
        );
        Ending::ParseError { message: message.into() }
    }
}

/// Kinds of content that can't be an event stream; a missing or a generic kind may be one all the same.
fn is_document(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    ["application/json", "text/html", "application/xhtml+xml"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

fn header(headers: &HeaderMap, name: &hyper::header::HeaderName) -> Option<Box<str>> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into())
}
