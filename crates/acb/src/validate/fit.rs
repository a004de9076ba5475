//! Fits the LoRA costs of the profiles for vLLM 0.8.5.
//!
//! Llama: to half of the 131 runs, without simulating them. A run's rows per step follow from its rate and its time between
//! tokens, its distinct adapters from the rows and the adapters' shares, the requests that it passes over from those that
//! wait, and what is left of the time between tokens is linear in the costs: non-negative least squares of relative errors,
//! the two exponents from a grid. Throughput and time to first token are not fitted to; they are what the simulator makes
//! of the constants. Qwen: see [`adapters_itl`].

use super::adapters_itl;
use super::multi_lora::Simulated;
use super::runs::{Measured, SEED, halves};
use acb_sim::Profile;
use acb_stats::non_negative_least_squares;
use nalgebra::{DMatrix, DVector};
use serde::Serialize;

/// What both fits give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fits {
    /// On half of the 131 runs.
    pub llama: Fit,
    /// On half of the points over the number of adapters, with what the first fit says of rows.
    pub qwen: Profile,
}

/// What the fit on the runs gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Seed of the halves.
    pub seed: u64,
    /// Runs that it was fitted on.
    pub runs: usize,
    /// Errors on them: throughput, mean ITL, mean TTFT where it is not overloaded.
    pub errors: [f64; 3],
    /// The constants.
    pub constants: Profile,
}

/// Terms of the LoRA cost, in ms: fixed, a slot, an adapter, a row, a row and slot, a request passed over.
const TERMS: usize = 6;

/// Fits both profiles. What was measured by itself (base step, loads, memory) is taken from the profiles that ship.
///
/// # Panics
/// When the profiles that ship are missing.
#[must_use]
pub fn fit() -> Fits {
    let base = |name| acb_sim::profile(name).expect("the profile ships");
    let llama = fit_runs(&base("llama-3.1-8b-vllm-0.8.5"));
    let qwen = adapters_itl::fit_qwen(&base("qwen2.5-7b-vllm-0.8.5"), &llama.constants);
    Fits { llama, qwen }
}

fn fit_runs(base: &Profile) -> Fit {
    let (runs, _) = halves();
    let constants = grid_search(base, &runs);
    let simulated = Simulated::new(&runs, &runs, &constants);
    let errors = simulated.errors(simulated.client_ms());
    Fit { seed: SEED.0, runs: runs.len(), errors, constants }
}

pub(super) fn rounded(x: f64, digits: i32) -> f64 {
    (x * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

fn grid_search(base: &Profile, runs: &[Measured]) -> Profile {
    let grid = (10..=32).flat_map(|p| (0..=8).map(move |q| (f64::from(p) * 0.05, f64::from(q) * 0.05)));
    let fitted = grid.map(|exponents| fit_with(base, runs, exponents));
    let (_, constants) = fitted.min_by(|a, b| a.0.total_cmp(&b.0)).expect("the grid has points");
    constants
}

/// The sum of squares and the constants for one choice of exponents.
fn fit_with(base: &Profile, runs: &[Measured], (distinct, ranks): (f64, f64)) -> (f64, Profile) {
    let bare = Profile { lora_adapter_exponent: distinct, lora_rank_exponent: ranks, ..base.clone() };
    let equations: Vec<([f64; TERMS], f64)> = runs
        .iter()
        .map(|run| {
            let known = run.itl_ms - known_ms(run, &bare);
            (terms(run, &bare).map(|term| term / run.itl_ms), known / run.itl_ms)
        })
        .collect();
    let [step, slot, adapter, row, row_slot, skipped] = costs_of(&equations);
    let constants = Profile {
        lora_step_ms: rounded(step, 3),
        lora_slot_ms: rounded(slot, 4),
        lora_adapter_ms: rounded(adapter, 4),
        lora_row_us: rounded(row * 1e3, 2),
        lora_row_slot_us: rounded(row_slot * 1e3, 4),
        skipped_request_us: rounded(skipped * 1e3, 4),
        lora_adapter_exponent: rounded(distinct, 2),
        lora_rank_exponent: rounded(ranks, 2),
        ..bare
    };
    (runs.iter().map(|run| relative_error(run, &constants).powi(2)).sum(), constants)
}

/// Requests that decode in a usual step: the tokens of all of them over the time between two of one (Little's law).
fn rows(run: &Measured) -> f64 {
    run.out_tok_s * run.itl_ms * 1e-3
}

/// Distinct adapters among so many independent rows, as far as there are slots.
fn adapters(run: &Measured) -> f64 {
    let rows = rows(run);
    run.shares().map(|share| 1.0 - (-rows * share).exp()).sum::<f64>().min(f64::from(run.slots))
}

/// Share of the adapters that have no slot.
fn missing(run: &Measured) -> f64 {
    (1.0 - f64::from(run.slots) / f64::from(run.adapters)).max(0.0)
}

/// Requests that a step passes over: those that wait (Little's law), as far as their adapters have no slot.
fn skipped(run: &Measured) -> f64 {
    run.req_s * run.ttft_ms * 1e-3 * missing(run)
}

/// What a step costs beside LoRA, ms: base, prefill, and the loads of adapters that have no slot.
fn known_ms(run: &Measured, profile: &Profile) -> f64 {
    let per_step = run.itl_ms * 1e-3;
    let missing = missing(run);
    // One load serves all requests that waited for the adapter.
    let waiting = run.req_s / f64::from(run.adapters) * run.ttft_ms * 1e-3;
    profile.step_ms
        + rows(run) * profile.decode_row_us * 1e-3
        + run.in_tok_s * per_step * profile.prefill_token_us * 1e-3
        + run.req_s * per_step * missing / (1.0 + waiting) * profile.load_gpu_ms
}

fn terms(run: &Measured, profile: &Profile) -> [f64; TERMS] {
    let (rows, slots) = (rows(run), f64::from(run.slots));
    let ranks = (f64::from(run.rank) / 16.0).powf(profile.lora_rank_exponent);
    [1.0, slots, adapters(run).powf(profile.lora_adapter_exponent) * ranks, rows, rows * slots, skipped(run)]
}

fn relative_error(run: &Measured, profile: &Profile) -> f64 {
    let costs = [
        profile.lora_step_ms,
        profile.lora_slot_ms,
        profile.lora_adapter_ms,
        profile.lora_row_us * 1e-3,
        profile.lora_row_slot_us * 1e-3,
        profile.skipped_request_us * 1e-3,
    ];
    let lora: f64 = terms(run, profile).iter().zip(costs).map(|(term, cost)| term * cost).sum();
    (known_ms(run, profile) + lora) / run.itl_ms - 1.0
}

/// The costs, none of them negative, with the least sum of squared errors over these (terms, value).
pub(super) fn costs_of<const N: usize>(equations: &[([f64; N], f64)]) -> [f64; N] {
    let terms = DMatrix::from_fn(equations.len(), N, |row, term| equations[row].0[term]);
    let values = DVector::from_iterator(equations.len(), equations.iter().map(|(_, value)| *value));
    let costs = non_negative_least_squares(&terms, &values);
    std::array::from_fn(|term| costs[term])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_explains_the_time_between_tokens_within_five_percent() {
        let (runs, _) = halves();
        let ships = acb_sim::profile("llama-3.1-8b-vllm-0.8.5").unwrap();
        let constants = grid_search(&ships, &runs);
        assert_eq!(constants, ships, "the profile that ships is what the fit gives");
        let mean =
            runs.iter().map(|run| relative_error(run, &constants).abs()).sum::<f64>() / runs.len() as f64;
        assert!(mean < 0.05, "{mean}");
    }
}
