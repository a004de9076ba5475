//! The fake servers over real sockets.
#![allow(clippy::unwrap_used, reason = "tests may unwrap, and what serves them too")]

mod support;

use acb_fake::{FakeError, FakeOptions, FakeServer, Faults};
use acb_sim::ClusterSpec;
use acb_types::{Outcome, ReplicaId};
use serde_json::{Value, json};
use std::io::Read;
use support::{Asked, get, launch, options, post, receive, send, sglang, simulate, times_of, trace, vllm};

fn body(spec: &ClusterSpec, asked: &Asked) -> Value {
    let model = match (&spec.engine, asked.adapter) {
        (_, None) => "base".to_owned(),
        (acb_sim::EngineSpec::Vllm(_), Some(adapter)) => adapter.to_owned(),
        (acb_sim::EngineSpec::Sglang(_), Some(adapter)) => format!("base:{adapter}"),
    };
    json!({
        "model": model, "prompt": asked.ids, "max_tokens": asked.tokens, "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true},
    })
}

/// Documents shared by several requests under several adapters.
fn questions() -> Vec<Asked> {
    let adapters = [None, Some("a"), None, Some("a"), Some("b"), Some("a"), Some("b"), Some("c")];
    let ask = |(at, adapter): (u64, Option<&'static str>)| Asked {
        ids: (0..200 + 10 * at)
            .map(|i| if i < 160 { 1000 * (at % 2) + i } else { 10_000 * (at + 1) + i })
            .collect(),
        tokens: 3 + at as u32,
        adapter,
    };
    (0..).zip(adapters).map(ask).collect()
}

fn usage(reply: &support::Reply) -> Value {
    let events = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.filter_map(|event| serde_json::from_str(event).ok()).collect();
    events.into_iter().find(|event| event["usage"].is_object()).unwrap()["usage"].clone()
}

#[test]
fn one_after_the_other_requests_are_admitted_and_hit_as_in_the_simulator() {
    for spec in [vllm(), sglang()] {
        let (server, addr) = launch(spec.clone());
        let asked = questions();
        let replies: Vec<_> =
            asked.iter().map(|asked| post(addr, "/v1/completions", &body(&spec, asked))).collect();
        let trace = trace(&server);
        let simulated = simulate(&spec, &asked, &trace);
        let mut hits = 0;
        for ((row, right), (reply, asked)) in
            trace.requests.iter().zip(&simulated).zip(replies.iter().zip(&asked))
        {
            assert_eq!(times_of(row), *right);
            assert_eq!((row.tokens, row.aborted), (asked.tokens, false));
            let usage = usage(reply);
            assert_eq!(usage["completion_tokens"], asked.tokens);
            assert_eq!(usage["prompt_tokens"], asked.ids.len());
            assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], right.3.unwrap());
            hits += right.3.unwrap();
        }
        assert!(hits >= 4 * 160, "the requests share prefixes: {hits}");
    }
}

#[test]
fn side_by_side_requests_take_the_steps_of_the_simulator() {
    for spec in [vllm(), sglang()] {
        let (server, addr) = launch(spec.clone());
        let asked: Vec<Asked> = questions().into_iter().cycle().take(24).collect();
        let launch_one = |(at, asked): (usize, &Asked)| {
            let stream = send(addr, ("POST", "/v1/completions"), "", &body(&spec, asked).to_string());
            // The next one is sent when this one is in the trace, so that both have one order.
            while trace(&server).requests.len() <= at {
                std::thread::yield_now();
            }
            stream
        };
        let streams: Vec<_> = asked.iter().enumerate().map(launch_one).collect();
        streams.into_iter().for_each(|stream| assert_eq!(receive(stream).status, 200));
        let trace = trace(&server);
        let simulated = simulate(&spec, &asked, &trace);
        for (row, right) in trace.requests.iter().zip(&simulated) {
            assert_eq!(times_of(row), *right);
            assert_eq!(row.engine.as_ref().unwrap().outcome, Some(Outcome::Ok));
        }
    }
}

fn ask(addr: std::net::SocketAddr, model: &str, prompt: &str) -> support::Reply {
    post(addr, "/v1/completions", &json!({"model": model, "prompt": prompt, "max_tokens": 4}))
}

fn text(reply: &support::Reply) -> String {
    reply.json()["choices"][0]["text"].as_str().unwrap().to_owned()
}

