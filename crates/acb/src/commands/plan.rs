//! `acb plan`: what an experiment would do, and whether it can answer its question. Writes nothing.

use super::{Exit, print, print_json};
use crate::cli::{ExperimentArgs, PlanArgs};
use crate::estimate::{Estimate, apply_budget, estimate};
use crate::experiment::Experiment;
use crate::gates::{Evidence, GateStatus, Verdict, labels, verdicts};
use crate::interrupt::Interrupt;
use crate::plan::{Cell, cells};
use crate::replay::{Replay, replay};
use crate::spec::{ExperimentSpec, Faults, Finding, Report};
use acb_evidence::render_divergence;
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// An experiment with its cells, its cost and its verdicts.
pub struct Prepared {
    /// The experiment.
    pub experiment: Experiment,
    /// Name of the sweep.
    pub sweep: String,
    /// Folder of the run folders.
    pub output_dir: PathBuf,
    /// Every cell in the order of execution.
    pub cells: Vec<Cell>,
    /// How its arms decide.
    pub replay: Replay,
    /// What it would cost.
    pub estimate: Estimate,
    /// What the gates say.
    pub verdicts: Vec<Verdict>,
}

impl Prepared {
    /// Whether a gate refuses.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.status == GateStatus::Refuse)
    }

    /// Sentences to print above every table.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut all = labels(&self.verdicts);
        let what_ifs = self.experiment.levels.iter().flat_map(|level| level.spec.cluster.what_ifs());
        let what_ifs: BTreeSet<String> = what_ifs.collect();
        all.extend(what_ifs.iter().map(|words| format!("what-if: {words}; no runtime does this today")));
        all.extend(self.experiment.left_out().map(|arm| {
            format!("left out on servers: arm {arm}, which sees the truth that only a simulator has")
        }));
        all
    }
}

/// The plan as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanDocument {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the sweep.
    pub sweep: String,
    /// Folder of the run folders.
    pub output_dir: String,
    /// Arms with policy and information set.
    pub arms: Vec<PlannedArm>,
    /// Combinations of factor values.
    pub levels: u64,
    /// Block seeds.
    pub blocks: Vec<u64>,
    /// Costs.
    pub estimate: Estimate,
    /// Verdicts of the gates.
    pub gates: Vec<Verdict>,
    /// Whether a gate refuses the plan.
    pub refused: bool,
    /// Runs in the order of execution.
    pub runs: Vec<String>,
}

/// One arm of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlannedArm {
    /// Its name.
    pub name: String,
    /// What it is in the comparison.
    pub role: String,
    /// Its policy.
    pub policy: String,
    /// What the policy may see.
    pub sees: String,
}

/// Runs the command.
///
/// # Errors
/// When the experiment has faults.
pub fn command(args: &PlanArgs) -> miette::Result<Exit> {
    let interrupt = Interrupt::on_signals().into_diagnostic()?;
    let Some(loaded) = load(&args.experiment, args.json)? else { return Ok(Exit::Usage) };
    let prepared = prepare(loaded, &args.experiment, jobs(None), &interrupt)?;
    match args.json {
        true => print_json(&document(&prepared))?,
        false => print(&render(&prepared))?,
    }
    Ok(if prepared.refused() { Exit::Failed } else { Exit::Done })
}

/// Processors to use.
#[must_use]
pub fn jobs(asked: Option<u16>) -> usize {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.map_or(available, usize::from)
}

/// Reads an experiment and checks it; `None` when it has faults and they were printed as JSON.
///
/// # Errors
/// The faults, each in its source.
pub fn load(args: &ExperimentArgs, json: bool) -> miette::Result<Option<ExperimentSpec>> {
    match try_load(args) {
        Ok(spec) => Ok(Some(spec)),
        Err(faults) if json => print_json(&faults.rows()).map(|()| None),
        Err(faults) => Err(Report::from(faults).into()),
    }
}

