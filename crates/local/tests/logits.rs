//! What transformers and PEFT compute with the same files is what this engine computes.
#![cfg(feature = "candle")]

use acb_local::{Ends, LocalError, LocalModel, Stop};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The greatest difference of a logit that the f32 arithmetic of two libraries may make.
const TOLERANCE: f32 = 1e-3;

#[derive(Deserialize)]
struct Recorded {
    computed: BTreeMap<String, Vec<Row>>,
}

#[derive(Deserialize)]
struct Row {
    prompt: Vec<u32>,
    answer: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn loaded(kind: &str) -> LocalModel {
    let mut model = LocalModel::load(&data(kind)).unwrap();
    for adapter in ["all", "attention"] {
        model.load_adapter(adapter, &data(&format!("{kind}-{adapter}"))).unwrap();
    }
    model
}

fn recorded(kind: &str) -> Recorded {
    serde_json::from_slice(&std::fs::read(data(kind).join("logits.json")).unwrap()).unwrap()
}

fn adapter(name: &str) -> Option<&str> {
    (name != "base").then_some(name)
}

fn apart(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let cells = ours.iter().zip(theirs).flat_map(|(a, b)| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).abs())
    });
    cells.fold(0.0, f32::max)
}

#[test]
fn logits_of_base_and_of_each_adapter_are_those_of_transformers_and_peft() {
    for kind in ["qwen2", "llama"] {
        let (model, recorded) = (loaded(kind), recorded(kind));
        assert_eq!(recorded.computed.len(), 3);
        for (name, rows) in &recorded.computed {
            for row in rows {
                let ours = model.logits(&row.prompt, adapter(name)).unwrap();
                let apart = apart(&ours, &row.logits);
                assert!(apart <= TOLERANCE, "{kind} {name} {:?}: {apart}", row.prompt);
            }
        }
    }
}

#[test]
fn greedy_answers_are_those_of_transformers_with_the_cache_of_earlier_tokens() {
    for kind in ["qwen2", "llama"] {
        let (model, recorded) = (loaded(kind), recorded(kind));
        for (name, rows) in &recorded.computed {
            for row in rows {
                let mut heard = Vec::new();
                let told = |token| {
                    heard.push(token);
                    true
                };
                let answer = model.generate(&row.prompt, adapter(name), (8, Ends::Obeyed), told).unwrap();
                assert_eq!(answer.tokens, row.answer, "{kind} {name} {:?}", row.prompt);
                assert_eq!(heard, row.answer);
                assert_eq!(answer.stop == Stop::End, row.answer.len() < 8);
            }
        }
    }
}

#[test]
fn an_adapter_changes_what_base_computes() {
    let recorded = recorded("qwen2");
    let [base, all] = ["base", "all"].map(|name| &recorded.computed[name][1].logits);
    assert!(apart(base, all) > 100.0 * TOLERANCE);
}

#[test]
fn what_can_not_be_asked_or_loaded_is_refused_by_name() {
    let mut model = loaded("qwen2");
    assert!(matches!(model.logits(&[], None), Err(LocalError::Length { .. })));
    assert!(matches!(
        model.generate(&[1; 120], None, (9, Ends::Obeyed), |_| true),
        Err(LocalError::Length { most: 128, .. })
    ));
    assert!(matches!(model.logits(&[96], None), Err(LocalError::Token { token: 96, vocabulary: 96 })));
    assert!(matches!(model.logits(&[1], Some("none")), Err(LocalError::UnknownAdapter(_))));
    let missing = model.load_adapter("x", &data("qwen2")).unwrap_err().to_string();
    assert!(missing.contains("adapter_config.json"), "{missing}");
    let Err(no_folder) = LocalModel::load(&data("nothing")) else { panic!("there is no such folder") };
    assert!(no_folder.to_string().contains("nothing"), "{no_folder}");
}
