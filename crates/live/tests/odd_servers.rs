//! The client against servers that do odd things, written byte by byte.

mod common;

use acb_live::{
    Authorities, Call, Client, ClientOptions, Clock, ConnectFault, Connection, Ending, Protocol, Target,
    Usage,
};
use acb_types::Nanos;
use common::{Bytewise, ONE_TOKEN, Then, answer, call, client, client_of, serve, stream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

fn connect_fault(ending: &Ending) -> (ConnectFault, &str) {
    match ending {
        Ending::ConnectError { fault, message } => (*fault, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_connection_serves_one_exchange_after_another() {
    let server = Bytewise::start(|_| stream(ONE_TOKEN), Then::Stay).await;
    let client = client(&server.url());
    let first = client.exchange(call()).await;
    let second = client.exchange(call()).await;
    assert_eq!((&first.ending, &second.ending), (&Ending::Ok, &Ending::Ok));
    assert!(matches!(first.connection, Connection::New { .. }), "{:?}", first.connection);
    assert_eq!((second.connection, server.connections()), (Connection::Reused, 1));
    assert!(first.begun_ns <= first.sent_ns.expect("sent"));
    let order =
        [second.sent_ns, second.headers_ns, second.first_event_ns, second.last_token_ns(), second.closed_ns];
    let times: Vec<Nanos> = order.into_iter().map(|at| at.expect("it happened")).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(first.closed_ns.expect("closed") <= second.sent_ns.expect("sent"));
    assert_eq!((second.text.as_deref(), second.simulated), (Some("a"), false));
}

#[tokio::test]
async fn requests_in_flight_at_once_have_a_connection_each_and_leave_them_for_the_next() {
    let server = Bytewise::start(|_| stream(ONE_TOKEN), Then::Stay).await;
    let client = Arc::new(client(&server.url()));
    for _ in 0..3 {
        let running: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.exchange(call()).await })
            })
            .collect();
        for exchange in running {
            assert_eq!(exchange.await.expect("no panic").ending, Ending::Ok);
        }
    }
    assert!(server.connections() <= 8, "{} connections", server.connections());
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_replaced_without_a_failure() {
    let closing =
        |_: &str| stream(ONE_TOKEN).replace("\r\ncontent-type", "\r\nconnection: close\r\ncontent-type");
    let server = Bytewise::start(closing, Then::Close).await;
    let client = client(&server.url());
    for _ in 0..5 {
        assert_eq!(client.exchange(call()).await.ending, Ending::Ok);
    }
    assert_eq!(server.connections(), 5);
}

#[tokio::test]
async fn a_connection_idle_beyond_the_limit_is_not_used() {
    let server = Bytewise::start(|_| stream(ONE_TOKEN), Then::Stay).await;
    let options = ClientOptions { idle_limit_ns: Nanos::ZERO };
    let target = Target::parse(&server.url()).expect("a URL");
    let client = Client::new(target, options, Clock::start()).expect("a client");
    client.exchange(call()).await;
    assert!(matches!(client.exchange(call()).await.connection, Connection::New { .. }));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_refused_by_name() {
    let free =
        TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr()).expect("a port");
    let seen = client(&format!("http://{free}")).exchange(call()).await;
    let (fault, message) = connect_fault(&seen.ending);
    assert_eq!(fault, ConnectFault::Refused);
    assert!(message.contains(&free.to_string()) && message.contains("is the server up"), "{message}");
    assert_eq!((seen.sent_ns, seen.connection, seen.ttft()), (None, Connection::None, None));
}

#[tokio::test]
async fn a_host_that_has_no_address_is_named() {
    let label = "x".repeat(64);
    let seen = client(&format!("http://{label}.invalid")).exchange(call()).await;
    let (fault, message) = connect_fault(&seen.ending);
    assert_eq!(fault, ConnectFault::Dns);
    assert!(message.contains(&label), "{message}");
}

#[tokio::test]
async fn a_server_that_closes_without_an_answer_is_a_connect_error_although_it_was_sent() {
    let server = Bytewise::start(|_| String::new(), Then::Close).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert_eq!(connect_fault(&seen.ending).0, ConnectFault::ClosedBeforeAnswer);
    assert!(seen.sent_ns.is_some() && seen.status.is_none());
    assert_eq!(server.connections(), 1, "nothing is tried twice");
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_a_parse_error() {
    let server = Bytewise::start(|_| "SSH-2.0-OpenSSH_9.2\r\n".to_owned(), Then::Close).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert!(
        matches!(&seen.ending, Ending::ParseError { message } if message.contains("no HTTP")),
        "{:?}",
        seen.ending
    );
}

#[tokio::test]
async fn a_body_shorter_than_announced_is_truncated() {
    let mut cut = answer("200 OK", "text/event-stream", ONE_TOKEN);
    cut.truncate(cut.len() - "[DONE]\n\n".len());
    let server = Bytewise::start(move |_| cut.clone(), Then::Close).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert!(matches!(seen.ending, Ending::Truncated { .. }), "{:?}", seen.ending);
    assert_eq!((seen.wasted_tokens(), seen.closed_ns), (1, None));
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_whole() {
    let head = "HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let server = Bytewise::start(move |_| format!("{head}{ONE_TOKEN}"), Then::Close).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert_eq!(seen.ending, Ending::Ok);
    assert!(seen.closed_ns >= seen.last_token_ns());
}

#[tokio::test]
async fn json_where_a_stream_was_asked_is_a_parse_error_unless_it_tells_an_error() {
    let server =
        Bytewise::start(|_| answer("200 OK", "application/json", r#"{"choices":[]}"#), Then::Stay).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert!(matches!(&seen.ending, Ending::ParseError { message } if message.contains("ask to stream")));
    let error = r#"{"error":{"message":"no","code":7}}"#;
    let server = Bytewise::start(move |_| answer("200 OK", "application/json", error), Then::Stay).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert_eq!(seen.ending, Ending::InbandError { code: Some("7".into()), message: "no".into() });
}

#[tokio::test]
async fn a_refusal_without_json_is_quoted_and_its_body_is_not_read_for_ever() {
    let page = format!("<html>{}</html>", "x".repeat(1 << 20));
    let server = Bytewise::start(move |_| answer("502 Bad Gateway", "text/html", &page), Then::Stay).await;
    let seen = client(&server.url()).exchange(call()).await;
    let Ending::HttpError { status: 502, retry_after: None, message } = &seen.ending else {
        panic!("{:?}", seen.ending)
    };
    assert!(message.starts_with("<html>xxx") && message.len() < 300, "{message}");
    assert!(seen.bytes < 1 << 20, "{} bytes", seen.bytes);
}

#[tokio::test]
async fn a_key_that_the_server_repeats_reaches_no_observation() {
    let repeat = |request: &str| {
        let key = request
            .lines()
            .find_map(|line| line.strip_prefix("authorization: Bearer "))
            .expect("the key came");
        answer(
            "401 Unauthorized",
            "application/json",
            &format!(r#"{{"error":{{"message":"wrong key {key}"}}}}"#),
        )
    };
    let server = Bytewise::start(repeat, Then::Stay).await;
    let target =
        Target::parse(&server.url()).and_then(|target| target.with_api_key("sk-hunter2")).expect("a target");
    let client = client_of(target);
    let seen = client.exchange(call()).await;
    let written = serde_json::to_string(&seen).expect("JSON");
    assert!(written.contains("wrong key [redacted]") && !written.contains("hunter2"), "{written}");
    assert!(!format!("{seen:?} {:?}", client.target()).contains("hunter2"));
}

#[tokio::test]
async fn an_observation_is_read_back_as_it_was_written() {
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":3}}"#;
    let server = Bytewise::start(move |_| stream(&format!("{usage}\n\n{ONE_TOKEN}")), Then::Stay).await;
    let seen = client(&server.url()).exchange(call()).await;
    assert_eq!(seen.usage, Some(Usage { prompt_tokens: Some(3), ..Usage::default() }));
    let written = serde_json::to_string(&seen).expect("JSON");
    // All but the answer's text, which no row holds.
    let expected = acb_live::Observation { text: None, ..seen };
    assert_eq!(serde_json::from_str::<acb_live::Observation>(&written).expect("JSON"), expected);
}

#[tokio::test]
async fn a_path_of_the_url_goes_before_the_calls_and_headers_of_both_are_sent() {
    let check = |request: &str| {
        assert!(request.starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n"), "{request}");
        for line in ["content-type: application/json", "x-tenant: t1", "x-call: 7", "host: 127.0.0.1:"] {
            assert!(request.contains(&format!("\r\n{line}")), "{line} is missing: {request}");
        }
        stream(ONE_TOKEN)
    };
    let server = Bytewise::start(check, Then::Stay).await;
    let target = Target::parse(&format!("{}/openai/", server.url())).expect("a URL");
    let client = client_of(target.with_header("x-tenant", "t1").expect("a header"));
    let mut call = call();
    call.headers.insert("x-call", "7".parse().expect("a value"));
    assert_eq!(client.exchange(call).await.ending, Ending::Ok);
}

#[tokio::test]
async fn a_unix_socket_is_a_server_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a client");
        serve(socket, |_| stream(ONE_TOKEN), Then::Stay, &AtomicUsize::new(0)).await;
    });
    let client = client(&format!("unix:{}", path.display()));
    assert_eq!(client.exchange(call()).await.ending, Ending::Ok);
    assert_eq!(client.exchange(call()).await.connection, Connection::Reused);
    let absent = common::client(&format!("unix:{}.absent", path.display())).exchange(call()).await;
    assert_eq!(connect_fault(&absent.ending).0, ConnectFault::Refused);
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_at_the_bound_and_sees_it() {
    let server = Bytewise::start(|_| String::new(), Then::Stay).await;
    let bound = Nanos::from_millis(50);
    let seen = client(&server.url()).exchange(Call { timeout_ns: bound, ..call() }).await;
    assert_eq!((&seen.ending, seen.status), (&Ending::TimedOut, None));
    assert!(seen.ended_ns.since(seen.begun_ns) >= bound);
    server.hangup().await;
}

#[tokio::test]
async fn a_cancelled_exchange_keeps_what_came_and_the_server_sees_it() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let event = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let begin = format!("{head}{:x}\r\n{event}\r\n", event.len());
    let server = Bytewise::start(move |_| begin.clone(), Then::Stay).await;
    let client = client(&server.url());
    let seen = client.exchange_unless(call(), server.answered()).await;
    assert_eq!(seen.ending, Ending::Cancelled);
    assert!(seen.wasted_tokens() <= 1 && seen.closed_ns.is_none());
    server.hangup().await;
    assert!(matches!(client.exchange_unless(call(), std::future::ready(())).await.ending, Ending::Cancelled));
}

#[tokio::test]
async fn tls_to_a_server_without_it_fails_at_the_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a client");
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("the client waits");
        drain(&mut socket).await;
    });
    let target = Target::parse(&url).expect("a URL");
    let seen = client_of(target.with_authorities(Authorities::Pem(certificate().into_bytes())))
        .exchange(call())
        .await;
    let (fault, message) = connect_fault(&seen.ending);
    assert_eq!(fault, ConnectFault::Tls);
    assert!(message.contains("does the server speak TLS"), "{message}");
}

#[tokio::test]
async fn http_2_to_a_server_without_it_is_named() {
    let server = Bytewise::start(|_| answer("400 Bad Request", "text/plain", ""), Then::Close).await;
    let target = Target::parse(&server.url()).expect("a URL").with_protocol(Protocol::Http2);
    let seen = client_of(target).exchange(call()).await;
    assert!(matches!(seen.ending, Ending::ConnectError { .. }), "{:?}", seen.ending);
}

fn certificate() -> String {
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

async fn drain(socket: &mut (impl AsyncReadExt + Unpin)) {
    let mut bytes = Vec::new();
    drop(socket.read_to_end(&mut bytes).await);
}
