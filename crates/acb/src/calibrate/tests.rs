//! Calibrations of servers whose constants are hidden.

use super::hidden::{FrontEnd, Hidden};
use super::server::AdapterFile;
use super::*;
use acb_sim::{KvMemory, SglangSpec, VllmSpec};

/// Every cost is there, so that each can be missed.
fn everything_costs() -> Profile {
    Profile {
        step_ms: 4.0,
        weight_read_ms: 6.0,
        prefill_token_us: 26.0,
        decode_compute_us: 60.0,
        prefill_request_us: 150.0,
        prefill_pair_ns: 2.0,
        decode_row_us: 40.0,
        context_token_ns: 8.0,
        lora_step_ms: 2.0,
        lora_slot_ms: 0.15,
        lora_adapter_ms: 0.6,
        lora_adapter_exponent: 0.8,
        lora_rank_exponent: 0.5,
        lora_row_us: 40.0,
        lora_row_slot_us: 3.0,
        lora_row_adapter_us: 3.0,
        lora_prefill_token_us: 12.0,
        load_gpu_ms: 6.0,
        load_gpu_ms_per_mb: 0.06,
        load_cpu_ms: 30.0,
        load_cpu_ms_per_mb: 2.0,
        skipped_request_us: 0.5,
        ..acb_sim::profile("llama-3.1-8b-vllm-0.8.5").unwrap()
    }
}

fn memory() -> KvMemory {
    KvMemory { gpu_gib: 80.0, utilization: 0.9, overhead_gib: 2.0 }
}

fn vllm(max_loras: u32, max_lora_rank: u32) -> EngineSpec {
    EngineSpec::Vllm(VllmSpec { max_loras, max_lora_rank, max_cpu_loras: Some(20), ..VllmSpec::default() })
}

fn sglang(max_loras_per_batch: u32, max_lora_rank: u32) -> EngineSpec {
    let max_loaded_loras = Some(20);
    EngineSpec::Sglang(SglangSpec {
        max_loras_per_batch,
        max_lora_rank,
        max_loaded_loras,
        ..SglangSpec::default()
    })
}

type Engine = fn(u32, u32) -> EngineSpec;

/// Both engines, each with what it never pays.
const ENGINES: [(Engine, &[&str]); 2] = [(vllm, &[]), (sglang, &["skipped_request_us"])];

/// Slots and rank of each start: the first is the profile's.
const STARTS: [(u32, u32); 3] = [(8, 16), (16, 16), (8, 64)];

fn known(profile: &Profile) -> Known {
    let file = |i: u32| {
        let rank = 2 << (i % 4);
        AdapterFile { name: format!("a{i}"), rank, bytes: 5_242_880 * u64::from(rank) }
    };
    Known {
        adapters: (0..24).map(file).collect(),
        weight_bytes: profile.weight_bytes,
        kv_bytes_per_token: profile.kv_bytes_per_token,
        lora_bytes_per_rank: 0,
    }
}

struct Outcome {
    truth: Profile,
    front_end: FrontEnd,
    found: Calibration,
}

fn calibrated(hidden: Hidden, engine: Engine, starts: &[(u32, u32)], repeats: u32) -> Outcome {
    let known = known(&everything_costs());
    let mut servers: Vec<_> = starts
        .iter()
        .map(|&(slots, rank)| {
            (engine(slots, rank), hidden.start(&engine(slots, rank), &known.adapters).unwrap())
        })
        .collect();
    let mut started: Vec<Started<'_>> =
        servers.iter_mut().map(|(engine, server)| Started { server, engine: engine.clone() }).collect();
    let effort = Effort { repeats, hold_out: 400 };
    let found = calibrate(&mut started, &known, effort, &|_| {}).unwrap();
    let (truth, front_end) = hidden.open();
    Outcome { truth, front_end, found }
}

fn truth_of(outcome: &Outcome, name: &str) -> f64 {
    serde_json::to_value(&outcome.truth).unwrap()[name].as_f64().unwrap()
}

/// Relative error of a constant; 0 when both are negligible.
fn error(outcome: &Outcome, constant: &Constant) -> f64 {
    let truth = truth_of(outcome, &constant.name);
    if truth == 0.0 && constant.status == Status::Negligible {
        0.0
    } else {
        (constant.value / truth - 1.0).abs()
    }
}

/// Names of the constants of this status.
fn named(outcome: &Outcome, status: Status) -> Vec<&str> {
    let of = outcome.found.constants.iter().filter(|constant| constant.status == status);
    of.map(|constant| constant.name.as_str()).collect()
}

