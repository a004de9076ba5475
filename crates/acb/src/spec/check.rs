//! Faults across fields, which the schema can't express.

use super::catalogue::{AdapterRoleSpec, AdaptersSpec, NamedAdapter};
use super::resolve::Finding;
use super::rule::AaSpec;
use super::tree::join;
use super::words::{list, suggestion};
use super::{ArmSpec, ExperimentSpec, RoleSpec, SeedsSpec};
use acb_routing::PolicySpec;
use std::collections::{BTreeMap, BTreeSet};

/// What follows an arm's name in the name of its A/A replicate.
pub const AGAIN: &str = "-again";

/// Everything that is wrong, as (JSON pointer, message with remedy); `metrics` are the names that a result can have.
#[must_use]
pub fn check(spec: &ExperimentSpec, metrics: &[&str]) -> Vec<Finding> {
    let mut found = consistent(spec);
    found.extend(check_metrics(spec, metrics));
    found.extend(check_seeds(&spec.seeds));
    found.extend(super::levels::check_factors(spec));
    found.extend(super::runtime::check_factors(spec));
    found.extend(super::preregistration::check(spec, metrics));
    found
}

/// The checks that a factor's value can break: those of all fields but names, metrics, seeds and factors.
pub(super) fn consistent(spec: &ExperimentSpec) -> Vec<Finding> {
    let adapters = spec.adapters.list(&spec.model.shape());
    let mut found = check_adapters(&spec.adapters, &adapters);
    found.extend(check_model(spec));
    found.extend(check_arms(spec, &adapters));
    found.extend(check_contrasts(spec));
    found.extend(check_slo(spec));
    found.extend(check_cluster(spec, &adapters));
    found.extend(check_workload(spec));
    found.extend(super::runtime::check_runtime(spec));
    found
}

fn fault(pointer: impl Into<String>, message: impl Into<String>) -> Finding {
    (pointer.into(), message.into())
}

fn check_adapters(spec: &AdaptersSpec, adapters: &[NamedAdapter]) -> Vec<Finding> {
    if let AdaptersSpec::Generated(generated) = spec {
        let rule = &generated.generate;
        if rule.rank.is_some() != rule.ranks.is_empty() {
            return vec![fault("/adapters/generate", "give either `rank` or `ranks`")];
        }
    }
    let mut found = Vec::new();
    let mut names = BTreeMap::new();
    let mut tasks = BTreeMap::new();
    for (at, adapter) in adapters.iter().enumerate() {
        let place = |key: &str| match spec {
            AdaptersSpec::List(_) => format!("/adapters/{at}/{key}"),
            AdaptersSpec::Generated(_) => "/adapters/generate/name_prefix".to_string(),
        };
        if adapter.name == "base" {
            found.push(fault(
                place("name"),
                "`base` means the base model in records: give the adapter another name",
            ));
        }
        if let Some(first) = names.insert(&adapter.name, at) {
            let message =
                format!("the adapter `{}` is already item {first}: give each its own name", adapter.name);
            found.push(fault(place("name"), message));
        }
        if let Some(first) = adapter.task.as_ref().and_then(|task| tasks.insert(task, &adapter.name)) {
            let message = format!(
                "`{}` and `{first}` are both specialists for one task: keep one, or give them different tasks",
                adapter.name
            );
            found.push(fault(place("task"), message));
        }
    }
    found
}

fn check_model(spec: &ExperimentSpec) -> Vec<Finding> {
    let shape = spec.model.shape();
    let mut found = Vec::new();
    if !shape.q_heads.is_multiple_of(shape.kv_heads) {
        let message =
            format!("{} query heads can't share {} key heads evenly", shape.q_heads, shape.kv_heads);
        found.push(fault("/model/kv_heads", message));
    }
    let profile = spec.cluster.latency_profile().map(|profile| profile.kv_bytes_per_token);
    if let Some(bytes) = profile.filter(|bytes| *bytes != shape.kv_bytes_per_token()) {
        let message = format!(
            "this model keeps {} KV bytes per token, but the latency profile is of a model with {bytes}: choose the \
             profile's model, or a profile of this model",
            shape.kv_bytes_per_token()
        );
        found.push(fault("/model", message));
    }
    found
}

