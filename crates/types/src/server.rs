//! What a server reports of itself during a run: one line of `server.jsonl`.

use crate::{Nanos, ReplicaId, Source};
use serde::{Deserialize, Serialize};

/// Counters since run start and gauges at `at_ns` of one replica. From the simulator every field is present; from a
/// real server those that it reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// Steps that the engine ran.
    pub steps: Option<u64>,
    /// Time spent in steps, loads included.
    pub busy_ns: Option<Nanos>,
    /// Prompt tokens looked up in the prefix cache (once per admission).
    pub prefix_query_tokens: Option<u64>,
    /// Prompt tokens found there.
    pub prefix_hit_tokens: Option<u64>,
    /// Prompt tokens computed.
    pub prefill_tokens: Option<u64>,
    /// Output tokens computed.
    pub decode_tokens: Option<u64>,
    /// Requests that lost their KV memory and went back to the queue.
    pub preemptions: Option<u64>,
    /// Cached KV blocks (or tokens, for a radix cache) given up to make room.
    pub kv_evictions: Option<u64>,
    /// Adapter loads into a GPU slot from host memory.
    pub adapter_loads_cpu: Option<u64>,
    /// Adapter loads into a GPU slot from disk.
    pub adapter_loads_disk: Option<u64>,
    /// Adapter loads into a GPU slot from behind the network.
    pub adapter_loads_remote: Option<u64>,
    /// Adapters whose reading into host memory began ahead of need.
    pub adapter_prefetches: Option<u64>,
    /// Of these, the ones that found all of host memory in use.
    pub adapter_prefetches_dropped: Option<u64>,
    /// Adapters dropped from a GPU slot.
    pub adapter_evictions_gpu: Option<u64>,
    /// Adapters dropped from host memory.
    pub adapter_evictions_cpu: Option<u64>,
    /// Time that steps were lengthened by adapter loads.
    pub adapter_stall_ns: Option<Nanos>,
}

/// One line of `server.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    /// [`crate::RECORD_VERSION`].
    pub v: u32,
    /// When the numbers were true.
    pub at_ns: Nanos,
    /// Which replica.
    pub replica: ReplicaId,
    /// Who says so.
    pub source: Source,
    /// Requests being computed.
    pub running: Option<u32>,
    /// Requests waiting.
    pub queued: Option<u32>,
    /// Bytes of KV memory that running requests hold.
    pub kv_active_bytes: Option<u64>,
    /// Bytes of KV memory that hold reusable prefixes of no running request.
    pub kv_cached_bytes: Option<u64>,
    /// Bytes of KV memory in all.
    pub kv_total_bytes: Option<u64>,
    /// Bytes of adapters in GPU slots, padding included.
    pub adapter_gpu_bytes: Option<u64>,
    /// Bytes of adapters in host memory.
    pub adapter_cpu_bytes: Option<u64>,
    /// Adapters in GPU slots by name, ascending by id.
    pub gpu_adapters: Option<Vec<String>>,
    /// Counters since run start.
    pub counters: ServerCounters,
}
