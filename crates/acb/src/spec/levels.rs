//! Checks of factors: every value is tried in its place, alone and with the others.

use super::ExperimentSpec;
use super::check::{consistent, level_pointer};
use super::resolve::Finding;
use super::tree::join;
use super::words::{dotted, list};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What a factor may change: what all arms share, and what one arm's policy is given (its staleness, say); the other
/// arms are then the same at all of its values.
const ROOTS: [&str; 7] = ["adapters", "arms", "cluster", "model", "quality", "slo", "workload"];
/// What a factor may change of an arm; its name and role belong to the design.
const OF_AN_ARM: [&str; 2] = ["policy", "prior"];

/// Most combinations of levels.
const MAX_COMBINATIONS: usize = 10_000;

/// Paths that exist, values that are valid there, and combinations that are valid with everything else.
pub(super) fn check_factors(spec: &ExperimentSpec) -> Vec<Finding> {
    let found: Vec<_> =
        spec.factors.iter().flat_map(|(path, values)| check_factor(spec, path, values)).collect();
    if found.is_empty() && !spec.factors.is_empty() { check_combinations(spec) } else { found }
}

/// Combinations of values, each of which is valid in its place.
fn check_combinations(spec: &ExperimentSpec) -> Vec<Finding> {
    let count = spec.factors.values().try_fold(1usize, |count, values| count.checked_mul(values.len()));
    let Some(count) = count.filter(|count| *count <= MAX_COMBINATIONS) else {
        let message =
            format!("these values make more than {MAX_COMBINATIONS} combinations: give fewer values");
        return vec![("/factors".to_string(), message)];
    };
    let before = consistent(spec);
    let mut broken_by: BTreeMap<String, Vec<Vec<Level<'_>>>> = BTreeMap::new();
    for number in 0..count {
        let levels = combination(spec, number);
        for message in broken(spec, &levels, &before) {
            broken_by.entry(message).or_default().push(levels.clone());
        }
    }
    broken_by.into_iter().map(|(message, combinations)| blame(spec, count, &message, &combinations)).collect()
}

/// Shows a fault at the values that always bring it, or else at the first combination that has it.
fn blame(spec: &ExperimentSpec, count: usize, message: &str, combinations: &[Vec<Level<'_>>]) -> Finding {
    let first = &combinations[0];
    let in_all = |level: &&Level<'_>| combinations.iter().all(|levels| levels.contains(level));
    let common: Vec<_> = first.iter().filter(in_all).copied().collect();
    let with_common = count / common.iter().map(|(path, ..)| spec.factors[*path].len()).product::<usize>();
    let guilty = if with_common == combinations.len() && !common.is_empty() { &common } else { first };
    let (path, at, _) = guilty[guilty.len() - 1];
    let words = match guilty.len() {
        1 => "this value".to_string(),
        _ => guilty
            .iter()
            .map(|(path, _, value)| format!("{path} = {value}"))
            .collect::<Vec<_>>()
            .join(" and "),
    };
    (level_pointer(path, at), format!("with {words}, {message}"))
}

/// Path of a factor, position of one of its values, the value.
type Level<'a> = (&'a str, usize, &'a Json);

/// The combination with this number, the last factor turning fastest.
fn combination(spec: &ExperimentSpec, mut number: usize) -> Vec<Level<'_>> {
    let mut levels = Vec::with_capacity(spec.factors.len());
    for (path, values) in spec.factors.iter().rev() {
        let at = number % values.len();
        number /= values.len();
        levels.push((path.as_str(), at, &values[at]));
    }
    levels.reverse();
    levels
}

fn broken(spec: &ExperimentSpec, levels: &[Level<'_>], before: &[Finding]) -> Vec<String> {
    match spec.with_levels(levels.iter().map(|(path, _, value)| (*path, *value))) {
        Ok(varied) => new_faults(consistent(&varied), before),
        Err(found) => found.into_iter().map(|(_, message)| message).collect(),
    }
}

fn check_factor(spec: &ExperimentSpec, path: &str, values: &[Json]) -> Vec<Finding> {
    let pointer = join("/factors", path);
    let root = path.split('.').next().unwrap_or_default();
    if !ROOTS.contains(&root) {
        let message = format!("`{path}` can't be varied; a path starts with one of {}", list(ROOTS));
        return vec![(pointer, message)];
    }
    if root == "arms" && !path.split('.').nth(2).is_some_and(|part| OF_AN_ARM.contains(&part)) {
        let message = format!("`{path}` can't be varied; of an arm, a path names {}", list(OF_AN_ARM));
        return vec![(pointer, message)];
    }
    if values.is_empty() {
        return vec![(pointer, format!("`{path}` has no values: give two or more, or remove it"))];
    }
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let place = level_pointer(path, at);
        if values[..at].iter().any(|other| same(other, value)) {
            found.push((place, format!("{value} is given twice: keep one")));
            continue;
        }
        if let Err(faults) = spec.with_factor(path, value) {
            found.extend(faults.into_iter().map(|(_, message)| (place.clone(), message)));
        }
    }
    found
}

fn new_faults(after: Vec<Finding>, before: &[Finding]) -> Vec<String> {
    let new = after.into_iter().filter(|finding| !before.contains(finding));
    new.map(|(pointer, message)| format!("{}: {message}", dotted(&pointer))).collect()
}

/// Whether two values mean the same: numbers by size, so that 6 and 6.0 are one.
fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
