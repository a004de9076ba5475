//! The questions of a driver to its server, with the server's name in every fault.

use super::{DriverError, RuntimeKind};
use crate::client::{Control, Document};
use crate::observation::{Ending, Observation};
use crate::{Call, Client, ClientOptions, Clock, Target, Text};
use acb_types::Nanos;
use bytes::Bytes;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Longest wait for what a server knows by heart.
const QUICK: Duration = Duration::from_secs(10);
/// Longest wait for what a server has to work for: reading an adapter, emptying a cache.
const SLOW: Duration = Duration::from_secs(120);
/// Longest wait for an answer to a probe.
const PROBE: Nanos = Nanos(120_000_000_000);
/// How much of a server's own words is kept.
const WORDS: usize = 400;

/// A server and how it is asked.
pub(super) struct Server {
    pub(super) kind: RuntimeKind,
    client: Client,
}

/// A document with the question that it answers.
pub(super) struct Reply {
    ask: String,
    pub(super) document: Document,
}

impl Server {
    pub(super) fn new(kind: RuntimeKind, target: Target) -> Result<Self, DriverError> {
        let client = Client::new(target, ClientOptions::default(), Clock::start())?;
        Ok(Self { kind, client })
    }

    pub(super) fn target(&self) -> &Target {
        self.client.target()
    }

    pub(super) fn name(&self) -> String {
        self.target().to_string()
    }

    /// What a GET brings, whatever its status.
    pub(super) async fn get(&self, path: &str) -> Result<Reply, DriverError> {
        self.ask(Method::GET, path, (Bytes::new(), QUICK)).await
    }

    /// What a POST brings, whatever its status.
    pub(super) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Reply, DriverError> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        self.ask(Method::POST, path, (body, SLOW)).await
    }

    /// A document of status 200 by GET.
    pub(super) async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, DriverError> {
        self.json(&self.get(path).await?, "")
    }

    /// # Errors
    /// When the status is not 200.
    pub(super) fn accepted(&self, reply: &Reply, remedy: &'static str) -> Result<(), DriverError> {
        if reply.document.status == 200 {
            return Ok(());
        }
        Err(self.refused(reply, remedy))
    }

    /// Reads a document of status 200 as JSON.
    pub(super) fn json<T: DeserializeOwned>(
        &self,
        reply: &Reply,
        remedy: &'static str,
    ) -> Result<T, DriverError> {
        self.accepted(reply, remedy)?;
        serde_json::from_slice(&reply.document.body).map_err(|error| self.unreadable(&reply.ask, error))
    }

    /// The server's no, in its words.
    pub(super) fn refused(&self, reply: &Reply, remedy: &'static str) -> DriverError {
        DriverError::Refused {
            server: self.name(),
            ask: reply.ask.clone(),
            status: reply.document.status,
            message: self.words(&reply.document),
            remedy,
        }
    }

    pub(super) fn unreadable(&self, ask: &str, reason: impl ToString) -> DriverError {
        let reason = self.target().redact(&reason.to_string()).into();
        DriverError::Unreadable { server: self.name(), ask: ask.to_owned(), reason, runtime: self.kind }
    }

    /// Sends a body to `/v1/completions` and reads the answer with its text.
    ///
    /// # Errors
    /// When it ends in any other way than well.
    pub(super) async fn complete(&self, body: &Value) -> Result<Observation, DriverError> {
        let call = Call {
            path: PathAndQuery::from_static("/v1/completions"),
            body: body.to_string().into(),
            headers: HeaderMap::new(),
            timeout_ns: PROBE,
            text: Text::Kept,
        };
        let seen = self.client.exchange(call).await;
        match &seen.ending {
            Ending::Ok => Ok(seen),
            other => Err(DriverError::Probe {
                server: self.name(),
                model: body["model"].as_str().unwrap_or_default().to_owned(),
                reason: serde_json::to_string(other).unwrap_or_default(),
            }),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        (body, timeout): (Bytes, Duration),
    ) -> Result<Reply, DriverError> {
        let ask = format!("{method} {path}");
        let no_answer = |reason| DriverError::NoAnswer { server: self.name(), ask: ask.clone(), reason };
        let path = path.parse().map_err(|error| no_answer(format!("no path of a URL: {error}")))?;
        let document = self.client.ask(Control { method, path, body, timeout }).await.map_err(no_answer)?;
        Ok(Reply { ask, document })
    }

    /// What a document that is no success says.
    fn words(&self, document: &Document) -> String {
        let told = serde_json::from_slice::<Value>(&document.body).ok();
        let fields = ["/error/message", "/message", "/error_message", "/detail", "/error"];
        let told = told
            .and_then(|told| fields.iter().find_map(|field| Some(told.pointer(field)?.as_str()?.to_owned())));
        let words = told.unwrap_or_else(|| String::from_utf8_lossy(&document.body).into_owned());
        let words: String = words.trim().chars().take(WORDS).collect();
        if words.is_empty() { "no words".to_owned() } else { self.target().redact(&words).into() }
    }
}
