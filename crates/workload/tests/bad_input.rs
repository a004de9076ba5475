//! Impossible workloads are refused by name, place and remedy.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use acb_types::{Adapters, Seed};
use acb_workload::{Workload, WorkloadContext, WorkloadSpec};
use serde_json::{Value, json};
use support::{adapters, open, spec};

/// The check names this place, and says this.
fn check(value: Value, pointer: &str, part: &str) {
    let faults = spec(value).check();
    let found = faults.iter().any(|(at, message)| at == pointer && message.contains(part));
    assert!(found, "{pointer} with {part:?} is not among {faults:?}");
}

#[test]
fn impossible_numbers_are_named_with_their_place() {
    let lora = |field: &str, value: Value| json!({"kind": "multi_lora", field: value});
    check(json!({"kind": "multi_lora", "requests": 0}), "/requests", "at least 1");
    check(lora("sessions", json!(0)), "/sessions", "at least 1");
    check(lora("tenants", json!(0)), "/tenants", "at least 1");
    check(lora("trust_groups", json!(5)), "/trust_groups", "exceeds the 2 tenants");
    check(lora("stickiness", json!(1.5)), "/stickiness", "from 0 to 1");
    check(
        lora("arrivals", json!({"kind": "poisson", "rate_rps": -1})),
        "/arrivals/rate_rps",
        "is -1; it must be a number from",
    );
    check(
        lora("arrivals", json!({"kind": "gamma", "rate_rps": 1, "cv": 0})),
        "/arrivals/cv",
        "from 0.01 to 100",
    );
    check(
        lora("arrivals", json!({"kind": "on_off", "rate_rps": 1, "on_s": 1, "off_s": -2})),
        "/arrivals/off_s",
        "from 0",
    );
    check(lora("arrivals", json!({"kind": "closed", "users": 0})), "/arrivals/users", "from 1");
    check(
        lora("output_tokens", json!({"law": "uniform", "min": 9, "max": 3})),
        "/output_tokens/max",
        "below min 9",
    );
    check(
        lora("prompt_tokens", json!({"law": "lognormal", "mean": 0.5, "cv": 1})),
        "/prompt_tokens/mean",
        "from 1",
    );
    check(lora("popularity", json!({"law": "slora_power", "alpha": 0})), "/popularity/alpha", "above 0");
    check(lora("popularity", json!({"law": "punica_geometric", "alpha": 1})), "/popularity/alpha", "above 1");
    check(lora("popularity", json!({"law": "weights", "weights": [1, -1]})), "/popularity/weights", "-1");
    let two = json!({"kind": "regime_uniform", "popularity": {"law": "weights", "weights": [1, 2]}});
    check(two, "/popularity/weights", "are 2 for 4 things");
    check(
        lora("popularity", json!({"law": "weights", "weights": [0, 0]})),
        "/popularity/weights",
        "at least one",
    );
    check(
        lora("tenant_popularity", json!({"law": "weights", "weights": [1, 2, 3]})),
        "/tenant_popularity/weights",
        "3 for 2",
    );
    check(lora("drift", json!({"kind": "reshuffle", "every_s": 0})), "/drift/every_s", "from 0.001");
    let mut nan = WorkloadSpec::of(acb_workload::Kind::MultiLora);
    nan.stickiness = Some(f64::NAN);
    nan.think_ms = Some(f64::NAN);
    nan.shared_prefix_fraction = Some(f64::NAN);
    nan.turns = Some(acb_workload::CountLaw::Fixed { value: 2 });
    assert_eq!(nan.check().len(), 3, "{:?}", nan.check());
}

