//! From a script to the bytes that are written and when: no socket and no clock.

use super::script::{Channel, Done, Fault, Finish, Flush, Framing, Head, Pieces, Role, Script, Text, Usage};
use acb_types::Nanos;
use bytes::Bytes;
use serde_json::{Value, json};

/// What the request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
}

/// Bytes, and when they are written after the request's head was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) due: Nanos,
    pub(crate) bytes: Bytes,
    /// Tokens whose event these bytes complete.
    pub(crate) tokens: u32,
}

/// What comes after the last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body ends.
    At(Nanos),
    /// The connection is cut.
    Cut(Nanos),
    /// Nothing, ever.
    Never,
    /// These bytes, again and again.
    Repeat(Write),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) retry_after_s: Option<u32>,
    pub(crate) head_due: Nanos,
    pub(crate) writes: Vec<Write>,
    pub(crate) end: End,
}

/// Between the two writes of a split event.
const SPLIT: Nanos = Nanos(2_000_000);
/// Between two comments of a body that never ends.
const PING: Nanos = Nanos(10_000_000);
/// Prompt tokens that every answer reports.
const PROMPT_TOKENS: u32 = 8;

impl Plan {
    /// The answer to a request for `model`, streamed.
    pub(crate) fn stream(script: &Script, endpoint: Endpoint, model: &str) -> Self {
        if let Some(plan) = Self::refusal(script) {
            return plan;
        }
        let mut writer = Writer { script, endpoint, model, writes: Vec::new(), sent: 0, framed: 0 };
        let end = writer.write_all();
        let writes = match script.flush {
            Flush::Each => writer.writes,
            Flush::Coalesced => coalesce(writer.writes),
        };
        let early = script.head == Head::Early || script.role == Role::Early;
        Self {
            status: 200,
            content_type: "text/event-stream; charset=utf-8",
            retry_after_s: None,
            head_due: if early { Nanos::ZERO } else { writes.first().map_or(script.ttft_ns, |w| w.due) },
            writes,
            end,
        }
    }

    /// The answer in one piece, when its last token is due.
    pub(crate) fn whole(script: &Script, endpoint: Endpoint, model: &str) -> Self {
        if let Some(plan) = Self::refusal(script) {
            return plan;
        }
        let due = due_of(script, script.tokens.saturating_sub(1));
        let text = " tok".repeat(script.tokens as usize);
        let choice = match endpoint {
            Endpoint::Chat => {
                json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
            }
            Endpoint::Completions => json!({"index": 0, "text": text, "finish_reason": "stop"}),
        };
        let mut body = head(endpoint, model, Kind::Whole);
        body["choices"] = json!([choice]);
        if script.usage != Usage::Absent {
            body["usage"] = usage(script, script.tokens);
        }
        Self::one(
            200,
            "application/json",
            Write { due, bytes: body.to_string().into(), tokens: script.tokens },
        )
    }

    fn refusal(script: &Script) -> Option<Self> {
        let write = |body: String| Write { due: Nanos::ZERO, bytes: body.into(), tokens: 0 };
        match script.fault {
            Fault::Status { code, retry_after_s } => {
                let error = json!({"error": {
                    "message": format!("simulated status {code}"), "type": "Simulated", "param": null, "code": code
                }});
                let plan = Self::one(code, "application/json", write(error.to_string()));
                Some(Self { retry_after_s, ..plan })
            }
            Fault::Html => {
                let page = "<!DOCTYPE html><html><body><h1>Bad gateway</h1></body></html>".to_owned();
                Some(Self::one(200, "text/html", write(page)))
            }
            _ => None,
        }
    }

    fn one(status: u16, content_type: &'static str, write: Write) -> Self {
        let due = write.due;
        Self {
            status,
            content_type,
            retry_after_s: None,
            head_due: due,
            writes: vec![write],
            end: End::At(due),
        }
    }
}

/// One write with all bytes, when the last was due.
fn coalesce(writes: Vec<Write>) -> Vec<Write> {
    let Some(due) = writes.iter().map(|write| write.due).max() else { return writes };
    let tokens = writes.iter().map(|write| write.tokens).sum();
    let bytes = writes.iter().flat_map(|write| write.bytes.iter().copied()).collect();
    vec![Write { due, bytes, tokens }]
}

