//! The rows of traps (`T1` to `T22`) against the scripted server: what comes through real sockets is what the script says.
//!
//! The script's times are lower bounds for the client's, since it cannot read what was not written; there is no upper bound here,
//! because the machine may be busy. Exact figures are tested on bytes with stamps, in `stream_tests`.

mod common;

use acb_fake::TlsIdentity;
use acb_fake::shapes::{ShapeOptions, ShapeServer};
use acb_live::{
    Authorities, Call, Channel, Client, ConnectFault, Connection, Ending, Observation, Protocol, Target,
};
use acb_types::Nanos;
use common::{call, client, client_of};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn shaped(shape: &str) -> Call {
    let mut call = call();
    call.headers.insert("x-acb-shape", shape.parse().expect("a header's value"));
    call
}

async fn server() -> ShapeServer {
    ShapeServer::start(ShapeOptions::default()).await.expect("a server")
}

async fn seen(shape: &str) -> Observation {
    let server = server().await;
    client(&server.url()).exchange(shaped(shape)).await
}

/// The base stream's figures: 16 tokens, the first after 100 ms, the last after 400 ms.
fn check_base(shape: &str, seen: &Observation) {
    assert_eq!(seen.ending, Ending::Ok, "{shape}");
    assert_eq!((seen.token_events.len(), seen.gaps().count()), (16, 15), "{shape}");
    assert_eq!((seen.output_tokens(), seen.status, seen.simulated), (Some(16), Some(200), true), "{shape}");
    at_least(shape, seen.ttft(), 100);
    at_least(shape, seen.e2e(), 400);
    assert!(
        seen.headers_ns <= seen.first_event_ns && seen.first_event_ns <= seen.first_token_ns(),
        "{shape}"
    );
    assert!(seen.token_events.is_sorted_by_key(|event| event.at_ns), "{shape}");
    assert!(seen.last_token_ns() <= seen.closed_ns && seen.closed_ns == Some(seen.ended_ns), "{shape}");
}

fn at_least(shape: &str, time: Option<Nanos>, ms: u64) {
    assert!(time >= Some(Nanos::from_millis(ms)), "{shape}: {time:?} is less than {ms} ms");
}

#[tokio::test]
async fn every_form_of_the_base_stream_gives_its_figures() {
    let server = server().await;
    let client = client(&server.url());
    let forms = [
        "normal",
        "no-role",
        "head-early",
        "role-early",
        "crlf",
        "lone-cr",
        "nospace",
        "event-fields",
        "comments",
        "two-lines",
        "bom",
        "split",
        "utf8",
        "usage-last",
        "usage-null",
        "usage-continuous",
        "finish-apart",
        "no-done",
        "tool",
        "reasoning-only",
        "bigchunk",
        "size=4000000",
        "empty-text",
    ];
    for form in forms {
        check_base(form, &client.exchange(shaped(form)).await);
    }
    assert_eq!(server.trace().connections, 1, "every answer left its connection for the next");
}

#[tokio::test]
async fn the_clients_stamps_lie_between_the_servers_writes_and_its_own_reading() {
    let server = server().await;
    let client = client(&server.url());
    let seen = client.exchange(shaped("normal")).await;
    let trace = server.trace();
    let row = &trace.requests[0];
    let truth = row.first_token_ns.expect("written").since(row.received_ns);
    assert!(seen.ttft().expect("ok") >= truth, "{:?} is before the server's {truth}", seen.ttft());
    let truth = row.last_token_ns.expect("written").since(row.received_ns);
    assert!(seen.e2e().expect("ok") >= truth, "{:?} is before the server's {truth}", seen.e2e());
}

#[tokio::test]
async fn completions_stream_too() {
    let server = server().await;
    let mut call = shaped("normal");
    call.path = "/v1/completions".parse().expect("a path");
    check_base("completions", &client(&server.url()).exchange(call).await);
}

#[tokio::test]
async fn t1_a_role_chunk_at_once_is_the_first_event_and_no_token() {
    let seen = seen("role-early").await;
    check_base("role-early", &seen);
    assert!(seen.first_event() < seen.ttft());
}

#[tokio::test]
async fn t3_a_chunk_of_four_tokens_is_one_event_and_its_tokens_are_known_when_counted() {
    let plain = seen("tokens-per-chunk=4").await;
    assert_eq!((&plain.ending, plain.token_events.len(), plain.output_tokens()), (&Ending::Ok, 4, Some(16)));
    let counted = seen("tokens-per-chunk=4,usage-continuous").await;
    assert!(counted.gaps().all(|gap| gap.tokens.is_some_and(|tokens| tokens.get() == 4)), "{counted:?}");
    let (first, last) = (counted.first_token_ns().expect("ok"), counted.last_token_ns().expect("ok"));
    assert_eq!(counted.tpot_ns(), Some(last.since(first).0 as f64 / 12.0));
    assert_eq!(counted.legacy_tpot_ns(), Some(last.since(first).0 as f64 / 15.0));
}

