//! Runs sorted into levels, arms and blocks.

use super::contrast::Test;
use super::{Contrast, Missing, Pair};
use crate::{ArmRole, Levels, PlannedRun, ProfileRef, Run};
use acb_types::{Digest, Source};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Runs that may be compared: one level, one experiment, one kind of server.
pub(super) struct Level<'a> {
    pub(super) levels: Levels,
    pub(super) experiment_digest: Digest,
    pub(super) source: Source,
    pub(super) engine: String,
    pub(super) latency_profile: Option<ProfileRef>,
    pub(super) blocks: BTreeSet<u64>,
    pub(super) missing: Vec<Missing>,
    pub(super) arms: Vec<Arm<'a>>,
}

/// The usable runs of one arm by block.
pub(super) struct Arm<'a> {
    pub(super) name: String,
    pub(super) role: ArmRole,
    pub(super) policy: String,
    pub(super) information: String,
    pub(super) runs: BTreeMap<u64, &'a Run>,
}

/// Sorts runs into levels, ascending; numbers of different experiments, sources, engines or latency profiles never
/// meet in one level.
pub(super) fn levels<'a>(runs: &'a [Run], planned: &[PlannedRun]) -> Vec<Level<'a>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| order(group[0], run) == Ordering::Equal) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.sort_by(|a, b| order(a[0], b[0]));
    groups.into_iter().map(|group| level(&group, planned)).collect()
}

fn order(a: &Run, b: &Run) -> Ordering {
    let (a, b) = (&a.manifest, &b.manifest);
    let profile = |p: &Option<ProfileRef>| p.as_ref().map(|p| (p.name.clone(), p.calibrated));
    compare_levels(&a.levels, &b.levels)
        .then_with(|| a.experiment_digest.cmp(&b.experiment_digest))
        .then_with(|| a.source.cmp(&b.source))
        .then_with(|| a.engine.cmp(&b.engine))
        .then_with(|| profile(&a.latency_profile).cmp(&profile(&b.latency_profile)))
}

fn compare_levels(a: &Levels, b: &Levels) -> Ordering {
    let pairwise = a.iter().zip(b).map(|((a, x), (b, y))| a.cmp(b).then_with(|| compare_values(x, y)));
    pairwise.fold(Ordering::Equal, Ordering::then).then_with(|| a.len().cmp(&b.len()))
}

/// Numbers by size, everything else by its text.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.to_string().cmp(&b.to_string()),
    }
}

fn level<'a>(group: &[&'a Run], planned: &[PlannedRun]) -> Level<'a> {
    let first = &group[0].manifest;
    let planned: Vec<_> =
        planned.iter().filter(|run| compare_levels(&run.levels, &first.levels) == Ordering::Equal).collect();
    let blocks =
        group.iter().map(|run| run.manifest.block).chain(planned.iter().map(|run| run.block)).collect();
    let mut missing = Vec::new();
    let mut arms: Vec<Arm<'a>> = Vec::new();
    for name in group.iter().map(|run| &run.manifest.arm).collect::<BTreeSet<_>>() {
        arms.push(arm(group, name, &mut missing));
    }
    arms.sort_by(|a, b| rank(&a.role).cmp(&rank(&b.role)).then_with(|| a.name.cmp(&b.name)));
    missing.extend(not_there(&arms, &blocks, &planned, &missing));
    missing.sort();
    Level {
        levels: first.levels.clone(),
        experiment_digest: first.experiment_digest.clone(),
        source: first.source,
        engine: first.engine.clone(),
        latency_profile: first.latency_profile.clone(),
        blocks,
        missing,
        arms,
    }
}

fn rank(role: &ArmRole) -> u8 {
    match role {
        ArmRole::Treatment => 0,
        ArmRole::Baseline => 1,
        ArmRole::Control | ArmRole::Placebo => 2,
        ArmRole::AaReplicate { .. } => 3,
        ArmRole::Bound => 4,
    }
}

