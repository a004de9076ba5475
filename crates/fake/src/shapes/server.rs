//! The scripted server.

use super::body::PlannedBody;
use super::plan::{Endpoint, Plan};
use super::script::{Fault, Script};
use super::words::SHAPE_HEADER;
use crate::clock::{Alarm, Clock};
use crate::error::FakeError;
use crate::host::Hosted;
use crate::net::{self, Answer, Door, Handler, TlsIdentity, json, mark};
use crate::trace::{Ticket, Trace, TraceLog, TraceRow};
use acb_types::Nanos;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// Plans kept for requests that ask for the same.
const MOST_PLANS: usize = 256;

/// A time in which the server does nothing: what is due in it, or asked in it, comes at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Its start, since the server's start.
    pub from: Nanos,
    /// Its end, since the server's start.
    pub until: Nanos,
}

impl Freeze {
    /// `at`, or the end of the freeze when `at` lies in it.
    pub(crate) fn thawed(self, at: Nanos) -> Nanos {
        if (self.from..self.until).contains(&at) { self.until } else { at }
    }
}

/// What a scripted server does.
#[derive(Clone, Debug)]
pub struct ShapeOptions {
    /// The answer to every request that does not ask for another.
    pub script: Script,
    /// Port on 127.0.0.1; 0: any free one.
    pub port: u16,
    /// Models that it lists; requests may name any.
    pub models: Vec<String>,
    /// Every request whose number (from 1) is a multiple of this gets status 500 at once; absent: none.
    pub fail_every: Option<u64>,
    /// How long each connection waits to be accepted.
    pub accept_delay_ns: Nanos,
    /// When the server does nothing; absent: never.
    pub freeze: Option<Freeze>,
    /// Speaks TLS with this certificate; absent: plain text.
    pub tls: Option<TlsIdentity>,
}

impl Default for ShapeOptions {
    fn default() -> Self {
        Self {
            script: Script::default(),
            port: 0,
            models: vec!["base".to_owned()],
            fail_every: None,
            accept_delay_ns: Nanos::ZERO,
            freeze: None,
            tls: None,
        }
    }
}

impl From<Script> for ShapeOptions {
    fn from(script: Script) -> Self {
        Self { script, ..Self::default() }
    }
}

/// A running scripted server. It has a thread of its own and stops when it is dropped.
#[derive(Debug)]
pub struct ShapeServer {
    addr: SocketAddr,
    shaper: Arc<Shaper>,
    _hosted: Hosted,
}

impl ShapeServer {
    /// Listens and serves; when this returns, connections are accepted.
    ///
    /// # Errors
    /// When the port can't be had or the certificate can't be used.
    pub async fn start(options: ShapeOptions) -> Result<Self, FakeError> {
        Self::launch(options)
    }

    /// As [`Self::start`], for callers that are not asynchronous.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn launch(mut options: ShapeOptions) -> Result<Self, FakeError> {
        let tls = options.tls.take().map(TlsIdentity::acceptor).transpose()?;
        let (listener, addr) = net::bind(options.port)?;
        let clock = Clock::start();
        let alarm = Arc::new(Alarm::start(clock)?);
        let (delay, port) = (options.accept_delay_ns, options.port);
        let log = Arc::new(TraceLog::new(clock));
        let plans = Mutex::new(BTreeMap::new());
        let requests = AtomicU64::new(0);
        let shaper = Arc::new(Shaper { options, alarm: alarm.clone(), log, plans, requests });
        let handler = shaper.clone();
        let hosted = Hosted::start("shapes", async move {
            match TcpListener::from_std(listener) {
                Ok(listener) => net::serve(Door { listener, tls, delay, alarm }, handler).await,
                Err(fault) => eprintln!("port {port} can't be served: {fault}"),
            }
        })?;
        Ok(Self { addr, shaper, _hosted: hosted })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL without a path, such as `http://127.0.0.1:4711`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.shaper.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// What it knows of all requests so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.shaper.log.trace()
    }

    /// The clock of the trace.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shaper.alarm.clock()
    }
}

#[derive(Debug)]
struct Shaper {
    options: ShapeOptions,
    alarm: Arc<Alarm>,
    log: Arc<TraceLog>,
    plans: Mutex<BTreeMap<String, Arc<Plan>>>,
    requests: AtomicU64,
}