fn try_load(args: &ExperimentArgs) -> Result<ExperimentSpec, Faults> {
    let overridden = |spec: &ExperimentSpec| overridden_factors(spec, &args.sets);
    let (mut spec, _) = ExperimentSpec::load_checked(args.preset, &args.files, &args.sets, overridden)?;
    apply_budget(&mut spec, &args.budget);
    Ok(spec)
}

/// Values set on the command line that a factor would replace at every level.
fn overridden_factors(spec: &ExperimentSpec, sets: &[String]) -> Vec<Finding> {
    let paths = sets.iter().filter_map(|set| set.split_once('=')).map(|(path, _)| path.trim());
    let vain = paths.filter(|path| spec.factors.contains_key(*path));
    vain.map(|path| {
        let message = format!(
            "`{path}` is a factor, so --set {path}=... would change nothing: set its values, \
             --set 'factors={{{path}: [...]}}'"
        );
        (format!("/factors/{}", path.replace('~', "~0").replace('/', "~1")), message)
    })
    .collect()
}

/// Sets an experiment up, plans it, replays its arms and asks the gates.
///
/// # Errors
/// When a part can't be set up, or the user interrupts.
pub fn prepare(
    spec: ExperimentSpec,
    args: &ExperimentArgs,
    jobs: usize,
    interrupt: &Interrupt,
) -> miette::Result<Prepared> {
    let sweep = args.sweep_name.clone().unwrap_or_else(|| spec.name.clone());
    check_name(&sweep)?;
    let output_dir = args.output_dir.clone().unwrap_or_else(|| PathBuf::from(&spec.output_dir));
    let experiment = Experiment::new(spec).into_diagnostic()?;
    // Once in full: a data file that is too short is named with the numbers of the plan, not of a sample.
    for level in &experiment.levels {
        level.workload(experiment.blocks[0]).into_diagnostic()?;
    }
    let cells = cells(&experiment, &sweep);
    let Some(replay) = replay(&experiment, interrupt).into_diagnostic()? else {
        return Err(miette!("stopped by the user while planning; nothing was written"));
    };
    let estimate = estimate(&experiment, &cells, &replay, jobs as u64);
    let seen = Evidence { experiment: &experiment, estimate: &estimate, replay: &replay };
    let verdicts = verdicts(&seen, &args.allow).into_diagnostic()?;
    Ok(Prepared { experiment, sweep, output_dir, cells, replay, estimate, verdicts })
}

/// A sweep's name becomes a folder's.
fn check_name(name: &str) -> miette::Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= 100 && name.chars().all(plain) {
        true => Ok(()),
        false => Err(miette!("--sweep-name \"{name}\": use 1 to 100 letters, digits, `-` and `_`")),
    }
}

/// The plan as `--json` prints it.
#[must_use]
pub fn document(plan: &Prepared) -> PlanDocument {
    let role = |role: &acb_evidence::ArmRole| match role {
        acb_evidence::ArmRole::Baseline => "baseline".to_owned(),
        acb_evidence::ArmRole::Treatment => "treatment".to_owned(),
        acb_evidence::ArmRole::Control => "control".to_owned(),
        acb_evidence::ArmRole::Placebo => "placebo".to_owned(),
        acb_evidence::ArmRole::Bound => "bound".to_owned(),
        acb_evidence::ArmRole::AaReplicate { of } => format!("A/A replicate of {of}"),
    };
    let arm = |arm: &crate::experiment::Arm| PlannedArm {
        name: arm.name.clone(),
        role: role(&arm.role),
        policy: arm.policy.name().to_owned(),
        sees: arm.policy.information().to_string(),
    };
    PlanDocument {
        experiment: plan.experiment.spec.name.clone(),
        sweep: plan.sweep.clone(),
        output_dir: plan.output_dir.display().to_string(),
        arms: plan.experiment.arms.iter().map(arm).collect(),
        levels: plan.experiment.levels.len() as u64,
        blocks: plan.experiment.blocks.clone(),
        estimate: plan.estimate.clone(),
        gates: plan.verdicts.clone(),
        refused: plan.refused(),
        runs: plan.cells.iter().map(|cell| cell.run_id.clone()).collect(),
    }
}

