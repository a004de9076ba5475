//! vLLM (facts: version 0.32.0 on CPU).
//!
//! An adapter is a model of its own, by its bare name. Loading and unloading need `VLLM_ALLOW_RUNTIME_LORA_UPDATING=True`,
//! resetting the cache needs `VLLM_SERVER_DEV_MODE=1`, both in the server's environment. There is no pinning. The prefix
//! cache knows an adapter by name and path: new weights under both find the old prefixes.

use super::exposition::Exposition;
use super::server::{Reply, Server};
use super::state::{Scrape, metrics};
use super::{AdapterFile, DriverError, Fingerprint, Pin, RuntimeKind, flags};
use hyper::StatusCode;
use serde_json::{Value, json};

const NO_LOADING: &str = "; set VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in the server's environment";
const NO_RESET: &str = "; set VLLM_SERVER_DEV_MODE=1 in the server's environment";
const BUSY: &str = "; wait until no request runs, then reset";

pub(super) async fn load(server: &Server, file: &AdapterFile<'_>) -> Result<(), DriverError> {
    if file.pin == Pin::Pinned {
        return Err(DriverError::Unsupported {
            runtime: RuntimeKind::Vllm,
            what: "pin an adapter",
            remedy: "give it as many slots as there are adapters (--max-loras), or don't pin",
        });
    }
    let body = json!({"lora_name": file.name, "lora_path": file.path});
    let reply = server.post("/v1/load_lora_adapter", Some(&body)).await?;
    server.accepted(&reply, loading_remedy(&reply))
}

pub(super) async fn unload(server: &Server, name: &str) -> Result<(), DriverError> {
    let body = json!({"lora_name": name});
    let reply = server.post("/v1/unload_lora_adapter", Some(&body)).await?;
    server.accepted(&reply, loading_remedy(&reply))
}

/// A path that is not there and a route that is not there have the same status: the words differ.
fn loading_remedy(reply: &Reply) -> &'static str {
    let no_route = reply.document.status == StatusCode::NOT_FOUND.as_u16()
        && serde_json::from_slice::<Value>(&reply.document.body)
            .is_ok_and(|body| body["detail"] == "Not Found");
    if no_route { NO_LOADING } else { "" }
}

pub(super) async fn reset(server: &Server) -> Result<(), DriverError> {
    let reply = server.post("/reset_prefix_cache", None).await?;
    server.accepted(&reply, NO_RESET)?;
    // Older versions answer with nothing; the proof by a probe is what counts.
    let refused =
        serde_json::from_slice::<Value>(&reply.document.body).is_ok_and(|body| body["success"] == false);
    if refused { Err(server.refused(&reply, BUSY)) } else { Ok(()) }
}

/// Version by `/version`, settings by the labels of `cache_config_info`.
pub(super) async fn fingerprint(server: &Server) -> Result<Fingerprint, DriverError> {
    let reply = server.get("/version").await?;
    let told: Value = server.json(&reply, "")?;
    let version = told["version"].as_str().map(str::to_owned);
    let mut flags = flags(&told);
    flags.remove("version");
    let metrics = scrape(server).await?;
    for series in metrics.series.named("vllm:cache_config_info", &[]) {
        flags.extend(series.labels.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))));
    }
    Ok(Fingerprint { runtime: RuntimeKind::Vllm, version, simulated: reply.document.simulated, flags })
}

pub(super) async fn scrape(server: &Server) -> Result<Scrape, DriverError> {
    metrics(server, "").await
}

/// Adapters with a request in flight. Label sets of the past stay for ever: the one with the newest time, which is its
/// value, is the present. Its two lists are filled alike and are taken together.
pub(super) fn active(told: &Exposition) -> Option<Vec<String>> {
    let newest = told.named("vllm:lora_requests_info", &[]).max_by(|a, b| a.value.total_cmp(&b.value))?;
    let lists = ["running_lora_adapters", "waiting_lora_adapters"];
    let lists = lists.iter().filter_map(|list| newest.labels.get(*list));
    let mut names: Vec<String> =
        lists.flat_map(|list| list.split(',')).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    Some(names)
}
