//! *distinct arms*: a treatment that decides like a baseline on every request can't differ from it.

use super::{Evidence, Verdict, note, pass, refuse};
use crate::experiment::Arm;
use acb_evidence::{ArmRole, Divergence};

const GATE: &str = "distinct-arms";

pub(super) fn verdict(seen: &Evidence<'_>) -> Verdict {
    let (arms, divergence) = (&seen.experiment.arms, &seen.replay.divergence);
    let classes = classes(arms, divergence);
    let decisions: u64 = divergence.levels.iter().map(|level| level.requests).sum();
    let alike: Vec<String> =
        classes.iter().filter(|class| class.len() > 1).map(|c| sentence(arms, c)).collect();
    if alike.is_empty() {
        return pass(
            GATE,
            format!("every pair of arms differs somewhere ({decisions} replayed requests per arm)"),
        );
    }
    let finding = format!("{} on all {decisions} replayed requests", alike.join("; "));
    let untestable = classes.iter().any(|class| {
        let any = |role: &ArmRole| class.iter().any(|&arm| &arms[arm].role == role);
        any(&ArmRole::Treatment) && any(&ArmRole::Baseline)
    });
    match untestable {
        true => refuse(
            GATE,
            format!("{finding}: a treatment that never differs from a baseline has no effect to find"),
            "give the arms something to disagree about (more replicas, fewer slots than adapters, a real trade between \
             base, multitask and specialist), or allow it by --allow indistinct-arms",
        ),
        false => note(GATE, finding, "these arms are one arm under several names"),
    }
}

/// Arms that differ nowhere, in the order of the first of each class; A/A replicates are left out.
fn classes(arms: &[Arm], divergence: &Divergence) -> Vec<Vec<usize>> {
    let alike = |a: usize, b: usize| {
        // Where one of them has no replica to choose, only adapters can differ.
        let alike = |share: Option<f64>| share.is_none_or(|share| share == 0.0);
        divergence.levels.iter().all(|level| alike(level.adapter[a][b]) && alike(level.replica[a][b]))
    };
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let own = arms.iter().enumerate().filter(|(_, arm)| !matches!(arm.role, ArmRole::AaReplicate { .. }));
    for (arm, _) in own {
        match classes.iter_mut().find(|class| class.iter().all(|&other| alike(other, arm))) {
            Some(class) => class.push(arm),
            None => classes.push(vec![arm]),
        }
    }
    classes
}

fn sentence(arms: &[Arm], class: &[usize]) -> String {
    let own = arms.iter().filter(|arm| !matches!(arm.role, ArmRole::AaReplicate { .. })).count();
    let names: Vec<&str> = class.iter().map(|&arm| arms[arm].name.as_str()).collect();
    format!("{} of {own} arms never differ: {} decide alike", class.len(), names.join(", "))
}