fn cached(reply: &support::Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

const LONG: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
                    seventeen eighteen nineteen twenty";

#[test]
fn on_vllm_an_adapter_is_a_model_and_a_name_that_nobody_knows_is_refused() {
    let (_server, addr) = launch(vllm());
    let (base, a) = (ask(addr, "base", LONG), ask(addr, "a", LONG));
    assert!(a.head.contains("x-acb-simulated: true") && a.json()["system_fingerprint"] == "simulated");
    assert_eq!(a.json()["model"], "a");
    assert_ne!(text(&base), text(&a));
    assert_eq!((cached(&ask(addr, "a", LONG)), cached(&ask(addr, "b", LONG))), (16, 0));
    let unknown = ask(addr, "nope", "hi");
    assert_eq!((unknown.status, &unknown.json()["error"]["type"]), (404, &json!("NotFoundError")));
    let models = get(addr, "/v1/models").json();
    assert_eq!((&models["data"][1]["id"], &models["data"][1]["parent"]), (&json!("a"), &json!("base")));
    assert_eq!(get(addr, "/version").json()["version"], "0.33.0");
    assert_eq!((get(addr, "/health").status, get(addr, "/v1/loads").status), (200, 404));
}

#[test]
fn on_vllm_adapters_are_loaded_and_unloaded_and_new_weights_find_old_prefixes() {
    let (_server, addr) = launch(vllm());
    let load = json!({"lora_name": "swap", "lora_path": "/adapters/swap"});
    assert_eq!(ask(addr, "swap", LONG).status, 404);
    assert_eq!(post(addr, "/v1/load_lora_adapter", &load).status, 200);
    assert_eq!(post(addr, "/v1/load_lora_adapter", &load).status, 400, "it is loaded already");
    assert_eq!(cached(&ask(addr, "swap", LONG)), 0);
    let unload = json!({"lora_name": "swap"});
    assert_eq!(post(addr, "/v1/unload_lora_adapter", &unload).status, 200);
    assert_eq!(post(addr, "/v1/unload_lora_adapter", &unload).status, 404);
    assert_eq!(ask(addr, "swap", LONG).status, 404);
    post(addr, "/v1/load_lora_adapter", &load);
    assert_eq!(cached(&ask(addr, "swap", LONG)), 16, "blocks are known by name and path");
    assert_eq!(post(addr, "/reset_prefix_cache", &json!({})).json(), json!({"success": true}));
    assert_eq!(cached(&ask(addr, "swap", LONG)), 0);
}

#[test]
fn on_sglang_a_bare_adapter_name_is_served_by_base_without_a_word() {
    let (server, addr) = launch(sglang());
    let (base, bare, named) = (ask(addr, "base", LONG), ask(addr, "a", LONG), ask(addr, "base:a", LONG));
    assert_eq!((bare.status, text(&bare)), (200, text(&base)));
    assert_ne!(text(&named), text(&base));
    assert_eq!((cached(&bare), cached(&named), cached(&ask(addr, "base:a", LONG))), (19, 0, 19));
    let by_path = json!({"model": "base", "lora_path": "a", "prompt": LONG, "max_tokens": 4});
    assert_eq!(text(&post(addr, "/v1/completions", &by_path)), text(&named));
    assert_eq!(ask(addr, "base:nope", LONG).status, 400);
    let served: Vec<_> =
        trace(&server).requests.iter().map(|r| r.engine.clone().and_then(|e| e.adapter)).collect();
    assert_eq!(served[..3], [None, None, Some("a".to_owned())]);
    assert_eq!(get(addr, "/get_server_info").json()["max_loras_per_batch"], 2);
    assert_eq!(get(addr, "/v1/loads").json()["loads"][0]["lora"]["slots_total"], 2);
}

#[test]
fn on_sglang_an_unloaded_adapter_comes_back_when_it_is_asked_for_and_finds_nothing() {
    let (_server, addr) = launch(sglang());
    ask(addr, "base:a", LONG);
    let gone = post(addr, "/unload_lora_adapter", &json!({"lora_name": "a"}));
    assert_eq!((gone.status, &gone.json()["loaded_adapters"]), (200, &json!({"b": "b", "c": "c"})));
    let again = ask(addr, "base:a", LONG);
    assert_eq!((again.status, cached(&again)), (200, 0));
    let load = json!({"lora_name": "d", "lora_path": "/d"});
    assert!(post(addr, "/load_lora_adapter", &load).json()["success"] == true);
    assert_eq!(post(addr, "/load_lora_adapter", &load).status, 400);
    assert_eq!(ask(addr, "base:d", LONG).status, 200);
    assert_eq!(get(addr, "/flush_cache").status, 200);
    assert_eq!(cached(&ask(addr, "base:d", LONG)), 0);
}

#[test]
fn an_answer_that_is_sent_back_is_in_the_cache() {
    let (_server, addr) = launch(sglang());
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let chat = |messages: Value| {
        post(addr, "/v1/chat/completions", &json!({"model": "base", "messages": messages, "max_tokens": 8}))
    };
    let first = chat(json!([message("user", LONG)]));
    let answer = first.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let second =
        chat(json!([message("user", LONG), message("assistant", &answer), message("user", "and then")]));
    // The last token of an answer is never computed.
    assert_eq!(cached(&second), 20 + 8 - 1);
}

#[test]
fn whoever_hangs_up_frees_the_engine() {
    let (server, addr) = launch(sglang());
    let long = json!({"model": "base", "prompt": LONG, "max_tokens": 30_000, "stream": true});
    let mut stream = send(addr, ("POST", "/v1/completions"), "", &long.to_string());
    let mut some = [0; 200];
    stream.read_exact(&mut some).unwrap();
    let busy = post(addr, "/flush_cache", &json!({}));
    assert_eq!(busy.status, 400, "{}", busy.body);
    drop(stream);
    while trace(&server).requests[0].closed_ns.is_none() {
        std::thread::yield_now();
    }
    let row = trace(&server).requests[0].clone();
    assert!(row.aborted && row.engine.unwrap().outcome == Some(Outcome::TimedOut));
    while post(addr, "/flush_cache", &json!({})).status != 200 {
        std::thread::yield_now();
    }
    assert!(get(addr, "/metrics").body.contains("sglang:num_running_reqs{engine_type=\"unified\""));
}

#[test]
fn the_length_of_an_answer_is_the_limit_or_what_the_header_says() {
    let (_server, addr) = launch(vllm());
    let asked = json!({"model": "base", "prompt": "a b c", "max_tokens": 9}).to_string();
    let shorter =
        receive(send(addr, ("POST", "/v1/completions"), "x-acb-output-tokens: 5\r\n", &asked)).json();
    assert_eq!(
        (&shorter["usage"]["completion_tokens"], &shorter["choices"][0]["finish_reason"]),
        (&json!(5), &json!("stop"))
    );
    let whole = receive(send(addr, ("POST", "/v1/completions"), "", &asked)).json();
    assert_eq!(
        (&whole["usage"]["completion_tokens"], &whole["choices"][0]["finish_reason"]),
        (&json!(9), &json!("length"))
    );
    let wrong = receive(send(addr, ("POST", "/v1/completions"), "x-acb-output-tokens: many\r\n", &asked));
    assert!(wrong.status == 400 && wrong.body.contains("x-acb-output-tokens"), "{}", wrong.body);
}

fn metric(text: &str, name: &str, labels: &str) -> f64 {
    let line = text.lines().find(|line| {
        line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']) && line.contains(labels)
    });
    line.unwrap_or_else(|| panic!("no {name} with {labels}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn vllm_counts_tokens_and_shows_activity_with_a_time_for_a_value() {
    let (_server, addr) = launch(vllm());
    for model in ["base", "a", "a"] {
        ask(addr, model, LONG);
    }
    let text = get(addr, "/metrics").body;
    assert_eq!(metric(&text, "vllm:prompt_tokens_total", ""), 60.0);
    assert_eq!(metric(&text, "vllm:prefix_cache_queries_total", ""), 60.0);
    assert_eq!(metric(&text, "vllm:prefix_cache_hits_total", ""), 16.0);
    assert_eq!(metric(&text, "vllm:prompt_tokens_by_source_total", "local_cache_hit"), 16.0);
    assert_eq!(metric(&text, "vllm:generation_tokens_total", ""), 12.0);
    assert_eq!(metric(&text, "vllm:request_success_total", "length"), 3.0);
    assert_eq!(metric(&text, "vllm:time_to_first_token_seconds_count", ""), 3.0);
    assert_eq!(metric(&text, "vllm:num_requests_running", ""), 0.0);
    let busy = "max_lora=\"2\",running_lora_adapters=\"a\",waiting_lora_adapters=\"a\"";
    let idle = "max_lora=\"2\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"";
    let (then, now) =
        (metric(&text, "vllm:lora_requests_info", busy), metric(&text, "vllm:lora_requests_info", idle));
    assert!(then > 1.6e9 && now >= then, "old label sets stay, the newest time is the state");
    assert!(!text.contains("model_name=\"a\""), "no series tells one adapter from another");
}

#[test]
fn sglang_counts_cached_tokens_and_its_hit_rate_is_that_of_the_last_prefill() {
    let (_server, addr) = launch(sglang());
    ask(addr, "base", LONG);
    ask(addr, "base", LONG);
    let rate = |text: &str| metric(text, "sglang:cache_hit_rate", "");
    let text = get(addr, "/metrics").body;
    assert_eq!(metric(&text, "sglang:prompt_tokens_total", "is_streaming=\"false\""), 40.0);
    assert_eq!(metric(&text, "sglang:cached_tokens_total", "device"), 19.0);
    assert_eq!(rate(&text), 19.0 / 20.0);
    ask(addr, "base", "something else");
    assert_eq!(rate(&get(addr, "/metrics").body), 0.0, "although half of all tokens were cached");
    assert_eq!(metric(&text, "sglang:lora_pool_slots_used", ""), 0.0);
    assert_eq!(metric(&text, "sglang:lora_pool_slots_total", ""), 2.0);
}

#[test]
fn faults_strike_their_share_of_requests() {
    let struck = |faults: Faults| {
        let server = FakeServer::launch(FakeOptions { faults, ..options(vllm()) }).unwrap();
        let stream = json!({"model": "base", "prompt": "a b", "max_tokens": 8, "stream": true}).to_string();
        receive(send(server.addrs()[0], ("POST", "/v1/completions"), "", &stream))
    };
    let busy = struck(Faults { too_many: 1.0, ..Faults::default() });
    assert!(busy.status == 429 && busy.head.contains("retry-after: 1"));
    assert_eq!(struck(Faults { unavailable: 1.0, ..Faults::default() }).status, 503);
    assert_eq!(struck(Faults { error: 1.0, ..Faults::default() }).status, 500);
    let broken = struck(Faults { error_mid: 1.0, ..Faults::default() });
    assert_eq!((broken.status, broken.body.matches("\"text\"").count()), (200, 4));
    assert!(broken.body.contains("simulated engine death"));
    let cut = struck(Faults { truncate: 1.0, ..Faults::default() });
    assert!(!cut.body.contains("[DONE]"));
}

#[test]
fn each_replica_has_a_port_and_a_cache_of_its_own() {
    let mut spec = vllm();
    spec.replicas = 2;
    let server = FakeServer::launch(options(spec)).unwrap();
    let addrs = server.addrs();
    ask(addrs[0], "a", LONG);
    assert_eq!((cached(&ask(addrs[1], "a", LONG)), cached(&ask(addrs[0], "a", LONG))), (0, 16));
    assert_eq!(server.trace(ReplicaId(1)).unwrap().requests.len(), 1);
    assert!(server.trace(ReplicaId(2)).is_none());
}

#[test]
fn impossible_options_are_named() {
    let refused = |options: FakeOptions| FakeServer::launch(options).unwrap_err();
    let slow = refused(FakeOptions { time_scale: 0.0, ..options(vllm()) });
    assert!(matches!(slow, FakeError::TimeScale(_)) && slow.to_string().contains("0.001"));
    let ports = refused(FakeOptions { ports: vec![0, 0], ..options(vllm()) });
    assert_eq!(
        ports.to_string(),
        "2 ports for 1 replicas; give at most one port per replica, or more replicas"
    );
    assert!(matches!(
        refused(FakeOptions { model: "a".to_owned(), ..options(vllm()) }),
        FakeError::AdapterName(_)
    ));
    let twice = FakeOptions { adapters: support::adapters(&["a", "a"]), ..options(vllm()) };
    assert!(refused(twice).to_string().contains("\"a\""));
    let profile = refused(options(ClusterSpec::new(1, 100, "no-such-profile")));
    assert!(profile.to_string().contains("no-such-profile"), "{profile}");
}
