//! `acb serve-fake` as a user starts and stops it.

use crate::bench::{Bench, wait};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A started server, and its URLs without `http://`.
pub fn started(arguments: &[&str], servers: usize) -> (Child, Vec<String>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_acb"))
        .arg("serve-fake")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = stdout.lines().take(servers).map(Result::unwrap).collect();
    let addrs = lines.iter().map(|line| line.strip_prefix("http://").unwrap().to_owned()).collect();
    (child, addrs)
}

/// Stops a server politely and gives back what it said.
pub fn stopped(mut child: Child) -> String {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(wait(child), Some(0), "{said}");
    said
}

fn post(addr: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The answer to a question without a body, its head included.
pub fn get(addr: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn servers_answer_on_the_ports_that_they_print_and_say_loudly_what_they_are() {
    let arguments = ["--engine", "sglang", "--adapters", "sql,chat", "--ports", "0,0", "--time-scale", "100"];
    let (child, addrs) = started(&arguments, 2);
    assert_ne!(addrs[0], addrs[1]);
    let ask = r#"{"model": "base:sql", "prompt": "select all from", "max_tokens": 3}"#;
    let answer = post(&addrs[1], "/v1/completions", ask);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("x-acb-simulated: true"), "{answer}");
    let said = stopped(child);
    assert!(said.contains("SIMULATED") && said.contains("sglang-0.5.23"), "{said}");
}

#[test]
fn a_bench_takes_the_one_base_model_that_a_server_lists() {
    let bench = Bench::new();
    let arguments = ["--engine", "sglang", "--adapters", "sql", "--model", "tiny", "--time-scale", "100"];
    let (child, addrs) = started(&arguments, 1);
    let load = "--runtime sglang --adapters sql --rate 50 --requests 3 --input-tokens 8 --output-tokens 2";
    let ended = bench.acb(&format!("bench --url http://{} {load}", addrs[0]), &[]);
    assert!(ended.out.contains("3 ok"), "{}{}", ended.out, ended.err);
    stopped(child);
}

#[test]
fn the_cluster_of_an_experiment_and_a_script_can_be_served() {
    let bench = Bench::new();
    let file = bench.path("small.yaml");
    let (child, addrs) = started(&[file.to_str().unwrap(), "--time-scale", "1000"], 1);
    let models = post(&addrs[0], "/v1/completions", r#"{"model": "qa", "prompt": "a b", "max_tokens": 2}"#);
    assert!(models.starts_with("HTTP/1.1 200"), "{models}");
    stopped(child);
    let (child, addrs) = started(&["--shape", "tokens=2,ttft-ms=0,itl-ms=0,crlf"], 1);
    let answer = post(&addrs[0], "/v1/completions", r#"{"model": "any", "stream": true}"#);
    assert!(answer.contains("[DONE]\r\n\r\n"), "{answer}");
    stopped(child);
}

#[test]
fn what_can_not_be_served_is_refused_by_name() {
    let bench = Bench::new();
    let check = |arguments: &str, words: &[&str]| {
        bench.acb(&format!("serve-fake {arguments}"), &[]).says(2, words);
    };
    check("--profile no-such", &["no-such", "qwen2.5-1.5b-l4"]);
    check("--fault broken=0.5", &["--fault", "broken", "error-mid"]);
    check("--fault error", &["--fault error", "error=0.01"]);
    check("--fault error=1.5", &["between 0 and 1"]);
    check("--time-scale 0", &["time scale", "0.001"]);
    check("--ports 0,0 --replicas 1", &["2 ports for 1 replicas"]);
    check("--adapters sql,sql", &["sql", "twice"]);
    check("--adapters base", &["\"base\"", "other than the base model's"]);
    check("--accept-delay-ms=-1", &["--accept-delay-ms"]);
    check("--shape crlff", &["--shape", "crlff", "crlf", "ttft-ms"]);
    check("missing.yaml", &["missing.yaml"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    check(&format!("--ports {port}"), &[&port.to_string(), "choose another"]);
}
