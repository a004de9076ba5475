//! What the tests over sockets share: a call, a client, and a server that writes given bytes.
#![allow(dead_code, reason = "each test binary uses its part")]

use acb_live::{Call, Client, ClientOptions, Clock, Target, Text};
use acb_types::Nanos;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::http::uri::PathAndQuery;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// An answer of one token, whole.
pub const ONE_TOKEN: &str =
    "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A bound that no test comes near unless it means to.
pub const LONG: Nanos = Nanos(60_000_000_000);

/// A call for a chat stream.
pub fn call() -> Call {
    Call {
        path: PathAndQuery::from_static("/v1/chat/completions"),
        body: Bytes::from_static(br#"{"model":"m","stream":true,"messages":[]}"#),
        headers: HeaderMap::new(),
        timeout_ns: LONG,
        text: Text::Kept,
    }
}

/// A client of a URL.
pub fn client(url: &str) -> Client {
    client_of(Target::parse(url).expect("a URL"))
}

/// A client of a target.
pub fn client_of(target: Target) -> Client {
    Client::new(target, ClientOptions::default(), Clock::start()).expect("a client")
}

/// A head and a body of known length.
pub fn answer(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An event stream in one chunk, its end announced.
pub fn stream(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// What a server does after its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Waits for the next request.
    Stay,
    /// Closes the connection.
    Close,
}

/// A server that writes the same bytes after each request.
pub struct Bytewise {
    pub addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Answers written.
    answers: Arc<AtomicUsize>,
    /// Connections that the client has closed.
    hangups: Arc<AtomicUsize>,
}

impl Bytewise {
    pub async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("bound");
        let server =
            Self { addr, connections: Arc::default(), answers: Arc::default(), hangups: Arc::default() };
        let (connections, answers, hangups) =
            (server.connections.clone(), server.answers.clone(), server.hangups.clone());
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, answers, hangups) = (answer.clone(), answers.clone(), hangups.clone());
                tokio::spawn(async move {
                    serve(socket, &*answer, then, &answers).await;
                    hangups.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until an answer was written.
    pub async fn answered(&self) {
        until_counted(&self.answers).await;
    }

    /// Waits until the client has closed a connection.
    pub async fn hangup(&self) {
        until_counted(&self.hangups).await;
    }
}

async fn until_counted(counter: &AtomicUsize) {
    while counter.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

/// Answers each request on a connection.
pub async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(&str) -> String,
    then: Then,
    answers: &AtomicUsize,
) {
    while let Some(request) = read_request(&mut socket).await {
        let written = socket.write_all(answer(&request).as_bytes()).await;
        answers.fetch_add(1, Ordering::SeqCst);
        if written.is_err() || then == Then::Close {
            return;
        }
    }
}

/// One request with its body, or `None` when the client has closed.
pub async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
                return Some(text);
            }
        }
        if socket.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}
