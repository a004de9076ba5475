//! What the recorded words of the real servers mean.

use crate::common::{Bytewise, Then, answer, stream};
use crate::{data, driver};
use acb_live::drivers::metrics::{Absent, Moves, metrics_of};
use acb_live::drivers::{AdapterFile, DriverError, Exposition, Pin, RuntimeKind, SeriesType};
use acb_types::{Adapters, ServerCounters};

/// A server that answers each path with a status and a body; 404 elsewhere.
pub async fn server(routes: &'static [(&'static str, &'static str, String)]) -> Bytewise {
    let reply = move |request: &str| {
        let asked = request.split(' ').nth(1).unwrap_or_default();
        match routes.iter().find(|(path, ..)| asked.starts_with(path)) {
            Some((_, status, body)) => answer(status, "application/json", body),
            None => answer("404 Not Found", "application/json", r#"{"detail":"Not Found"}"#),
        }
    };
    Bytewise::start(reply, Then::Stay).await
}

/// Routes that live as long as the test.
pub fn routes(
    routes: impl IntoIterator<Item = (&'static str, &'static str, String)>,
) -> &'static [(&'static str, &'static str, String)] {
    Vec::leak(routes.into_iter().collect())
}

const OK: &str = "200 OK";

#[test]
fn every_series_of_the_recorded_texts_is_read() {
    for (name, series) in [("vllm_metrics.txt", VLLM_SERIES), ("sglang_metrics.txt", SGLANG_SERIES)] {
        let text = data(name);
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        let read = Exposition::parse(&text).unwrap();
        assert_eq!((read.series().len(), lines), (series, series), "{name}");
        let untyped = |series: &acb_live::drivers::Series| read.type_of(&series.name) == SeriesType::Untyped;
        assert!(!read.series().iter().any(untyped), "{name}");
    }
}

const VLLM_SERIES: usize = 95;
const SGLANG_SERIES: usize = 159;

/// A metric that is nowhere in the recorded text is misspelt, unless its series comes with the first event.
#[test]
fn every_metric_of_a_map_is_in_the_recorded_text_and_of_its_type() {
    for (runtime, name) in [
        (RuntimeKind::Vllm, "vllm_metrics.txt"),
        (RuntimeKind::Sglang, "sglang_metrics.txt"),
        (RuntimeKind::Llamacpp, "llamacpp_metrics.txt"),
    ] {
        let read = Exposition::parse(&data(name)).unwrap();
        for metric in metrics_of(runtime) {
            let newest = metric.theirs[0];
            let there = read.named(newest, metric.labels).next().is_some();
            assert!(there || metric.absent == Absent::Zero, "{newest} is not in {name}");
            let kind = match metric.moves {
                Moves::Counter => SeriesType::Counter,
                Moves::Gauge | Moves::Setting(_) => SeriesType::Gauge,
            };
            assert!(!there || read.type_of(newest) == kind, "{newest} is {:?}", read.type_of(newest));
        }
    }
}

#[tokio::test]
async fn vllms_words_become_ours() {
    let server = server(routes([("/metrics", OK, data("vllm_metrics.txt"))])).await;
    let state = driver(RuntimeKind::Vllm, &server.url()).scrape().await.unwrap().state;
    assert_eq!((state.running, state.queued), (Some(0), Some(0)));
    assert_eq!((state.kv_total_tokens, state.kv_used_tokens), (Some(262_144), Some(0)));
    assert_eq!((state.kv_total_bytes, state.kv_cached_tokens), (Some(1 << 30), None));
    // Three label sets are there; the newest, which is the second line, is empty.
    assert_eq!(state.active_adapters, Some(Vec::new()));
    let counters = ServerCounters {
        prefix_query_tokens: Some(52),
        prefix_hit_tokens: Some(0),
        prefill_tokens: Some(52),
        decode_tokens: Some(12),
        preemptions: Some(0),
        ..ServerCounters::default()
    };
    assert_eq!(state.counters, counters);
}

