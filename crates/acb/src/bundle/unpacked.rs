//! A bundle that may come from somebody else, taken apart without trusting it: nothing is written outside a folder that
//! goes away, and no more than the limits allow.

use super::build::hashed;
use super::documents::{BundleDocument, Stored};
use super::evidence::MOST_FILES;
use super::finding::{Check, Finding};
use super::layout::{BUNDLE, DATA, MERKLE, PROVENANCE, RESULTS, TEST_RESULT, stored};
use acb_bundle::{BundleError, Limits, Sums, Tree, check_name, content_of, decompress, files_below, unpack};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Longest document, bytes.
const LONGEST: u64 = 1 << 28;

/// A bundle as a folder of files.
pub struct Unpacked {
    /// Folder of the bundle.
    pub folder: PathBuf,
    /// Sizes of its files, by path.
    pub files: BTreeMap<String, u64>,
    /// Goes away with this.
    work: TempDir,
}

impl Unpacked {
    /// Opens a bundle: a folder, or an archive.
    ///
    /// # Errors
    /// When it can't be read, holds something hostile or is larger than the limits.
    pub fn open(bundle: &Path, limits: Limits) -> Result<Self, BundleError> {
        let io = |source| BundleError::Io { path: bundle.to_path_buf(), source };
        let work = tempfile::Builder::new().prefix("acb-verify-").tempdir().map_err(io)?;
        let folder = match fs::metadata(bundle).map_err(io)?.is_dir() {
            true => bundle.to_path_buf(),
            false => {
                let folder = work.path().join("bundle");
                fs::create_dir(&folder).map_err(io)?;
                unpack(bundle, &folder, limits)?;
                folder
            }
        };
        let files = files_below(&folder, MOST_FILES)?;
        Ok(Self { folder, files, work })
    }

    /// Where the raw files are unpacked.
    pub fn raw(&self) -> PathBuf {
        self.work.path().join("raw")
    }

    /// Text without the paths of this machine.
    pub fn plain(&self, text: &str) -> String {
        let raw = format!("{}/", self.raw().display());
        text.replace(&raw, "").replace(&format!("{}/", self.folder.display()), "")
    }

    /// Bytes of a document; a finding when there is none.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Finding> {
        let missing = |found: String| Finding::of(Check::Form, path, "a document", found);
        let mut bytes = Vec::new();
        let file = File::open(self.folder.join(path)).map_err(|error| missing(error.to_string()))?;
        let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
        match read {
            Err(error) => Err(missing(error.to_string())),
            Ok(_) if bytes.len() as u64 > LONGEST => Err(missing(format!("more than {LONGEST} bytes"))),
            Ok(_) => Ok(bytes),
        }
    }

    /// A document of this form.
    pub fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, Finding> {
        let bytes = self.read(path)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Finding::of(Check::Form, path, "a document of its schema", error.to_string()))
    }

    /// What the bundle says it is.
    pub fn bundle(&self) -> Result<BundleDocument, Finding> {
        let document: BundleDocument = self.document(BUNDLE)?;
        let mut seen = BTreeSet::new();
        for file in &document.data {
            let below = file.file.strip_prefix(DATA).and_then(|name| name.strip_prefix('/'));
            let plain = below.is_some_and(|name| check_name(name).is_ok() && !name.contains('/'));
            if !plain || !seen.insert(&file.file) {
                let found = format!("\"{}\"", file.file.escape_debug());
                return Err(
                    Finding::of(Check::Form, BUNDLE, "a plain file below data/, once", found).at("/data")
                );
            }
            if file.withheld && !file.prompts {
                let expected = "only files with prompts to be withheld";
                return Err(Finding::of(Check::Form, BUNDLE, expected, file.file.clone()).at("/data"));
            }
        }
        Ok(document)
    }
}

/// Holds every file against `SHA256SUMS`. Returns those that agree.
pub fn check_sums(bundle: &Unpacked, signed: Signed, faults: &mut Vec<Finding>) -> Stored {
    let sums = bundle.read(Sums::FILE).and_then(|bytes| {
        let wrong = |found: String| Finding::of(Check::Sums, Sums::FILE, "a line per file", found);
        let text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8".to_owned()))?;
        Sums::parse(&text).map_err(wrong)
    });
    let sums = match sums {
        Ok(sums) => sums,
        Err(finding) => {
            faults.push(finding);
            return Stored::new();
        }
    };
    let mut agree = Stored::new();
    for (path, sum) in &sums.0 {
        let found = match bundle.files.contains_key(path) {
            false => "no such file".to_owned(),
            true => match hashed(&bundle.folder.join(path)) {
                Ok(entry) if entry.0 == *sum => {
                    agree.insert(path.clone(), entry);
                    continue;
                }
                Ok((hash, _)) => format!("SHA-256 {hash}"),
                Err(error) => bundle.plain(&error.to_string()),
            },
        };
        faults.push(Finding::of(Check::Sums, path, format!("SHA-256 {sum}"), found));
    }
    let beside = |path: &str| {
        path == Sums::FILE || (signed == Signed::Yes && (path == TEST_RESULT || path == PROVENANCE))
    };
    for path in bundle.files.keys().filter(|path| !sums.0.contains_key(*path) && !beside(path)) {
        faults.push(Finding::of(Check::Sums, path, "no such file", "a file that SHA256SUMS does not have"));
    }
    agree
}