#[tokio::test]
async fn t5_the_first_visible_token_comes_after_the_reasoning() {
    for shape in ["reasoning", "reasoning2"] {
        let seen = seen(shape).await;
        check_base(shape, &seen);
        assert_eq!((seen.events_in(Channel::Reasoning), seen.events_in(Channel::Content)), (8, 8), "{shape}");
        at_least(shape, seen.first_visible(), 260);
    }
}

#[tokio::test]
async fn t6_reasoning_alone_is_ok_and_shows_nothing() {
    let seen = seen("reasoning-only").await;
    check_base("reasoning-only", &seen);
    assert_eq!((seen.first_visible(), seen.finish_reason.as_deref()), (None, Some("length")));
}

#[tokio::test]
async fn t7_arguments_of_a_tool_call_are_tokens() {
    let seen = seen("tool").await;
    check_base("tool", &seen);
    assert_eq!((seen.events_in(Channel::ToolCall), seen.first_visible()), (16, None));
}

#[tokio::test]
async fn t9_an_error_inside_a_200_is_no_success() {
    let seen = seen("error-mid").await;
    assert!(matches!(seen.ending, Ending::InbandError { .. }), "{:?}", seen.ending);
    assert_eq!((seen.status, seen.wasted_tokens(), seen.ttft()), (Some(200), 8, None));
}

#[tokio::test]
async fn t10_an_empty_200_is_empty() {
    let seen = seen("empty-200").await;
    assert_eq!((&seen.ending, seen.ttft(), seen.wasted_tokens()), (&Ending::Empty, None, 0));
}

#[tokio::test]
async fn t11_a_cut_body_is_truncated() {
    let seen = seen("truncate").await;
    assert!(matches!(seen.ending, Ending::Truncated { .. }), "{:?}", seen.ending);
    assert_eq!((seen.wasted_tokens(), seen.closed_ns), (8, None));
}

#[tokio::test]
async fn t13_an_event_over_sixteen_mebibytes_is_a_parse_error() {
    let seen = seen("size=17000000").await;
    assert!(
        matches!(&seen.ending, Ending::ParseError { message } if message.contains("16 MiB")),
        "{:?}",
        seen.ending
    );
}

#[tokio::test]
async fn t15_a_character_cut_in_two_writes_is_whole() {
    let seen = seen("utf8").await;
    check_base("utf8", &seen);
    at_least("utf8: the second write, 2 ms later, ends the event", seen.ttft(), 102);
    let text = seen.text.as_deref().expect("kept");
    assert!(!text.contains('\u{fffd}') && text.chars().any(|letter| letter.len_utf8() == 3), "{text}");
}

#[tokio::test]
async fn t17_what_follows_the_last_token_is_closing_time() {
    for (shape, close) in [("finish-late", 600), ("done-late", 700), ("conn-linger", 700)] {
        let seen = seen(shape).await;
        check_base(shape, &seen);
        at_least(shape, seen.closed_ns.map(|at| at.since(seen.sent_ns.expect("sent"))), close);
        let after = seen.closed_ns.expect("closed").since(seen.last_token_ns().expect("a token"));
        assert!(after >= Nanos::from_millis(close - 420), "{shape}: closed {after} after the last token");
    }
}

#[tokio::test]
async fn t18_counts_may_be_absent_and_t19_are_the_servers_whatever_they_say() {
    let none = seen("no-usage").await;
    assert_eq!((&none.ending, none.usage, none.tpot_ns()), (&Ending::Ok, None, None));
    let wrong = seen("usage-wrong").await;
    assert_eq!(
        (wrong.output_tokens(), wrong.token_events.len()),
        (Some(32), 16),
        "both are there to be compared"
    );
}

#[tokio::test]
async fn t21_one_failure_of_four_is_one_and_leaves_the_others_ok() {
    let options = ShapeOptions { fail_every: Some(4), ..ShapeOptions::default() };
    let server = ShapeServer::start(options).await.expect("a server");
    let client = client(&server.url());
    let mut classes = Vec::new();
    for _ in 0..4 {
        classes.push(client.exchange(shaped("ttft-ms=0,itl-ms=0")).await.ending.class());
    }
    assert_eq!(classes, ["ok", "ok", "ok", "http_error"]);
}

#[tokio::test]
async fn t22_t32_a_stall_ends_at_the_bound_and_keeps_its_tokens() {
    let server = server().await;
    let client = client(&server.url());
    let stall = |shape| Call { timeout_ns: Nanos::from_millis(300), ..shaped(shape) };
    let some = client.exchange(stall("stall,ttft-ms=0,itl-ms=0")).await;
    assert_eq!((&some.ending, some.wasted_tokens(), some.ttft()), (&Ending::TimedOut, 8, None));
    let none = client.exchange(stall("stall,head-early,after=0")).await;
    assert_eq!((&none.ending, none.wasted_tokens()), (&Ending::TimedOut, 0));
    assert_eq!((none.ttft(), none.e2e(), none.tpot_ns()), (None, None, None));
}

