//! What SGLang's series are fed with.

use super::exposition::Exposition;
use super::meters::{Recent, Shown, Timed, Track};
use acb_sim::{ClusterSpec, Served};

const SERIES: &str = include_str!("sglang.series");

pub(super) fn exposition(model: &str, spec: &ClusterSpec) -> Exposition {
    let mut shown = Exposition::new(SERIES, &[("$model", model.to_owned())], None);
    let (page, pages) = (f64::from(spec.block_tokens()), spec.kv_blocks().unwrap_or(0) as f64);
    shown.set("sglang:page_size", &[], page);
    shown.set("sglang:num_pages", &[], pages);
    shown.set("sglang:max_total_num_tokens", &[], page * pages);
    shown.set("sglang:context_len", &[], f64::from(spec.context_tokens()));
    shown
}

pub(super) fn token(shown: &mut Exposition, track: &Track, gap_s: Option<f64>) {
    shown.add("sglang:generation_tokens_total", &[("is_streaming", track.streamed)], 1.0);
    match gap_s {
        Some(gap_s) => {
            shown.add("sglang:realtime_tokens_total", &[("mode", "decode")], 1.0);
            shown.observe("sglang:inter_token_latency_seconds", &[], gap_s);
        }
        None => {
            let (cached, all) = (f64::from(track.hit_tokens), f64::from(track.prompt_tokens));
            shown.add("sglang:cached_tokens_total", &[("cache_source", "device")], cached);
            shown.add("sglang:prefill_effective_tokens_total", &[("mode", "device_hit")], cached);
            shown.add("sglang:prefill_effective_tokens_total", &[("mode", "input")], all - cached);
            shown.add("sglang:realtime_tokens_total", &[("mode", "prefill_cache")], cached);
            shown.add("sglang:realtime_tokens_total", &[("mode", "prefill_compute")], all - cached);
        }
    }
}

pub(super) fn finished(shown: &mut Exposition, (track, served): (&Track, &Served), timed: Option<Timed>) {
    let streamed = &[("is_streaming", track.streamed)];
    shown.add("sglang:num_requests_total", streamed, 1.0);
    shown.add("sglang:prompt_tokens_total", streamed, f64::from(track.prompt_tokens));
    let computed = track.prompt_tokens.saturating_sub(track.hit_tokens);
    shown.observe("sglang:prompt_tokens_histogram", &[], f64::from(track.prompt_tokens));
    shown.observe("sglang:uncached_prompt_tokens_histogram", &[], f64::from(computed));
    shown.observe("sglang:generation_tokens_histogram", &[], f64::from(served.output_tokens));
    let Some(timed) = timed else { return };
    shown.observe("sglang:time_to_first_token_seconds", streamed, timed.ttft_s);
    shown.observe("sglang:e2e_request_latency_seconds", streamed, timed.e2e_s);
    shown.observe("sglang:queue_time_seconds", &[], timed.queue_s);
    if let Some(tpot_s) = timed.tpot_s {
        shown.observe("sglang:request_time_per_output_token_seconds", streamed, tpot_s);
    }
}

pub(super) fn scraped(
    shown: &mut Exposition,
    state: &Shown<'_>,
    (recent, (slots, most)): (&Recent, (usize, u32)),
    per_second: f64,
) {
    let per_token = state.row.kv_total_bytes.unwrap_or(0) as f64 / state.total_tokens.max(1.0);
    let evictable = state.row.kv_cached_bytes.unwrap_or(0) as f64 / per_token.max(1e-9);
    let used = state.usage * state.total_tokens;
    let (_, hits, tokens) = recent.prefill;
    let idle = state.running == 0.0;
    let gauges = [
        ("sglang:num_running_reqs", state.running),
        ("sglang:num_queue_reqs", state.waiting),
        ("sglang:token_usage", state.usage),
        ("sglang:full_token_usage", state.usage),
        ("sglang:num_used_tokens", used),
        ("sglang:kv_used_tokens", used),
        ("sglang:kv_evictable_tokens", evictable),
        ("sglang:kv_available_tokens", (state.total_tokens - used - evictable).max(0.0)),
        // The last prefill batch alone, so that it says nothing of a run.
        ("sglang:cache_hit_rate", if tokens > 0 { hits as f64 / tokens as f64 } else { 0.0 }),
        ("sglang:gen_throughput", if idle { 0.0 } else { recent.throughput * per_second * 1e-9 }),
        ("sglang:lora_pool_slots_used", slots as f64),
        ("sglang:lora_pool_slots_total", f64::from(most)),
        ("sglang:lora_pool_utilization", slots as f64 / f64::from(most.max(1))),
    ];
    gauges.into_iter().for_each(|(name, value)| shown.set(name, &[], value));
    let retracted = state.row.counters.preemptions.unwrap_or(0) as f64;
    shown.set("sglang:num_retracted_reqs", &[], retracted);
}
