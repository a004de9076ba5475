//! Checks a bundle from nothing but itself.

use super::attest::statements;
use super::difference::difference;
use super::documents::{BundleDocument, Documents, Header, Stored, documents, sums};
use super::evidence::Evidence;
use super::examine::{Examined, examine};
use super::finding::{Check, Finding};
use super::layout::{PUBLIC_KEY, TABLES};
use super::unpacked::{Signed, Unpacked, check_sums, check_tree};
use crate::plan::program_version;
use acb_bundle::{BundleError, Envelope, Limits, PublicKey, Tree};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckRow {
    /// The check.
    pub check: Check,
    /// What came out.
    pub state: CheckState,
    /// What was looked at, or what is to be said.
    pub what: String,
}

/// What came out of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// It holds.
    Holds,
    /// It holds as far as it goes, which has to be said.
    Remark,
    /// It does not hold.
    Fails,
    /// What comes before does not hold, so it was not asked.
    NotReached,
}

/// What a bundle is found to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verification {
    /// Whether everything holds.
    pub holds: bool,
    /// What the bundle says it is; null when that can't be read.
    pub bundle: Option<BundleDocument>,
    /// The checks in their order.
    pub checks: Vec<CheckRow>,
    /// What does not hold.
    pub faults: Vec<Finding>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

/// Checks a bundle: a folder, or an archive. Reads nothing else, and leaves nothing behind.
///
/// # Errors
/// When there is no such bundle, or no room to unpack it. A bundle that does not hold is no error.
pub fn verify(bundle: &Path, key: Option<&PublicKey>, limits: Limits) -> Result<Verification, BundleError> {
    let mut found = Found { faults: Vec::new(), seen: Vec::new(), notes: Vec::new() };
    let unpacked = match Unpacked::open(bundle, limits) {
        Ok(unpacked) => unpacked,
        Err(error @ BundleError::Io { .. }) => return Err(error),
        Err(error) => {
            let name = bundle.file_name().unwrap_or_default().to_string_lossy();
            found.faults.push(Finding::of(Check::Form, name, "a bundle", error.to_string()));
            return Ok(found.verification(None));
        }
    };
    let document = match unpacked.bundle() {
        Ok(document) => document,
        Err(finding) => {
            found.faults.push(finding);
            check_sums(&unpacked, Signed::Yes, &mut found.faults);
            return Ok(found.verification(None));
        }
    };
    found.holds(Check::Form, format!("{} files with plain names", unpacked.files.len()));
    let signed = if document.signed_by.is_some() { Signed::Yes } else { Signed::No };
    let agree = check_sums(&unpacked, signed, &mut found.faults);
    found.holds(Check::Sums, format!("{} files as SHA256SUMS has them", agree.len()));
    if let Some((tree, raw)) = check_tree(&unpacked, &agree, limits, &mut found.faults) {
        let words = format!("root {} over {} raw files", tree.root, tree.leaves.len());
        found.holds(Check::Merkle, words);
        found.look_into(&unpacked, &document, key, (&tree, &raw))?;
    }
    Ok(found.verification(Some(document)))
}

struct Found {
    faults: Vec<Finding>,
    seen: Vec<(Check, CheckState, String)>,
    notes: Vec<String>,
}

impl Found {
    fn holds(&mut self, check: Check, words: String) {
        self.seen.push((check, CheckState::Holds, words));
    }

    /// All that needs the raw files.
    fn look_into(
        &mut self,
        unpacked: &Unpacked,
        document: &BundleDocument,
        key: Option<&PublicKey>,
        (tree, raw): (&Tree, &Stored),
    ) -> Result<(), BundleError> {
        let evidence = Evidence::of_bundle(&unpacked.raw(), document.data.clone())?;
        let examined = examine(&evidence);
        let plain = |finding: &Finding| Finding { found: unpacked.plain(&finding.found), ..finding.clone() };
        self.faults.extend(examined.faults.iter().map(plain));
        examined.seen.iter().for_each(|(check, words)| self.holds(*check, words.clone()));
        self.notes.extend(examined.gaps.iter().map(|gap| format!("missing: {gap}")));
        let withheld = document.data.iter().filter(|file| file.withheld);
        self.notes.extend(withheld.map(|file| format!("withheld: {}, whose leaf is in the tree", file.path)));
        if document.program_version != program_version() {
            self.notes.push(format!(
                "made by acb {}, checked by {}: a table that differs may be one that is made otherwise now",
                document.program_version,
                program_version()
            ));
        }
        let carried = unpacked
            .read(PUBLIC_KEY)
            .ok()
            .and_then(|bytes| PublicKey::from_pem(&String::from_utf8(bytes).ok()?));
        let claimed = document.signed_by.as_ref().and(carried);
        let header = Header { program_version: document.program_version.clone(), key: claimed.clone() };
        let made = documents(&evidence, &examined, &header, tree, raw);
        self.documents(unpacked, &made);
        self.signature(unpacked, key, (claimed, &examined, &made, raw));
        Ok(())
    }

