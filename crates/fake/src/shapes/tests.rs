//! The scripted server over real sockets, read byte by byte.

use super::plan::{End, Endpoint, Plan};
use super::*;
use acb_types::Nanos;
use std::io::{Read, Write as _};
use std::net::TcpStream;

const MS: u64 = 1_000_000;

fn script(words: &str) -> Script {
    let mut script = Script::default();
    script.apply(words).unwrap();
    script
}

fn text_of(plan: &Plan) -> String {
    let bytes: Vec<u8> = plan.writes.iter().flat_map(|write| write.bytes.to_vec()).collect();
    String::from_utf8(bytes).unwrap()
}

fn chat(words: &str) -> Plan {
    Plan::stream(&script(words), Endpoint::Chat, "m")
}

fn token_times(plan: &Plan) -> Vec<(u64, u32)> {
    let tokens = plan.writes.iter().filter(|write| write.tokens > 0);
    tokens.map(|write| (write.due.0 / MS, write.tokens)).collect()
}

#[test]
fn the_base_stream_has_a_token_at_100_ms_and_every_20_ms() {
    let plan = chat("");
    let expected: Vec<(u64, u32)> = (0..16).map(|i| (100 + 20 * i, 1)).collect();
    assert_eq!(token_times(&plan), expected);
    assert_eq!((plan.head_due, plan.end.clone()), (Nanos(100 * MS), End::At(Nanos(400 * MS))));
    assert_eq!(text_of(&plan).matches("data: ").count(), 1 + 16 + 1 + 1);
}

#[test]
fn shapes_move_what_they_say_and_nothing_else() {
    assert_eq!((chat("role-early").head_due, chat("role-early").writes[0].due), (Nanos::ZERO, Nanos::ZERO));
    assert_eq!(chat("head-early").head_due, Nanos::ZERO);
    assert_eq!(token_times(&chat("tokens-per-chunk=4")), [(100, 4), (180, 4), (260, 4), (340, 4)]);
    assert_eq!(token_times(&chat("coalesce")), [(400, 16)]);
    assert_eq!(chat("finish-late").end, End::At(Nanos(600 * MS)));
    assert_eq!(chat("done-late").end, End::At(Nanos(700 * MS)));
    assert_eq!(chat("conn-linger").end, End::At(Nanos(700 * MS)));
    assert_eq!(chat("truncate").end, End::Cut(Nanos(260 * MS)));
    assert_eq!(chat("stall,after=3").end, End::Never);
    assert_eq!(token_times(&chat("stall,after=3")).len(), 3);
    assert_eq!(token_times(&chat("error-mid")).len(), 8);
    assert_eq!(token_times(&chat("empty-200")), []);
    assert_eq!(token_times(&chat("split"))[0], (102, 1));
}

#[test]
fn channels_carry_the_tokens_where_they_say() {
    let text = text_of(&chat("reasoning"));
    assert_eq!(
        (text.matches("reasoning_content").count(), text.matches("\"content\":\" tok\"").count()),
        (8, 8)
    );
    assert_eq!(text_of(&chat("reasoning2")).matches("{\"reasoning\":").count(), 8);
    assert!(text_of(&chat("reasoning-only")).contains("\"finish_reason\":\"length\""));
    assert_eq!(text_of(&chat("tool")).matches("\"arguments\"").count(), 16);
    let completions = Plan::stream(&script("role-early"), Endpoint::Completions, "m");
    assert_eq!(text_of(&completions).matches("\"text\":\" tok\"").count(), 16);
    assert!(!text_of(&completions).contains("role"));
}

#[test]
fn usage_is_reported_as_asked() {
    let counts = |words: &str| {
        let text = text_of(&chat(words));
        (text.matches("\"completion_tokens\":16").count(), text.matches("\"usage\":null").count())
    };
    assert_eq!(counts("usage-last"), (1, 0));
    assert_eq!(counts("usage-null"), (1, 17));
    assert_eq!(counts("usage-continuous"), (2, 0));
    assert_eq!(counts("no-usage"), (0, 0));
    assert!(text_of(&chat("usage-wrong")).contains("\"completion_tokens\":32"));
}

#[test]
fn framings_say_the_same_in_other_bytes() {
    assert!(text_of(&chat("crlf")).contains("}\r\n\r\ndata: {"));
    assert!(text_of(&chat("lone-cr")).contains("}\r\rdata: {"));
    assert!(text_of(&chat("nospace")).starts_with("data:{"));
    assert!(text_of(&chat("two-lines")).starts_with("data: {\ndata: \""));
    assert!(text_of(&chat("bom")).starts_with('\u{feff}'));
    assert_eq!(text_of(&chat("bom")).matches('\u{feff}').count(), 1);
    assert_eq!(text_of(&chat("comments")).matches(": ping").count(), 19);
    let cut = &chat("utf8").writes[0].bytes;
    assert_eq!(cut[cut.len() - 1], 0xe2, "cut after the first byte of a character of three");
}