/// When a token is due that comes after `before` others.
fn due_of(script: &Script, before: u32) -> Nanos {
    script.ttft_ns + Nanos(script.itl_ns.0 * u64::from(before))
}

#[derive(Clone, Copy)]
enum Kind {
    Chunk,
    Whole,
}

fn head(endpoint: Endpoint, model: &str, kind: Kind) -> Value {
    let (id, object) = match (endpoint, kind) {
        (Endpoint::Chat, Kind::Chunk) => ("chatcmpl-simulated", "chat.completion.chunk"),
        (Endpoint::Chat, Kind::Whole) => ("chatcmpl-simulated", "chat.completion"),
        (Endpoint::Completions, _) => ("cmpl-simulated", "text_completion"),
    };
    json!({"id": id, "object": object, "created": 0, "model": model, "system_fingerprint": "simulated"})
}

fn usage(script: &Script, tokens: u32) -> Value {
    let tokens = if script.usage == Usage::Wrong { tokens * 2 } else { tokens };
    json!({
        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    })
}

struct Writer<'a> {
    script: &'a Script,
    endpoint: Endpoint,
    model: &'a str,
    writes: Vec<Write>,
    /// Tokens written so far.
    sent: u32,
    /// Events written down so far.
    framed: u32,
}

impl Writer<'_> {
    fn write_all(&mut self) -> End {
        let script = self.script;
        if script.role == Role::Early && self.endpoint == Endpoint::Chat {
            let role = self.role();
            self.push(Nanos::ZERO, role, 0);
        }
        let strikes_after = match script.fault {
            Fault::ErrorMid | Fault::Truncate | Fault::Stall => {
                Some(script.after.unwrap_or(script.tokens / 2))
            }
            Fault::Empty => Some(0),
            _ => None,
        };
        let until = strikes_after.unwrap_or(script.tokens).min(script.tokens);
        while self.sent < until {
            self.token_event(until);
        }
        match strikes_after {
            Some(_) => self.strike(),
            None => self.finish(),
        }
    }

    /// The next event with tokens, at most up to `until`.
    fn token_event(&mut self, until: u32) {
        let script = self.script;
        let tokens = script.tokens_per_chunk.max(1).min(until - self.sent);
        let due = due_of(script, self.sent);
        let first = self.sent == 0;
        self.sent += tokens;
        let finish = (self.sent == script.tokens && script.finish == Finish::WithLast).then(|| self.reason());
        let choice = self.choice(&self.text(tokens, first), first, finish);
        let mut bytes = match script.role {
            Role::WithFirst if first && self.endpoint == Endpoint::Chat => self.role(),
            _ => Vec::new(),
        };
        bytes.append(&mut self.event(Some(choice)));
        self.push(due, bytes, tokens);
    }

    fn text(&self, tokens: u32, first: bool) -> String {
        match self.script.text {
            Text::EmptyFirst if first => String::new(),
            Text::Big(size) if first => "x".repeat(size as usize),
            Text::Utf8 => " é€".repeat(tokens as usize),
            _ => " tok".repeat(tokens as usize),
        }
    }

    fn reason(&self) -> &'static str {
        match self.script.channel {
            Channel::ReasoningOnly => "length",
            Channel::Tool if self.endpoint == Endpoint::Chat => "tool_calls",
            _ => "stop",
        }
    }

    fn choice(&self, text: &str, first: bool, finish: Option<&str>) -> Value {
        if self.endpoint == Endpoint::Completions {
            return json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
        }
        let half = self.sent <= self.script.tokens / 2;
        let delta = match self.script.channel {
            Channel::Reasoning(field) if half => json!({ field: text }),
            Channel::ReasoningOnly => json!({"reasoning_content": text}),
            Channel::Tool if first => json!({"tool_calls": [
                {"index": 0, "id": "call-0", "type": "function", "function": {"name": "act", "arguments": text}}
            ]}),
            Channel::Tool => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
            Channel::Content | Channel::Reasoning(_) => json!({"content": text}),
        };
        json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish})
    }

    fn role(&mut self) -> Vec<u8> {
        let delta = json!({"role": "assistant", "content": ""});
        self.event(Some(json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null})))
    }

    /// One event with this choice, or with none and the usage.
    fn event(&mut self, choice: Option<Value>) -> Vec<u8> {
        let mut body = head(self.endpoint, self.model, Kind::Chunk);
        match self.script.usage {
            Usage::NullInEach => body["usage"] = Value::Null,
            Usage::Continuous => body["usage"] = usage(self.script, self.sent),
            _ => {}
        }
        if choice.is_none() {
            body["usage"] = usage(self.script, self.sent);
        }
        body["choices"] = choice.into_iter().collect();
        self.frame(&body.to_string())
    }

    fn frame(&mut self, data: &str) -> Vec<u8> {
        let bom = if self.framed == 0 { "\u{feff}" } else { "" };
        self.framed += 1;
        let framed = match self.script.framing {
            Framing::Plain => format!("data: {data}\n\n"),
            Framing::Crlf => format!("data: {data}\r\n\r\n"),
            Framing::LoneCr => format!("data: {data}\r\r"),
            Framing::NoSpace => format!("data:{data}\n\n"),
            Framing::EventFields => format!("event: message\nid: 7\nretry: 1000\ndata: {data}\n\n"),
            Framing::Comments => format!(": ping\n\n:\ndata: {data}\n\n"),
            Framing::TwoLines => match data.strip_prefix('{') {
                Some(rest) => format!("data: {{\ndata: {rest}\n\n"),
                None => format!("data: {data}\n\n"),
            },
            Framing::Bom => format!("{bom}data: {data}\n\n"),
        };
        framed.into_bytes()
    }

    fn push(&mut self, due: Nanos, bytes: Vec<u8>, tokens: u32) {
        let cut = match self.script.pieces {
            Pieces::Whole => None,
            // One byte into the first character of three bytes, else anywhere.
            Pieces::Split => bytes
                .windows(2)
                .position(|two| two == [0xe2, 0x82])
                .map(|at| at + 1)
                .or(Some(bytes.len() / 2)),
        };
        let mut bytes = Bytes::from(bytes);
        let mut due = due;
        if let Some(at) = cut {
            self.writes.push(Write { due, bytes: bytes.split_to(at), tokens: 0 });
            due += SPLIT;
        }
        self.writes.push(Write { due, bytes, tokens });
    }

    fn last_due(&self) -> Nanos {
        self.writes.last().map_or(self.script.ttft_ns, |write| write.due)
    }

    /// The fault, when the next token would be due.
    fn strike(&mut self) -> End {
        let due = due_of(self.script, self.sent);
        match self.script.fault {
            Fault::Truncate => return End::Cut(due),
            Fault::Stall => return End::Never,
            Fault::ErrorMid => {
                let error = json!({"error": {
                    "message": "simulated engine death", "type": "InternalServerError", "param": null, "code": 500
                }});
                let bytes = self.frame(&error.to_string());
                self.push(due, bytes, 0);
            }
            _ => {}
        }
        let bytes = self.frame("[DONE]");
        self.push(due, bytes, 0);
        End::At(self.last_due())
    }

    /// What comes after the last token.
    fn finish(&mut self) -> End {
        let script = self.script;
        if let Finish::Apart(wait) = script.finish {
            let reason = self.reason();
            let choice = match self.endpoint {
                Endpoint::Chat => {
                    json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason})
                }
                Endpoint::Completions => {
                    json!({"index": 0, "text": "", "logprobs": null, "finish_reason": reason})
                }
            };
            let (due, bytes) = (self.last_due() + wait, self.event(Some(choice)));
            self.push(due, bytes, 0);
        }
        if script.fault == Fault::NeverEnds {
            let due = self.last_due() + PING;
            return End::Repeat(Write { due, bytes: Bytes::from_static(b": ping\n\n"), tokens: 0 });
        }
        if script.usage != Usage::Absent {
            let (due, bytes) = (self.last_due(), self.event(None));
            self.push(due, bytes, 0);
        }
        let wait = match script.done {
            Done::Missing => return End::At(self.last_due() + script.linger_ns),
            Done::Late(wait) => wait,
            Done::Sent => Nanos::ZERO,
        };
        let (due, bytes) = (self.last_due() + wait, self.frame("[DONE]"));
        self.push(due, bytes, 0);
        End::At(self.last_due() + script.linger_ns)
    }
}

/// How long a body that repeats waits between two writes.
pub(crate) const fn repeat_every() -> Nanos {
    PING
}
