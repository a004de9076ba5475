//! What a plan would cost, from its own replay and not from constants.

use crate::cli::BudgetArgs;
use crate::experiment::Experiment;
use crate::plan::Cell;
use crate::replay::Replay;
use crate::spec::runtime::RuntimeSpec;
use schemars::JsonSchema;
use serde::Serialize;

/// Costs of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Cells.
    pub runs: u64,
    /// Requests over all runs.
    pub requests: u64,
    /// Prompt and output tokens over all runs, expected.
    pub tokens: f64,
    /// Simulated time over all runs, s.
    pub simulated_s: f64,
    /// Wall time of the simulation on the processors given, s.
    pub wall_s: f64,
    /// Bytes of all run folders.
    pub disk_bytes: f64,
    /// GPU hours on real servers; null for a plan that needs none.
    pub gpu_hours: Option<f64>,
    /// Processors that the wall time counts on.
    pub jobs: u64,
}

/// Estimates a plan.
#[must_use]
pub fn estimate(experiment: &Experiment, cells: &[Cell], replay: &Replay, jobs: u64) -> Estimate {
    let requests: u64 = cells.iter().map(|cell| cell.requests).sum();
    let over_levels = |per_request: &dyn Fn(usize) -> f64| -> f64 {
        cells.iter().map(|cell| cell.requests as f64 * per_request(cell.level)).sum()
    };
    let tokens = |level: usize| {
        let (prompt, output) = experiment.levels[level].mean_tokens();
        prompt + output
    };
    let gpu_hours = match &experiment.spec.runtime {
        RuntimeSpec::Server(plan) => {
            Some(cells.len() as f64 * plan.seconds_per_run * f64::from(plan.gpus) / 3600.0)
        }
        _ => None,
    };
    let simulated_s = over_levels(&|level| replay.simulated_s_per_request[level]);
    // Servers take as long as their requests are due, one run after the other.
    let wall_s = match experiment.spec.runtime.live() {
        Some(_) => simulated_s,
        None => requests as f64 / replay.requests_per_second / jobs as f64,
    };
    Estimate {
        runs: cells.len() as u64,
        requests,
        tokens: over_levels(&tokens),
        simulated_s,
        wall_s,
        disk_bytes: requests as f64 * replay.bytes_per_request,
        gpu_hours,
        jobs,
    }
}

/// Puts the command line's limits over the experiment file's.
pub fn apply_budget(spec: &mut crate::spec::ExperimentSpec, args: &BudgetArgs) {
    let budget = &mut spec.budget;
    budget.max_runs = args.max_runs.or(budget.max_runs);
    budget.max_requests = args.max_requests.or(budget.max_requests);
    budget.max_gpu_hours = args.max_estimated_gpu_hours.or(budget.max_gpu_hours);
    if let (RuntimeSpec::Server(plan), Some(seconds)) = (&mut spec.runtime, args.estimated_seconds_per_run) {
        plan.seconds_per_run = seconds;
    }
}
