//! What a replica says of itself: to a router's scrape and to `server.jsonl`.

use super::{Engine, Replica};
use acb_routing::ReplicaSnapshot;
use acb_types::{AdapterId, Adapters, Nanos, RECORD_VERSION, ServerCounters, ServerRow, Source};

impl Replica {
    /// Takes from the pool what the steps begun by `at` take, and says how many of them have ended.
    fn settle_at(&mut self, at: Nanos) -> u64 {
        let Some(stretch) = self.stretch else { return self.step };
        let begun = self.step + stretch.boundary_at_or_after(at);
        self.decoding.settle(begun, &mut self.pool);
        self.step + stretch.ended_by(at)
    }

    /// What a scrape at `at` shows.
    pub(crate) fn snapshot(&mut self, engine: &Engine<'_>, at: Nanos) -> ReplicaSnapshot {
        self.settle_at(at);
        self.settle_adapters(engine.rules, at.into());
        let rest = |&key| u64::from(engine.jobs[key].tokens() - engine.jobs[key].computed);
        let stepwise: u64 = self.stepwise.iter().map(rest).sum();
        ReplicaSnapshot {
            running: Some(self.running.len() as u32),
            queued: Some(self.queue.len()),
            pending_prefill_tokens: Some(stepwise + self.queue.tokens()),
            free_kv_tokens: Some(u64::from(self.pool.free()) * u64::from(engine.rules.block)),
            gpu_adapters: Some(self.adapters.gpu_adapters()),
            cpu_adapters: Some(self.adapters.cpu_adapters()),
            active_adapters: Some(self.active_adapters()),
        }
    }

    fn active_adapters(&self) -> Vec<AdapterId> {
        let mut active: Vec<AdapterId> = self.adapters.used().to_vec();
        if self.queue.len() > 0 {
            active.extend(self.queue.adapters());
        }
        active.sort_unstable();
        active.dedup();
        active
    }

    /// The row of `server.jsonl` at `at`.
    pub(crate) fn row(&mut self, engine: &Engine<'_>, adapters: &Adapters, at: Nanos) -> ServerRow {
        let steps = self.settle_at(at);
        self.settle_adapters(engine.rules, at.into());
        let rules = engine.rules;
        let block_bytes = u64::from(rules.block) * rules.kv_bytes_per_token;
        let bytes = |blocks: u32| Some(u64::from(blocks) * block_bytes);
        let names = self.adapters.gpu_adapters().into_iter().map(|a| adapters.get(a).name.clone());
        ServerRow {
            v: RECORD_VERSION,
            at_ns: at,
            replica: self.id,
            source: Source::Simulated,
            running: Some(self.running.len() as u32),
            queued: Some(self.queue.len()),
            kv_active_bytes: bytes(self.pool.len() - self.pool.free()),
            kv_cached_bytes: bytes(self.pool.cached_free()),
            kv_total_bytes: bytes(self.pool.len()),
            adapter_gpu_bytes: Some(u64::from(self.adapters.on_gpu()) * rules.adapters.slot_bytes),
            adapter_cpu_bytes: Some(self.adapters.cpu_bytes()),
            gpu_adapters: Some(names.collect()),
            counters: self.server_counters(steps, at),
        }
    }

    fn server_counters(&self, steps: u64, at: Nanos) -> ServerCounters {
        let (own, adapters) = (&self.counters, self.adapters.counters());
        let ended = steps - self.step;
        let mut busy = own.busy;
        if let Some(stretch) = self.stretch {
            busy += crate::exact::Exact::from(at).min(stretch.end()).max(stretch.from) - stretch.from;
        }
        ServerCounters {
            steps: Some(steps),
            busy_ns: Some(busy.floor()),
            prefix_query_tokens: Some(own.prefix_query_tokens),
            prefix_hit_tokens: Some(own.prefix_hit_tokens),
            prefill_tokens: Some(own.prefill_tokens),
            decode_tokens: Some(own.decode_tokens + ended * self.decoding.rows()),
            preemptions: Some(own.preemptions),
            kv_evictions: Some(self.pool.evictions()),
            adapter_loads_cpu: Some(adapters.loads_cpu),
            adapter_loads_disk: Some(adapters.loads_disk),
            adapter_loads_remote: Some(adapters.loads_remote),
            adapter_prefetches: Some(adapters.prefetches),
            adapter_prefetches_dropped: Some(adapters.prefetches_dropped),
            adapter_evictions_gpu: Some(adapters.evictions_gpu),
            adapter_evictions_cpu: Some(adapters.evictions_cpu),
            adapter_stall_ns: Some(adapters.stall.floor()),
        }
    }

    /// Steps that have ended by `at`.
    pub(crate) fn steps(&self, at: Nanos) -> u64 {
        self.step + self.stretch.map_or(0, |stretch| stretch.ended_by(at))
    }
}