#[tokio::test]
async fn the_newest_time_says_which_adapters_are_active_now() {
    let newer = "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"b,a\",waiting_lora_adapters=\"a,x\"} 1.8e9\n";
    let text = data("vllm_metrics.txt") + newer;
    let server = server(routes([("/metrics", OK, text)])).await;
    let state = driver(RuntimeKind::Vllm, &server.url()).scrape().await.unwrap().state;
    assert_eq!(state.active_adapters.as_deref(), Some(&["a", "b", "x"].map(str::to_owned)[..]));
    let catalogue = ["b", "a"].map(|name| (name.to_owned(), 8, 1, acb_types::AdapterRole::Placebo));
    let seen = state.snapshot(&Adapters::new(catalogue).unwrap());
    assert_eq!(seen.active_adapters.unwrap().iter().map(|id| id.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((seen.gpu_adapters, seen.cpu_adapters), (None, None));
}

#[tokio::test]
async fn an_old_vllms_share_of_memory_is_read_under_its_old_name() {
    let text = data("vllm_metrics.txt").replace("kv_cache_usage_perc", "gpu_cache_usage_perc");
    let text = text
        .replace("gpu_cache_usage_perc{engine=\"0\",model_name=\"base\"} 0.0", "gpu_cache_usage_perc 0.25");
    let server = server(routes([("/metrics", OK, text)])).await;
    let state = driver(RuntimeKind::Vllm, &server.url()).scrape().await.unwrap().state;
    assert_eq!(state.kv_used_tokens, Some(65_536));
}

#[tokio::test]
async fn sglangs_live_state_is_in_its_loads_and_its_counters_in_its_metrics() {
    let (loads, metrics) = (data("sglang_loads.json"), data("sglang_metrics.txt"));
    let both = server(routes([("/v1/loads", OK, loads.clone()), ("/metrics", OK, metrics)])).await;
    let scrape = driver(RuntimeKind::Sglang, &both.url()).scrape().await.unwrap();
    let state = scrape.state;
    assert_eq!((state.running, state.queued, state.pending_prefill_tokens), (Some(3), Some(1), Some(120)));
    assert_eq!((state.kv_used_tokens, state.kv_total_tokens), (Some(512), Some(65_536)));
    assert_eq!(state.snapshot(&Adapters::default()).free_kv_tokens, Some(65_024));
    assert_eq!((state.kv_cached_tokens, state.active_adapters), (Some(63), None));
    let counters = &state.counters;
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (Some(79), Some(1)));
    assert_eq!((counters.prefill_tokens, counters.decode_tokens), (Some(79), Some(36)));
    assert_eq!(
        (counters.kv_evictions, counters.preemptions),
        (Some(0), Some(0)),
        "series that come with the first event"
    );
    assert_eq!(scrape.raw.len(), 2);
    let alone = server(routes([("/v1/loads", OK, loads)])).await;
    let state = driver(RuntimeKind::Sglang, &alone.url()).scrape().await.unwrap().state;
    assert_eq!((state.running, state.kv_total_tokens), (Some(3), Some(65_536)));
    assert_eq!(
        state.counters,
        ServerCounters::default(),
        "without metrics nothing is known, not even that nothing happened"
    );
}

#[tokio::test]
async fn what_a_server_was_not_started_for_is_told_with_the_remedy() {
    let bare = server(routes([])).await;
    let file = AdapterFile { name: "c", path: "/c", pin: Pin::Evictable };
    let vllm = driver(RuntimeKind::Vllm, &bare.url());
    let error = vllm.load(&file).await.unwrap_err().to_string();
    assert!(error.contains("VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"), "{error}");
    let error = driver(RuntimeKind::Sglang, &bare.url()).load(&file).await.unwrap_err().to_string();
    assert!(error.contains("--enable-lora"), "{error}");
    let missing = r#"{"error":{"message":"No adapter found for /c","type":"NotFoundError","code":404}}"#;
    let no_path = server(routes([("/v1/load_lora_adapter", "404 Not Found", missing.to_owned())])).await;
    let error = driver(RuntimeKind::Vllm, &no_path.url()).load(&file).await.unwrap_err().to_string();
    assert!(error.contains("No adapter found for /c") && !error.contains("environment"), "{error}");
}

#[tokio::test]
async fn a_no_of_status_200_is_a_no() {
    let no = r#"{"success": false, "error_message": "already loaded"}"#;
    let server = server(routes([("/load_lora_adapter", OK, no.to_owned())])).await;
    let file = AdapterFile { name: "c", path: "/c", pin: Pin::Evictable };
    let error = driver(RuntimeKind::Sglang, &server.url()).load(&file).await.unwrap_err();
    assert!(matches!(&error, DriverError::Refused { message, .. } if message == "already loaded"), "{error}");
}

#[tokio::test]
async fn html_where_a_document_should_be_is_named_with_the_question() {
    let html = "<!doctype html><title>router</title>".to_owned();
    let server = server(routes([("/", OK, html)])).await;
    for kind in [RuntimeKind::Vllm, RuntimeKind::Sglang, RuntimeKind::Llamacpp] {
        let driver = driver(kind, &server.url());
        for error in [driver.models().await.unwrap_err(), driver.scrape().await.unwrap_err()] {
            assert!(matches!(error, DriverError::Unreadable { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_server_of_no_known_kind_is_asked_nothing_that_it_may_not_have() {
    let bare = server(routes([])).await;
    let driver = driver(RuntimeKind::Openai, &bare.url());
    let file = AdapterFile { name: "c", path: "/c", pin: Pin::Evictable };
    let errors = [
        driver.load(&file).await.unwrap_err(),
        driver.unload("c").await.unwrap_err(),
        driver.reset_cache().await.unwrap_err(),
        driver.scrape().await.unwrap_err(),
    ];
    assert!(errors.iter().all(|error| matches!(error, DriverError::Unsupported { .. })), "{errors:?}");
    assert_eq!(bare.connections(), 0);
}

#[tokio::test]
async fn a_cache_that_is_off_and_one_that_is_not_told_prove_nothing() {
    for (usage, missing) in [
        (r#"{"prompt_tokens": 256, "prompt_tokens_details": {"cached_tokens": 0}}"#, "prefix cache on"),
        (r#"{"prompt_tokens": 256}"#, "--enable-prompt-tokens-details"),
    ] {
        let token = r#"{"model": "base", "choices": [{"text": "e", "finish_reason": "length"}]}"#;
        let body =
            format!("data: {token}\n\ndata: {{\"choices\": [], \"usage\": {usage}}}\n\ndata: [DONE]\n\n");
        let server = Bytewise::start(move |_| stream(&body), Then::Stay).await;
        let error = driver(RuntimeKind::Vllm, &server.url()).reset_cache().await.unwrap_err();
        assert!(matches!(error, DriverError::Unproven { .. }), "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_lists_its_model_while_it_loads_is_not_ready() {
    let models = r#"{"object": "list", "data": [{"id": "base"}]}"#.to_owned();
    let loading = server(routes([
        ("/v1/models", OK, models.clone()),
        ("/health", "503 Service Unavailable", r#"{"error": {"message": "Loading model"}}"#.to_owned()),
    ]))
    .await;
    let soon = std::time::Duration::from_millis(300);
    let error = driver(RuntimeKind::Sglang, &loading.url()).ready(soon).await.unwrap_err();
    assert!(
        matches!(&error, DriverError::NotReady { last, .. } if last.contains("Loading model")),
        "{error}"
    );
    let there = server(routes([("/v1/models", OK, models), ("/health", OK, String::new())])).await;
    assert_eq!(driver(RuntimeKind::Sglang, &there.url()).ready(soon).await.unwrap().base, ["base"]);
}
