//! Makes a bundle: everything is checked before anything is written, and what is written has its name when it is whole.

use super::attest::statements;
use super::documents::{Documents, Header, Stored, documents, sums};
use super::evidence::{Evidence, Withhold};
use super::examine::{Examined, examine};
use super::finding::{Check, Finding};
use super::layout::{RESULTS, stored};
use crate::plan::program_version;
use crate::spec::words::lines;
use acb_bundle::{BundleError, Envelope, Hash, Leaf, SecretKey, Sums, Tree, compress, content_of, pack};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What to make.
pub struct Asked<'a> {
    /// Folder of the results.
    pub results: &'a Path,
    /// Folder to make; the archive lies beside it.
    pub out: &'a Path,
    /// The key to sign with.
    pub key: Option<&'a SecretKey>,
    /// What to do about gaps.
    pub gaps: Gaps,
    /// What to leave out.
    pub withhold: Withhold,
}

/// What to do about missing and unfinished things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Write them into the bundle.
    Declare,
    /// Refuse the bundle.
    Refuse,
}

/// What was made.
#[derive(Debug)]
pub struct Built {
    /// The folder.
    pub folder: PathBuf,
    /// The archive.
    pub archive: PathBuf,
    /// Files with a sum.
    pub files: usize,
    /// Root of the tree over the raw files.
    pub root: Hash,
    /// Name of the key that signed it.
    pub signed_by: Option<String>,
    /// What is missing or unfinished.
    pub gaps: Vec<String>,
    /// Files of the results folder that are no part of a bundle.
    pub left_out: Vec<String>,
    /// Data files that were withheld.
    pub withheld: Vec<String>,
    /// What was checked, in words.
    pub seen: Vec<(Check, String)>,
}

/// Why there is no bundle. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file can't be read or written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The target is there already.
    #[error("{}: exists already and is not overwritten; choose another --out", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// The target can't be made there.
    #[error("{}: {why}; choose another --out", path.display())]
    Target {
        /// The target.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// The results contradict themselves.
    #[error(
        "{}: the results contradict themselves, so that no bundle of them would hold:\n{}",
        results.display(),
        lines(faults)
    )]
    Faults {
        /// The results.
        results: PathBuf,
        /// The contradictions.
        faults: Vec<Finding>,
    },
    /// The results are incomplete.
    #[error(
        "{}: --strict refuses what is incomplete:\n{}\nWithout --strict they are bundled with this list in it.",
        results.display(),
        lines(gaps)
    )]
    Incomplete {
        /// The results.
        results: PathBuf,
        /// What is missing.
        gaps: Vec<String>,
    },
}

/// Makes a bundle as a folder and as an archive.
///
/// # Errors
/// When the results are refused or a file can't be read or written. Nothing is left behind.
pub fn build(asked: &Asked<'_>) -> Result<Built, BuildError> {
    let archive = target(asked)?;
    let mut evidence = Evidence::of_results(asked.results)?;
    let mut examined = examine(&evidence);
    let results = asked.results.to_path_buf();
    if !examined.faults.is_empty() {
        return Err(BuildError::Faults { results, faults: examined.faults });
    }
    if asked.gaps == Gaps::Refuse && !examined.gaps.is_empty() {
        return Err(BuildError::Incomplete { results, gaps: examined.gaps });
    }
    if asked.withhold == Withhold::Prompts {
        evidence = evidence.without_prompts();
        examined = examine(&evidence);
    }
    let parent = parent(asked.out);
    let io = |error| BundleError::Io { path: parent.to_path_buf(), source: error };
    let work = tempfile::Builder::new().prefix(".acb-bundle-").tempdir_in(parent).map_err(io)?;
    let folder = work.path().join("bundle");
    let (documents, sums) = write(asked, &evidence, &examined, &folder)?;
    let packed = work.path().join("archive");
    let top = asked.out.file_name().unwrap_or_default().to_string_lossy();
    pack(&folder, &top, &packed)?;
    fs::rename(&packed, &archive).and_then(|()| fs::rename(&folder, asked.out)).map_err(io)?;
    let withheld = evidence.data.iter().filter(|file| file.withheld).map(|file| file.path.clone());
    Ok(Built {
        folder: asked.out.to_path_buf(),
        archive,
        files: sums.0.len(),
        root: documents.bundle.merkle_root,
        signed_by: documents.bundle.signed_by,
        gaps: examined.gaps,
        left_out: evidence.left_out.clone(),
        withheld: withheld.collect(),
        seen: examined.seen,
    })
}

