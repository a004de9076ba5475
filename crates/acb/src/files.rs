//! The data files that an experiment names, wherever they lie now: a bundle carries them under names of its own.

use crate::spec::ExperimentSpec;
use crate::spec::truth::QualitySource;
use acb_types::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where one data file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here.
    At(PathBuf),
    /// Not to be had; it has this hash.
    Withheld(Digest),
}

/// Where the data files of an experiment are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DataFiles {
    /// Where the experiment says.
    #[default]
    AsNamed,
    /// In these places, by the path that the experiment gives. A file that is not listed is not there.
    Listed(BTreeMap<PathBuf, Place>),
}

impl DataFiles {
    /// Where to read a file.
    ///
    /// # Errors
    /// When it is withheld or not listed.
    pub fn at<'a>(&'a self, path: &'a Path) -> io::Result<&'a Path> {
        match self {
            Self::AsNamed => Ok(path),
            Self::Listed(places) => match places.get(path) {
                Some(Place::At(place)) => Ok(place),
                Some(Place::Withheld(_)) => Err(io::Error::other("it is withheld")),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }

    /// Hash of a file.
    ///
    /// # Errors
    /// When it can't be read or is no file.
    pub fn digest(&self, path: &Path) -> io::Result<Digest> {
        if let Self::Listed(places) = self
            && let Some(Place::Withheld(digest)) = places.get(path)
        {
            return Ok(digest.clone());
        }
        let place = self.at(path)?;
        match fs::metadata(place)?.is_file() {
            true => File::open(place).and_then(Digest::of_reader),
            false => Err(io::Error::other("it is not a file")),
        }
    }
}

/// Files that a specification names, each once.
#[must_use]
pub fn named_files(spec: &ExperimentSpec) -> BTreeSet<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = spec.workload.files().into_iter().collect();
    if let QualitySource::Table(table) = &spec.quality.source {
        paths.insert(PathBuf::from(&table.file));
    }
    paths
}