/// Every constant of a profile is either within `most` of what is hidden, or among `hidden`, with its reason.
fn check(outcome: &Outcome, most: f64, hidden: &[&str]) {
    let document = serde_json::to_value(&outcome.truth).unwrap();
    let all: Vec<&String> = document.as_object().unwrap().keys().collect();
    let found = &outcome.found.constants;
    assert!(
        all.iter().all(|name| found.iter().any(|c| c.name == **name)) && all.len() == found.len(),
        "{all:?}"
    );
    assert_eq!(named(outcome, Status::NotIdentifiable), hidden);
    for constant in found.iter().filter(|c| c.status != Status::NotIdentifiable) {
        let error = error(outcome, constant);
        assert!(error < most, "{} is off by {error}: {constant:?}", constant.name);
    }
    assert!(found.iter().all(|c| c.status == Status::Identified || c.why.is_some()));
    let (front_end, fitted) = (outcome.front_end, outcome.found.front_end);
    assert!((fitted.request_ms / front_end.request_ms - 1.0).abs() < 0.05, "{front_end:?} {fitted:?}");
    assert!((fitted.token_us / front_end.token_us - 1.0).abs() < 0.1, "{front_end:?} {fitted:?}");
}

fn perturbed(seed: u64, sigma: f64) -> Hidden {
    Hidden::new(everything_costs(), memory(), sigma).perturbed(Seed(seed))
}

const GIVEN: [&str; 2] = ["weight_bytes", "kv_bytes_per_token"];

#[test]
fn without_noise_every_constant_of_either_engine_is_found_within_half_a_percent() {
    for (engine, unpaid) in ENGINES {
        for seed in 1..=4 {
            let outcome = calibrated(perturbed(seed, 0.0), engine, &STARTS, 8);
            check(&outcome, 0.005, unpaid);
            assert_eq!(
                named(&outcome, Status::Identified).len() + GIVEN.len() + unpaid.len(),
                outcome.found.constants.len()
            );
            assert_eq!(named(&outcome, Status::Given), GIVEN);
            assert!(outcome.found.calibrated && outcome.found.hold_out.mean_e2e_error < 0.002);
        }
    }
}

#[test]
fn with_two_percent_of_noise_every_constant_of_either_engine_is_found_within_five_percent() {
    for (engine, unpaid) in ENGINES {
        for seed in 11..=13 {
            let outcome = calibrated(perturbed(seed, 0.02), engine, &STARTS, 48);
            check(&outcome, 0.05, unpaid);
            assert!(outcome.found.calibrated && outcome.found.hold_out.mean_e2e_error < 0.02);
        }
    }
}

#[test]
fn one_start_can_not_tell_apart_what_depends_on_slots_and_rank() {
    for (engine, unpaid) in ENGINES {
        let outcome = calibrated(perturbed(5, 0.0), engine, &STARTS[..1], 8);
        let hidden = [&["lora_slot_ms", "lora_row_slot_us"], unpaid, &["lora_rank_exponent"]].concat();
        assert_eq!(named(&outcome, Status::NotIdentifiable), hidden);
        assert_eq!(named(&outcome, Status::Given), [GIVEN[0], GIVEN[1], "lora_bytes_per_rank"]);
        // Their sums are found, so that the profile is right for this start.
        let (found, truth) = (&outcome.found.profile, &outcome.truth);
        let step = truth.lora_step_ms + 8.0 * truth.lora_slot_ms;
        let row = truth.lora_row_us + 8.0 * truth.lora_row_slot_us;
        assert!(
            (found.lora_step_ms / step - 1.0).abs() < 0.005 && (found.lora_row_us / row - 1.0).abs() < 0.005
        );
        assert!(outcome.found.hold_out.mean_e2e_error < 0.002);
        let why = |name: &str| {
            outcome.found.constants.iter().find(|c| c.name == name).unwrap().why.clone().unwrap()
        };
        assert!(
            why("lora_slot_ms").starts_with("only its sum with lora_step_ms shows"),
            "{}",
            why("lora_slot_ms")
        );
        assert!(why("lora_rank_exponent").contains("measure a second server"));
    }
}

#[test]
fn arithmetic_that_always_hides_and_arithmetic_that_never_hides_are_named() {
    // Decoding 256 requests never takes longer than reading the weights, and SGLang decodes in steps of its own.
    let hides = Profile { decode_compute_us: 20.0, ..everything_costs() };
    let outcome = calibrated(Hidden::new(hides, memory(), 0.0), sglang, &STARTS, 8);
    check(&outcome, 0.005, &["decode_compute_us", "skipped_request_us"]);
    // Without the reading of weights there is nothing to hide behind: only sums of arithmetic and other costs show.
    for decode_compute_us in [0.0, 30.0] {
        let never = Profile { weight_read_ms: 0.0, decode_compute_us, ..everything_costs() };
        let mut outcome = calibrated(Hidden::new(never, memory(), 0.0), vllm, &STARTS, 8);
        outcome.truth.decode_row_us += decode_compute_us;
        check(&outcome, 0.005, &["weight_read_ms", "decode_compute_us"]);
    }
}

