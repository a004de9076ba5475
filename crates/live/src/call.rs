//! One request to be sent.

use crate::stream::Text;
use acb_types::Nanos;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::http::uri::PathAndQuery;

/// One streaming request, ready to send: the client adds the target's headers, `content-type` and `accept`.
#[derive(Clone, Debug)]
pub struct Call {
    /// Path on the server, such as `/v1/completions`; a path of the target's URL goes before it.
    pub path: PathAndQuery,
    /// JSON, finished. `stream: true` is the caller's to write; so is `stream_options.include_usage`.
    pub body: Bytes,
    /// Headers of this request alone. A secret belongs in the [`Target`](crate::Target), which never shows it.
    pub headers: HeaderMap,
    /// Longest time from the begin of the exchange to the end of the answer.
    pub timeout_ns: Nanos,
    /// Whether the text is kept.
    pub text: Text,
}
