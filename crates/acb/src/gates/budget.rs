//! *budget*: what the plan would cost against what it may.

use super::{Evidence, Verdict, pass, refuse};

const GATE: &str = "budget";

pub(super) fn verdict(seen: &Evidence<'_>) -> Verdict {
    let (budget, estimate) = (&seen.experiment.spec.budget, seen.estimate);
    let limits = [
        ("runs", estimate.runs as f64, budget.max_runs.map(|n| n as f64)),
        ("requests", estimate.requests as f64, budget.max_requests.map(|n| n as f64)),
        ("tokens", estimate.tokens, budget.max_tokens.map(|n| n as f64)),
        ("estimated wall seconds", estimate.wall_s, budget.max_wall_seconds),
        ("estimated GPU hours", estimate.gpu_hours.unwrap_or(0.0), budget.max_gpu_hours),
        ("estimated MB on disk", estimate.disk_bytes * 1e-6, budget.max_disk_mb),
    ];
    let given = limits.iter().filter(|limit| limit.2.is_some()).count();
    let over: Vec<String> = limits
        .iter()
        .filter_map(|&(what, planned, limit)| {
            let limit = limit?;
            (planned > limit).then(|| {
                let rounded = (planned * 1e6).round() / 1e6;
                format!("{rounded} {what} exceed the limit of {limit}")
            })
        })
        .collect();
    match over.is_empty() {
        true => pass(GATE, format!("{given} limits given, none exceeded")),
        false => refuse(GATE, over.join("; "), "plan less, or raise the limit under `budget`"),
    }
}
