//! Drivers: what each runtime calls its adapters, and how it is told to load, forget and report.
//!
//! One file per runtime, one `match` here. What a runtime can't do is [`DriverError::Unsupported`], never silence. A driver
//! reads no experiment and keeps no state of a run; facts about runtimes are stated in its file with their version.

mod canary;
mod error;
mod exposition;
mod hot_swap;
mod ledger;
mod llamacpp;
pub mod metrics;
mod openai;
mod probe;
mod server;
mod sglang;
mod state;
mod vllm;
mod watch;

pub use canary::{CANARY_PROMPTS, CanaryError, CanaryReport};
pub use error::DriverError;
pub use exposition::{Exposition, ExpositionError, Series, SeriesType};
pub use hot_swap::{SwapFinding, SwapReport};
pub use ledger::{Ledger, SeriesLedger, SeriesRow, Taken};
pub use probe::{Probe, ProbeAnswer, ResetProof};
pub use state::{RawDocument, Scrape, ServerState};
pub use watch::{RawRow, ReplicaWatch, Watch, WatchEnd, WatchSink};

use crate::load::Dialect;
use crate::{Clock, Target};
use acb_types::{Adapter, Adapters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::Server;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Wait between two looks at a server that starts.
const READY_EVERY: Duration = Duration::from_millis(200);

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's `llama-server`.
    Llamacpp,
    /// Any other server of the OpenAI API.
    Openai,
}

impl RuntimeKind {
    /// How requests are written for it.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Vllm => Dialect::Vllm,
            Self::Sglang => Dialect::Sglang,
            Self::Llamacpp => Dialect::LlamaCpp,
            Self::Openai => Dialect::OpenAi,
        }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Llamacpp => "llama.cpp",
            Self::Openai => "OpenAI-compatible",
        })
    }
}

/// What a server lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models {
    /// Names of base models.
    pub base: Vec<String>,
    /// Adapters, in the server's order.
    pub adapters: Vec<ListedAdapter>,
}

/// An adapter that a server lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAdapter {
    /// Its bare name. llama.cpp has no names: the file's name without its end.
    pub name: String,
    /// Where its weights came from, as the server says it.
    pub path: Option<String>,
    /// llama.cpp's number for it.
    pub place: Option<u32>,
}

/// Whether an adapter may leave memory when others need the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// It may.
    #[default]
    Evictable,
    /// It may not (SGLang alone can promise that).
    Pinned,
}

/// An adapter to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct AdapterFile<'a> {
    /// The name that requests will use.
    pub name: &'a str,
    /// Its folder on the server's machine.
    pub path: &'a str,
    /// Whether it stays.
    pub pin: Pin,
}

/// How a request names what serves it: fields of its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Naming {
    /// `model`.
    pub model: String,
    /// `lora`, on llama.cpp.
    pub lora: Option<Value>,
}

/// What a server is, for a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The runtime.
    pub runtime: RuntimeKind,
    /// Its version in its own words; `None`: it doesn't say.
    pub version: Option<String>,
    /// Whether it says of itself that it only simulates one.
    pub simulated: bool,
    /// Its settings, as far as it tells them; no secret is among them.
    pub flags: BTreeMap<String, Value>,
}

/// The driver of one server.
pub struct Driver {
    server: Server,
    base: Arc<str>,
}

impl Driver {
    /// A driver for a server of this kind, whose base model has this name. Nothing is sent yet.
    ///
    /// # Errors
    /// When no client can be made for the target.
    pub fn new(kind: RuntimeKind, target: Target, base_model: &str) -> Result<Self, DriverError> {
        Ok(Self { server: Server::new(kind, target)?, base: base_model.into() })
    }

    /// Which runtime.
    #[must_use]
    pub fn kind(&self) -> RuntimeKind {
        self.server.kind
    }

    /// Where it is.
    #[must_use]
    pub fn target(&self) -> &Target {
        self.server.target()
    }

