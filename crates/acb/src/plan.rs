//! The plan: every cell in the order of execution, and what they would cost.

use crate::experiment::{Arm, Experiment, Level};
use crate::spec::rule::MultiplicitySpec;
use acb_evidence::{FILE_VERSION, Levels, Multiplicity, Pair, PlannedRun, SweepArm, SweepPlan};
use acb_types::{Digest, Seed};
use serde_json::Value as Json;

/// One run: an arm at a level in a block.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name of the run and of its folder.
    pub run_id: String,
    /// Position among the experiment's arms.
    pub arm: usize,
    /// Position among its levels.
    pub level: usize,
    /// Its block.
    pub block: u64,
    /// Requests planned.
    pub requests: u64,
    /// Hash of the resolved cell, the data it names and the program's version: what `--resume` goes by.
    pub digest: Digest,
}

/// Every cell in the order of execution: block by block, level by level, arms shuffled within by the experiment's seed.
#[must_use]
pub fn cells(experiment: &Experiment, sweep: &str) -> Vec<Cell> {
    let mut order = Seed(experiment.spec.experiment_seed).stream("arm-order");
    let level_digests: Vec<Digest> =
        (0..experiment.levels.len()).map(|l| level_digest(experiment, l)).collect();
    let slugs = slugs(experiment);
    let mut cells = Vec::new();
    for &block in &experiment.blocks {
        for (at, level) in experiment.levels.iter().enumerate() {
            let mut arms: Vec<usize> = (0..experiment.arms.len()).collect();
            order.shuffle(&mut arms);
            for arm in arms {
                cells.push(Cell {
                    run_id: format!("{sweep}-{}{}-s{block}", level.arms[arm].name, slugs[at]),
                    arm,
                    level: at,
                    block,
                    requests: level.spec.workload.requests(),
                    digest: cell_digest(experiment, &level_digests[at], &level.arms[arm], block),
                });
            }
        }
    }
    cells
}

/// The resolved configuration of a cell: the experiment at its level with this arm and this seed alone. It can be run.
#[must_use]
pub fn cell_config(experiment: &Experiment, cell: &Cell) -> String {
    let mut spec = experiment.levels[cell.level].spec.clone();
    let arm = &experiment.arms[cell.arm];
    spec.arms.retain(|own| own.name == arm.name || is_replicate_of(&arm.role, &own.name));
    spec.seeds = crate::spec::SeedsSpec::List(vec![cell.block]);
    spec.aa = crate::spec::rule::AaSpec::Off;
    spec.decision_rule.contrasts.clear();
    // A cell answers no question of its own.
    spec.preregistration = None;
    spec.resolved_yaml()
}

fn is_replicate_of(role: &acb_evidence::ArmRole, name: &str) -> bool {
    matches!(role, acb_evidence::ArmRole::AaReplicate { of } if of == name)
}

fn level_digest(experiment: &Experiment, level: usize) -> Digest {
    let mut spec = experiment.levels[level].spec.clone();
    spec.arms.clear();
    spec.seeds = crate::spec::SeedsSpec::List(Vec::new());
    // What says how many cells there are, where they go or how they are judged does not change a cell.
    spec.budget = Default::default();
    spec.output_dir.clear();
    spec.decision_rule = Default::default();
    spec.question.clear();
    spec.hypothesis = None;
    spec.secondary_metrics.clear();
    spec.preregistration = None;
    Digest::of(spec.resolved_yaml().as_bytes())
}

fn cell_digest(experiment: &Experiment, level: &Digest, arm: &Arm, block: u64) -> Digest {
    let content = format!("{level}\n{arm:?}\n{block}\n{:?}\n{}", experiment.data, program_version());
    Digest::of(content.as_bytes())
}

/// Version of this program, as records carry it.
#[must_use]
pub fn program_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// One slug per level, told apart by a hash where two would be one.
fn slugs(experiment: &Experiment) -> Vec<String> {
    let plain: Vec<String> = experiment.levels.iter().map(|level| slug(&level.values)).collect();
    let tell_apart =
        |(slug, level): (&String, &Level)| match plain.iter().filter(|other| *other == slug).count() {
            1 => slug.clone(),
            _ => format!("{slug}-{}", Digest::of(format!("{:?}", level.values).as_bytes()).short()),
        };
    plain.iter().zip(&experiment.levels).map(tell_apart).collect()
}

/// A level as part of a folder name: `-rate_rps-20-max_loras-4`, lower-case letters, digits, `_`, `-` and `p` for a point.
fn slug(levels: &Levels) -> String {
    let word = |text: &str| -> String {
        let keep = |c: char| match c {
            '.' => 'p',
            c if c.is_ascii_alphanumeric() || c == '_' => c.to_ascii_lowercase(),
            _ => '-',
        };
        text.chars().map(keep).collect()
    };
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let repeated = |path: &str| levels.keys().filter(|other| last(other) == last(path)).count() > 1;
    let part = |(path, value): (&String, &Json)| {
        let key = if repeated(path) { path.replace('.', "_") } else { last(path) };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("-{}-{}", word(&key), word(&value))
    };
    let whole: String = levels.iter().map(part).collect();
    match whole.len() {
        0..=120 => whole,
        _ => format!("-{}", Digest::of(whole.as_bytes()).short()),
    }
}

/// The plan as it is written to the sweep's folder.
#[must_use]
pub fn sweep_plan(experiment: &Experiment, sweep: &str, cells: &[Cell]) -> SweepPlan {
    let spec = &experiment.spec;
    let arm = |arm: &Arm| SweepArm {
        name: arm.name.clone(),
        role: arm.role.clone(),
        policy: arm.policy.name().to_owned(),
        information: arm.policy.information().to_string(),
    };
    let run = |cell: &Cell| PlannedRun {
        run_id: cell.run_id.clone(),
        arm: experiment.arms[cell.arm].name.clone(),
        block: cell.block,
        levels: experiment.levels[cell.level].values.clone(),
        requests: cell.requests,
        cell_digest: cell.digest.clone(),
    };
    SweepPlan {
        v: FILE_VERSION,
        sweep: sweep.to_owned(),
        experiment: spec.name.clone(),
        experiment_digest: experiment.digest.clone(),
        question: spec.question.clone(),
        hypothesis: spec.hypothesis.clone().unwrap_or_default(),
        arms: experiment.arms.iter().map(arm).collect(),
        blocks: experiment.blocks.clone(),
        primary_metric: spec.primary_metric.clone(),
        alpha: spec.decision_rule.alpha,
        min_effect_ratio: spec.decision_rule.min_effect_ratio,
        contrasts: spec
            .contrasts()
            .into_iter()
            .map(|(arm, against)| Pair { arm: arm.to_owned(), against: against.to_owned() })
            .collect(),
        secondary_metrics: spec.secondary_metrics.clone(),
        multiplicity: match spec.decision_rule.multiplicity {
            MultiplicitySpec::Holm => Multiplicity::Holm,
            MultiplicitySpec::Gatekeeping => Multiplicity::Gatekeeping,
        },
        runs: cells.iter().map(run).collect(),
    }
}