fn check_arms(spec: &ExperimentSpec, adapters: &[NamedAdapter]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut names = BTreeMap::new();
    for (at, arm) in spec.arms.iter().enumerate() {
        if let Some(first) = names.insert(&arm.name, at) {
            let message = format!("the arm `{}` is already item {first}: give each its own name", arm.name);
            found.push(fault(format!("/arms/{at}/name"), message));
        }
        found.extend(check_offer(at, arm, adapters));
        found.extend(super::policies::check_parameters(at, arm));
    }
    let replicate = spec.aa_arm().map(|arm| format!("{}{AGAIN}", arm.name));
    if let Some((name, at)) = replicate.and_then(|name| names.get_key_value(&name)) {
        let message =
            format!("`{name}` is the name of the arm that is run twice: give this arm another name");
        found.push(fault(format!("/arms/{at}/name"), message));
    }
    if let AaSpec::Arm(chosen) = &spec.aa {
        found.extend(unknown("/aa/name", "arm", &chosen.name, &arm_names(spec)));
    }
    found
}

/// The adapters that an arm is offered exist, and are what its policy needs.
fn check_offer(at: usize, arm: &ArmSpec, adapters: &[NamedAdapter]) -> Vec<Finding> {
    let known: Vec<&str> = adapters.iter().map(|adapter| adapter.name.as_str()).collect();
    let offered: Vec<&str> = match &arm.adapters {
        Some(offered) => offered.iter().map(String::as_str).collect(),
        None => known.clone(),
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, name) in offered.iter().enumerate().filter(|_| arm.adapters.is_some()) {
        let pointer = format!("/arms/{at}/adapters/{index}");
        found.extend(unknown(&pointer, "adapter", name, &known));
        if !seen.insert(name) {
            found.push(fault(pointer, format!("the adapter `{name}` is offered twice: keep one")));
        }
    }
    found.extend(check_placebo(at, arm, adapters, &offered));
    let multitask = |adapter: &&NamedAdapter| adapter.role == AdapterRoleSpec::Multitask;
    let offers_multitask = adapters.iter().filter(multitask).any(|one| offered.contains(&one.name.as_str()));
    if matches!(arm.policy, PolicySpec::Multitask(_)) && !offers_multitask {
        let message = format!(
            "the arm `{}` needs an adapter of role multitask: add one to adapters, or choose another policy",
            arm.name
        );
        found.push(fault(format!("/arms/{at}/policy"), message));
    }
    found
}

/// A placebo arm can't be served by anything that changes answers.
fn check_placebo(at: usize, arm: &ArmSpec, adapters: &[NamedAdapter], offered: &[&str]) -> Option<Finding> {
    let real = |adapter: &&NamedAdapter| {
        adapter.role != AdapterRoleSpec::Placebo && offered.contains(&adapter.name.as_str())
    };
    let adapter = adapters.iter().find(real).filter(|_| arm.role == Some(RoleSpec::Placebo))?;
    let message = format!(
        "the placebo arm `{}` is offered `{}`, which changes answers: name adapters of role placebo only",
        arm.name, adapter.name
    );
    Some(fault(format!("/arms/{at}/adapters"), message))
}

fn check_contrasts(spec: &ExperimentSpec) -> Vec<Finding> {
    let names = arm_names(spec);
    let mut found = Vec::new();
    let mut pairs = BTreeSet::new();
    for (at, contrast) in spec.decision_rule.contrasts.iter().enumerate() {
        let pointer = format!("/decision_rule/contrasts/{at}");
        found.extend(unknown(&format!("{pointer}/treatment"), "arm", &contrast.treatment, &names));
        for (index, other) in contrast.against.iter().enumerate() {
            let pointer = format!("{pointer}/against/{index}");
            found.extend(unknown(&pointer, "arm", other, &names));
            if *other == contrast.treatment {
                found.push(fault(
                    &pointer,
                    format!("`{other}` can't be compared with itself: name another arm"),
                ));
            }
            if !pairs.insert((&contrast.treatment, other)) {
                let message =
                    format!("`{}` against `{other}` is already a contrast: keep one", contrast.treatment);
                found.push(fault(&pointer, message));
            }
        }
    }
    if spec.arms.len() > 1 && spec.contrasts().is_empty() {
        let message =
            "nothing would be compared: name contrasts, or give arms the roles `treatment` and `baseline`";
        found.push(fault("/decision_rule", message));
    }
    found
}