    /// Name of the base model.
    #[must_use]
    pub fn base_model(&self) -> &str {
        &self.base
    }

    /// How a request says that this adapter serves it (`None`: base). Only llama.cpp needs to look into `listed`.
    ///
    /// # Errors
    /// When the runtime needs the adapter's place and it isn't listed.
    pub fn naming(&self, adapter: Option<&str>, listed: &[ListedAdapter]) -> Result<Naming, DriverError> {
        let model = match (self.kind(), adapter) {
            (RuntimeKind::Vllm | RuntimeKind::Openai, Some(name)) => name.to_owned(),
            (RuntimeKind::Sglang, Some(name)) => format!("{}:{name}", self.base),
            (RuntimeKind::Llamacpp, _) | (_, None) => self.base.to_string(),
        };
        if self.kind() != RuntimeKind::Llamacpp {
            return Ok(Naming { model, lora: None });
        }
        match adapter.filter(|name| listed.iter().all(|listed| listed.name != *name)) {
            Some(unlisted) => Err(self.no_such_adapter(unlisted, listed)),
            None => Ok(Naming { model, lora: Some(llamacpp::scales(adapter, listed)) }),
        }
    }

    /// Waits until the server says that it is well and lists its base model.
    ///
    /// # Errors
    /// When that did not happen within `deadline`, or it is ready and has another model.
    pub async fn ready(&self, deadline: Duration) -> Result<Models, DriverError> {
        let clock = Clock::start();
        loop {
            let last = match self.healthy_models().await {
                Ok(models) if models.base.iter().any(|name| **name == *self.base) => return Ok(models),
                Ok(models) => {
                    let listed = names(models.base.iter().map(String::as_str));
                    let model = self.base.to_string();
                    return Err(DriverError::NoSuchModel { server: self.server.name(), model, listed });
                }
                Err(error) => error,
            };
            if Duration::from_nanos(clock.now().0) + READY_EVERY > deadline {
                let (server, waited_s) = (self.server.name(), deadline.as_secs());
                return Err(DriverError::NotReady { server, waited_s, last: last.to_string() });
            }
            tokio::time::sleep(READY_EVERY).await;
        }
    }

    /// SGLang and llama.cpp list their model while they still load it, and say so under `/health` with status 503.
    async fn healthy_models(&self) -> Result<Models, DriverError> {
        if self.kind() != RuntimeKind::Openai {
            let health = self.server.get("/health").await?;
            self.server.accepted(&health, "")?;
        }
        self.models().await
    }

    /// Base models and adapters that the server lists.
    ///
    /// # Errors
    /// When it doesn't answer, or not in the words of its runtime.
    pub async fn models(&self) -> Result<Models, DriverError> {
        match self.kind() {
            RuntimeKind::Llamacpp => llamacpp::models(&self.server).await,
            RuntimeKind::Vllm | RuntimeKind::Sglang | RuntimeKind::Openai => {
                openai::models(&self.server).await
            }
        }
    }

    /// Checks that every one of these adapters is listed, and says what is.
    ///
    /// # Errors
    /// At the first that isn't.
    pub async fn require(&self, adapters: &[&str]) -> Result<Models, DriverError> {
        let models = self.models().await?;
        let there = |name: &str| models.adapters.iter().any(|listed| listed.name == name);
        // A server of an unknown kind may list adapters as models without a parent.
        let there = |name: &str| there(name) || models.base.iter().any(|base| base == name);
        match adapters.iter().find(|name| !there(name)) {
            Some(missing) => Err(self.no_such_adapter(missing, &models.adapters)),
            None => Ok(models),
        }
    }

