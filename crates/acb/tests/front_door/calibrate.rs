//! `acb calibrate` against a server in this process.

use crate::bench::Bench;
use serde_json::Value as Json;

const QUICK: &str = "calibrate --hidden llama-3.1-8b-h100 --one-start --repeats 2 --hold-out 50";

#[test]
fn a_calibration_is_printed_written_and_never_overwritten() {
    let bench = Bench::new();
    let ended = bench.done(QUICK, &["--seed", "3", "--output", "mine.json"]);
    assert!(ended.out.contains("calibrated on this server: mean E2E error"), "{}", ended.out);
    assert!(ended.out.contains("lora_slot_ms") && ended.out.contains("not identifiable: only its sum with"));
    let file: Json = serde_json::from_slice(&std::fs::read(bench.path("mine.json")).unwrap()).unwrap();
    assert_eq!((&file["name"], &file["calibrated"]), (&Json::from("mine"), &Json::from(true)));
    assert_eq!(file["fit"]["source"], "simulated");
    assert_eq!(file["fit"]["starts"][0]["max_loras"], 8);
    let again = bench.acb(QUICK, &["--output", "mine.json"]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("mine.json") && again.err.contains("never overwritten"), "{}", again.err);
}

#[test]
fn sglang_prints_json_with_what_was_hidden() {
    let ended = Bench::new().done(QUICK, &["--engine", "sglang", "--json"]);
    let document: Json = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["engine"], "sglang-0.5.23");
    assert_eq!(document["cache"]["block_tokens"], 1);
    let hidden = document["hidden"]["prefill_token_us"].as_f64().unwrap();
    let found = document["profile"]["prefill_token_us"].as_f64().unwrap();
    assert!((found / hidden - 1.0).abs() < 0.01, "{found} {hidden}");
}

#[test]
fn what_can_not_be_is_refused_with_what_can() {
    let bench = Bench::new();
    let check = |more: &[&str], expected: &str| {
        let ended = bench.acb("calibrate", more);
        assert_eq!(ended.code, Some(2), "{more:?}");
        assert!(ended.err.contains(expected), "{}", ended.err);
    };
    check(&["--hidden", "nope"], "--hidden nope: no such profile; there are");
    check(&["--hidden", "llama-3.1-8b-h100", "--noise", "3"], "--noise 3 is impossible; give 0 to 0.2");
    check(&["--hidden", "llama-3.1-8b-h100", "--gpu", "abacus"], "--gpu abacus: not known; give");
    check(&["--hidden", "llama-3.1-8b-h100", "--gpu", "l4", "--slots", "64"], "no KV block is left");
    check(&["--hidden", "llama-3.1-8b-h100", "--model", "abacus"], "--model abacus: not known");
}