#[test]
fn waiting_requests_that_cost_nothing_are_found_to_cost_nothing() {
    let free = Profile { skipped_request_us: 0.0, ..everything_costs() };
    let outcome = calibrated(Hidden::new(free, memory(), 0.02), vllm, &STARTS[..1], 24);
    let found = outcome.found.constants.iter().find(|c| c.name == "skipped_request_us").unwrap();
    assert_eq!(found.status, Status::Negligible, "{found:?}");
    assert!(found.value < 0.02, "a twenty-fifth of what it costs elsewhere: {found:?}");
}

#[test]
fn without_an_adapter_more_than_slots_nobody_waits_and_the_reason_says_so() {
    let all = |max_loras, max_lora_rank| {
        EngineSpec::Vllm(VllmSpec { max_loras, max_lora_rank, ..VllmSpec::default() })
    };
    let outcome = calibrated(perturbed(8, 0.0), all, &[(24, 16)], 2);
    let found = outcome.found.constants.iter().find(|c| c.name == "skipped_request_us").unwrap();
    assert_eq!(found.status, Status::NotIdentifiable);
    assert!(found.why.as_ref().unwrap().contains("more adapters, and more running requests, than slots"));
}

#[test]
fn a_bad_fit_is_not_called_calibrated() {
    let mut outcome = calibrated(perturbed(6, 0.0), vllm, &STARTS[..1], 2);
    let file = |found: &Calibration| serde_json::to_value(ProfileFile::new("mine", found)).unwrap();
    assert_eq!(file(&outcome.found)["calibrated"], true);
    let summary = file(&outcome.found)["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("vllm-0.33.0 on a simulated server"), "{summary}");
    let read: Profile = serde_json::from_value(file(&outcome.found)["constants"].clone()).unwrap();
    assert_eq!(read, outcome.found.profile);
    outcome.found.calibrated = false;
    assert_eq!(file(&outcome.found)["calibrated"], false);
}

#[test]
fn the_same_server_gives_the_same_calibration() {
    let once =
        || serde_json::to_string(&calibrated(perturbed(7, 0.02), vllm, &STARTS[..1], 2).found).unwrap();
    assert_eq!(once(), once());
}

#[test]
fn flags_under_which_steps_can_not_be_told_apart_are_refused_by_name() {
    let mixed = |_, _| EngineSpec::Sglang(SglangSpec { enable_mixed_chunk: true, ..SglangSpec::default() });
    let error = EngineShape::of(&mixed(0, 0)).unwrap_err().to_string();
    assert!(
        error.starts_with("enable_mixed_chunk: true:") && error.contains("start the server without it"),
        "{error}"
    );
    let whole = VllmSpec { enable_chunked_prefill: false, ..VllmSpec::default() };
    assert!(EngineShape::of(&EngineSpec::Vllm(whole)).is_err());
}

/// A server that does not say how much memory it has, or streams no tokens.
struct Silent {
    kv_tokens: Option<u64>,
}

impl Server for Silent {
    fn source(&self) -> Source {
        Source::Client
    }

    fn serve(&mut self, plan: &[Ask]) -> Result<Vec<Reply>, ServerError> {
        let at = acb_types::Nanos(1);
        let reply = Reply { sent: at, first: at, last: at, tokens: None, cached_tokens: None };
        Ok(vec![reply; plan.len()])
    }

    fn scrape(&mut self) -> Result<server::Scrape, ServerError> {
        Ok(server::Scrape { kv_tokens: self.kv_tokens })
    }
}

#[test]
fn a_server_that_hides_its_memory_or_its_tokens_is_refused() {
    let refusal = |kv_tokens| {
        let mut server = Silent { kv_tokens };
        let mut starts = [Started { server: &mut server, engine: vllm(8, 16) }];
        let effort = Effort { repeats: 2, hold_out: 10 };
        calibrate(&mut starts, &known(&everything_costs()), effort, &|_| {}).unwrap_err().to_string()
    };
    assert!(refusal(None).contains("turn metrics on"), "{}", refusal(None));
    assert!(refusal(Some(100_000)).contains("stream every token"), "{}", refusal(Some(100_000)));
}
