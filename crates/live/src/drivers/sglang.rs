//! SGLang (facts: version 0.5.23).
//!
//! An adapter is `base:adapter`. Its bare name, which `/v1/models` lists, is answered by the base model with status 200, and so
//! is any other unknown name. What was unloaded is loaded again by the next request that names it. A load gives an adapter
//! a new identity in the cache, so that old prefixes are never found under new weights.

use super::server::{Reply, Server};
use super::state::{RawDocument, Scrape, metrics};
use super::{AdapterFile, DriverError, Fingerprint, Pin, RuntimeKind, flags};
use serde::Deserialize;
use serde_json::{Value, json};

const LOADS: &str = "/v1/loads?include=core,queues,lora,memory";
const NO_LORA: &str = "; start the server with --enable-lora, or with --lora-paths";
const BUSY: &str = "; wait until no request runs, then reset";
const NO_METRICS: &str = "; start the server with --enable-metrics";

/// `GET /v1/loads`: one entry per data-parallel rank, among fields about the answer itself.
#[derive(Deserialize)]
struct Loads {
    loads: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    num_running_reqs: Option<u32>,
    num_waiting_reqs: Option<u32>,
    num_waiting_uncached_tokens: Option<u64>,
    num_used_tokens: Option<u64>,
    max_total_num_tokens: Option<u64>,
    memory: Option<Memory>,
}

#[derive(Deserialize)]
struct Memory {
    token_capacity: Option<u64>,
}

/// What loading and unloading answer, with status 400 too.
#[derive(Deserialize)]
struct Done {
    success: bool,
}

pub(super) async fn load(server: &Server, file: &AdapterFile<'_>) -> Result<(), DriverError> {
    let pinned = file.pin == Pin::Pinned;
    let body = json!({"lora_name": file.name, "lora_path": file.path, "pinned": pinned});
    let reply = server.post("/load_lora_adapter", Some(&body)).await?;
    done(server, &reply)
}

pub(super) async fn unload(server: &Server, name: &str) -> Result<(), DriverError> {
    let reply = server.post("/unload_lora_adapter", Some(&json!({"lora_name": name}))).await?;
    done(server, &reply)
}

fn done(server: &Server, reply: &Reply) -> Result<(), DriverError> {
    let remedy = if reply.document.status == 404 { NO_LORA } else { "" };
    match server.json(reply, remedy)? {
        Done { success: true } => Ok(()),
        Done { success: false } => Err(server.refused(reply, remedy)),
    }
}

pub(super) async fn reset(server: &Server) -> Result<(), DriverError> {
    let reply = server.post("/flush_cache", None).await?;
    server.accepted(&reply, BUSY)
}

pub(super) async fn fingerprint(server: &Server) -> Result<Fingerprint, DriverError> {
    let mut reply = server.get("/server_info").await?;
    if reply.document.status == 404 {
        reply = server.get("/get_server_info").await?;
    }
    let info: Value = server.json(&reply, "")?;
    let mut flags = flags(&info);
    let version = flags.remove("version").and_then(|version| version.as_str().map(str::to_owned));
    Ok(Fingerprint { runtime: RuntimeKind::Sglang, version, simulated: reply.document.simulated, flags })
}

/// Live state by `/v1/loads`, counters by `/metrics` where they are on.
pub(super) async fn scrape(server: &Server) -> Result<Scrape, DriverError> {
    let reply = server.get(LOADS).await?;
    let Loads { loads } = server.json(&reply, "")?;
    let mut scrape = match metrics(server, NO_METRICS).await {
        Ok(scrape) => scrape,
        Err(DriverError::Refused { status: 404, .. }) => Scrape::default(),
        Err(error) => return Err(error),
    };
    let state = &mut scrape.state;
    let sum = |of: fn(&Load) -> Option<u64>| {
        loads.iter().map(of).sum::<Option<u64>>().filter(|_| !loads.is_empty())
    };
    let small = |of| sum(of).and_then(|count| u32::try_from(count).ok());
    state.running = small(|load| load.num_running_reqs.map(u64::from)).or(state.running);
    state.queued = small(|load| load.num_waiting_reqs.map(u64::from)).or(state.queued);
    state.pending_prefill_tokens = sum(|load| load.num_waiting_uncached_tokens);
    state.kv_used_tokens = sum(|load| load.num_used_tokens).or(state.kv_used_tokens);
    state.kv_total_tokens = sum(Load::capacity).or(state.kv_total_tokens);
    scrape.simulated = reply.document.simulated;
    let body = String::from_utf8_lossy(&reply.document.body).into_owned();
    scrape.raw.push(RawDocument { path: LOADS, body });
    Ok(scrape)
}

impl Load {
    fn capacity(&self) -> Option<u64> {
        self.max_total_num_tokens.or_else(|| self.memory.as_ref()?.token_capacity)
    }
}
