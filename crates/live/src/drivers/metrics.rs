//! What each runtime's `/metrics` says, in our words.
//!
//! Left out on purpose: SGLang's `cache_hit_rate` (the last prefill batch alone), `lora_pool_slots_used` (adapters of the
//! running batch, base counting as one, and no residency). No runtime labels its series by adapter: vLLM writes the base
//! model's name for all, so that counts per adapter are the client's.

use super::RuntimeKind;
use super::exposition::{Exposition, Series};
use Moves::{Counter, Gauge, Setting};
use Quantity as Q;
use Unit::{Bytes, Gibibytes, Requests, Share, Tokens};
use acb_types::ServerCounters;

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Requests being computed.
    Running,
    /// Requests waiting.
    Queued,
    /// Share of KV memory that requests hold.
    KvShare,
    /// Tokens of KV memory in all.
    KvTotalTokens,
    /// Tokens of KV memory that requests hold.
    KvUsedTokens,
    /// Tokens of KV memory with prefixes of no running request.
    KvCachedTokens,
    /// Size of KV memory.
    KvTotalBytes,
    /// Steps of the engine.
    Steps,
    /// Prompt tokens looked up in the prefix cache.
    PrefixQueryTokens,
    /// Prompt tokens found there.
    PrefixHitTokens,
    /// Prompt tokens computed.
    PrefillTokens,
    /// Output tokens computed.
    DecodeTokens,
    /// Requests put back from running to waiting.
    Preemptions,
    /// Cached tokens given up to make room.
    KvEvictions,
}

/// How a series moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Only up, until the server restarts: differenced over a run.
    Counter,
    /// Up and down: never differenced.
    Gauge,
    /// Not at all: a setting, in a label.
    Setting(&'static str),
}

/// The unit of the server's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Engine steps.
    Steps,
    /// From 0 to 1, whatever the name says.
    Share,
    /// Bytes.
    Bytes,
    /// 2^30 bytes.
    Gibibytes,
}

/// What it means that no such series is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The server doesn't tell.
    Unknown,
    /// Nothing has happened yet: the series comes with the first event.
    Zero,
}

/// One row of a map.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// What it is.
    pub ours: Quantity,
    /// Its names, the newest version's first.
    pub theirs: &'static [&'static str],
    /// Labels that it must carry; over all others it is summed (engines, ranks, models).
    pub labels: &'static [(&'static str, &'static str)],
    /// How it moves.
    pub moves: Moves,
    /// Its unit.
    pub unit: Unit,
    /// What absence means.
    pub absent: Absent,
}

const fn metric(ours: Quantity, theirs: &'static [&'static str], moves: Moves, unit: Unit) -> Metric {
    Metric { ours, theirs, labels: &[], moves, unit, absent: Absent::Unknown }
}

const fn labelled(metric: Metric, labels: &'static [(&'static str, &'static str)]) -> Metric {
    Metric { labels, ..metric }
}

const fn from_first_event(metric: Metric) -> Metric {
    Metric { absent: Absent::Zero, ..metric }
}