/// What is read of a request.
#[derive(Deserialize)]
struct Ask {
    #[serde(default)]
    model: String,
    #[serde(default)]
    stream: bool,
}

impl Handler for Shaper {
    fn connected(&self) {
        self.log.connected();
    }

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let received = self.alarm.clock().now();
        let endpoint = match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => Endpoint::Chat,
            (&Method::POST, "/v1/completions") => Endpoint::Completions,
            (&Method::GET, path) => return self.get(path),
            (method, path) => return refuse(StatusCode::NOT_FOUND, &format!("no {method} {path} here")),
        };
        self.answer(request, endpoint, received).await
    }
}

impl Shaper {
    fn get(&self, path: &str) -> Answer {
        match path {
            "/health" => net::whole(StatusCode::OK, "text/plain", ""),
            "/v1/models" => {
                let model = |id| serde_json::json!({"id": id, "object": "model", "owned_by": "simulated"});
                let data: Vec<_> = self.options.models.iter().map(model).collect();
                json(StatusCode::OK, &serde_json::json!({"object": "list", "data": data}))
            }
            "/__trace" => match serde_json::to_value(self.log.trace()) {
                Ok(trace) => json(StatusCode::OK, &trace),
                Err(fault) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &fault.to_string()),
            },
            _ => refuse(StatusCode::NOT_FOUND, &format!("no GET {path} here")),
        }
    }

    async fn answer(&self, request: Request<Incoming>, endpoint: Endpoint, received: Nanos) -> Answer {
        let (head, body) = request.into_parts();
        let words = head.headers.get(SHAPE_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let words = words.unwrap_or_default().into_owned();
        let Ok(body) = body.collect().await else {
            return refuse(StatusCode::BAD_REQUEST, "the request's body ended early");
        };
        let ask: Ask = match serde_json::from_slice(&body.to_bytes()) {
            Ok(ask) => ask,
            Err(fault) => {
                return refuse(StatusCode::BAD_REQUEST, &format!("the body is not a request: {fault}"));
            }
        };
        let plan = match self.plan(&words, endpoint, &ask) {
            Ok(plan) => plan,
            Err(message) => return refuse(StatusCode::BAD_REQUEST, &message),
        };
        let row = TraceRow {
            path: head.uri.path().to_owned(),
            model: ask.model,
            shape: words,
            received_ns: received,
            status: Some(plan.status),
            ..TraceRow::default()
        };
        self.send(plan, received, self.log.open(row)).await
    }

    async fn send(&self, plan: Arc<Plan>, received: Nanos, ticket: Ticket) -> Answer {
        let freeze = self.options.freeze;
        let base = freeze.map_or(received, |freeze| freeze.thawed(received));
        let head_due = base + plan.head_due;
        self.alarm.sleep_until(freeze.map_or(head_due, |freeze| freeze.thawed(head_due))).await;
        let id = ticket.id();
        let (clock, sleeper) = (self.alarm.clock(), self.alarm.sleeper());
        let (status, content_type, retry_after) = (plan.status, plan.content_type, plan.retry_after_s);
        let body = PlannedBody { plan, base, freeze, clock, sleeper, ticket, made: 0, flushed: true };
        let mut answer = Response::new(body.boxed_unsync());
        *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert("x-acb-request", HeaderValue::from(id));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        mark(answer)
    }

    fn plan(&self, words: &str, endpoint: Endpoint, ask: &Ask) -> Result<Arc<Plan>, String> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = self.options.fail_every.is_some_and(|every| every > 0 && number.is_multiple_of(every));
        let key = format!("{words}\n{endpoint:?}\n{}\n{}\n{fails}", ask.stream, ask.model);
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(plan.clone());
        }
        let mut script = self.options.script.clone();
        script.apply(words).map_err(|fault| format!("{SHAPE_HEADER}: {fault}"))?;
        if fails {
            script.fault = Fault::Status { code: 500, retry_after_s: None };
        }
        let plan = if ask.stream { Plan::stream } else { Plan::whole }(&script, endpoint, &ask.model);
        if plans.len() == MOST_PLANS {
            plans.clear();
        }
        Ok(plans.entry(key).or_insert_with(|| Arc::new(plan)).clone())
    }
}

fn refuse(status: StatusCode, message: &str) -> Answer {
    let error = serde_json::json!({"message": message, "type": "BadRequestError", "code": status.as_u16()});
    json(status, &serde_json::json!({ "error": error }))
}
