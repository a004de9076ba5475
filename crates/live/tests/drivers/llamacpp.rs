//! llama.cpp, whose routes are as seen on b11434.

use crate::common::{Bytewise, Then, answer, stream};
use crate::recorded::{routes, server};
use crate::{data, driver};
use acb_live::drivers::{AdapterFile, DriverError, Pin, Probe, RuntimeKind};
use acb_types::{AdapterRole, Adapters};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const OK: &str = "200 OK";
const ADAPTERS: &str = r#"[{"id": 0, "path": "gguf/lora_a.gguf", "scale": 0.0}, {"id": 1, "path": "gguf/lora_b.gguf", "scale": 0.0}]"#;
const MODELS: &str = r#"{"object": "list", "data": [{"id": "base", "object": "model"}]}"#;

#[tokio::test]
async fn its_adapters_are_named_by_their_files_and_numbered_by_its_start() {
    let server = server(routes([
        ("/v1/models", OK, MODELS.to_owned()),
        ("/lora-adapters", OK, ADAPTERS.to_owned()),
        ("/props", OK, data("llamacpp_props.json")),
        ("/metrics", OK, data("llamacpp_metrics.txt")),
    ]))
    .await;
    let driver = driver(RuntimeKind::Llamacpp, &server.url());
    let listed = driver.models().await.unwrap().adapters;
    let naming = driver.naming(Some("lora_b"), &listed).unwrap();
    assert_eq!(naming.model, "base");
    assert_eq!(naming.lora, Some(json!([{"id": 0, "scale": 0.0}, {"id": 1, "scale": 1.0}])));
    let error = driver.naming(Some("lora_x"), &listed).unwrap_err().to_string();
    assert!(error.contains("`lora_x`") && error.contains("`lora_a`"), "{error}");
    let fingerprint = driver.fingerprint().await.unwrap();
    assert_eq!(fingerprint.version.as_deref(), Some("b11434"));
    assert_eq!(
        fingerprint.flags.keys().collect::<Vec<_>>(),
        ["model_path", "total_slots"],
        "no key, no template"
    );
    let state = driver.scrape().await.unwrap().state;
    let counters = &state.counters;
    assert_eq!((counters.prefix_query_tokens, counters.prefix_hit_tokens), (Some(3000), Some(1499)));
    assert_eq!((counters.prefill_tokens, counters.steps, counters.preemptions), (Some(1501), Some(17), None));
    assert_eq!((state.running, state.kv_total_tokens), (Some(1), None));
    let file = AdapterFile { name: "c", path: "/c", pin: Pin::Evictable };
    assert!(matches!(driver.load(&file).await, Err(DriverError::Unsupported { .. })));
}

/// Whether erasing the slots empties the cache.
#[derive(Clone, Copy)]
enum HostCache {
    Off,
    On,
}

/// A server with two slots that answers prompts, caches one, and notes the bodies that it got.
async fn cached(host: HostCache) -> (Bytewise, Arc<Mutex<Vec<Value>>>) {
    let (bodies, cached) = (Arc::new(Mutex::new(Vec::new())), AtomicU32::new(0));
    let noted = bodies.clone();
    let reply = move |request: &str| match request.split(' ').nth(1).unwrap_or_default() {
        "/v1/models" => answer(OK, "application/json", MODELS),
        "/lora-adapters" => answer(OK, "application/json", ADAPTERS),
        "/slots" => answer(OK, "application/json", r#"[{"id": 0}, {"id": 1}]"#),
        "/slots/1?action=erase" => {
            if matches!(host, HostCache::Off) {
                cached.store(0, Ordering::SeqCst);
            }
            answer(OK, "application/json", r#"{"id_slot": 1, "n_erased": 255}"#)
        }
        "/v1/completions" => {
            let body = request.split_once("\r\n\r\n").unwrap().1;
            noted.lock().unwrap().push(serde_json::from_str(body).unwrap());
            let hit = cached.swap(255, Ordering::SeqCst);
            let usage = json!({"prompt_tokens": 256, "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": hit}});
            let token = json!({"model": "base", "choices": [{"text": "e", "finish_reason": "length"}]});
            let last = json!({"model": "base", "choices": [], "usage": usage});
            stream(&format!("data: {token}\n\ndata: {last}\n\ndata: [DONE]\n\n"))
        }
        _ => answer(OK, "application/json", "{}"),
    };
    (Bytewise::start(reply, Then::Stay).await, bodies)
}

#[tokio::test]
async fn every_slot_is_erased_and_a_host_cache_that_outlives_it_is_named() {
    let (server, _) = cached(HostCache::Off).await;
    let proof = driver(RuntimeKind::Llamacpp, &server.url()).reset_cache().await.unwrap();
    assert_eq!((proof.before, proof.after), (255, 0));
    let (server, _) = cached(HostCache::On).await;
    let error = driver(RuntimeKind::Llamacpp, &server.url()).reset_cache().await.unwrap_err();
    assert!(matches!(error, DriverError::NotReset { after: 255, .. }), "{error}");
    assert!(error.to_string().contains("--cache-ram 0"), "{error}");
}

#[tokio::test]
async fn a_probe_scales_every_adapter_and_base_scales_all_to_nothing() {
    let (server, bodies) = cached(HostCache::Off).await;
    let driver = driver(RuntimeKind::Llamacpp, &server.url());
    for adapter in [Some("lora_a"), None] {
        driver.probe(&Probe { adapter, prompt: "p", max_tokens: 1 }).await.unwrap();
    }
    let loras: Vec<Value> = bodies.lock().unwrap().iter().map(|body| body["lora"].clone()).collect();
    let scales = |a: f64, b: f64| json!([{"id": 0, "scale": a}, {"id": 1, "scale": b}]);
    assert_eq!(loras, [scales(1.0, 0.0), scales(0.0, 0.0)]);
}

#[tokio::test]
async fn adapters_in_another_order_than_the_catalogues_are_refused() {
    let (server, _) = cached(HostCache::Off).await;
    let driver = driver(RuntimeKind::Llamacpp, &server.url());
    let catalogue = |names: [&str; 2]| {
        Adapters::new(names.map(|name| (name.to_owned(), 8, 1, AdapterRole::Placebo))).unwrap()
    };
    assert_eq!(driver.check_places(&catalogue(["lora_a", "lora_b"])).await, Ok(()));
    let error = driver.check_places(&catalogue(["lora_b", "lora_a"])).await.unwrap_err();
    assert!(matches!(error, DriverError::Place { place: 0, .. }), "{error}");
}
