//! The most that hyper alone does against a server of event streams: what `scripts/bench_live.sh` holds the load generator against.
//!
//! `ceiling HOST:PORT read|parse IN_FLIGHT REQUESTS`: one thread, a connection for each request in flight, the same request again
//! and again. `read` takes the bytes and counts events; `parse` also stamps each event, keeps the stamps, and reads its JSON into
//! borrowed fields. Nothing is scheduled, routed, checked or recorded. Prints requests, seconds and events, parted by tabs.

use acb_live::Clock;
use acb_types::Nanos;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use memchr::memchr;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpStream;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What is done with an event.
#[derive(Clone, Copy)]
enum Events {
    Read,
    Parse,
}

struct Work {
    address: String,
    events: Events,
    requests: u64,
    begun: AtomicU64,
    clock: Clock,
}

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, events, in_flight, requests] = &arguments[..] else {
        return Err("give HOST:PORT, read or parse, requests in flight, and requests".into());
    };
    let events = match events.as_str() {
        "read" => Events::Read,
        "parse" => Events::Parse,
        other => return Err(format!("{other}: give read or parse").into()),
    };
    let (in_flight, requests) = (in_flight.parse()?, requests.parse()?);
    let (address, begun, clock) = (address.clone(), AtomicU64::new(0), Clock::start());
    let work = Arc::new(Work { address, events, requests, begun, clock });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(work, in_flight))
}

async fn measure(work: Arc<Work>, in_flight: u64) -> Result<(), Fault> {
    let begun = work.clock.now();
    let users: Vec<_> = (0..in_flight).map(|_| tokio::spawn(user(Arc::clone(&work)))).collect();
    let mut seen = 0;
    for user in users {
        seen += user.await??;
    }
    let seconds = work.clock.now().since(begun).as_secs_f64();
    println!("{}\t{seconds:.6}\t{seen}", work.requests);
    Ok(())
}

/// Asks until all requests have been begun; the events that came.
async fn user(work: Arc<Work>) -> Result<u64, Fault> {
    let stream = TcpStream::connect(&work.address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What fails in it fails a request, too.
    tokio::spawn(async move { drop(connection.await) });
    let mut reader = Reader::default();
    while work.begun.fetch_add(1, Ordering::Relaxed) < work.requests {
        sender.ready().await?;
        let answer = sender.send_request(request(&work.address)?).await?;
        if !answer.status().is_success() {
            return Err(format!("the server answered {}", answer.status()).into());
        }
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame?.into_data() {
                reader.read(&work, &piece)?;
            }
        }
    }
    Ok(reader.events)
}

fn request(address: &str) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    const BODY: &[u8] = br#"{"model":"base","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"max_tokens":32,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}"#;
    Request::builder()
        .method(Method::POST)
        .uri("/v1/completions")
        .header(HOST, address)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(Full::new(Bytes::from_static(BODY)))
}

/// A chunk, as far as a client must look.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Default)]
struct Reader {
    /// The begin of a line.
    rest: Vec<u8>,
    events: u64,
    stamps: Vec<Nanos>,
}

impl Reader {
    fn read(&mut self, work: &Work, piece: &[u8]) -> Result<(), Fault> {
        let at = work.clock.now();
        self.rest.extend_from_slice(piece);
        let rest = std::mem::take(&mut self.rest);
        let mut left = &rest[..];
        while let Some(end) = memchr(b'\n', left) {
            if let Some(data) = left[..end].strip_prefix(b"data: ") {
                self.event(work.events, at, data)?;
            }
            left = &left[end + 1..];
        }
        let used = rest.len() - left.len();
        self.rest = rest;
        self.rest.drain(..used);
        Ok(())
    }

    fn event(&mut self, events: Events, at: Nanos, data: &[u8]) -> Result<(), Fault> {
        self.events += 1;
        if let (Events::Parse, true) = (events, data != b"[DONE]") {
            let chunk: Chunk<'_> = serde_json::from_slice(data)?;
            if chunk.choices.iter().any(|choice| !choice.text.is_empty()) {
                self.stamps.push(at);
            }
        }
        Ok(())
    }
}
