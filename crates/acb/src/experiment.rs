//! A valid experiment: everything that its arms share at each level, built once and used by gates and cells alike.

use crate::files::{DataFiles, named_files};
use crate::quality::{PriorShape, SyntheticMeans, prior, seed_fixed_prior, synthetic_table};
use crate::sink::RecordNames;
use crate::spec::catalogue::AdapterRoleSpec;
use crate::spec::rule::BudgetSpec;
use crate::spec::truth::QualitySource;
use crate::spec::{ArmSpec, ExperimentSpec, PriorKind, RoleSpec};
use crate::table::{TableError, read_table};
use acb_evidence::{ArmRole, Levels};
use acb_routing::{CostModel, PolicySpec, Router, RouterContext, RoutingError};
use acb_sim::{Cluster, Service, SimError};
use acb_types::{
    AdapterId, AdapterRole, Adapters, AdaptersError, Digest, Outcomes, QualityTable, ReplicaId, Seed, TaskId,
};
use acb_workload::{Workload, WorkloadContext, WorkloadError, WorkloadSpec};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an experiment that passed its checks still can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// The catalogue.
    #[error("adapters: {0}")]
    Adapters(#[from] AdaptersError),
    /// The cluster.
    #[error("cluster: {0}")]
    Cluster(#[from] SimError),
    /// The workload.
    #[error("workload: {0}")]
    Workload(#[from] WorkloadError),
    /// The outcome table.
    #[error("quality: {0}")]
    Table(#[from] TableError),
    /// A file that the experiment names.
    #[error("{}: can't be read: {source}; the experiment file names it, relative to the working directory", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A policy.
    #[error("arm \"{arm}\": {source}")]
    Policy {
        /// The arm.
        arm: String,
        /// What its policy says.
        source: RoutingError,
    },
}

/// An arm as it runs.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its name in folders and tables.
    pub name: String,
    /// What it is in the comparison.
    pub role: ArmRole,
    /// Its policy.
    pub policy: PolicySpec,
    /// What it believes of quality.
    pub prior: PriorKind,
    /// Names of the adapters that it is offered; all when absent.
    pub offered: Option<Vec<String>>,
}

impl Arm {
    /// The oracle's bound runs in its relaxation, everything else in contention.
    #[must_use]
    pub fn service(&self) -> Service {
        match &self.policy {
            PolicySpec::Oracle(_) => Service::Uncontended,
            _ => Service::Contended,
        }
    }
}

/// One combination of factor values, with what all arms and blocks share there.
pub struct Level {
    /// Factor values by path.
    pub values: Levels,
    /// The experiment with these values in place.
    pub spec: ExperimentSpec,
    /// The arms as they are at this level, in the order of the experiment's.
    pub arms: Vec<Arm>,
    /// Words of records: task and adapter names.
    pub names: RecordNames,
    /// The servers.
    pub cluster: Cluster,
    files: Arc<DataFiles>,
    truth: Arc<QualityTable>,
    priors: BTreeMap<PriorKind, Arc<QualityTable>>,
}

/// An experiment that can be planned and run.
pub struct Experiment {
    /// As the file says, defaults written out.
    pub spec: ExperimentSpec,
    /// Hash of the resolved file and of the data that it names; limits and the output folder apart, which say nothing
    /// about what is compared.
    pub digest: Digest,
    /// Hashes of the data files, by path.
    pub data: Vec<(PathBuf, Digest)>,
    /// The arms in the file's order, then the A/A replicate.
    pub arms: Vec<Arm>,
    /// All combinations of factor values, the first path outermost.
    pub levels: Vec<Level>,
    /// One seed per block.
    pub blocks: Vec<u64>,
}

impl Experiment {
    /// Sets an experiment up; the specification has passed its checks.
    ///
    /// # Errors
    /// When a part refuses.
    pub fn new(spec: ExperimentSpec) -> Result<Self, SetUpError> {
        Self::with_files(spec, DataFiles::default())
    }

    /// Sets an experiment up whose data files lie elsewhere. It is the same experiment.
    ///
    /// # Errors
    /// When a part refuses.
    pub fn with_files(spec: ExperimentSpec, files: DataFiles) -> Result<Self, SetUpError> {
        let files = Arc::new(files);
        let combinations = combinations(&spec);
        let data = data_files(combinations.iter().map(|(_, spec)| spec), &files)?;
        let digest = identity(&spec, &data);
        let levels = combinations
            .into_iter()
            .map(|(values, spec)| Level::new(values, spec, &files))
            .collect::<Result<_, _>>()?;
        Ok(Self { digest, data, arms: arms(&spec), levels, blocks: spec.seeds.list(), spec })
    }
}

impl Experiment {
    /// Names of the file's arms that don't run, since only the simulator has what they see.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        let runs = |name: &str| self.arms.iter().any(|arm| arm.name == name);
        self.spec.arms.iter().map(|arm| arm.name.as_str()).filter(move |name| !runs(name))
    }
}

impl Level {
    fn new(values: Levels, spec: ExperimentSpec, files: &Arc<DataFiles>) -> Result<Self, SetUpError> {
        let adapters = spec.adapters.list(&spec.model.shape());
        let own: Vec<String> = adapters.iter().filter_map(|adapter| adapter.task.clone()).collect();
        let mut tasks = spec.workload.task_names(&own);
        for task in own {
            if !tasks.contains(&task) {
                tasks.push(task);
            }
        }
        let role = |adapter: &crate::spec::catalogue::NamedAdapter| match adapter.role {
            AdapterRoleSpec::Multitask => AdapterRole::Multitask,
            AdapterRoleSpec::Placebo => AdapterRole::Placebo,
            AdapterRoleSpec::Specialist => {
                let task = tasks.iter().position(|task| Some(task) == adapter.task.as_ref());
                AdapterRole::Specialist(TaskId(task.expect("a specialist's task is among the tasks") as u32))
            }
        };
        let entries = adapters.iter().map(|a| (a.name.clone(), a.rank, a.bytes, role(a)));
        let adapters = Arc::new(Adapters::new(entries)?);
        let truth = truth(&spec, files, &tasks, &adapters)?;
        let cluster = Cluster::new(&spec.cluster, Arc::clone(&adapters))?;
        let names = RecordNames {
            tasks: tasks.into(),
            adapters,
            engine: spec.cluster.engine_words(),
            quality_source: match &spec.quality.source {
                QualitySource::Synthetic(_) => "synthetic_table",
                QualitySource::Table(_) => "outcome_table",
            },
        };
        let arms = arms(&spec);
        let kinds: BTreeSet<PriorKind> = arms.iter().map(|arm| arm.prior).collect();
        let priors =
            kinds.into_iter().map(|kind| (kind, Arc::new(believed(&spec, &names, &truth, kind)))).collect();
        let files = Arc::clone(files);
        Ok(Self { values, arms, spec, names, cluster, files, truth: Arc::new(truth), priors })
    }

    /// What answers are worth in a block.
    #[must_use]
    pub fn outcomes(&self, block: u64) -> Outcomes {
        Outcomes::new(Arc::clone(&self.truth), Seed(block))
    }

    /// The requests of a block: the same for every arm.
    ///
    /// # Errors
    /// When a data file can't be read.
    pub fn workload(&self, block: u64) -> Result<Workload, SetUpError> {
        self.workload_of(block, u64::MAX)
    }

    /// The first requests of a block, at most this many.
    ///
    /// # Errors
    /// When a data file can't be read.
    pub fn workload_of(&self, block: u64, most: u64) -> Result<Workload, SetUpError> {
        let mut spec = self.workload_spec()?;
        spec.requests = spec.requests.min(most);
        let context = WorkloadContext {
            tasks: &self.names.tasks,
            adapters: &self.names.adapters,
            context_tokens: self.spec.cluster.context_tokens(),
        };
        Ok(Workload::new(&spec, &context, Seed(block))?)
    }

    /// Expected prompt and output tokens per request. Not a number where they are those of a file that can't be read.
    #[must_use]
    pub fn mean_tokens(&self) -> (f64, f64) {
        self.workload_spec().map_or((f64::NAN, f64::NAN), |spec| spec.mean_tokens())
    }

    /// The workload as it says, its files where they are.
    fn workload_spec(&self) -> Result<WorkloadSpec, SetUpError> {
        let mut spec = self.spec.workload.clone();
        for path in spec.files() {
            let place = self.files.at(&path).map(Path::to_path_buf);
            let place = place.map_err(|source| SetUpError::Data { path: path.clone(), source })?;
            spec.relocate(&path, &place);
        }
        Ok(spec)
    }

    /// Replicas that serve one adapter only.
    fn merged(&self) -> impl Iterator<Item = (ReplicaId, AdapterId)> {
        let replicas = (0..self.spec.cluster.replicas).map(ReplicaId);
        replicas.filter_map(|replica| Some((replica, self.cluster.merged_into(replica)?)))
    }

    /// The router of an arm in a block.
    ///
    /// # Errors
    /// When a parameter of the policy is impossible.
    pub fn router(&self, arm: &Arm, block: u64) -> Result<Router, SetUpError> {
        Router::new(&arm.policy, self.router_context(arm, block))
            .map_err(|source| SetUpError::Policy { arm: arm.name.clone(), source })
    }

    /// What the router of an arm in a block is told: enough to decide its log again.
    #[must_use]
    pub fn router_context(&self, arm: &Arm, block: u64) -> RouterContext {
        let adapters = match &arm.offered {
            Some(names) => Arc::new(self.names.adapters.offering(names)),
            None => Arc::clone(&self.names.adapters),
        };
        let seed = match arm.role {
            ArmRole::AaReplicate { .. } => Seed(block).child("aa"),
            _ => Seed(block),
        };
        RouterContext {
            replicas: self.spec.cluster.replicas,
            merged: self.merged().collect(),
            costs: CostModel {
                output_tokens_mean: self.mean_tokens().1,
                ..self.spec.cluster.costs(&adapters)
            },
            adapters,
            prior: Arc::clone(&self.priors[&arm.prior]),
            slo: self.spec.slo.slo(),
            prefix: self.spec.cluster.prefix_index(),
            seed,
            truth: matches!(arm.policy, PolicySpec::Oracle(_)).then(|| self.outcomes(block)),
        }
    }
}

/// What arms with a prior of this kind believe: drawn once for the whole experiment.
fn believed(
    spec: &ExperimentSpec,
    names: &RecordNames,
    truth: &QualityTable,
    kind: PriorKind,
) -> QualityTable {
    let shape = match kind {
        PriorKind::SeedFixed => return seed_fixed_prior(&names.tasks, &names.adapters),
        PriorKind::Calibrated => PriorShape::Calibrated,
        PriorKind::Shuffled => PriorShape::Shuffled,
        PriorKind::Flat => PriorShape::Flat,
        PriorKind::Adversarial => PriorShape::Adversarial,
    };
    prior(truth, spec.quality.prior.calibration_samples, shape, Seed(spec.experiment_seed))
}

fn identity(spec: &ExperimentSpec, data: &[(PathBuf, Digest)]) -> Digest {
    let mut spec = spec.clone();
    spec.budget = BudgetSpec::default();
    spec.output_dir.clear();
    let mut content = spec.resolved_yaml().into_bytes();
    data.iter().for_each(|(_, digest)| content.extend_from_slice(digest.as_str().as_bytes()));
    Digest::of(&content)
}

/// The hidden table of a level.
fn truth(
    spec: &ExperimentSpec,
    files: &DataFiles,
    tasks: &[String],
    adapters: &Adapters,
) -> Result<QualityTable, SetUpError> {
    match &spec.quality.source {
        QualitySource::Table(table) => {
            let path = Path::new(&table.file);
            let place = files.at(path).map_err(|source| SetUpError::Data { path: path.into(), source })?;
            Ok(read_table(place, tasks, adapters)?)
        }
        QualitySource::Synthetic(means) => {
            let means = SyntheticMeans {
                base: means.base,
                specialist: means.specialist,
                multitask: means.multitask,
                off_task: means.off_task.unwrap_or(means.base),
                spread: means.spread,
            };
            Ok(synthetic_table(means, tasks.len(), adapters, Seed(spec.experiment_seed)))
        }
    }
}

/// The arms of the file and the A/A replicate. No server can run an arm that sees the truth: only the simulator has it.
fn arms(spec: &ExperimentSpec) -> Vec<Arm> {
    let on_servers = spec.runtime.live().is_some();
    let runs = |arm: &&ArmSpec| !(on_servers && matches!(arm.policy, PolicySpec::Oracle(_)));
    let arm = |arm: &ArmSpec, name: String, role: ArmRole| Arm {
        name,
        role,
        policy: arm.policy.clone(),
        prior: arm.prior,
        offered: arm.adapters.clone(),
    };
    let role = |role: RoleSpec| match role {
        RoleSpec::Baseline => ArmRole::Baseline,
        RoleSpec::Treatment => ArmRole::Treatment,
        RoleSpec::Control => ArmRole::Control,
        RoleSpec::Placebo => ArmRole::Placebo,
        RoleSpec::Bound => ArmRole::Bound,
    };
    let own = spec.arms.iter().filter(runs).map(|a| arm(a, a.name.clone(), role(spec.role(a))));
    let again = spec
        .aa_arm()
        .filter(runs)
        .map(|a| arm(a, format!("{}-again", a.name), ArmRole::AaReplicate { of: a.name.clone() }));
    own.chain(again).collect()
}

/// All combinations of factor values; one empty combination when nothing is varied.
fn combinations(spec: &ExperimentSpec) -> Vec<(Levels, ExperimentSpec)> {
    let mut all = vec![Levels::new()];
    for (path, values) in &spec.factors {
        let extend = |levels: Levels| {
            values.iter().map(move |value| {
                let mut levels = levels.clone();
                levels.insert(path.clone(), value.clone());
                levels
            })
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all.into_iter().map(|levels| (levels.clone(), at_levels(spec, &levels))).collect()
}

fn at_levels(spec: &ExperimentSpec, levels: &Levels) -> ExperimentSpec {
    let values: Vec<(&str, &Json)> = levels.iter().map(|(path, value)| (path.as_str(), value)).collect();
    let mut at = spec.with_levels(values).expect("the check tried every combination of levels");
    at.factors.clear();
    at
}

/// Hashes of the files that the experiment names at any level, so that changed data is a changed experiment.
fn data_files<'a>(
    levels: impl Iterator<Item = &'a ExperimentSpec>,
    files: &DataFiles,
) -> Result<Vec<(PathBuf, Digest)>, SetUpError> {
    let paths: BTreeSet<PathBuf> = levels.flat_map(named_files).collect();
    let hash = |path: PathBuf| match files.digest(&path) {
        Ok(digest) => Ok((path, digest)),
        Err(source) => Err(SetUpError::Data { path, source }),
    };
    paths.into_iter().map(hash).collect()
}
