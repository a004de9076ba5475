//! llama.cpp's `llama-server` (facts: build b11434).
//!
//! Adapters are those of its start, by number; a request names all of them with a scale, and a number that it doesn't
//! know is ignored, so that base answers. A prompt's cache belongs to a slot; a host cache (`--cache-ram`) outlives it.

use super::server::Server;
use super::state::{Scrape, metrics};
use super::{DriverError, Fingerprint, ListedAdapter, Models, RuntimeKind, flags};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

const NO_METRICS: &str = "; start the server with --metrics";
const NO_SLOTS: &str = "; start the server with --slots and --slot-save-path DIR";

#[derive(Deserialize)]
struct Adapter {
    id: u32,
    path: String,
}

#[derive(Deserialize)]
struct Slot {
    id: u32,
}

pub(super) async fn models(server: &Server) -> Result<Models, DriverError> {
    let mut models = super::openai::models(server).await?;
    let adapters: Vec<Adapter> = server.get_json("/lora-adapters").await?;
    models.adapters = adapters.into_iter().map(listed).collect();
    Ok(models)
}

fn listed(Adapter { id, path }: Adapter) -> ListedAdapter {
    let stem = Path::new(&path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    ListedAdapter { name: stem.unwrap_or_else(|| path.clone()), path: Some(path), place: Some(id) }
}

/// A scale for every adapter. Without this field a request is under the scales of the server's start.
pub(super) fn scales(adapter: Option<&str>, listed: &[ListedAdapter]) -> Value {
    let scale = |listed: &ListedAdapter| {
        let scale = if adapter == Some(listed.name.as_str()) { 1.0 } else { 0.0 };
        Some(json!({"id": listed.place?, "scale": scale}))
    };
    listed.iter().filter_map(scale).collect()
}

/// Erases every slot.
pub(super) async fn reset(server: &Server) -> Result<(), DriverError> {
    let reply = server.get("/slots").await?;
    let slots: Vec<Slot> = server.json(&reply, NO_SLOTS)?;
    for Slot { id } in slots {
        let reply = server.post(&format!("/slots/{id}?action=erase"), None).await?;
        server.accepted(&reply, NO_SLOTS)?;
    }
    Ok(())
}

pub(super) async fn fingerprint(server: &Server) -> Result<Fingerprint, DriverError> {
    let reply = server.get("/props").await?;
    let props: Value = server.json(&reply, "")?;
    let mut flags = flags(&props);
    // The template is long, and no setting of the engine.
    flags.remove("chat_template");
    let version = flags.remove("build_info").and_then(|build| build.as_str().map(str::to_owned));
    Ok(Fingerprint { runtime: RuntimeKind::Llamacpp, version, simulated: reply.document.simulated, flags })
}

pub(super) async fn scrape(server: &Server) -> Result<Scrape, DriverError> {
    metrics(server, NO_METRICS).await
}
