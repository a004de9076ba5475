//! What vLLM's series are fed with.

use super::exposition::Exposition;
use super::meters::{Ended, Shown, Timed, Track};
use acb_sim::{ClusterSpec, Served};

const SERIES: &str = include_str!("vllm.series");

pub(super) fn exposition(model: &str, spec: &ClusterSpec, created_s: f64) -> Exposition {
    let (block, blocks) = (u64::from(spec.block_tokens()), spec.kv_blocks().unwrap_or(0));
    let words = [
        ("$model", model.to_owned()),
        ("$block", block.to_string()),
        ("$blocks", blocks.to_string()),
        ("$tokens", (block * blocks).to_string()),
    ];
    let mut shown = Exposition::new(SERIES, &words, Some(created_s));
    shown.set("vllm:cache_config_info", &[], 1.0);
    shown.set("vllm:engine_sleep_state", &[("sleep_state", "awake")], 1.0);
    shown
}

pub(super) fn token(shown: &mut Exposition, track: &Track, index: u32, gap_s: Option<f64>) {
    shown.add("vllm:generation_tokens_total", &[], 1.0);
    if let Some(gap_s) = gap_s {
        shown.observe("vllm:inter_token_latency_seconds", &[], gap_s);
    }
    if index == 0 {
        let (prompt, cached) = (f64::from(track.prompt_tokens), f64::from(track.hit_tokens));
        shown.add("vllm:prompt_tokens_total", &[], prompt);
        shown.add("vllm:prompt_tokens_by_source_total", &[("source", "local_compute")], prompt - cached);
        shown.add("vllm:prompt_tokens_by_source_total", &[("source", "local_cache_hit")], cached);
        shown.add("vllm:prompt_tokens_cached_total", &[], cached);
        shown.add("vllm:prompt_tokens_cached_by_source_total", &[("source", "device")], cached);
    }
}

pub(super) fn finished(
    shown: &mut Exposition,
    (track, served): (&Track, &Served),
    timed: Option<Timed>,
    ended: Ended,
) {
    let reason = match ended {
        Ended::Length => "length",
        Ended::Stop => "stop",
        Ended::Abort => "abort",
    };
    shown.add("vllm:request_success_total", &[("finished_reason", reason)], 1.0);
    let computed = track.prompt_tokens.saturating_sub(track.hit_tokens);
    let counts = [
        ("vllm:request_prompt_tokens", f64::from(track.prompt_tokens)),
        ("vllm:request_generation_tokens", f64::from(served.output_tokens)),
        ("vllm:request_max_num_generation_tokens", f64::from(served.output_tokens)),
        ("vllm:request_params_n", 1.0),
        ("vllm:request_params_max_tokens", f64::from(track.max_tokens)),
        ("vllm:request_num_preemptions", f64::from(served.preemptions)),
        ("vllm:request_prefill_kv_computed_tokens", f64::from(computed)),
    ];
    counts.into_iter().for_each(|(name, value)| shown.observe(name, &[], value));
    let Some(timed) = timed else { return };
    let times = [
        ("vllm:time_to_first_token_seconds", Some(timed.ttft_s)),
        ("vllm:e2e_request_latency_seconds", Some(timed.e2e_s)),
        ("vllm:request_queue_time_seconds", Some(timed.queue_s)),
        ("vllm:request_inference_time_seconds", Some(timed.prefill_s + timed.decode_s)),
        ("vllm:request_prefill_time_seconds", Some(timed.prefill_s)),
        ("vllm:request_decode_time_seconds", Some(timed.decode_s)),
        ("vllm:request_time_per_output_token_seconds", timed.tpot_s),
    ];
    for (name, value) in times {
        value.into_iter().for_each(|value| shown.observe(name, &[], value));
    }
}

pub(super) fn scraped(shown: &mut Exposition, state: &Shown<'_>) {
    let counters = &state.row.counters;
    let count = |counter: Option<u64>| counter.unwrap_or(0) as f64;
    shown.set("vllm:num_requests_running", &[], state.running);
    shown.set("vllm:num_requests_waiting", &[], state.waiting);
    shown.set("vllm:num_requests_waiting_by_reason", &[("reason", "capacity")], state.waiting);
    shown.set("vllm:kv_cache_usage_perc", &[], state.usage);
    shown.set("vllm:prefix_cache_queries_total", &[], count(counters.prefix_query_tokens));
    shown.set("vllm:prefix_cache_hits_total", &[], count(counters.prefix_hit_tokens));
    shown.set("vllm:num_preemptions_total", &[], count(counters.preemptions));
}
