//! Raw evidence: a results folder and the data files that its experiments name, wherever they lie.

use super::layout::{CONFIG, DATA, RESULTS, description};
use super::rebuilt::{NotRebuilt, Rebuilt, rebuild};
use crate::files::{DataFiles, Place};
use acb_bundle::{BundleError, files_below};
use acb_evidence::{Manifest, Status, Versioned};
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most files of a results folder or a bundle.
pub const MOST_FILES: u64 = 1_000_000;

/// A data file that an experiment names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// Its path as the experiment gives it.
    pub path: String,
    /// Its path in the bundle.
    pub file: String,
    /// Its hash (BLAKE3), as the identity of the experiment has it.
    pub digest: Digest,
    /// Whether it holds prompts: a trace or a dataset.
    pub prompts: bool,
    /// Whether it is withheld from this bundle.
    pub withheld: bool,
}

/// Raw evidence.
pub struct Evidence {
    /// Folder of the results.
    pub results: PathBuf,
    /// Its files that belong to a bundle, by their path from there.
    pub files: BTreeSet<String>,
    /// Its other files.
    pub left_out: Vec<String>,
    /// The data files.
    pub data: Vec<DataFile>,
    /// Every sweep as its configuration says it is, or why it can't be set up.
    pub sweeps: BTreeMap<String, Result<Rebuilt, NotRebuilt>>,
}

/// Which data files a bundle does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withhold {
    /// None.
    Nothing,
    /// Those that hold prompts.
    Prompts,
}

impl Evidence {
    /// Looks at a results folder where it was made. Data files are read from where the experiments name them.
    ///
    /// # Errors
    /// When the folder can't be read or holds a link or a device.
    pub fn of_results(results: &Path) -> Result<Self, BundleError> {
        let mut evidence = Self::listed(results)?;
        evidence.sweeps = evidence.rebuilt(&DataFiles::AsNamed);
        let mut named: BTreeMap<PathBuf, (Digest, bool)> = BTreeMap::new();
        for experiment in evidence.sweeps.values().flatten().map(|sweep| &sweep.experiment) {
            let asked: BTreeSet<PathBuf> =
                experiment.levels.iter().flat_map(|level| level.spec.workload.files()).collect();
            for (path, digest) in &experiment.data {
                named.insert(path.clone(), (digest.clone(), asked.contains(path)));
            }
        }
        for (n, (path, (digest, prompts))) in named.into_iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let file = format!("{DATA}/{n}-{}", plain(&name));
            let path = path.to_string_lossy().into();
            evidence.data.push(DataFile { path, file, digest, prompts, withheld: false });
        }
        Ok(evidence)
    }

    /// The same as it is for somebody who is not given the files with prompts.
    #[must_use]
    pub fn without_prompts(self) -> Self {
        let withheld = |file: DataFile| DataFile { withheld: file.prompts, ..file };
        let data: Vec<DataFile> = self.data.into_iter().map(withheld).collect();
        let places = places(&data, |file| PathBuf::from(&file.path));
        let evidence = Self { data, sweeps: BTreeMap::new(), ..self };
        Self { sweeps: evidence.rebuilt(&places), ..evidence }
    }

    /// Looks at the unpacked raw files of a bundle. Data files are read from there and from nowhere else.
    ///
    /// # Errors
    /// When a folder can't be read.
    pub fn of_bundle(unpacked: &Path, data: Vec<DataFile>) -> Result<Self, BundleError> {
        let mut evidence = Self::listed(&unpacked.join(RESULTS))?;
        evidence.sweeps = evidence.rebuilt(&places(&data, |file| unpacked.join(&file.file)));
        evidence.data = data;
        Ok(evidence)
    }

    fn listed(results: &Path) -> Result<Self, BundleError> {
        let all = files_below(results, MOST_FILES)?.into_keys();
        let (files, left_out) = all.partition::<BTreeSet<String>, _>(|path| description(path).is_some());
        let left_out = left_out.into_iter().collect();
        Ok(Self {
            results: results.to_path_buf(),
            files,
            left_out,
            data: Vec::new(),
            sweeps: BTreeMap::new(),
        })
    }

    fn rebuilt(&self, files: &DataFiles) -> BTreeMap<String, Result<Rebuilt, NotRebuilt>> {
        let sweeps = self.files.iter().filter_map(|path| {
            let sweep = path.strip_prefix("_sweeps/")?.strip_suffix(CONFIG)?.strip_suffix('/')?;
            Some(sweep.to_owned())
        });
        sweeps.map(|sweep| (sweep.clone(), rebuild(&self.results, &sweep, files.clone()))).collect()
    }

    /// Names of the run folders: those with a manifest or a status.
    #[must_use]
    pub fn runs(&self) -> BTreeSet<&str> {
        let of_run = |path: &'_ String| {
            let (run, file) = path.split_once('/')?;
            (run != "_sweeps" && [Manifest::FILE, Status::FILE].contains(&file)).then_some(run.len())
        };
        self.files.iter().filter_map(|path| of_run(path).map(|length| &path[..length])).collect()
    }
}

/// Where the data files are that are not withheld.
fn places(data: &[DataFile], at: impl Fn(&DataFile) -> PathBuf) -> DataFiles {
    let place = |file: &DataFile| match file.withheld {
        true => Place::Withheld(file.digest.clone()),
        false => Place::At(at(file)),
    };
    DataFiles::Listed(data.iter().map(|file| (PathBuf::from(&file.path), place(file))).collect())
}

/// A file name with everything but plain characters replaced.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(keep).take(100).collect()
}