fn check_slo(spec: &ExperimentSpec) -> Vec<Finding> {
    let slo = &spec.slo;
    let given = [slo.ttft_ms, slo.tpot_ms, slo.e2e_ms].iter().any(Option::is_some);
    if given {
        Vec::new()
    } else {
        vec![fault("/slo", "give at least one of `ttft_ms`, `tpot_ms`, `e2e_ms`")]
    }
}

fn check_cluster(spec: &ExperimentSpec, adapters: &[NamedAdapter]) -> Vec<Finding> {
    let adapters: Vec<_> =
        adapters.iter().map(|adapter| (adapter.name.clone(), adapter.rank, adapter.bytes)).collect();
    below("/cluster", spec.cluster.check(&adapters))
}

fn check_workload(spec: &ExperimentSpec) -> Vec<Finding> {
    let mut found = below("/workload", spec.workload.check());
    if found.is_empty() {
        let (prompt, output) = spec.workload.mean_tokens();
        let context = spec.cluster.context_tokens();
        if prompt + output > f64::from(context) {
            let message = format!(
                "a mean prompt of {prompt:.0} and answer of {output:.0} tokens exceed the context of {context}: \
                 shorten them, or raise cluster.engine.context_tokens"
            );
            found.push(fault("/workload", message));
        }
    }
    found
}

fn check_metrics(spec: &ExperimentSpec, metrics: &[&str]) -> Vec<Finding> {
    let mut found: Vec<_> =
        unknown("/primary_metric", "metric", &spec.primary_metric, metrics).into_iter().collect();
    for (at, name) in spec.secondary_metrics.iter().enumerate() {
        let pointer = format!("/secondary_metrics/{at}");
        found.extend(unknown(&pointer, "metric", name, metrics));
        if *name == spec.primary_metric || spec.secondary_metrics[..at].contains(name) {
            found.push(fault(pointer, format!("the metric `{name}` is already named: keep one")));
        }
    }
    found
}

fn check_seeds(seeds: &SeedsSpec) -> Vec<Finding> {
    match seeds {
        SeedsSpec::Range(range) if range.first.checked_add(u64::from(range.count)).is_none() => {
            vec![fault(
                "/seeds/first",
                format!("{} seeds from here exceed 64 bits: start lower", range.count),
            )]
        }
        SeedsSpec::Range(_) => Vec::new(),
        SeedsSpec::List(list) if list.is_empty() => {
            vec![fault(
                "/seeds",
                "no seeds: give one per block, six or more to find a difference at the 5 % level",
            )]
        }
        SeedsSpec::List(list) => {
            let mut seen = BTreeSet::new();
            let again = list.iter().enumerate().filter(|(_, seed)| !seen.insert(**seed));
            let message =
                |seed: u64| format!("the seed {seed} is given twice: a block must not be counted twice");
            again.map(|(at, seed)| fault(format!("/seeds/{at}"), message(*seed))).collect()
        }
    }
}

fn arm_names(spec: &ExperimentSpec) -> Vec<&str> {
    spec.arms.iter().map(|arm| arm.name.as_str()).collect()
}

pub(super) fn unknown(pointer: &str, what: &str, name: &str, known: &[&str]) -> Option<Finding> {
    if known.contains(&name) {
        return None;
    }
    let remedy = match (suggestion(name, known.iter().copied()), known.is_empty()) {
        (Some(meant), _) => format!("did you mean `{meant}`? There are {}", list(known)),
        (None, false) => format!("there are {}", list(known)),
        (None, true) => "there is none".to_string(),
    };
    Some(fault(pointer, format!("no {what} is named `{name}`; {remedy}")))
}

fn below(root: &str, found: Vec<Finding>) -> Vec<Finding> {
    found.into_iter().map(|(pointer, message)| (format!("{root}{pointer}"), message)).collect()
}

/// A pointer to one level of a factor.
pub(super) fn level_pointer(path: &str, at: usize) -> String {
    join(&join("/factors", path), &at.to_string())
}