/// Whether a bundle says that it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Unpacks the raw files and holds them against the tree; `hashed` has those that were hashed already. `None` when some
/// can't be unpacked.
pub fn check_tree(
    bundle: &Unpacked,
    hashed: &Stored,
    limits: Limits,
    faults: &mut Vec<Finding>,
) -> Option<(Tree, Stored)> {
    let tree: Tree = match bundle.document(MERKLE) {
        Ok(tree) => tree,
        Err(finding) => {
            faults.push(finding);
            return None;
        }
    };
    if let Some(finding) = hostile(&tree, limits) {
        faults.push(finding);
        return None;
    }
    let before = faults.len();
    let mut raw = Stored::new();
    for leaf in &tree.leaves {
        let name = stored(&leaf.path);
        if leaf.withheld {
            if bundle.files.contains_key(&name) {
                faults.push(Finding::of(Check::Merkle, name, "no file, as it is withheld", "a file"));
            }
            continue;
        }
        match unpack_leaf(bundle, hashed, leaf) {
            Ok(entry) => raw.extend(std::iter::once((name, entry))),
            Err(error) => {
                let found = bundle.plain(&error.to_string());
                faults.push(Finding::of(Check::Merkle, name, "a file with this content", found));
            }
        }
    }
    if faults.len() > before {
        return None;
    }
    against_leaves(bundle, &tree, faults);
    Some((tree, raw))
}

/// What in a tree must not be followed.
fn hostile(tree: &Tree, limits: Limits) -> Option<Finding> {
    let fault = |expected: &str, found: String, n: usize| {
        Some(Finding::of(Check::Merkle, MERKLE, expected, found).at(format!("/leaves/{n}/path")))
    };
    let (mut bytes, mut before) = (0u64, "");
    for (n, leaf) in tree.leaves.iter().enumerate() {
        let of_results = leaf.path.strip_prefix(RESULTS).and_then(|path| path.strip_prefix('/'));
        let known = of_results.is_some_and(|path| super::layout::description(path).is_some());
        let of_data = leaf.path.strip_prefix(DATA).is_some_and(|path| path.starts_with('/'));
        let quoted = || format!("\"{}\"", leaf.path.escape_debug());
        if check_name(&leaf.path).is_err() || !(known || of_data) {
            return fault("a raw file of a bundle", quoted(), n);
        }
        if leaf.path.as_str() <= before {
            return fault("paths that ascend, each once", quoted(), n);
        }
        if leaf.withheld && !of_data {
            return fault("only data to be withheld", quoted(), n);
        }
        if !leaf.path.ends_with(".jsonl") && !of_data && leaf.content.bytes > LONGEST {
            return fault(
                &format!("at most {LONGEST} bytes of a document"),
                leaf.content.bytes.to_string(),
                n,
            );
        }
        before = &leaf.path;
        bytes = bytes.saturating_add(leaf.content.bytes);
        if bytes > limits.bytes {
            let expected =
                format!("at most {} bytes; raise the limit if you trust where it comes from", limits.bytes);
            return fault(&expected, format!("{bytes} bytes or more"), n);
        }
    }
    None
}

fn unpack_leaf(
    bundle: &Unpacked,
    known: &Stored,
    leaf: &acb_bundle::Leaf,
) -> Result<(acb_bundle::Hash, u64), BundleError> {
    let name = stored(&leaf.path);
    let (from, to) = (bundle.folder.join(&name), bundle.raw().join(&leaf.path));
    let io = |source| BundleError::Io { path: from.clone(), source };
    let folder = to.parent().unwrap_or(&to);
    fs::create_dir_all(folder).map_err(io)?;
    let entry = match known.get(&name) {
        Some(entry) => *entry,
        None => hashed(&from)?,
    };
    match name == leaf.path {
        true => fs::copy(&from, &to).map(|_| ()).map_err(io)?,
        false => decompress(&from, &to, leaf.content.bytes)?,
    }
    Ok(entry)
}

/// Every unpacked file is what its leaf says, the leaves have the root, and no raw file lacks a leaf.
fn against_leaves(bundle: &Unpacked, tree: &Tree, faults: &mut Vec<Finding>) {
    for leaf in tree.leaves.iter().filter(|leaf| !leaf.withheld) {
        match content_of(&bundle.raw().join(&leaf.path)) {
            Ok(content) if content == leaf.content => {}
            Ok(content) => {
                let (expected, found) = (&leaf.content, &content);
                let words = |c: &acb_bundle::Content| format!("{} bytes with root {}", c.bytes, c.root);
                faults.push(Finding::of(Check::Merkle, stored(&leaf.path), words(expected), words(found)));
            }
            Err(error) => {
                let found = bundle.plain(&error.to_string());
                faults.push(Finding::of(
                    Check::Merkle,
                    stored(&leaf.path),
                    "content that can be hashed",
                    found,
                ));
            }
        }
    }
    let root = Tree::new(tree.leaves.clone()).root;
    if root != tree.root {
        let finding = Finding::of(Check::Merkle, MERKLE, root.to_string(), tree.root.to_string());
        faults.push(finding.at("/root"));
    }
    let leaves: BTreeSet<String> = tree.leaves.iter().map(|leaf| stored(&leaf.path)).collect();
    let raw = |path: &str| [RESULTS, DATA].iter().any(|folder| path.starts_with(&format!("{folder}/")));
    for path in bundle.files.keys().filter(|path| raw(path) && !leaves.contains(*path)) {
        faults.push(Finding::of(Check::Merkle, path, "a leaf of the tree", "none"));
    }
}