#[test]
fn fields_without_effect_are_faults_and_several_are_reported_at_once() {
    let value = json!({"kind": "multi_lora", "documents": 3, "layout": "both", "dataset_path": "x.jsonl", "think_ms": 5});
    let faults = spec(value.clone()).check();
    assert_eq!(faults.len(), 4, "{faults:?}");
    check(value, "/documents", "no effect for multi_lora; remove it");
    check(json!({"kind": "agent_session", "sessions": 3}), "/sessions", "no effect");
    check(json!({"kind": "trace"}), "/trace", "is missing");
    check(json!({"kind": "jsonl_eval"}), "/dataset_path", "is missing");
    check(json!({"kind": "multi_lora", "arrivals": {"kind": "trace"}}), "/trace", "is missing");
    check(json!({"kind": "shared_doc_qa", "popularity": {"law": "uniform"}}), "/popularity", "no effect");
    check(
        json!({"kind": "agent_session", "arrivals": {"kind": "trace"}}),
        "/arrivals",
        "turns make their own",
    );
    let half = json!({"law": "weights", "weights": [0, 0, 1, 1]});
    let shift = json!({"kind": "regime_phase_shift", "documents": 4, "document_popularity": half});
    check(shift, "/document_popularity/weights", "each half");
    check(json!({"kind": "regime_phase_shift", "documents": 1}), "/documents", "2 or more");
    let drift = json!({"kind": "multi_lora", "drift": {"kind": "rotate", "every_s": 5}, "arrivals": {"kind": "closed", "users": 2}});
    check(drift, "/drift", "open arrival process");
}

#[test]
fn documents_too_short_to_state_a_fact_are_refused() {
    let value = json!({"kind": "controlled_overlap", "document_tokens": 80, "shared_prefix_fraction": 0.5});
    check(value, "/document_tokens", "40 shared and 40 own tokens");
    assert!(
        spec(json!({"kind": "controlled_overlap", "document_tokens": 80, "shared_prefix_fraction": 0.25}))
            .check()
            .is_empty()
    );
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    for value in [
        json!({"kind": "multi_lora", "tennants": 2}),
        json!({"kind": "multi_lora", "popularity": {"law": "uniform", "s": 1}}),
        json!({"kind": "multi_lora", "arrivals": {"kind": "poisson", "rate_rps": 1, "cv": 2}}),
        json!({"kind": "multi_lora", "drift": {"kind": "reshuffle", "every_s": 1, "step": 2}}),
        json!({"kind": "trace", "trace": {"path": "a", "format": "azure", "blocks": 2}}),
        json!({"kind": "no_such_kind"}),
    ] {
        assert!(serde_json::from_value::<WorkloadSpec>(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn what_the_experiment_lacks_is_named() {
    let tasks = ["qa".to_owned(), "json".to_owned()];
    let none = Adapters::default();
    let try_it = |value: Value, tasks: &[String], context_tokens| {
        let context = WorkloadContext { tasks, adapters: &none, context_tokens };
        Workload::new(&spec(value), &context, Seed(1)).map(|_| ()).unwrap_err().to_string()
    };
    let lora = json!({"kind": "multi_lora"});
    assert!(try_it(lora.clone(), &[], 4096).contains("give the adapters a task each"));
    let client = json!({"kind": "multi_lora", "adapter_named_by": "client"});
    assert!(try_it(client, &tasks, 4096).contains("no adapter is a specialist for task \"qa\""));
    assert!(try_it(lora, &tasks, 8).contains("the context of 8 tokens"));
    assert!(try_it(json!({"kind": "shared_doc_qa"}), &tasks, 4096).contains("task \"summary\""));
    let weights = json!({"kind": "multi_lora", "popularity": {"law": "weights", "weights": [1, 2, 3]}});
    assert!(try_it(weights, &tasks, 4096).contains("3 weights for 2 tasks"));
    let long = json!({"kind": "shared_doc_qa", "document_tokens": 40_000});
    assert!(open(&spec(long), 1).map(|_| ()).unwrap_err().to_string().contains("shorten the prompts"));
    assert_eq!(adapters(&tasks).len(), 2);
}

#[test]
fn the_schema_describes_and_bounds_every_field() {
    let schema = serde_json::to_value(schemars::schema_for!(WorkloadSpec)).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    assert!(fields.len() >= 25);
    for (name, field) in fields {
        assert!(
            field.get("description").is_some() || field.get("$ref").is_some(),
            "{name} has no description"
        );
    }
    assert_eq!(schema["properties"]["requests"]["minimum"], 1);
    assert_eq!(schema["properties"]["stickiness"]["maximum"], 1);
    assert_eq!(schema["additionalProperties"], false);
    let text = schema.to_string();
    assert!(text.contains("exclusiveMinimum"), "alpha is above zero");
    assert!(text.contains("86400000"), "think times have a greatest value");
}
