//! What a replica says of itself: to a router's scrape, as the server's metrics and load endpoint do, and to
//! `server.jsonl`, where a simulated server hides nothing.

use super::Replica;
use crate::exact::Exact;
use crate::replica::Engine;
use acb_routing::ReplicaSnapshot;
use acb_types::{Adapters, Nanos, RECORD_VERSION, ServerCounters, ServerRow, Source};

impl Replica {
    /// Takes what the steps begun by `at` take of memory, and says how many steps have ended.
    fn settle_at(&mut self, at: Nanos) -> u64 {
        if let Some(stretch) = self.decoding_stretch() {
            self.settle(self.decodes + stretch.boundary_at_or_after(at));
        }
        self.steps(at)
    }

    /// What a scrape at `at` shows. The server counts its adapters and does not name them.
    pub(crate) fn snapshot(&mut self, engine: &Engine<'_>, at: Nanos) -> ReplicaSnapshot {
        self.settle_at(at);
        let chunk = self.chunked.map_or(0, |key| engine.jobs[key].tokens() - engine.jobs[key].computed);
        let outside = self.lora.iter().flat_map(|lora| lora.registry.waiting());
        let outside: u64 = outside.map(|&key| u64::from(engine.jobs[key].tokens())).sum();
        ReplicaSnapshot {
            running: Some(self.running.len() as u32),
            queued: Some(self.waiting()),
            pending_prefill_tokens: Some(u64::from(chunk) + self.queue.tokens() + outside),
            free_kv_tokens: Some(self.memory.available()),
            gpu_adapters: None,
            cpu_adapters: None,
            active_adapters: None,
        }
    }

    /// The row of `server.jsonl` at `at`.
    pub(crate) fn row(&mut self, engine: &Engine<'_>, adapters: &Adapters, at: Nanos) -> ServerRow {
        let steps = self.settle_at(at);
        let rules = engine.rules;
        let bytes = |tokens: u64| Some(tokens * rules.kv_bytes_per_token);
        let gpu = self.lora.as_ref().map(|lora| lora.slots.adapters()).unwrap_or_default();
        let cpu = self.lora.as_ref().map(|lora| lora.registry.adapters()).unwrap_or_default();
        ServerRow {
            v: RECORD_VERSION,
            at_ns: at,
            replica: self.id,
            source: Source::Simulated,
            running: Some(self.running.len() as u32),
            queued: Some(self.waiting()),
            kv_active_bytes: bytes(self.memory.total() - self.memory.available()),
            kv_cached_bytes: bytes(self.memory.evictable()),
            kv_total_bytes: bytes(self.memory.total()),
            adapter_gpu_bytes: Some(gpu.len() as u64 * rules.adapters.slot_bytes),
            adapter_cpu_bytes: Some(cpu.into_iter().map(|a| rules.adapters.bytes(a)).sum()),
            gpu_adapters: Some(gpu.into_iter().map(|a| adapters.get(a).name.clone()).collect()),
            counters: self.server_counters(steps, at),
        }
    }

    fn server_counters(&self, steps: u64, at: Nanos) -> ServerCounters {
        let own = &self.counters;
        let (mut busy, mut decoded) = (own.busy, own.decode_tokens);
        if let Some(activity) = self.activity.filter(|activity| activity.doing != super::Doing::Idle) {
            let stretch = activity.stretch;
            busy += Exact::from(at).min(stretch.end()).max(stretch.from) - stretch.from;
        }
        if let Some(stretch) = self.decoding_stretch() {
            decoded += stretch.ended_by(at) * self.decoding.rows();
        }
        let loads = self.lora.as_ref().map(|lora| lora.loads).unwrap_or_default();
        let (gpu, cpu) = self.lora.as_ref().map_or((0, 0), |l| (l.slots.evictions(), l.registry.evictions()));
        ServerCounters {
            steps: Some(steps),
            busy_ns: Some(busy.floor()),
            prefix_query_tokens: Some(own.prefix_query_tokens),
            prefix_hit_tokens: Some(own.prefix_hit_tokens),
            prefill_tokens: Some(own.prefill_tokens),
            decode_tokens: Some(decoded),
            preemptions: Some(own.preemptions),
            kv_evictions: Some(self.memory.evicted()),
            adapter_loads_cpu: Some(loads.from_cpu),
            adapter_loads_disk: Some(loads.from_disk),
            adapter_loads_remote: Some(loads.from_remote),
            adapter_prefetches: Some(0),
            adapter_prefetches_dropped: Some(0),
            adapter_evictions_gpu: Some(gpu),
            adapter_evictions_cpu: Some(cpu),
            adapter_stall_ns: Some(loads.stall.floor()),
        }
    }

    /// Steps that have ended by `at`.
    pub(crate) fn steps(&self, at: Nanos) -> u64 {
        let computing = |activity: &super::Activity| {
            matches!(activity.doing, super::Doing::Extend { .. } | super::Doing::Decode { .. })
        };
        self.steps + self.activity.filter(computing).map_or(0, |a| a.stretch.ended_by(at))
    }
}