/// The plan as a terminal shows it.
#[must_use]
pub fn render(plan: &Prepared) -> String {
    let document = document(plan);
    let mut out = String::new();
    // Writing to a String can't fail.
    let _ = writeln!(out, "{}: {}\n", document.experiment, plan.experiment.spec.question);
    let _ = writeln!(out, "{}\n", headline(plan));
    let _ = writeln!(out, "{}\n", arms_table(&document.arms));
    let _ = writeln!(out, "{}\n", costs_table(plan));
    let _ = writeln!(out, "{}", render_divergence(&plan.replay.divergence, super::report::columns()));
    let _ = writeln!(out, "{}", gates_table(&document.gates));
    if document.refused {
        let _ = writeln!(out, "The plan is refused: a gate above says why. Nothing was started.");
    }
    out
}

/// The line that the original harness prints of a dry run.
#[must_use]
pub fn headline(plan: &Prepared) -> String {
    let Estimate { runs, requests, gpu_hours, .. } = &plan.estimate;
    let again = plan.cells.iter().filter(|cell| is_replicate(plan, cell)).count();
    let gpu = gpu_hours.map(|hours| format!(", {hours:.3} estimated GPU hours")).unwrap_or_default();
    let aa = if again > 0 { format!(" (of which {again} repeat an arm, as A/A)") } else { String::new() };
    format!("sweep plan: {runs} runs, {} requests{gpu}{aa}", grouped(*requests))
}

fn is_replicate(plan: &Prepared, cell: &Cell) -> bool {
    matches!(plan.experiment.arms[cell.arm].role, acb_evidence::ArmRole::AaReplicate { .. })
}

/// A number with commas between thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A table of the program's look, as wide as the terminal.
pub(super) fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .set_width(super::report::columns());
    table.set_header(header.iter().copied());
    table
}

fn arms_table(arms: &[PlannedArm]) -> comfy_table::Table {
    let mut table = table(&["arm", "role", "policy", "sees"]);
    for arm in arms {
        table.add_row([&arm.name, &arm.role, &arm.policy, &arm.sees]);
    }
    table
}

fn costs_table(plan: &Prepared) -> comfy_table::Table {
    let Estimate { runs, requests, tokens, simulated_s, wall_s, disk_bytes, gpu_hours, jobs } =
        &plan.estimate;
    let experiment = &plan.experiment;
    let mut table = table(&["plan", ""]);
    let mut row = |what: &str, value: String| {
        table.add_row([what.to_owned(), value]);
    };
    let (arms, levels, blocks) = (experiment.arms.len(), experiment.levels.len(), experiment.blocks.len());
    row("cells", format!("{runs} = {arms} arms x {levels} levels x {blocks} blocks"));
    row("requests", grouped(*requests));
    row("tokens (expected)", format!("{:.3} million", tokens * 1e-6));
    row("simulated time (estimate)", format!("{simulated_s:.0} s"));
    row("wall time (estimate)", format!("{wall_s:.1} s on {jobs} processors"));
    row("disk (estimate)", format!("{:.1} MB", disk_bytes * 1e-6));
    let gpu = gpu_hours.map_or("none: simulated".to_owned(), |hours| format!("{hours:.3}"));
    row("GPU hours (estimate)", gpu);
    row("results", plan.output_dir.display().to_string());
    table
}

fn gates_table(gates: &[Verdict]) -> comfy_table::Table {
    let mut table = table(&["gate", "verdict", "finding"]);
    for gate in gates {
        let remedy = gate.remedy.as_ref().map(|remedy| format!(" Remedy: {remedy}.")).unwrap_or_default();
        table.add_row([
            gate.gate.to_owned(),
            gate.status.as_str().to_owned(),
            format!("{}.{remedy}", gate.finding),
        ]);
    }
    table
}
