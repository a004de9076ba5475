//! Time between tokens over the number of distinct adapters, at one concurrency.

use super::bench::{Ask, serve, side_by_side};
use super::fit::{costs_of, rounded};
use super::{Case, Row, smape};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Two models, 300 slots of rank 8.
pub const CASE: Case = Case {
    name: "itl_over_adapters",
    source: "mean ITL of Llama-3.1-8B and Qwen2.5-7B on vLLM 0.8.5, 220 and 250 requests at a time, 300 slots of rank 8, over the number of \
             adapters (logs published with arXiv 2508.08343). By the authors' own base step, the ITL without adapters is that of 150 \
             and 184 requests in a step, so that many come at once in ours, each with an adapter drawn evenly. The constants of Llama \
             come from other runs (`multi_lora_runs`); those of Qwen from the points with 1, 64, 192 and 300 adapters, so that the \
             other three are its test.",
    run,
};

/// Adapters, and the mean ITL with them, ms.
type Point = (u32, f64);

struct Model {
    name: &'static str,
    profile: &'static str,
    /// With none, and with so many adapters.
    points: [Point; 8],
    kv_tokens: u64,
    /// What its error says.
    note: &'static str,
}

const LLAMA: Model = Model {
    name: "Llama-3.1-8B",
    profile: "llama-3.1-8b-vllm-0.8.5",
    points: [
        (0, 17.1),
        (1, 35.4),
        (32, 45.7),
        (64, 54.8),
        (128, 69.9),
        (192, 79.2),
        (256, 84.5),
        (300, 86.6),
    ],
    kv_tokens: 308_300 - 401 * 300,
    note: "the runs that its constants come from have at most 192 slots; what a row costs for each slot, carried on to 300, is too \
           much: the point with one adapter alone is 16 % too high",
};

const QWEN: Model = Model {
    name: "Qwen2.5-7B",
    profile: "qwen2.5-7b-vllm-0.8.5",
    points: [
        (0, 19.6),
        (1, 36.6),
        (32, 47.0),
        (64, 56.9),
        (128, 71.8),
        (192, 82.9),
        (256, 89.4),
        (300, 93.8),
    ],
    kv_tokens: 500_000,
    note: "over the three points that it was not fitted on",
};

/// Points of Qwen that its constants were fitted on.
const FITTED: [u32; 4] = [1, 64, 192, 300];

fn run() -> Vec<Row> {
    let mut rows = Vec::new();
    for model in [LLAMA, QWEN] {
        let profile = acb_sim::profile(model.profile).expect("the profile ships");
        let ours = side_by_side(&model.points, |&(adapters, _)| itl_ms(&model, adapters, &profile));
        let is_test = |adapters: u32| model.name == LLAMA.name || !FITTED.contains(&adapters);
        let pairs =
            || model.points.iter().zip(&ours).map(|(&(adapters, theirs), &ours)| (adapters, ours, theirs));
        let test = pairs().filter(|&(adapters, ..)| adapters > 0 && is_test(adapters));
        let error = smape(test.map(|(_, ours, theirs)| (ours, theirs))).expect("there are points");
        let what = format!("{}: mean ITL SMAPE over the number of adapters", model.name);
        rows.push(Row::error(what, error, 0.15).noted(model.note));
        rows.extend(pairs().map(|(adapters, ours, theirs)| {
            Row::shown(format!("{}: mean ITL ms with {adapters} adapters", model.name), ours, theirs)
        }));
    }
    rows
}

/// Mean time between tokens when all requests come at once, ms.
fn itl_ms(model: &Model, adapters: u32, profile: &Profile) -> f64 {
    let mut spec = ClusterSpec::new(1, model.kv_tokens / 16, "");
    spec.kv = KvSpec::Blocks(model.kv_tokens / 16);
    let warm = Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile.clone() };
    spec.profile = ProfileSpec::Inline(Box::new(warm));
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_num_seqs: 2048,
        max_loras: if adapters == 0 { 0 } else { 300 },
        max_cpu_loras: Some(300),
        max_lora_rank: 8,
        context_tokens: 8192,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    let mut draws = Seed(250_808_343).child(model.name).stream("adapters");
    let asks = (0..rows(model, profile).round() as u32).map(|_| Ask {
        due_s: 0.0,
        prompt: 223,
        answer: 192,
        adapter: (adapters > 0).then(|| draws.below(u64::from(adapters)) as u32),
    });
    serve(&spec, spec.vllm().max_loras, asks).itl_ms()
}

/// Requests in a step when there are no adapters: what the base step leaves of the time between tokens.
fn rows(model: &Model, profile: &Profile) -> f64 {
    (model.points[0].1 - profile.step_ms) / (profile.decode_row_us * 1e-3)
}

/// Costs of Qwen from its fitted points. They have one concurrency, so that fixed costs and costs of a row can't be told
/// apart: the fixed ones, and how the costs of adapters bend, are those of Llama on the same card and engine. What a row
/// (at 300 slots) and an adapter cost follows by non-negative least squares of relative errors.
pub(super) fn fit_qwen(base: &Profile, llama: &Profile) -> Profile {
    let rows = rows(&QWEN, base);
    let ranks = (8.0f64 / 16.0).powf(llama.lora_rank_exponent);
    let fixed_ms = QWEN.points[0].1 + llama.lora_step_ms + 300.0 * llama.lora_slot_ms;
    let fitted = QWEN.points.iter().filter(|(adapters, _)| FITTED.contains(adapters));
    let equation = |&(adapters, itl_ms): &Point| {
        let adapters = f64::from(adapters);
        let distinct = adapters * (1.0 - (-rows / adapters).exp());
        let terms = [rows, distinct.powf(llama.lora_adapter_exponent) * ranks];
        (terms.map(|term| term / itl_ms), (itl_ms - fixed_ms) / itl_ms)
    };
    let equations: Vec<_> = fitted.map(equation).collect();
    let [row, adapter] = costs_of(&equations);
    Profile {
        lora_step_ms: llama.lora_step_ms,
        lora_slot_ms: llama.lora_slot_ms,
        lora_adapter_ms: rounded(adapter, 4),
        lora_adapter_exponent: llama.lora_adapter_exponent,
        lora_rank_exponent: llama.lora_rank_exponent,
        lora_row_us: rounded(row * 1e3, 2),
        lora_row_slot_us: 0.0,
        lora_row_adapter_us: 0.0,
        skipped_request_us: llama.skipped_request_us,
        ..base.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_of_qwen_is_what_the_fit_gives() {
        let ships = |name| acb_sim::profile(name).unwrap();
        let qwen = ships(QWEN.profile);
        assert_eq!(fit_qwen(&qwen, &ships(LLAMA.profile)), qwen);
    }
}
