//! What a client asks of a server besides answers: short documents, read whole.

use super::connect::NoConnection;
use super::{Client, chain};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request};
use std::time::Duration;

/// Largest document that is read. The metrics of a server with many series are some 100 KB.
const LARGEST: usize = 64 << 20;

/// A document that a server gave, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The answer's status.
    pub status: u16,
    /// Whether the server says that it only simulates one.
    pub simulated: bool,
    /// The body.
    pub body: Bytes,
}

/// A question that is no request for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// GET or POST.
    pub method: Method,
    /// Path and query; a path of the target's URL goes before it.
    pub path: PathAndQuery,
    /// JSON, or nothing.
    pub body: Bytes,
    /// Longest time until the whole document is there.
    pub timeout: Duration,
}

impl Client {
    /// Asks on a connection of its own.
    ///
    /// # Errors
    /// When no document came, in words that name the server and the remedy.
    pub(crate) async fn ask(&self, control: Control) -> Result<Document, String> {
        let bound = control.timeout;
        let asked = tokio::time::timeout(bound, self.ask_at_ease(control)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", bound.as_secs_f64())));
        asked.map_err(|words| self.target.redact(&words).into())
    }

    async fn ask_at_ease(&self, control: Control) -> Result<Document, String> {
        let made = self.connector.connect().await;
        let mut connection = made.map_err(|NoConnection { message, .. }| message)?;
        let mut request = Request::new(Full::new(control.body));
        *request.method_mut() = control.method;
        *request.uri_mut() = self.uri(control.path);
        request.headers_mut().clone_from(&self.headers);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
        let sent = connection.send(request).await;
        let response = sent.map_err(|error| chain(&error.into_error()))?;
        let status = response.status().as_u16();
        let simulated = response.headers().contains_key("x-acb-simulated");
        let body = Limited::new(response.into_body(), LARGEST).collect();
        let body = connection.drive(body).await.map_err(|error| chain(error.as_ref()))?;
        Ok(Document { status, simulated, body: body.to_bytes() })
    }
}
