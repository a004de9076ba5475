//! Drivers against recorded replies, and over real sockets against fake servers of both dialects.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "../common/mod.rs"]
mod common;
mod fakes;
mod llamacpp;
mod recorded;

use acb_fake::{ClusterSpec, EngineSpec, FakeAdapter, FakeOptions, FakeServer, SglangSpec};
use acb_live::Target;
use acb_live::drivers::{Driver, RuntimeKind};

/// A file of `tests/data`.
fn data(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn driver(kind: RuntimeKind, url: &str) -> Driver {
    Driver::new(kind, Target::parse(url).unwrap(), "base").unwrap()
}

fn vllm() -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, 4000, "llama-3.1-8b-l4");
    if let EngineSpec::Vllm(vllm) = &mut spec.engine {
        (vllm.max_loras, vllm.max_cpu_loras) = (2, Some(4));
    }
    spec
}

fn sglang() -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, 60_000, "llama-3.1-8b-l4");
    spec.engine = EngineSpec::Sglang(SglangSpec { max_loras_per_batch: 2, ..SglangSpec::default() });
    spec
}

/// A fake server with adapters `a` and `b`, much faster than real time, and the driver that fits it.
fn fake(spec: ClusterSpec) -> (FakeServer, Driver) {
    let kind = match spec.engine {
        EngineSpec::Vllm(_) => RuntimeKind::Vllm,
        EngineSpec::Sglang(_) => RuntimeKind::Sglang,
    };
    let adapters = ["a", "b"].map(|name| FakeAdapter { name: name.to_owned(), rank: 8, bytes: 20_000_000 });
    let options = FakeOptions { adapters: adapters.into(), time_scale: 100.0, ..FakeOptions::new(spec) };
    let server = FakeServer::launch(options).unwrap();
    let driver = driver(kind, &url(&server));
    (server, driver)
}

fn url(server: &FakeServer) -> String {
    format!("http://{}", server.addrs()[0])
}