    /// Checks that llama.cpp numbers its adapters as the catalogue does, which is how a load's requests name them. Nothing to
    /// check elsewhere.
    ///
    /// # Errors
    /// At the first adapter with another number, or none.
    pub async fn check_places(&self, adapters: &Adapters) -> Result<(), DriverError> {
        if self.kind() != RuntimeKind::Llamacpp {
            return Ok(());
        }
        let listed = self.models().await?.adapters;
        let in_place = |adapter: &Adapter| {
            listed.iter().any(|there| there.name == adapter.name && there.place == Some(adapter.id.0))
        };
        match adapters.iter().find(|adapter| !in_place(adapter)) {
            None => Ok(()),
            Some(adapter) => Err(DriverError::Place {
                server: self.server.name(),
                adapter: adapter.name.clone(),
                place: adapter.id.0,
                listed: names(listed.iter().map(|listed| listed.name.as_str())),
            }),
        }
    }

    /// Loads an adapter.
    ///
    /// # Errors
    /// When the server refuses, or the runtime can't load or pin.
    pub async fn load(&self, file: &AdapterFile<'_>) -> Result<(), DriverError> {
        match self.kind() {
            RuntimeKind::Vllm => vllm::load(&self.server, file).await,
            RuntimeKind::Sglang => sglang::load(&self.server, file).await,
            RuntimeKind::Llamacpp | RuntimeKind::Openai => {
                Err(self.unsupported("load adapters while it runs", "give them when it starts"))
            }
        }
    }

    /// Unloads an adapter. On SGLang this is no revocation: a request that names it loads it again.
    ///
    /// # Errors
    /// When the server refuses, or the runtime can't unload.
    pub async fn unload(&self, name: &str) -> Result<(), DriverError> {
        match self.kind() {
            RuntimeKind::Vllm => vllm::unload(&self.server, name).await,
            RuntimeKind::Sglang => sglang::unload(&self.server, name).await,
            RuntimeKind::Llamacpp | RuntimeKind::Openai => {
                Err(self.unsupported("unload adapters while it runs", "start it without them"))
            }
        }
    }

    /// What the server is.
    ///
    /// # Errors
    /// When it doesn't answer, or not in the words of its runtime.
    pub async fn fingerprint(&self) -> Result<Fingerprint, DriverError> {
        match self.kind() {
            RuntimeKind::Vllm => vllm::fingerprint(&self.server).await,
            RuntimeKind::Sglang => sglang::fingerprint(&self.server).await,
            RuntimeKind::Llamacpp => llamacpp::fingerprint(&self.server).await,
            RuntimeKind::Openai => openai::fingerprint(&self.server).await,
        }
    }

    /// One look at what the server says of its load.
    ///
    /// # Errors
    /// When it doesn't answer, or not in the words of its runtime, or the runtime says nothing of its load.
    pub async fn scrape(&self) -> Result<Scrape, DriverError> {
        match self.kind() {
            RuntimeKind::Vllm => vllm::scrape(&self.server).await,
            RuntimeKind::Sglang => sglang::scrape(&self.server).await,
            RuntimeKind::Llamacpp => llamacpp::scrape(&self.server).await,
            RuntimeKind::Openai => {
                Err(self
                    .unsupported("be scraped", "name its runtime, or choose a policy that needs no scrape"))
            }
        }
    }

    fn no_such_adapter(&self, adapter: &str, there: &[ListedAdapter]) -> DriverError {
        let listed = names(there.iter().map(|listed| listed.name.as_str()));
        DriverError::NoSuchAdapter { server: self.server.name(), adapter: adapter.to_owned(), listed }
    }

    fn unsupported(&self, what: &'static str, remedy: &'static str) -> DriverError {
        DriverError::Unsupported { runtime: self.kind(), what, remedy }
    }
}

/// Names for an error's sentence.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The scalar fields of a document, less what may be secret. What is nested is state, not a setting.
fn flags(document: &Value) -> BTreeMap<String, Value> {
    const SECRETS: [&str; 4] = ["key", "password", "secret", "auth"];
    let secret = |name: &str| name.ends_with("_token") || SECRETS.iter().any(|word| name.contains(word));
    let fields = document.as_object().into_iter().flatten();
    let kept = fields.filter(|(name, value)| !(value.is_object() || value.is_array() || secret(name)));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
