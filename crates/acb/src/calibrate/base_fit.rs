//! Constants of the base model, from the equations without adapters.
//!
//! Arithmetic hides behind the reading of weights, so a step is the longer of two sums. Once it is known for each step which
//! of the two it is, the rest is linear: the fit guesses at how many tokens the arithmetic takes over, solves, looks which
//! steps the solution puts on which side, and goes on until none changes side; of all first guesses the best result counts.

use super::constants::LEAST_SHARE;
use super::equation::{Counts, Equation};
use super::linear::{Column, Known, Right, solve, value_of};
use std::collections::BTreeSet;

/// Unknowns, in the order in which they keep an effect that can't be told apart. All are ns.
pub const NAMES: [&str; 8] = [
    "step_ms",
    "prefill_token_us",
    "decode_row_us",
    "context_token_ns",
    "prefill_pair_ns",
    "prefill_request_us",
    "weight_read_ms",
    "decode_compute_us",
];

/// Prompt tokens in a step from which arithmetic may be the longer part.
const GUESSES: [f64; 14] =
    [0.0, 8.0, 24.0, 48.0, 80.0, 112.0, 160.0, 224.0, 320.0, 448.0, 640.0, 900.0, 1200.0, f64::INFINITY];
/// Arithmetic of a decoding request over that of a prompt token, for the guesses.
const ROWS: [f64; 4] = [0.25, 1.0, 2.0, 4.0];
/// Rounds after which sides that still change are left.
const ROUNDS: usize = 40;

/// Which part of a step is the longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Longer {
    Weights,
    Arithmetic,
}

/// What was found: ns for each of [`NAMES`].
#[derive(Clone, Debug)]
pub struct BaseFit {
    /// What is known of each.
    pub known: Vec<Known>,
}

impl BaseFit {
    fn ns(&self, name: &str) -> f64 {
        let at = NAMES.iter().position(|&n| n == name).expect("the name is one of the list");
        value_of(&self.known[at])
    }

    /// Whether the reading of weights makes no difference to any time.
    fn hides_nothing(&self) -> bool {
        let at = NAMES.iter().position(|&name| name == "weight_read_ms").expect("the name is in the list");
        matches!(self.known[at], Known::Value { share, .. } if share < LEAST_SHARE)
    }

    fn longer(&self, step: &Counts) -> Longer {
        let arithmetic = self.ns("prefill_token_us") * step.prefill_tokens
            + self.ns("prefill_pair_ns") * step.prefill_pairs
            + self.ns("decode_compute_us") * step.rows;
        if arithmetic >= self.ns("weight_read_ms") { Longer::Arithmetic } else { Longer::Weights }
    }

    /// How long the base model takes for these steps, ns.
    pub fn predict_ns(&self, steps: &[Counts]) -> f64 {
        let of = |step| -> f64 {
            factors(step, self.longer(step)).iter().zip(&self.known).map(|(f, k)| f * value_of(k)).sum()
        };
        steps.iter().map(of).sum()
    }
}

/// What each unknown is multiplied with in a step.
fn factors(step: &Counts, longer: Longer) -> [f64; NAMES.len()] {
    let arithmetic = f64::from(longer == Longer::Arithmetic);
    [
        1.0,
        arithmetic * step.prefill_tokens,
        step.rows,
        step.context_tokens,
        arithmetic * step.prefill_pairs,
        step.prefills,
        1.0 - arithmetic,
        arithmetic * step.rows,
    ]
}

/// Fits to the equations that have no adapter.
pub fn fit_base(equations: &[&Equation]) -> BaseFit {
    let guesses = GUESSES.iter().flat_map(|&tokens| ROWS.iter().map(move |&row| (tokens, row)));
    let mut seen = BTreeSet::new();
    let fits = guesses.map(|guess| settle(equations, guess, &mut seen));
    let errors = |fit: &BaseFit| -> f64 {
        let error = |e: &&Equation| ((fit.predict_ns(&e.steps) - e.measured_ns) * e.weight()).powi(2);
        equations.iter().map(error).sum()
    };
    let best = fits.map(|fit| (errors(&fit), fit)).min_by(|a, b| a.0.total_cmp(&b.0));
    let best = best.expect("there are guesses").1;
    // With nothing to hide behind, which step is on which side is chance, and what is told apart by it too.
    if best.hides_nothing() { settle(equations, (0.0, 1.0), &mut BTreeSet::new()) } else { best }
}

/// For each step of each equation, which part is the longer one.
type Sides = Vec<Vec<Longer>>;

/// Goes on until no step changes side, or to sides from which another guess has gone on already.
fn settle(equations: &[&Equation], (guess, row): (f64, f64), seen: &mut BTreeSet<Sides>) -> BaseFit {
    let first = |step: &Counts| {
        let tokens = step.prefill_tokens + row * step.rows;
        if tokens >= guess { Longer::Arithmetic } else { Longer::Weights }
    };
    let mut sides: Sides = equations.iter().map(|e| e.steps.iter().map(first).collect()).collect();
    let mut fit = solve_with(equations, &sides);
    for _ in 0..ROUNDS {
        let next: Sides =
            equations.iter().map(|e| e.steps.iter().map(|step| fit.longer(step)).collect()).collect();
        if !seen.insert(next.clone()) {
            break;
        }
        sides = next;
        fit = solve_with(equations, &sides);
    }
    fit
}

fn solve_with(equations: &[&Equation], sides: &[Vec<Longer>]) -> BaseFit {
    let sums: Vec<[f64; NAMES.len()]> = equations
        .iter()
        .zip(sides)
        .map(|(equation, sides)| {
            let mut sum = [0.0; NAMES.len()];
            for (step, &longer) in equation.steps.iter().zip(sides) {
                for (total, factor) in sum.iter_mut().zip(factors(step, longer)) {
                    *total += factor;
                }
            }
            sum
        })
        .collect();
    let column = |at: usize| Column { name: NAMES[at], factors: sums.iter().map(|sum| sum[at]).collect() };
    let columns: Vec<Column> = (0..NAMES.len()).map(column).collect();
    BaseFit { known: solve(&columns, &Right::of(equations, |e| e.measured_ns)) }
}