/// vLLM 0.32.0. Both `prefix_cache_*_total` count tokens. `kv_cache_usage_perc` was `gpu_cache_usage_perc` before its engine V1.
pub const VLLM: &[Metric] = &[
    metric(Q::Running, &["vllm:num_requests_running"], Gauge, Requests),
    metric(Q::Queued, &["vllm:num_requests_waiting"], Gauge, Requests),
    metric(Q::KvShare, &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"], Gauge, Share),
    metric(Q::KvTotalTokens, &["vllm:cache_config_info"], Setting("kv_cache_size_tokens"), Tokens),
    metric(Q::KvTotalBytes, &["vllm:cache_config_info"], Setting("kv_cache_memory_bytes"), Bytes),
    metric(
        Q::PrefixQueryTokens,
        &["vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"],
        Counter,
        Tokens,
    ),
    metric(
        Q::PrefixHitTokens,
        &["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"],
        Counter,
        Tokens,
    ),
    labelled(
        metric(Q::PrefillTokens, &["vllm:prompt_tokens_by_source_total"], Counter, Tokens),
        &[("source", "local_compute")],
    ),
    metric(Q::DecodeTokens, &["vllm:generation_tokens_total"], Counter, Tokens),
    metric(Q::Preemptions, &["vllm:num_preemptions_total"], Counter, Requests),
];

/// SGLang 0.5.23. Prompt tokens are counted when a request ends, cached ones when it is prefilled: the two agree when drained.
pub const SGLANG: &[Metric] = &[
    metric(Q::Running, &["sglang:num_running_reqs"], Gauge, Requests),
    metric(Q::Queued, &["sglang:num_queue_reqs"], Gauge, Requests),
    metric(Q::KvShare, &["sglang:token_usage"], Gauge, Share),
    metric(Q::KvTotalTokens, &["sglang:max_total_num_tokens"], Gauge, Tokens),
    metric(Q::KvUsedTokens, &["sglang:num_used_tokens"], Gauge, Tokens),
    metric(Q::KvCachedTokens, &["sglang:kv_evictable_tokens"], Gauge, Tokens),
    metric(Q::KvTotalBytes, &["sglang:kv_cache_memory_usage_gb"], Gauge, Gibibytes),
    metric(Q::PrefixQueryTokens, &["sglang:prompt_tokens_total"], Counter, Tokens),
    from_first_event(metric(Q::PrefixHitTokens, &["sglang:cached_tokens_total"], Counter, Tokens)),
    labelled(
        metric(Q::PrefillTokens, &["sglang:realtime_tokens_total"], Counter, Tokens),
        &[("mode", "prefill_compute")],
    ),
    metric(Q::DecodeTokens, &["sglang:generation_tokens_total"], Counter, Tokens),
    from_first_event(metric(Q::Preemptions, &["sglang:num_retracted_requests_total"], Counter, Requests)),
    from_first_event(metric(Q::KvEvictions, &["sglang:evicted_tokens_total"], Counter, Tokens)),
];

/// llama.cpp b11434, started with `--metrics`. `prompt_tokens_total` has the cached ones in it.
pub const LLAMACPP: &[Metric] = &[
    metric(Q::Running, &["llamacpp:requests_processing"], Gauge, Requests),
    metric(Q::Queued, &["llamacpp:requests_deferred"], Gauge, Requests),
    metric(Q::Steps, &["llamacpp:n_decode_total"], Counter, Unit::Steps),
    metric(Q::PrefixQueryTokens, &["llamacpp:prompt_tokens_total"], Counter, Tokens),
    metric(Q::PrefixHitTokens, &["llamacpp:prompt_tokens_cached_total"], Counter, Tokens),
    metric(Q::DecodeTokens, &["llamacpp:tokens_predicted_total"], Counter, Tokens),
];

/// The map of a runtime; empty where nothing is known of its metrics.
#[must_use]
pub fn metrics_of(runtime: RuntimeKind) -> &'static [Metric] {
    match runtime {
        RuntimeKind::Vllm => VLLM,
        RuntimeKind::Sglang => SGLANG,
        RuntimeKind::Llamacpp => LLAMACPP,
        RuntimeKind::Openai => &[],
    }
}

impl Metric {
    /// Its value, in its unit; `None`: not told.
    #[must_use]
    pub fn read(&self, told: &Exposition) -> Option<f64> {
        let found = self.theirs.iter().find_map(|name| {
            let mut series = told.named(name, self.labels).filter_map(|series| self.value(series));
            series.next().map(|first| first + series.sum::<f64>())
        });
        match self.absent {
            Absent::Unknown => found,
            Absent::Zero => found.or(Some(0.0)),
        }
    }

    fn value(&self, series: &Series) -> Option<f64> {
        let value = match self.moves {
            Counter | Gauge => series.value,
            Setting(label) => series.labels.get(label)?.parse().ok()?,
        };
        let scale = if self.unit == Gibibytes { f64::from(1 << 30) } else { 1.0 };
        (value.is_finite() && value >= 0.0).then_some(value * scale)
    }
}

/// Everything that the map of a runtime finds in a text.
pub(super) struct Read<'a> {
    runtime: RuntimeKind,
    told: &'a Exposition,
}

impl<'a> Read<'a> {
    pub(super) fn new(runtime: RuntimeKind, told: &'a Exposition) -> Self {
        Self { runtime, told }
    }

    /// A number as told, in bytes where the unit is one of bytes.
    pub(super) fn float(&self, quantity: Quantity) -> Option<f64> {
        // A text of another server, or of none, says nothing: not even that nothing happened.
        if self.told.series().is_empty() {
            return None;
        }
        metrics_of(self.runtime).iter().find(|metric| metric.ours == quantity)?.read(self.told)
    }

    /// The same, rounded.
    pub(super) fn count(&self, quantity: Quantity) -> Option<u64> {
        self.float(quantity).map(|value| value.round() as u64)
    }

    /// Counters since the server's start.
    pub(super) fn counters(&self) -> ServerCounters {
        let (query, hit) = (self.count(Q::PrefixQueryTokens), self.count(Q::PrefixHitTokens));
        let rest = || Some(query?.saturating_sub(hit?));
        ServerCounters {
            steps: self.count(Q::Steps),
            prefix_query_tokens: query,
            prefix_hit_tokens: hit,
            prefill_tokens: self.count(Q::PrefillTokens).or_else(rest),
            decode_tokens: self.count(Q::DecodeTokens),
            preemptions: self.count(Q::Preemptions),
            kv_evictions: self.count(Q::KvEvictions),
            ..ServerCounters::default()
        }
    }
}
