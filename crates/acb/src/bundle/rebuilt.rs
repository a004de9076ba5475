//! A sweep as its resolved configuration says it is: cells, replay of its arms, verdicts of its gates.

use super::layout::CONFIG;
use crate::estimate::estimate;
use crate::experiment::{Experiment, SetUpError};
use crate::files::DataFiles;
use crate::gates::{self, Verdict, verdicts};
use crate::interrupt::Interrupt;
use crate::plan::{Cell, cells, program_version};
use crate::replay::{Replay, replay};
use crate::spec::ExperimentSpec;
use acb_evidence::{Manifest, SweepPlan, Versioned, read_json};
use std::path::Path;

/// A sweep built again.
pub struct Rebuilt {
    /// The experiment.
    pub experiment: Experiment,
    /// Every cell of the sweep.
    pub cells: Vec<Cell>,
    /// How its arms decide and what its gates say; why not, when a data file is withheld.
    pub gated: Result<(Replay, Vec<Verdict>), String>,
}

/// Why a sweep can't be built again.
pub enum NotRebuilt {
    /// Something is not here, or was made by another version.
    Missing(String),
    /// The configuration or the data is not that of the plan.
    Foreign {
        /// What was expected.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl NotRebuilt {
    /// The reason in words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Missing(why) => why,
            Self::Foreign { found, .. } => found,
        }
    }
}

/// Builds a sweep again from its configuration below `results`. Nothing is computed from a configuration whose hash is not
/// that of the plan.
///
/// # Errors
/// With why it can't be, without paths of this machine.
pub fn rebuild(results: &Path, sweep: &str, files: DataFiles) -> Result<Rebuilt, NotRebuilt> {
    let folder = results.join("_sweeps").join(sweep);
    let foreign =
        |expected: &str, found: String| NotRebuilt::Foreign { expected: expected.to_owned(), found };
    let plan: SweepPlan = read_json(&folder)
        .map_err(|_| foreign("a plan beside it", format!("no {} that can be read", SweepPlan::FILE)))?;
    let spec = load(&folder.join(CONFIG)).map_err(|found| foreign("an experiment", found))?;
    let experiment = Experiment::with_files(spec, files).map_err(|error| match error {
        SetUpError::Data { .. } => NotRebuilt::Missing(words(&error)),
        other => foreign("an experiment that can be set up", words(&other)),
    })?;
    if experiment.digest != plan.experiment_digest {
        return Err(match made_by(results, &plan).filter(|version| version != program_version()) {
            Some(version) => NotRebuilt::Missing(format!("acb {version}, which made it, is another version")),
            None => foreign(
                &format!("an experiment, with data, of hash {}, as the plan has it", plan.experiment_digest),
                format!("hash {}", experiment.digest),
            ),
        });
    }
    let cells = cells(&experiment, sweep);
    let gated = gate(&experiment, &cells).map_err(|error| words(&error));
    Ok(Rebuilt { experiment, cells, gated })
}

/// Version of the program that made the first run of a plan.
fn made_by(results: &Path, plan: &SweepPlan) -> Option<String> {
    let run = &plan.runs.first()?.run_id;
    acb_bundle::check_name(run).ok()?;
    read_json::<Manifest>(&results.join(run)).ok().map(|manifest| manifest.program_version)
}

fn load(path: &Path) -> Result<ExperimentSpec, String> {
    let loaded = ExperimentSpec::load_checked(None, &[path.to_path_buf()], &[], |_| Vec::new());
    loaded.map(|(spec, _)| spec).map_err(|faults| {
        let first = faults.rows().into_iter().next().map(|fault| fault.message.clone());
        format!("{CONFIG} is no experiment: {}", first.unwrap_or_default())
    })
}

fn words(error: &SetUpError) -> String {
    match error {
        SetUpError::Data { path, .. } => format!("its data file {} is not there", path.display()),
        other => other.to_string(),
    }
}

/// The verdicts of all gates but the budget, which is about a machine's speed.
fn gate(experiment: &Experiment, cells: &[Cell]) -> Result<(Replay, Vec<Verdict>), SetUpError> {
    let replay = replay(experiment, &Interrupt::default())?.expect("nobody interrupts");
    let estimate = estimate(experiment, cells, &replay, 1);
    let seen = gates::Evidence { experiment, estimate: &estimate, replay: &replay };
    let mut verdicts = verdicts(&seen, &[])?;
    verdicts.retain(|verdict| verdict.gate != "budget");
    Ok((replay, verdicts))
}
