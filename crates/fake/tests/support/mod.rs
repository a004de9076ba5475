//! A client of a few lines, and the simulator on what a server says was submitted.

use acb_fake::{FakeAdapter, FakeOptions, FakeServer, Trace, TraceRow};
use acb_routing::{LeastInFlightSpec, PolicySpec, Router, RouterContext};
use acb_sim::{Cluster, ClusterSpec, Completion, Run, Service, Sink};
use acb_types::{
    AdapterRole, Adapters, ContentId, Nanos, Prompt, QualityTable, ReplicaId, Request, RequestId, Seed,
    Segment, SessionId, Slo, TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::{Arrival, RequestSource};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An answer: status line, headers and body as they came.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|fault| panic!("{fault}: {}", self.body))
    }
}

/// Sends a request on a connection of its own.
pub fn send(addr: SocketAddr, (method, path): (&str, &str), headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .unwrap();
    stream
}

/// Reads an answer to its end.
pub fn receive(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Reply { status, head: head.to_owned(), body }
}

fn unchunk(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body += &rest[..size];
        text = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    body
}

pub fn post(addr: SocketAddr, path: &str, body: &Value) -> Reply {
    receive(send(addr, ("POST", path), "content-type: application/json\r\n", &body.to_string()))
}

pub fn get(addr: SocketAddr, path: &str) -> Reply {
    receive(send(addr, ("GET", path), "", ""))
}

/// Adapters with these names.
pub fn adapters(names: &[&str]) -> Vec<FakeAdapter> {
    names.iter().map(|name| FakeAdapter { name: (*name).to_owned(), rank: 8, bytes: 20_000_000 }).collect()
}

/// One server with adapters `a`, `b` and `c`, much faster than real time.
pub fn options(cluster: ClusterSpec) -> FakeOptions {
    FakeOptions { adapters: adapters(&["a", "b", "c"]), time_scale: 100.0, ..FakeOptions::new(cluster) }
}

pub fn launch(cluster: ClusterSpec) -> (FakeServer, SocketAddr) {
    let server = FakeServer::launch(options(cluster)).unwrap();
    let addr = server.addrs()[0];
    (server, addr)
}

pub fn vllm() -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, 4000, "llama-3.1-8b-l4");
    if let acb_sim::EngineSpec::Vllm(vllm) = &mut spec.engine {
        (vllm.max_loras, vllm.max_cpu_loras) = (2, Some(3));
    }
    spec
}

pub fn sglang() -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, 60_000, "llama-3.1-8b-l4");
    let sglang = acb_sim::SglangSpec { max_loras_per_batch: 2, ..acb_sim::SglangSpec::default() };
    spec.engine = acb_sim::EngineSpec::Sglang(sglang);
    spec
}

/// What a test asked for: token ids, tokens of the answer, adapter by name.
#[derive(Clone)]
pub struct Asked {
    pub ids: Vec<u64>,
    pub tokens: u32,
    pub adapter: Option<&'static str>,
}

/// What the simulator says of a request: admission, first and last token, tokens found in the cache.
pub type Times = (Option<Nanos>, Option<Nanos>, Option<Nanos>, Option<u32>);

pub fn times_of(row: &TraceRow) -> Times {
    let truth = row.engine.as_ref().unwrap();
    (truth.admitted_ns, truth.first_token_ns, truth.last_token_ns, truth.hit_tokens)
}

/// The simulator on the same requests, each sent when the server says that it was submitted.
pub fn simulate(spec: &ClusterSpec, asked: &[Asked], trace: &Trace) -> Vec<Times> {
    let entry = |a: FakeAdapter| (a.name, a.rank, a.bytes, AdapterRole::Placebo);
    let catalogue = Arc::new(Adapters::new(adapters(&["a", "b", "c"]).into_iter().map(entry)).unwrap());
    let mut arrivals: Vec<Arrival> = (0..)
        .zip(asked.iter().zip(&trace.requests))
        .map(|(id, (asked, row))| arrival(id, asked, row.engine.as_ref().unwrap().submitted_ns, &catalogue))
        .collect();
    arrivals.sort_by_key(|arrival| arrival.request.due);
    let context = RouterContext {
        merged: std::collections::BTreeMap::new(),
        replicas: 1,
        adapters: catalogue.clone(),
        prior: Arc::new(QualityTable::from_fn(1, catalogue.len(), |_, _| 0.5).unwrap()),
        slo: Slo { ttft_ns: None, tpot_ns: None, e2e_ns: None },
        costs: spec.costs(&catalogue),
        prefix: spec.prefix_index(),
        seed: Seed(1),
        truth: None,
    };
    let mut router = Router::new(&PolicySpec::LeastInFlight(LeastInFlightSpec::default()), context).unwrap();
    let cluster = Cluster::new(spec, catalogue).unwrap();
    let (mut source, mut sink) = (List(arrivals.into()), Keep(vec![Times::default(); asked.len()]));
    let run = Run {
        cluster: &cluster,
        source: &mut source,
        router: &mut router,
        sink: &mut sink,
        mode: Service::Contended,
    };
    run.run().unwrap();
    sink.0
}

fn arrival(id: u64, asked: &Asked, due: Nanos, catalogue: &Adapters) -> Arrival {
    let segment = |&id: &u64| Segment { content: ContentId(id), tokens: 1 };
    let request = Request {
        id: RequestId(id),
        ask: id,
        due,
        session: SessionId(id),
        turn: 0,
        tenant: TenantId(0),
        trust_group: TrustGroupId(0),
        task: TaskId(0),
        document: None,
        prompt: Prompt::new(asked.ids.iter().map(segment)),
        max_output_tokens: asked.tokens,
        cache_salt: None,
        required_adapter: asked.adapter.map(|name| catalogue.by_name(name).unwrap()),
    };
    Arrival { truth: Truth { request: request.id, output_tokens: asked.tokens }, request }
}

struct List(VecDeque<Arrival>);

impl RequestSource for List {
    fn next_due(&self) -> Option<Nanos> {
        self.0.front().map(|arrival| arrival.request.due)
    }
    fn take(&mut self) -> Option<Arrival> {
        self.0.pop_front()
    }
    fn ended(&mut self, _: RequestId, _: Nanos) {}
}

struct Keep(Vec<Times>);

impl Sink for Keep {
    fn completed(&mut self, done: &Completion<'_>) -> ControlFlow<()> {
        self.0[done.request.id.index()] =
            (done.admitted, done.first_token, done.last_token, done.prefix_hit_tokens);
        ControlFlow::Continue(())
    }
}

/// The trace of the only replica.
pub fn trace(server: &FakeServer) -> Trace {
    server.trace(ReplicaId(0)).unwrap()
}
