//! The routes of a server in both dialects.

use crate::answer::{BodyEnd, StreamedBody, Style};
use crate::ask::{Body, Endpoint};
use crate::dialect::Dialect;
use crate::engine::{Engine, Order, State};
use crate::fake::FakeOptions;
use crate::faults::Strike;
use crate::flight::Flight;
use crate::metrics::Ended;
use crate::net::{Answer, Handler, json, mark, whole};
use crate::roster::RosterError;
use crate::tokens::answer_key;
use crate::trace::{EngineTruth, TraceLog, TraceRow};
use acb_sim::{Refusal, StepEvent, Submission};
use acb_types::{Nanos, Request as Asking, RequestId, SessionId, TaskId, TenantId, TrustGroupId};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::json as value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The request header that makes an answer shorter than `max_tokens`.
pub const OUTPUT_TOKENS_HEADER: &str = "x-acb-output-tokens";

/// One replica behind its port.
pub(crate) struct Replica {
    pub(crate) engine: Arc<Engine>,
    pub(crate) log: Arc<TraceLog>,
    pub(crate) options: Arc<FakeOptions>,
    pub(crate) dialect: Dialect,
    pub(crate) numbers: AtomicU64,
}

/// A refusal: status, type and message.
type Refused = (StatusCode, &'static str, String);

fn bad(message: impl Into<String>) -> Refused {
    (StatusCode::BAD_REQUEST, "BadRequestError", message.into())
}

impl Handler for Replica {
    fn connected(&self) {
        self.log.connected();
    }

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let received = self.engine.alarm.clock().now();
        let (head, body) = request.into_parts();
        let endpoint = match (&head.method, head.uri.path()) {
            (&Method::POST, "/v1/chat/completions") => Endpoint::Chat,
            (&Method::POST, "/v1/completions") => Endpoint::Completions,
            (method, path) => {
                let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                return self.control(method, path, &bytes);
            }
        };
        let Ok(body) = body.collect().await else {
            return self.refuse(bad("the request's body ended early"));
        };
        let call = Call { endpoint, headers: &head.headers, path: head.uri.path(), received };
        match self.complete(&call, &body.to_bytes()).await {
            Ok(answer) => answer,
            Err(refused) => self.refuse(refused),
        }
    }
}

/// A request for an answer.
struct Call<'a> {
    endpoint: Endpoint,
    headers: &'a HeaderMap,
    path: &'a str,
    received: Nanos,
}

impl Replica {
    pub(crate) fn refuse(&self, (status, kind, message): Refused) -> Answer {
        let body = match self.dialect {
            Dialect::Vllm => {
                value!({"error": {"message": message, "type": kind, "param": null, "code": status.as_u16()}})
            }
            Dialect::Sglang => value!({
                "object": "error", "message": message, "type": kind, "param": null, "code": status.as_u16()
            }),
        };
        let mut answer = json(status, &body);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }

    async fn complete(&self, call: &Call<'_>, bytes: &[u8]) -> Result<Answer, Refused> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let body = Body::read(bytes).map_err(bad)?;
        let mut row = TraceRow {
            path: call.path.to_owned(),
            model: body.model.clone(),
            received_ns: call.received,
            ..TraceRow::default()
        };
        let strike = self.options.faults.strike(self.options.seed, number);
        let started = match strike {
            Strike::Status(code) => Err(struck(code)),
            _ => self.start(call, &body),
        };
        let (style, request, events, truth) = started.inspect_err(|(status, ..)| {
            let row = TraceRow { status: Some(status.as_u16()), ..row.clone() };
            let mut ticket = self.log.open(row);
            ticket.close(self.engine.alarm.clock().now());
        })?;
        (row.status, row.engine) = (Some(200), Some(truth));
        let ticket = self.log.open(row);
        let id = ticket.id();
        let engine = self.engine.clone();
        let flight = Flight { engine, request, events, ticket, ended: false, hit_tokens: 0 };
        let mut answer = match body.stream {
            true => self.stream(flight, style, strike),
            false => self.document(flight, style).await?,
        };
        answer.headers_mut().insert("x-acb-request", HeaderValue::from(id));
        Ok(answer)
    }

    /// Submits a request to the engine.
    fn start(&self, call: &Call<'_>, body: &Body) -> Result<Started, Refused> {
        let asked = body.asked(call.endpoint).map_err(bad)?;
        let wished = wished_tokens(call.headers)?;
        let state = &mut *self.engine.state();
        let adapter = state.roster.resolve(&body.model, body.lora_path.as_deref()).map_err(not_found)?;
        let prompt = state.answers.prompt(&asked);
        let prompt_tokens = prompt.tokens();
        let left = self.engine.spec.context_tokens().saturating_sub(prompt_tokens);
        let length = body.length(call.endpoint, wished, left);
        let request = self.engine.next_id(state);
        let key = answer_key(&asked, adapter.and_then(|adapter| state.roster.identity(adapter)));
        state.answers.remember(key, request);
        state.answers.remember_ids(&asked, &body.acb_answer_ids, request);
        let name =
            adapter.and_then(|adapter| state.roster.identity(adapter)).map(|(name, _)| name.to_owned());
        let asking = asking(request, self.engine.now(), prompt, (length.max_tokens, body.salt(self.dialect)));
        let submission = Submission { request: asking, adapter, output_tokens: length.tokens };
        let ended = if length.tokens < length.max_tokens { Ended::Stop } else { Ended::Length };
        let streamed = if body.stream { "true" } else { "false" };
        let order = Order { submission, ended, streamed };
        let events = self.engine.submit(state, order).map_err(|refusal| self.refused(state, refusal))?;
        let style = Style {
            dialect: self.dialect,
            endpoint: call.endpoint,
            model: body.model.clone(),
            id: format!(
                "{}-{:016x}",
                if call.endpoint == Endpoint::Chat { "chatcmpl" } else { "cmpl" },
                request.0
            ),
            created: self.engine.alarm.clock().origin_unix_ns() / 1_000_000_000
                + call.received.0 / 1_000_000_000,
            usage: body.usage(),
            key,
            prompt_tokens,
            length,
        };
        let submitted_ns = state.stepped.now();
        let truth = EngineTruth { adapter: name, submitted_ns, prompt_tokens, ..EngineTruth::default() };
        Ok((style, request, events, truth))
    }

