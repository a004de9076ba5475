//! Any server of the OpenAI API: what it lists and what it answers, and nothing else.

use super::server::Server;
use super::{DriverError, Fingerprint, ListedAdapter, Models, RuntimeKind};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `GET /v1/models`.
#[derive(Deserialize)]
struct Listing {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    root: Option<String>,
    #[serde(default)]
    parent: Option<String>,
}

/// Models with a parent are adapters of it (vLLM, SGLang); the others are base models.
pub(super) async fn models(server: &Server) -> Result<Models, DriverError> {
    let listing: Listing = server.get_json("/v1/models").await?;
    let mut models = Models::default();
    for Entry { id, root, parent } in listing.data {
        match parent {
            None => models.base.push(id),
            Some(_) => models.adapters.push(ListedAdapter { name: id, path: root, place: None }),
        }
    }
    Ok(models)
}

/// No such server says what it is.
pub(super) async fn fingerprint(server: &Server) -> Result<Fingerprint, DriverError> {
    let reply = server.get("/v1/models").await?;
    server.accepted(&reply, "")?;
    let simulated = reply.document.simulated;
    Ok(Fingerprint { runtime: RuntimeKind::Openai, version: None, simulated, flags: BTreeMap::new() })
}