/// The runs of one arm. A cell that was recorded twice is used not at all: choosing one would be choosing a result.
fn arm<'a>(group: &[&'a Run], name: &str, missing: &mut Vec<Missing>) -> Arm<'a> {
    let mut by_block: BTreeMap<u64, Vec<&'a Run>> = BTreeMap::new();
    for run in group.iter().filter(|run| run.manifest.arm == name) {
        by_block.entry(run.manifest.block).or_default().push(run);
    }
    let manifest = &by_block.values().next().expect("an arm's name comes from one of its runs")[0].manifest;
    let mut runs = BTreeMap::new();
    for (block, recorded) in by_block {
        if let [run] = recorded[..] {
            runs.insert(block, run);
            continue;
        }
        let folders: Vec<String> = recorded.iter().map(|run| run.folder.display().to_string()).collect();
        let why = format!("recorded {} times, so none is used: {}", recorded.len(), folders.join(", "));
        missing.push(Missing { arm: name.to_owned(), block, why });
    }
    Arm {
        name: name.to_owned(),
        role: manifest.role.clone(),
        policy: manifest.policy.clone(),
        information: manifest.information.clone(),
        runs,
    }
}

/// Arms and blocks that were planned, or that the other arms have, and that are not there.
fn not_there(
    arms: &[Arm<'_>],
    blocks: &BTreeSet<u64>,
    planned: &[&PlannedRun],
    named: &[Missing],
) -> Vec<Missing> {
    let mut expected: BTreeSet<(&str, u64)> =
        planned.iter().map(|run| (run.arm.as_str(), run.block)).collect();
    expected.extend(arms.iter().flat_map(|arm| blocks.iter().map(|block| (arm.name.as_str(), *block))));
    let there = |name: &str, block: u64| {
        arms.iter().any(|arm| arm.name == name && arm.runs.contains_key(&block))
            || named.iter().any(|missing| missing.arm == name && missing.block == block)
    };
    let absent = expected.into_iter().filter(|(arm, block)| !there(arm, *block));
    absent
        .map(|(arm, block)| Missing { arm: arm.to_owned(), block, why: "no complete run".to_owned() })
        .collect()
}

impl Level<'_> {
    /// Every arm of one role against every arm of another, in the order of the arms.
    pub(super) fn pairs(&self, of: fn(&ArmRole) -> bool, against: fn(&ArmRole) -> bool) -> Vec<Pair> {
        let named = |role: fn(&ArmRole) -> bool| self.arms.iter().filter(move |arm| role(&arm.role));
        let pair =
            |arm: &Arm<'_>, other: &Arm<'_>| Pair { arm: arm.name.clone(), against: other.name.clone() };
        named(of).flat_map(|arm| named(against).map(move |other| pair(arm, other))).collect()
    }

    /// Every replicate against the arm that it repeats.
    pub(super) fn replicates(&self) -> Vec<Pair> {
        let pair = |arm: &Arm<'_>| match &arm.role {
            ArmRole::AaReplicate { of } => Some(Pair { arm: arm.name.clone(), against: of.clone() }),
            _ => None,
        };
        self.arms.iter().filter_map(pair).collect()
    }

    /// The pairs on one metric.
    pub(super) fn contrasts(&self, metric: &str, pairs: &[Pair], test: Test) -> Vec<Contrast> {
        pairs
            .iter()
            .map(|pair| Contrast::of(metric, [self.arm(&pair.arm), self.arm(&pair.against)], pair, test))
            .collect()
    }

    /// Every treatment and baseline against every bound.
    pub(super) fn bounds(&self, metric: &str, test: Test) -> Vec<Contrast> {
        let competes = |role: &ArmRole| matches!(role, ArmRole::Treatment | ArmRole::Baseline);
        let pairs = self.pairs(competes, |role| *role == ArmRole::Bound);
        self.contrasts(metric, &pairs, test).into_iter().map(Contrast::into_share_of_bound).collect()
    }

    pub(super) fn arm(&self, name: &str) -> Option<&Arm<'_>> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}
