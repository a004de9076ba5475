//! The model behind HTTP says what it says in process.
#![cfg(feature = "candle")]

use acb_local::{Ends, LocalModel, LocalServer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn load() -> Result<LocalModel, acb_local::LocalError> {
    let mut model = LocalModel::load(&data("qwen2"))?;
    model.load_adapter("all", &data("qwen2-all"))?;
    Ok(model)
}

fn post(addr: SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length";
    write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn base_and_adapter_answer_by_name_as_in_process_and_replicas_alike() {
    let server = LocalServer::launch(load, "tiny", &[0, 0]).unwrap();
    let model = load().unwrap();
    for (name, adapter) in [("tiny", None), ("all", Some("all"))] {
        let answer = model.generate(&[3, 17, 42], adapter, (6, Ends::Ignored), |_| true).unwrap();
        let text = serde_json::to_string(&model.decode(&answer.tokens).unwrap()).unwrap();
        let body =
            format!(r#"{{"model": "{name}", "prompt": "w3 w17 w42", "max_tokens": 6, "ignore_eos": true}}"#);
        for &addr in server.addrs() {
            let told = post(addr, &body);
            assert!(
                told.starts_with("HTTP/1.1 200") && told.contains(&format!("\"text\":{text}")),
                "{text} {told}"
            );
            assert!(
                told.contains("\"prompt_tokens\":3") && told.contains("\"completion_tokens\":6"),
                "{told}"
            );
        }
    }
}

#[test]
fn a_stream_has_an_event_for_each_token_and_ends_with_counts_and_mark() {
    let server = LocalServer::launch(load, "tiny", &[0]).unwrap();
    let body =
        r#"{"model": "all", "prompt": [3, 17, 42], "max_tokens": 5, "ignore_eos": true, "stream": true}"#;
    let told = post(server.addrs()[0], body);
    let events: Vec<&str> = told.lines().filter(|line| line.starts_with("data: ")).collect();
    assert_eq!(events.len(), 5 + 3, "five tokens, the reason, the counts, the mark: {told}");
    assert!(events[5].contains("\"length\"") && events[6].contains("\"completion_tokens\":5"), "{told}");
    assert_eq!(events[7], "data: [DONE]");
}

#[test]
fn what_is_not_here_is_refused_with_what_is() {
    let server = LocalServer::launch(load, "tiny", &[0]).unwrap();
    for (body, status, word) in [
        (r#"{"model": "none", "prompt": "w3"}"#, "404", "all"),
        (r#"{"model": "tiny", "prompt": "w3", "temperature": 0.7}"#, "400", "temperature"),
        (r#"{"model": "tiny", "prompt": ["w3", "w4"]}"#, "400", "one text"),
        (r#"{"model": "tiny", "prompt": [3], "max_tokens": 999}"#, "400", "128"),
        (r#"{"model": "tiny", "prompt": [300], "max_tokens": 2}"#, "500", "vocabulary"),
        ("nothing", "400", "expected"),
    ] {
        let told = post(server.addrs()[0], body);
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")) && told.contains(word), "{body}: {told}");
    }
}
