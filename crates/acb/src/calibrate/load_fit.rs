//! What it costs to bring adapters into their slots, from what the steps themselves do not explain.

use super::equation::{Equation, Load};
use acb_stats::linear::{Column, Known, solve, value_of};

/// Unknowns, ns.
pub const NAMES: [&str; 4] = ["load_gpu_ms", "load_gpu_ms_per_mb", "load_cpu_ms", "load_cpu_ms_per_mb"];

/// What was found.
#[derive(Clone, Debug)]
pub struct LoadFit {
    /// What is known of each of [`NAMES`].
    pub known: Vec<Known>,
}

impl LoadFit {
    /// How long a load takes, ns.
    pub fn predict_ns(&self, load: Option<Load>) -> f64 {
        load.map_or(0.0, |load| factors(load).iter().zip(&self.known).map(|(f, k)| f * value_of(k)).sum())
    }
}

fn factors(load: Load) -> [f64; NAMES.len()] {
    let disk = f64::from(load.from_disk);
    [1.0, load.megabytes, disk, disk * load.megabytes]
}

/// Fits to equations with loads; `steps_ns` tells what the steps of one take without.
pub fn fit_loads(equations: &[&Equation], steps_ns: impl Fn(&Equation) -> f64) -> LoadFit {
    let loads: Vec<[f64; NAMES.len()]> = equations.iter().filter_map(|e| e.load).map(factors).collect();
    let column = |at: usize| Column { name: NAMES[at], factors: loads.iter().map(|l| l[at]).collect() };
    let columns: Vec<Column> = (0..NAMES.len()).map(column).collect();
    LoadFit { known: solve(&columns, &Equation::right(equations, |e| e.measured_ns - steps_ns(e))) }
}