    fn refused(&self, state: &mut State, refusal: Refusal) -> Refused {
        match refusal {
            Refusal::Impossible => bad(refusal.to_string()),
            Refusal::QueueFull => {
                if self.dialect == Dialect::Vllm {
                    let reason = [("reason", "max_num_queued_reqs")];
                    state.meters.shown.add("vllm:admission_rejections_total", &reason, 1.0);
                }
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", refusal.to_string())
            }
        }
    }

    fn stream(&self, flight: Flight, style: Style, strike: Strike) -> Answer {
        let clock = self.engine.alarm.clock();
        let body = StreamedBody {
            flight,
            style,
            clock,
            strike,
            ready: VecDeque::new(),
            flushed: true,
            end: BodyEnd::Open,
        };
        let mut answer = Response::new(body.boxed_unsync());
        let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
        mark(answer)
    }

    async fn document(&self, mut flight: Flight, style: Style) -> Result<Answer, Refused> {
        while let Some(event) = flight.next_event().await {
            if let StepEvent::Finished { served, .. } = event {
                let answer = json(StatusCode::OK, &style.document(flight.hit_tokens));
                let now = self.engine.alarm.clock().now();
                flight.ticket.wrote(now, served.output_tokens);
                flight.ticket.close(now);
                return Ok(answer);
            }
        }
        Err((StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "the engine is gone".to_owned()))
    }

    fn control(&self, method: &Method, path: &str, bytes: &[u8]) -> Answer {
        match (method, path) {
            (&Method::GET, "/health" | "/ping") => whole(StatusCode::OK, "text/plain", ""),
            (&Method::GET, "/v1/models") => json(StatusCode::OK, &self.models()),
            (&Method::GET, "/metrics") => {
                whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.engine.metrics())
            }
            (&Method::GET, "/__trace") => match serde_json::to_value(self.log.trace()) {
                Ok(trace) => json(StatusCode::OK, &trace),
                Err(fault) => {
                    self.refuse((StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", fault.to_string()))
                }
            },
            _ => self.own_route(method, path, bytes).unwrap_or_else(|| {
                self.refuse((StatusCode::NOT_FOUND, "NotFoundError", format!("no {method} {path} here")))
            }),
        }
    }

    fn models(&self) -> serde_json::Value {
        let model = |id: &str, parent: Option<&str>, root: &str| {
            value!({
                "id": id, "object": "model", "created": 0, "owned_by": "simulated", "root": root,
                "parent": parent, "max_model_len": self.engine.spec.context_tokens(), "permission": []
            })
        };
        let base = &self.options.model;
        let state = self.engine.state();
        let adapters = state.roster.listed().into_iter();
        let adapters = adapters.map(|(name, path)| model(name, Some(base.as_str()), path));
        let data: Vec<_> = std::iter::once(model(base, None, base)).chain(adapters).collect();
        value!({"object": "list", "data": data})
    }
}

/// What a submission gives: how to write the answer, the engine's id, its events, and what is known so far.
type Started = (Style, RequestId, tokio::sync::mpsc::UnboundedReceiver<StepEvent>, EngineTruth);

fn struck(code: u16) -> Refused {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, "Simulated", format!("simulated status {code}"))
}

fn not_found(fault: RosterError) -> Refused {
    let status = match fault {
        RosterError::UnknownModel(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    (
        status,
        if status == StatusCode::NOT_FOUND { "NotFoundError" } else { "BadRequestError" },
        fault.to_string(),
    )
}

fn wished_tokens(headers: &HeaderMap) -> Result<Option<u32>, Refused> {
    let Some(header) = headers.get(OUTPUT_TOKENS_HEADER) else { return Ok(None) };
    let tokens = header.to_str().ok().and_then(|text| text.parse().ok()).filter(|&tokens| tokens > 0);
    tokens
        .map(Some)
        .ok_or_else(|| bad(format!("{OUTPUT_TOKENS_HEADER} must be a count of tokens, at least 1")))
}

fn asking(
    id: RequestId,
    due: Nanos,
    prompt: acb_types::Prompt,
    (max_output_tokens, cache_salt): (u32, Option<u64>),
) -> Asking {
    Asking {
        id,
        ask: id.0,
        due,
        session: SessionId(id.0),
        turn: 0,
        tenant: TenantId(0),
        trust_group: TrustGroupId(0),
        task: TaskId(0),
        document: None,
        prompt,
        max_output_tokens,
        cache_salt,
        required_adapter: None,
    }
}
