//! Constants of adapters that are in their slots, from what the base model does not explain. Linear but for two exponents,
//! which are searched.

use super::base_fit::BaseFit;
use super::equation::{Counts, Equation, SlotCounts};
use super::linear::{Column, Known, Right, least_squares, solve, value_of};

/// Unknowns, the exponents last. Costs are ns.
pub const NAMES: [&str; 10] = [
    "lora_step_ms",
    "lora_adapter_ms",
    "lora_row_us",
    "lora_row_adapter_us",
    "lora_prefill_token_us",
    "lora_slot_ms",
    "lora_row_slot_us",
    "skipped_request_us",
    "lora_adapter_exponent",
    "lora_rank_exponent",
];
/// Of them, those that an equation is linear in.
const LINEAR: usize = 8;
/// Rank at which the cost of an adapter is stated.
const USUAL_RANK: f64 = 16.0;
/// Largest exponents that are tried.
const MOST: (f64, f64) = (2.5, 2.0);
/// Least step of the search.
const LEAST_STEP: f64 = 1e-9;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Exponents {
    adapters: f64,
    rank: f64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct LoraFit {
    /// What is known of each of [`NAMES`].
    pub known: Vec<Known>,
    exponents: Exponents,
}

impl LoraFit {
    /// The exponents of the last two [`NAMES`] that the other values go with, whether they are known or not.
    pub fn exponents(&self) -> [f64; 2] {
        [self.exponents.adapters, self.exponents.rank]
    }

    /// What adapters add to these steps, ns.
    pub fn predict_ns(&self, steps: &[Counts], slots: SlotCounts) -> f64 {
        let of = |step: &Counts| -> f64 {
            factors(step, slots, self.exponents).iter().zip(&self.known).map(|(f, k)| f * value_of(k)).sum()
        };
        steps.iter().map(of).sum()
    }
}

/// What each linear unknown is multiplied with in a step.
fn factors(step: &Counts, slots: SlotCounts, exponents: Exponents) -> [f64; LINEAR] {
    if step.adapters == 0.0 {
        return [0.0; LINEAR];
    }
    let ranks = (slots.max_rank / USUAL_RANK).powf(exponents.rank);
    [
        1.0,
        step.adapters.powf(exponents.adapters) * ranks,
        step.lora_rows,
        step.lora_rows * step.adapters,
        step.lora_prefill_tokens,
        slots.slots,
        step.lora_rows * slots.slots,
        step.skipped,
    ]
}

/// Fits to the equations with adapters and without loads.
pub fn fit_lora(equations: &[&Equation], base: &BaseFit) -> LoraFit {
    let right = Right::of(equations, |e| e.measured_ns - base.predict_ns(&e.steps));
    let errors = |exponents| least_squares(&columns(equations, exponents), &right);
    let ranks_differ = equations.iter().any(|e| e.slots.max_rank != equations[0].slots.max_rank);
    let exponents = search(&errors, ranks_differ);
    let linear = solve(&columns(equations, exponents), &right);
    let known = with_exponents(equations, exponents, &linear, right);
    LoraFit { known, exponents }
}

fn columns(equations: &[&Equation], exponents: Exponents) -> Vec<Column> {
    let sum = |equation: &Equation, at: usize| -> f64 {
        equation.steps.iter().map(|step| factors(step, equation.slots, exponents)[at]).sum()
    };
    let column =
        |at: usize| Column { name: NAMES[at], factors: equations.iter().map(|e| sum(e, at)).collect() };
    (0..LINEAR).map(column).collect()
}

/// A pattern search that halves its step when nothing near is better; first on a grid.
fn search(errors: &impl Fn(Exponents) -> f64, ranks_differ: bool) -> Exponents {
    let ranks = if ranks_differ { 8 } else { 0 };
    let grid = (0..=12).flat_map(|a| (0..=ranks).map(move |r| (f64::from(a) * 0.2, f64::from(r) * 0.25)));
    let at = |(adapters, rank): (f64, f64)| Exponents { adapters, rank };
    let tried = grid.map(|point| (errors(at(point)), at(point)));
    let (mut least, mut best) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).expect("the grid has points");
    let mut step = 0.1;
    while step > LEAST_STEP {
        let moves = [-step, 0.0, step].map(|adapters| [-step, 0.0, step].map(|rank| (adapters, rank)));
        let near = moves.iter().flatten().filter(|&&(_, rank)| ranks_differ || rank == 0.0).map(
            |&(adapters, rank)| Exponents {
                adapters: (best.adapters + adapters).clamp(0.0, MOST.0),
                rank: (best.rank + rank).clamp(0.0, MOST.1),
            },
        );
        let found = near.map(|e| (errors(e), e)).min_by(|a, b| a.0.total_cmp(&b.0));
        match found.filter(|(error, _)| *error < least) {
            Some((error, exponents)) => (least, best) = (error, exponents),
            None => step /= 2.0,
        }
    }
    best
}

/// What is known of all unknowns, when it counts that the exponents are not sure: by the slopes at the solution.
fn with_exponents(
    equations: &[&Equation],
    exponents: Exponents,
    linear: &[Known],
    mut right: Right,
) -> Vec<Known> {
    let adapter_ns = value_of(&linear[1]);
    let slope = |name: &'static str, of: &dyn Fn(&Counts, SlotCounts) -> f64| {
        let one = |e: &&Equation| -> f64 {
            let at = |step: &Counts| adapter_ns * factors(step, e.slots, exponents)[1] * of(step, e.slots);
            e.steps.iter().map(at).sum()
        };
        Column { name, factors: equations.iter().map(one).collect() }
    };
    let mut all = columns(equations, exponents);
    all.push(slope(NAMES[LINEAR], &|step, _| step.adapters.max(1.0).ln()));
    all.push(slope(NAMES[LINEAR + 1], &|_, slots| (slots.max_rank / USUAL_RANK).ln()));
    // So shifted that the solution is the one that was found, with the exponents themselves as the last two unknowns.
    for (row, sum) in right.sums.iter_mut().enumerate() {
        *sum += exponents.adapters * all[LINEAR].factors[row] + exponents.rank * all[LINEAR + 1].factors[row];
    }
    solve(&all, &right)
}
