//! Workloads that read files: trace overlay and `jsonl_eval`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use acb_types::Nanos;
use acb_workload::WorkloadSpec;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::{open, quick, spec};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn trace(name: &str, format: &str, extra: Value) -> WorkloadSpec {
    let mut value =
        json!({"kind": "trace", "requests": 4, "trace": {"path": sample(name), "format": format}});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec(value)
}

#[test]
fn a_trace_keeps_its_times_lengths_and_blocks() {
    let list = quick(&trace("mooncake-sample.jsonl", "mooncake", json!({})), 1);
    let due: Vec<Nanos> = list.iter().map(|a| a.request.due).collect();
    assert_eq!(due, [0, 1000, 1000, 3000].map(Nanos::from_millis));
    let lengths: Vec<_> = list.iter().map(|a| (a.request.prompt.tokens(), a.truth.output_tokens)).collect();
    assert_eq!(lengths, [(1024, 20), (1100, 30), (40, 5), (1100, 12)]);
    assert_eq!(list[0].request.max_output_tokens, 20);
    assert_eq!(list[0].request.prompt.common_prefix(&list[1].request.prompt), 1024);
    assert_eq!(list[1].request.prompt, list[3].request.prompt);
    assert_eq!(list[1].request.prompt.segments()[2].tokens, 76, "the last block is partial");
}

#[test]
fn the_overlay_is_ours_and_the_trace_is_not_changed_by_it() {
    let zipf = json!({"popularity": {"law": "zipf", "s": 3.0}, "sessions": 2, "stickiness": 0.9});
    let (a, b) = (
        quick(&trace("azure-sample.csv", "azure", json!({})), 1),
        quick(&trace("azure-sample.csv", "azure", zipf), 1),
    );
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((a.request.due, a.request.prompt.tokens()), (b.request.due, b.request.prompt.tokens()));
        assert!(b.request.session.0 < 2);
    }
    assert!(a.iter().zip(&b).any(|(a, b)| a.request.task != b.request.task));
}

#[test]
fn a_trace_can_be_sped_up_or_given_other_arrivals() {
    let fast =
        quick(&trace("azure-sample.csv", "azure", json!({"arrivals": {"kind": "trace", "speed": 2.0}})), 1);
    assert_eq!(fast[3].request.due, Nanos::from_millis(1000));
    let poisson = json!({"arrivals": {"kind": "poisson", "rate_rps": 9}});
    let other = quick(&trace("azure-sample.csv", "azure", poisson), 1);
    assert_eq!(other[3].request.prompt.tokens(), 400);
    assert_ne!(other[3].request.due, Nanos::from_millis(2000));
    let times_only = json!({"kind": "shared_doc_qa", "requests": 6, "arrivals": {"kind": "trace"},
                            "trace": {"path": sample("azure-sample.csv"), "format": "azure"}});
    assert_eq!(quick(&spec(times_only), 1)[4].request.due, Nanos::from_millis(61_000));
}

#[test]
fn a_trace_can_share_a_system_prompt_where_it_has_no_blocks() {
    let list = quick(&trace("azure-sample.csv", "azure", json!({"shared_prefix_fraction": 0.5})), 1);
    assert!(list.iter().all(|a| a.request.prompt.segments()[0].tokens == a.request.prompt.tokens() / 2));
}

#[test]
fn a_trace_that_is_too_short_or_faulty_is_refused_before_the_run() {
    let long = WorkloadSpec { requests: 7, ..trace("azure-sample.csv", "azure", json!({})) };
    let error = open(&long, 1).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("has 6 usable rows and 7 requests are planned; set requests to at most 6"),
        "{error}"
    );
    let wrong = trace("azure-sample.csv", "mooncake", json!({}));
    assert!(open(&wrong, 1).map(|_| ()).unwrap_err().to_string().contains("azure-sample.csv:1"));
    assert!(wrong.mean_tokens().0.is_nan());
    assert_eq!(trace("azure-sample.csv", "azure", json!({})).mean_tokens(), (250.0, 25.0));
}

#[test]
fn rows_of_a_file_become_requests() {
    let workload = json!({"kind": "jsonl_eval", "requests": 3, "dataset_path": sample("eval-sample.jsonl"),
                          "adapter_named_by": "client"});
    let list = quick(&spec(workload.clone()), 1);
    let mut seen: Vec<_> = list
        .iter()
        .map(|a| {
            (a.request.session.0, a.request.task.0, a.request.prompt.tokens(), a.request.max_output_tokens)
        })
        .collect();
    seen.sort_unstable();
    // The document: The, tide, rises (5 letters: 2), twice (2), a, day, full stop = 9. The questions: 8, 8 and 4.
    assert_eq!(seen, [(0, 0, 17, 16), (0, 1, 17, 32), (1, 0, 13, 16)]);
    let orders: std::collections::BTreeSet<Vec<u64>> = (0..20)
        .map(|seed| {
            quick(&spec(workload.clone()), seed)
                .iter()
                .map(|a| u64::from(a.request.prompt.tokens()))
                .collect()
        })
        .collect();
    assert!(orders.len() > 1, "a seed deals the order");
    let (prompt, output) = spec(workload).mean_tokens();
    assert!((prompt - 47.0 / 3.0).abs() < 1e-9 && output <= 64.0 / 3.0 + 1e-9);
}

#[test]
fn faulty_rows_are_refused_by_line() {
    let good = std::fs::read_to_string(sample("eval-sample.jsonl")).unwrap();
    let first = good.lines().next().unwrap();
    let check = |text: String, part: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        let workload = spec(json!({"kind": "jsonl_eval", "requests": 2, "dataset_path": path}));
        let error = open(&workload, 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    };
    check(String::new(), "has 0 usable rows");
    check(format!("{first}\n"), "set requests to at most 1");
    check(format!("{first}\n{first}\n"), "rows.jsonl:2: request_id \"r0\" occurs twice");
    check(format!("{first}\r\n{{\"request_id\": 1}}"), "rows.jsonl:2");
    check(
        first.replace("\"qa\"", "\"poem\""),
        "rows.jsonl:1: task_type \"poem\" is not a task; there are qa",
    );
    check(first.replace("\"max_tokens\": 16", "\"max_tokens\": 0"), "max_tokens is 0");
    check(first.replace("\"max_tokens\": 16", "\"max_tokens\": -3"), "rows.jsonl:1");
}
