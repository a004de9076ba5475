//! Checks of factors: every value is tried in its place.

use super::ExperimentSpec;
use super::check::{consistent, level_pointer};
use super::resolve::Finding;
use super::tree::join;
use super::words::list;
use serde_json::Value as Json;

/// What a factor may change: what all arms share. Arms are crossed with factors, so they are no factor themselves.
const ROOTS: [&str; 6] = ["adapters", "cluster", "model", "quality", "slo", "workload"];

/// Paths that exist, values that are valid there and with everything else.
pub(super) fn check_factors(spec: &ExperimentSpec) -> Vec<Finding> {
    let before = consistent(spec);
    spec.factors.iter().flat_map(|(path, values)| check_factor(spec, path, values, &before)).collect()
}

fn check_factor(spec: &ExperimentSpec, path: &str, values: &[Json], before: &[Finding]) -> Vec<Finding> {
    let pointer = join("/factors", path);
    let root = path.split('.').next().unwrap_or_default();
    if !ROOTS.contains(&root) {
        let message = format!("`{path}` can't be varied; a path starts with one of {}", list(ROOTS));
        return vec![(pointer, message)];
    }
    if values.is_empty() {
        return vec![(pointer, format!("`{path}` has no values: give two or more, or remove it"))];
    }
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let place = level_pointer(path, at);
        if values[..at].contains(value) {
            found.push((place, format!("{value} is given twice: keep one")));
            continue;
        }
        let broken = match spec.with_factor(path, value) {
            Ok(varied) => new_faults(consistent(&varied), before),
            Err(found) => found.into_iter().map(|(_, message)| message).collect(),
        };
        found.extend(broken.into_iter().map(|message| (place.clone(), message)));
    }
    found
}

fn new_faults(after: Vec<Finding>, before: &[Finding]) -> Vec<String> {
    let new = after.into_iter().filter(|finding| !before.contains(finding));
    new.map(|(pointer, message)| format!("with this value, {}: {message}", super::words::dotted(&pointer)))
        .collect()
}