#[test]
fn a_word_that_is_not_known_is_named_with_those_that_are() {
    let unknown = Script::default().apply("crlf,keepalives").unwrap_err().to_string();
    assert!(unknown.contains("\"keepalives\"") && unknown.contains("crlf") && unknown.contains("ttft-ms"));
    let value = Script::default().apply("tokens=0").unwrap_err();
    assert_eq!(value.to_string(), "\"tokens=0\": the value must be a count from 1 to 1000000");
    assert!(Script::default().apply("retry-after=3").is_err());
    assert!(script("429,retry-after=3").fault == Fault::Status { code: 429, retry_after_s: Some(3) });
}

/// All bytes of the answer to one request on a connection of its own.
fn ask(server: &ShapeServer, words: &str, body: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-acb-shape: {words}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

const STREAM: &str = r#"{"model": "sql", "stream": true, "messages": []}"#;

#[test]
fn the_trace_says_what_was_written_and_when() {
    let server = ShapeServer::launch(script("ttft-ms=20,itl-ms=3,tokens=5").into()).unwrap();
    let answer = String::from_utf8(ask(&server, "", STREAM)).unwrap();
    assert!(answer.contains("x-acb-simulated: true") && answer.contains("[DONE]"), "{answer}");
    let trace = server.trace();
    let row = &trace.requests[0];
    assert_eq!((row.model.as_str(), row.tokens, row.status, row.aborted), ("sql", 5, Some(200), false));
    let (first, last) = (row.first_token_ns.unwrap(), row.last_token_ns.unwrap());
    assert!(first.since(row.received_ns).0 >= 20 * MS && last.since(row.received_ns).0 >= 32 * MS);
    assert!(row.closed_ns.unwrap() >= last && trace.connections == 1 && trace.dropped == 0);
}

#[test]
fn faults_reach_the_client_as_they_are_named() {
    let server = ShapeServer::launch(script("ttft-ms=0,itl-ms=0").into()).unwrap();
    let status = |words: &str| {
        let answer = ask(&server, words, STREAM);
        String::from_utf8_lossy(&answer[..]).lines().next().unwrap().to_owned()
    };
    assert_eq!(status("429"), "HTTP/1.1 429 Too Many Requests");
    assert_eq!(status("503"), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(status("nonsense"), "HTTP/1.1 400 Bad Request");
    let cut = String::from_utf8(ask(&server, "truncate,itl-ms=1", STREAM)).unwrap();
    assert!(!cut.contains("[DONE]") && !cut.ends_with("0\r\n\r\n"), "{cut}");
    assert_eq!(cut.matches("\" tok\"").count(), 8);
    let big = ask(&server, "size=1000000", STREAM);
    assert!(big.len() > 1_000_000);
    assert_eq!(server.trace().requests.len(), 4, "what is not understood is not in the trace");
}

#[test]
fn every_nth_request_fails() {
    let options = ShapeOptions { fail_every: Some(4), ..script("ttft-ms=0,itl-ms=0").into() };
    let server = ShapeServer::launch(options).unwrap();
    (0..8).for_each(|_| drop(ask(&server, "", STREAM)));
    let failed: Vec<u64> =
        server.trace().requests.iter().filter(|row| row.status == Some(500)).map(|row| row.id).collect();
    assert_eq!(failed, [3, 7]);
}

#[test]
fn a_client_that_goes_away_is_seen() {
    let server = ShapeServer::launch(script("stall,after=1,ttft-ms=0").into()).unwrap();
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ";
    write!(stream, "{head}{}\r\n\r\n{STREAM}", STREAM.len()).unwrap();
    let mut some = [0; 16];
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    while server.trace().requests[0].closed_ns.is_none() {
        std::thread::yield_now();
    }
    assert!(server.trace().requests[0].aborted);
}

#[test]
fn what_is_due_while_the_server_is_frozen_comes_at_the_end_of_it() {
    let freeze = Freeze { from: Nanos(0), until: Nanos(60 * MS) };
    let options = ShapeOptions { freeze: Some(freeze), ..script("ttft-ms=1,itl-ms=0,tokens=2").into() };
    let server = ShapeServer::launch(options).unwrap();
    ask(&server, "", STREAM);
    assert!(server.trace().requests[0].first_token_ns.unwrap().0 >= 61 * MS);
}

#[test]
fn a_stopped_server_frees_its_port() {
    let server = ShapeServer::launch(ShapeOptions::default()).unwrap();
    let port = server.addr().port();
    assert!(matches!(
        ShapeServer::launch(ShapeOptions { port, ..ShapeOptions::default() }),
        Err(crate::FakeError::Bind { .. })
    ));
    drop(server);
    ShapeServer::launch(ShapeOptions { port, ..ShapeOptions::default() }).unwrap();
}
