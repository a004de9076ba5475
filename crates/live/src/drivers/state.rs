//! One look at a server: what it says of its load, in our words, with its own words kept.

use super::exposition::Exposition;
use super::metrics::{Quantity as Q, Read};
use super::{DriverError, RuntimeKind};
use acb_routing::ReplicaSnapshot;
use acb_types::{AdapterId, Adapters, Nanos, RECORD_VERSION, ReplicaId, ServerCounters, ServerRow, Source};

/// What a server told. `None`: it doesn't tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerState {
    /// Requests being computed.
    pub running: Option<u32>,
    /// Requests waiting.
    pub queued: Option<u32>,
    /// Prompt tokens of waiting requests that no cache holds.
    pub pending_prefill_tokens: Option<u64>,
    /// KV memory in all, in tokens.
    pub kv_total_tokens: Option<u64>,
    /// Held by requests, in tokens.
    pub kv_used_tokens: Option<u64>,
    /// Reusable prefixes of no running request, in tokens.
    pub kv_cached_tokens: Option<u64>,
    /// KV memory in all, in bytes.
    pub kv_total_bytes: Option<u64>,
    /// Adapters with a request in flight, by name, ascending. This is activity and no residency.
    pub active_adapters: Option<Vec<String>>,
    /// Since the server's start.
    pub counters: ServerCounters,
}

/// A document of a server, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawDocument {
    /// The path that brought it.
    pub path: &'static str,
    /// The document.
    pub body: String,
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    /// In our words.
    pub state: ServerState,
    /// Its series; empty where the runtime has no metrics.
    pub series: Exposition,
    /// In the server's words.
    pub raw: Vec<RawDocument>,
    /// Whether the server says that it only simulates one.
    pub simulated: bool,
}

impl ServerState {
    /// What a text of series says.
    pub(super) fn of(runtime: RuntimeKind, told: &Exposition) -> Self {
        let read = Read::new(runtime, told);
        let small = |quantity| read.count(quantity).and_then(|count| u32::try_from(count).ok());
        let total = read.count(Q::KvTotalTokens);
        let by_share = || Some((read.float(Q::KvShare)? * total? as f64).round() as u64);
        Self {
            running: small(Q::Running),
            queued: small(Q::Queued),
            pending_prefill_tokens: None,
            kv_total_tokens: total,
            kv_used_tokens: read.count(Q::KvUsedTokens).or_else(by_share),
            kv_cached_tokens: read.count(Q::KvCachedTokens),
            kv_total_bytes: read.count(Q::KvTotalBytes),
            active_adapters: (runtime == RuntimeKind::Vllm).then(|| super::vllm::active(told)).flatten(),
            counters: read.counters(),
        }
    }

    /// What a router sees of it. Names that are not of the catalogue are left out.
    #[must_use]
    pub fn snapshot(&self, adapters: &Adapters) -> ReplicaSnapshot {
        let active = self.active_adapters.as_ref().map(|names| {
            let mut ids: Vec<AdapterId> = names.iter().filter_map(|name| adapters.by_name(name)).collect();
            ids.sort_unstable();
            ids
        });
        let free = || Some(self.kv_total_tokens?.saturating_sub(self.kv_used_tokens?));
        ReplicaSnapshot {
            running: self.running,
            queued: self.queued,
            pending_prefill_tokens: self.pending_prefill_tokens,
            free_kv_tokens: free(),
            gpu_adapters: None,
            cpu_adapters: None,
            active_adapters: active,
        }
    }

    /// A row of `server.jsonl`, with counters of the caller's window.
    #[must_use]
    pub fn row(
        &self,
        (at_ns, replica): (Nanos, ReplicaId),
        source: Source,
        counters: ServerCounters,
    ) -> ServerRow {
        let bytes = |tokens: Option<u64>| {
            let share = tokens? as f64 / self.kv_total_tokens.filter(|total| *total > 0)? as f64;
            Some((share * self.kv_total_bytes? as f64).round() as u64)
        };
        ServerRow {
            v: RECORD_VERSION,
            at_ns,
            replica,
            source,
            running: self.running,
            queued: self.queued,
            kv_active_bytes: bytes(self.kv_used_tokens),
            kv_cached_bytes: bytes(self.kv_cached_tokens),
            kv_total_bytes: self.kv_total_bytes,
            adapter_gpu_bytes: None,
            adapter_cpu_bytes: None,
            gpu_adapters: None,
            counters,
        }
    }
}

/// Looks at `/metrics`.
pub(super) async fn metrics(
    server: &super::server::Server,
    remedy: &'static str,
) -> Result<Scrape, DriverError> {
    const PATH: &str = "/metrics";
    let reply = server.get(PATH).await?;
    server.accepted(&reply, remedy)?;
    let body = String::from_utf8_lossy(&reply.document.body).into_owned();
    let series = Exposition::parse(&body).map_err(|error| server.unreadable("GET /metrics", error))?;
    let state = ServerState::of(server.kind, &series);
    let (raw, simulated) = (vec![RawDocument { path: PATH, body }], reply.document.simulated);
    Ok(Scrape { state, series, raw, simulated })
}
