//! Answers as the servers write them: the events of a stream, or one document.

use crate::ask::{Endpoint, Length, UsageWish};
use crate::clock::Clock;
use crate::dialect::Dialect;
use crate::faults::Strike;
use crate::flight::Flight;
use crate::net::Cut;
use crate::tokens::answer_text;
use acb_sim::StepEvent;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How one answer is written.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) dialect: Dialect,
    pub(crate) endpoint: Endpoint,
    /// The model that the answer names: the one that was asked for.
    pub(crate) model: String,
    /// Id of the answer.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) usage: UsageWish,
    /// Key of the answer's words.
    pub(crate) key: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) length: Length,
}

impl Style {
    fn reason(&self) -> &'static str {
        if self.length.tokens == self.length.max_tokens { "length" } else { "stop" }
    }

    fn head(&self, object: &str) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "system_fingerprint": "simulated",
        })
    }

    fn usage(&self, tokens: u32, hit_tokens: u32) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens, "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": hit_tokens},
        });
        if self.dialect == Dialect::Sglang {
            usage["reasoning_tokens"] = json!(0);
        }
        usage
    }

    fn event(&self, choices: Value, usage: Option<Value>) -> Vec<u8> {
        let object = match self.endpoint {
            Endpoint::Chat => "chat.completion.chunk",
            Endpoint::Completions => "text_completion",
        };
        let mut body = self.head(object);
        body["choices"] = choices;
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        format!("data: {body}\n\n").into_bytes()
    }

    fn choice(&self, delta: Value, text: &str, reason: Option<&str>) -> Value {
        match self.endpoint {
            Endpoint::Chat => {
                json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}])
            }
            Endpoint::Completions => {
                json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": reason}])
            }
        }
    }

    /// The event of one token, the role before the first.
    fn token(&self, index: u32, hit_tokens: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if index == 0 && self.endpoint == Endpoint::Chat {
            let role = json!({"role": "assistant", "content": ""});
            bytes = self.event(self.choice(role, "", None), None);
        }
        let text = answer_text(self.key, index);
        let last = index + 1 == self.length.tokens && self.dialect == Dialect::Vllm;
        let usage = (self.usage == UsageWish::Continuous).then(|| self.usage(index + 1, hit_tokens));
        let choice = self.choice(json!({ "content": text }), &text, last.then(|| self.reason()));
        bytes.append(&mut self.event(choice, usage));
        bytes
    }

    /// What comes after the last token.
    fn tail(&self, hit_tokens: u32) -> Vec<Bytes> {
        let mut events = Vec::new();
        if self.dialect == Dialect::Sglang {
            events.push(self.event(self.choice(json!({}), "", Some(self.reason())), None).into());
        }
        if self.usage != UsageWish::Unasked {
            let usage = self.usage(self.length.tokens, hit_tokens);
            events.push(self.event(json!([]), Some(usage)).into());
        }
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        events
    }

    /// The whole answer as one document.
    pub(crate) fn document(&self, hit_tokens: u32) -> Value {
        let text: String = (0..self.length.tokens).map(|index| answer_text(self.key, index)).collect();
        let reason = self.reason();
        let (object, choice) = match self.endpoint {
            Endpoint::Chat => (
                "chat.completion",
                json!({"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": null, "finish_reason": reason}),
            ),
            Endpoint::Completions => (
                "text_completion",
                json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason}),
            ),
        };
        let mut body = self.head(object);
        body["choices"] = json!([choice]);
        body["usage"] = self.usage(self.length.tokens, hit_tokens);
        body
    }
}

/// A streamed answer.
pub(crate) struct StreamedBody {
    pub(crate) flight: Flight,
    pub(crate) style: Style,
    pub(crate) clock: Clock,
    pub(crate) strike: Strike,
    /// Events to write, with their tokens.
    pub(crate) ready: VecDeque<(Bytes, u32)>,
    /// Whether the last write has been given a chance to leave.
    pub(crate) flushed: bool,
    pub(crate) end: BodyEnd,
}

/// How far a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    Open,
    /// It ends when all is written.
    Whole,
    /// It is cut when all is written.
    Cut,
    /// Nothing more comes.
    Silent,
}

impl StreamedBody {
    fn take(&mut self, event: &StepEvent) {
        match *event {
            StepEvent::Admitted { .. } => {}
            StepEvent::Token { index, .. } => {
                let struck = self.strike != Strike::None && index >= self.style.length.tokens / 2;
                if struck && self.end == BodyEnd::Open {
                    return self.be_struck();
                }
                let bytes = self.style.token(index, self.flight.hit_tokens).into();
                self.ready.push_back((bytes, 1));
            }
            StepEvent::Finished { .. } => {
                let tail = self.style.tail(self.flight.hit_tokens);
                self.ready.extend(tail.into_iter().map(|bytes| (bytes, 0)));
                self.end = BodyEnd::Whole;
            }
        }
    }

    fn be_struck(&mut self) {
        self.end = match self.strike {
            Strike::Truncate => BodyEnd::Cut,
            Strike::Stall => BodyEnd::Silent,
            Strike::ErrorMid => {
                let error = json!({"error": {
                    "message": "simulated engine death", "type": "InternalServerError", "param": null, "code": 500
                }});
                self.ready.push_back((format!("data: {error}\n\ndata: [DONE]\n\n").into(), 0));
                BodyEnd::Whole
            }
            Strike::None | Strike::Status(_) => BodyEnd::Open,
        };
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        loop {
            if !self.flushed {
                // The connection flushes what it has while it waits: each token is a write of its own.
                self.flushed = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some((bytes, tokens)) = self.ready.pop_front() {
                self.flushed = false;
                self.flight.ticket.wrote(self.clock.now(), tokens);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.end {
                BodyEnd::Open => match std::task::ready!(self.flight.poll_event(cx)) {
                    Some(event) => self.take(&event),
                    // The engine is gone with its server.
                    None => self.end = BodyEnd::Cut,
                },
                BodyEnd::Silent => return Poll::Pending,
                BodyEnd::Whole | BodyEnd::Cut => {
                    let now = self.clock.now();
                    self.flight.ticket.close(now);
                    let cut = self.end == BodyEnd::Cut;
                    return Poll::Ready(cut.then_some(Err(Cut)));
                }
            }
        }
    }
}