/// The archive beside a target that is free and not within the results.
fn target(asked: &Asked<'_>) -> Result<PathBuf, BuildError> {
    let path = asked.out.to_path_buf();
    let Some(name) =
        asked.out.file_name().filter(|name| acb_bundle::check_name(&name.to_string_lossy()).is_ok())
    else {
        return Err(BuildError::Target { path, why: "is no name of a folder" });
    };
    let mut name = name.to_owned();
    name.push(".tar.zst");
    let archive = asked.out.with_file_name(name);
    if let Some(taken) = [&path, &archive].into_iter().find(|path| path.symlink_metadata().is_ok()) {
        return Err(BuildError::Exists { path: taken.clone() });
    }
    let within = parent(asked.out).canonicalize().ok().zip(asked.results.canonicalize().ok());
    match within {
        Some((parent, results)) if parent.starts_with(&results) => {
            Err(BuildError::Target { path, why: "lies within the results" })
        }
        _ => Ok(archive),
    }
}

fn parent(out: &Path) -> &Path {
    match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes all files of a bundle into a new folder.
fn write(
    asked: &Asked<'_>,
    evidence: &Evidence,
    examined: &Examined,
    folder: &Path,
) -> Result<(Documents, Sums), BundleError> {
    let (tree, raw) = write_raw(evidence, folder)?;
    let key = asked.key.map(SecretKey::public);
    let header = Header { program_version: program_version().to_owned(), key };
    let documents = documents(evidence, examined, &header, &tree, &raw);
    for (path, bytes) in &documents.files {
        put(&folder.join(path), bytes)?;
    }
    let sums = sums(&raw, &documents);
    put(&folder.join(Sums::FILE), sums.text().as_bytes())?;
    if let Some(key) = asked.key {
        for (path, statement) in statements(&sums, &documents.bundle, &examined.cases) {
            put(&folder.join(path), Envelope::sign(&statement, key).text().as_bytes())?;
        }
    }
    Ok((documents, sums))
}

/// Stores the raw files. A withheld one is a leaf of the tree and nothing else.
fn write_raw(evidence: &Evidence, folder: &Path) -> Result<(Tree, Stored), BundleError> {
    let of_results =
        evidence.files.iter().map(|path| (format!("{RESULTS}/{path}"), evidence.results.join(path), false));
    let of_data =
        evidence.data.iter().map(|file| (file.file.clone(), PathBuf::from(&file.path), file.withheld));
    let mut files: Vec<(String, PathBuf, bool)> = of_results.chain(of_data).collect();
    files.sort();
    let (mut leaves, mut raw) = (Vec::new(), Stored::new());
    for (path, source, withheld) in files {
        if !withheld {
            let name = stored(&path);
            let to = folder.join(&name);
            make_room(&to)?;
            match name == path {
                true => copy(&source, &to)?,
                false => compress(&source, &to)?,
            }
            raw.insert(name, hashed(&to)?);
        }
        leaves.push(Leaf { content: content_of(&source)?, path, withheld });
    }
    Ok((Tree::new(leaves), raw))
}

/// Hash and size of a file.
pub(super) fn hashed(path: &Path) -> Result<(Hash, u64), BundleError> {
    let io = |source| BundleError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    Ok((Hash::of_reader(file).map_err(io)?, size))
}

fn copy(source: &Path, to: &Path) -> Result<(), BundleError> {
    let opened =
        File::open(source).map_err(|error| BundleError::Io { path: source.to_path_buf(), source: error });
    let mut source = opened?;
    let copied = File::create_new(to).and_then(|mut to| io::copy(&mut source, &mut to));
    copied.map(|_| ()).map_err(|source| BundleError::Io { path: to.to_path_buf(), source })
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), BundleError> {
    make_room(path)?;
    fs::write(path, bytes).map_err(|source| BundleError::Io { path: path.to_path_buf(), source })
}

fn make_room(path: &Path) -> Result<(), BundleError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|source| BundleError::Io { path: folder.to_path_buf(), source })
}