#[tokio::test]
async fn a_body_that_never_ends_is_ok_at_the_bound_once_it_said_done_and_timed_out_before() {
    let server = server().await;
    let call = Call { timeout_ns: Nanos::from_millis(700), ..shaped("never-ends,ttft-ms=0,itl-ms=0") };
    let seen = client(&server.url()).exchange(call).await;
    assert!(matches!(seen.ending, Ending::Ok | Ending::TimedOut), "{:?}", seen.ending);
    assert_eq!((seen.token_events.len(), seen.closed_ns), (16, None));
}

#[tokio::test]
async fn statuses_keep_their_retry_after_and_their_message() {
    for (shape, code) in [("429,retry-after=7", 429), ("503,retry-after=7", 503)] {
        let seen = seen(shape).await;
        let Ending::HttpError { status, retry_after, message } = &seen.ending else {
            panic!("{:?}", seen.ending)
        };
        assert_eq!((*status, retry_after.as_deref(), seen.status), (code, Some("7"), Some(code)));
        assert_eq!(&**message, format!("simulated status {code}"));
    }
}

#[tokio::test]
async fn a_page_of_a_proxy_is_a_parse_error() {
    let seen = seen("html").await;
    let Ending::ParseError { message } = &seen.ending else { panic!("{:?}", seen.ending) };
    assert!(message.contains("text/html") && message.contains("Bad gateway"), "{message}");
}

#[tokio::test]
async fn an_answer_in_one_write_has_one_stamp() {
    let seen = seen("coalesce").await;
    assert_eq!((&seen.ending, seen.token_events.len()), (&Ending::Ok, 16));
    at_least("coalesce", seen.ttft(), 400);
}

#[tokio::test]
async fn http_2_gives_the_same_figures_and_keeps_its_connection() {
    let server = server().await;
    let target = Target::parse(&server.url()).expect("a URL").with_protocol(Protocol::Http2);
    let client = client_of(target);
    for shape in ["normal", "head-early", "bigchunk", "utf8"] {
        check_base(shape, &client.exchange(shaped(shape)).await);
    }
    assert_eq!(server.trace().connections, 1);
    let broken = client.exchange(shaped("truncate")).await;
    assert!(matches!(broken.ending, Ending::Truncated { .. }), "{:?}", broken.ending);
    assert_eq!(broken.wasted_tokens(), 8);
}

struct Certificate {
    pem: Vec<u8>,
    identity: TlsIdentity,
}

fn certificate(name: &str, change: impl Fn(&mut rcgen::CertificateParams)) -> Certificate {
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    change(&mut params);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    Certificate { pem: certificate.pem().into_bytes(), identity: TlsIdentity { chain, key } }
}

async fn tls(identity: TlsIdentity) -> ShapeServer {
    let options = ShapeOptions { tls: Some(identity), ..ShapeOptions::default() };
    ShapeServer::start(options).await.expect("a server")
}

fn tls_client(server: &ShapeServer, pem: Vec<u8>, protocol: Protocol) -> Client {
    let url = format!("https://localhost:{}", server.addr().port());
    let target = Target::parse(&url).expect("a URL").with_protocol(protocol);
    client_of(target.with_authorities(Authorities::Pem(pem)))
}

#[tokio::test]
async fn tls_gives_the_same_figures_by_either_version_of_http() {
    let certificate = certificate("localhost", |_| {});
    let server = tls(certificate.identity).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = tls_client(&server, certificate.pem.clone(), protocol);
        check_base("tls", &client.exchange(shaped("normal")).await);
        assert_eq!(client.exchange(shaped("ttft-ms=0,itl-ms=0")).await.connection, Connection::Reused);
    }
}

#[tokio::test]
async fn a_certificate_out_of_its_dates_or_of_nobody_known_is_named() {
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    };
    let (expired, good) = (certificate("localhost", past), certificate("localhost", |_| {}));
    let other = certificate("other.example", |_| {});
    let cases = [
        (expired.identity, expired.pem, ConnectFault::TlsExpired),
        (good.identity, other.pem.clone(), ConnectFault::TlsUntrusted),
        (other.identity, other.pem, ConnectFault::TlsUntrusted),
    ];
    for (identity, pem, expected) in cases {
        let server = tls(identity).await;
        let seen = tls_client(&server, pem, Protocol::Http1).exchange(shaped("normal")).await;
        let Ending::ConnectError { fault, message } = &seen.ending else { panic!("{:?}", seen.ending) };
        assert_eq!(*fault, expected, "{message}");
    }
}