    /// Every document is what is made of the raw files now.
    fn documents(&mut self, unpacked: &Unpacked, made: &Documents) {
        let mut tables = 0;
        for (path, expected) in &made.files {
            tables += usize::from(path.starts_with(TABLES));
            match unpacked.read(path) {
                Err(finding) => self.faults.push(Finding { check: Check::Documents, ..finding }),
                Ok(found) => {
                    if let Some(d) = difference(expected, &found) {
                        let finding = Finding::of(Check::Documents, path, d.expected, d.found);
                        self.faults.push(finding.at(d.place));
                    }
                }
            }
        }
        let words =
            format!("{} documents, {tables} of them tables, made again byte for byte", made.files.len());
        self.holds(Check::Documents, words);
        let known = |path: &str| path.starts_with(TABLES) && !made.files.contains_key(path);
        for path in unpacked.files.keys().filter(|path| known(path)) {
            self.faults.push(Finding::of(
                Check::Documents,
                path,
                "no such table",
                "a table that nothing makes",
            ));
        }
    }

    /// The statements are signed, by the key that is trusted if one is given, and say what was found.
    fn signature(
        &mut self,
        unpacked: &Unpacked,
        trusted: Option<&PublicKey>,
        (claimed, examined, made, raw): (Option<PublicKey>, &Examined, &Documents, &Stored),
    ) {
        let (key, state, words) = match (trusted, claimed) {
            (None, None) => {
                let words = "nobody signed it: whoever can change a file can change its sum";
                return self.seen.push((Check::Signature, CheckState::Remark, words.to_owned()));
            }
            (Some(trusted), _) => {
                (trusted.clone(), CheckState::Holds, format!("by the key given, {}", trusted.id()))
            }
            (None, Some(claimed)) => {
                let words = "by the key that it carries; --public-key says whose that must be: ";
                let words = format!("{words}{}", claimed.id());
                (claimed, CheckState::Remark, words)
            }
        };
        let sums = sums(raw, made);
        for (path, expected) in statements(&sums, &made.bundle, &examined.cases) {
            let wrong =
                |found: String| Finding::of(Check::Signature, path, "a statement signed by the key", found);
            let opened = unpacked.read(path).and_then(|bytes| {
                let text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8".to_owned()))?;
                Envelope::open(&text, &key).map_err(wrong)
            });
            match opened {
                Err(finding) => self.faults.push(Finding { check: Check::Signature, ..finding }),
                Ok(statement) => {
                    if let Some(d) = difference(&expected, &statement) {
                        let finding = Finding::of(Check::Signature, path, d.expected, d.found);
                        self.faults.push(finding.at(format!("payload {}", d.place)));
                    }
                }
            }
        }
        self.seen.push((Check::Signature, state, words));
    }

    fn verification(self, bundle: Option<BundleDocument>) -> Verification {
        let Self { mut faults, seen, notes } = self;
        faults.sort_by_key(|finding| finding.check);
        let row = |check: Check| {
            let count = faults.iter().filter(|finding| finding.check == check).count();
            let said = seen.iter().find(|(of, ..)| *of == check);
            let (state, what) = match (count, said) {
                (0, None) => (CheckState::NotReached, "what comes before does not hold".to_owned()),
                (0, Some((_, state, words))) => (*state, words.clone()),
                (1, _) => (CheckState::Fails, "1 fault".to_owned()),
                (count, _) => (CheckState::Fails, format!("{count} faults")),
            };
            CheckRow { check, state, what }
        };
        let checks = Check::ALL.into_iter().map(row).collect();
        Verification { holds: faults.is_empty(), bundle, checks, faults, notes }
    }
}
