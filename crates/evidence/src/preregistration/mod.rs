//! A preregistration: what was fixed before the first run, in one canonical text with one hash.
//!
//! The text is the file: `sha256sum` of it is the hash that runs carry. A changed experiment needs a new version, which
//! names the one before, what changed and why.

mod changes;
mod section;

pub use changes::Change;
pub use section::{FalsificationRule, PreregistrationSection, PromotionRule, SampleSize};

use crate::canonical::{canonical_json, sha256_hex};
use crate::{EvidenceError, write_atomically};
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Version of the document.
const VERSION: u32 = 1;

/// The largest integer up to which JSON's numbers are exact everywhere: 2^53 - 1.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

/// What is registered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Preregistration {
    /// Version of this document.
    pub v: u32,
    /// Name of the experiment.
    pub name: String,
    /// The experiment with every default and every role written out, its limits and its output folder apart.
    pub experiment: Value,
    /// Hashes of the files that it names, by path.
    pub data: BTreeMap<String, Digest>,
    /// The program that locked it.
    pub program: Program,
    /// Every change since the first lock, in order.
    pub deviations: Vec<Deviation>,
}

/// A program by version and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// SHA-256 of its executable, hex.
    pub sha256: String,
}

/// A change after the first lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Why.
    pub reason: String,
    /// SHA-256 of the version before, hex.
    pub previous: String,
    /// What changed.
    pub changes: Vec<Change>,
}

/// A preregistration as its file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// What is registered.
    pub preregistration: Preregistration,
    /// The canonical text.
    pub bytes: Vec<u8>,
    /// Its SHA-256, hex.
    pub sha256: String,
}

impl Preregistration {
    /// Name of the copy in a sweep's folder.
    pub const FILE: &'static str = "preregistration.lock.json";

    /// The first version.
    #[must_use]
    pub fn new(name: &str, experiment: Value, data: BTreeMap<String, Digest>, program: Program) -> Self {
        Self { v: VERSION, name: name.to_owned(), experiment, data, program, deviations: Vec::new() }
    }

    /// The canonical text and its hash.
    #[must_use]
    pub fn lock(self) -> Lock {
        let bytes = canonical_json(&self);
        Lock { sha256: sha256_hex(&bytes), bytes, preregistration: self }
    }

    /// The registered section of the experiment file; empty where it can't be read.
    #[must_use]
    pub fn section(&self) -> PreregistrationSection {
        serde_json::from_value(self.experiment["preregistration"].clone()).unwrap_or_default()
    }

    /// The field of an integer that JSON does not keep exactly everywhere, if there is one.
    #[must_use]
    pub fn inexact_integer(&self) -> Option<String> {
        changes::leaves(&self.experiment).into_iter().find_map(|(field, value)| {
            let too_large = value.as_u64().is_some_and(|number| number > LARGEST_EXACT)
                || value.as_i64().is_some_and(|number| number.unsigned_abs() > LARGEST_EXACT);
            too_large.then_some(field)
        })
    }
}

impl Lock {
    /// Reads a lock file.
    ///
    /// # Errors
    /// When it can't be read or is no preregistration of a known version.
    pub fn read(path: &Path) -> Result<Self, EvidenceError> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        let path = path.to_path_buf();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(EvidenceError::Io { path, source }),
        };
        let read = serde_json::from_slice::<Version>(&bytes).and_then(|version| match version.v {
            v if v == u64::from(VERSION) => serde_json::from_slice(&bytes).map(Ok),
            found => Ok(Err(found)),
        });
        match read {
            Ok(Ok(preregistration)) => Ok(Self { preregistration, sha256: sha256_hex(&bytes), bytes }),
            Ok(Err(found)) => Err(EvidenceError::Version { path, found, known: VERSION }),
            Err(error) => Err(EvidenceError::Document { path, message: error.to_string() }),
        }
    }

    /// Writes the canonical text, whole or not at all.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), EvidenceError> {
        write_atomically(path, &self.bytes)
    }

    /// What differs between the registered experiment and another one, field by field.
    #[must_use]
    pub fn changes(&self, now: &Preregistration) -> Vec<Change> {
        let registered = |of: &Preregistration| {
            // Both through the same text and back, so that 8 and 8.0 are one number.
            let body = serde_json::json!({"experiment": of.experiment, "data": of.data});
            serde_json::from_slice::<Value>(&canonical_json(&body)).unwrap_or_default()
        };
        changes::between(&registered(&self.preregistration), &registered(now))
    }

    /// Whether the file is, to the byte, the text that this experiment and the file's own history make.
    #[must_use]
    pub fn is_text_of(&self, now: &Preregistration) -> bool {
        let Preregistration { program, deviations, .. } = self.preregistration.clone();
        canonical_json(&Preregistration { program, deviations, ..now.clone() }) == self.bytes
    }

    /// The next version: this experiment, with the reason why it departs from the registered one.
    #[must_use]
    pub fn deviate(&self, now: Preregistration, reason: &str) -> Lock {
        let deviation = Deviation {
            reason: reason.to_owned(),
            previous: self.sha256.clone(),
            changes: self.changes(&now),
        };
        let deviations = self.preregistration.deviations.iter().cloned().chain([deviation]).collect();
        Preregistration { deviations, ..now }.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn registered(experiment: Value) -> Preregistration {
        let program = Program { version: "0.1.0".into(), sha256: "00".into() };
        Preregistration::new("toy", experiment, BTreeMap::new(), program)
    }

    #[test]
    fn the_file_is_its_own_canonical_text_and_its_hash_is_that_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toy.lock.json");
        let lock = registered(json!({"slo": {"ttft_ms": 400.0}, "alpha": 0.05})).lock();
        lock.write(&path).unwrap();
        assert_eq!(lock.sha256, sha256_hex(&fs::read(&path).unwrap()));
        let read = Lock::read(&path).unwrap();
        assert_eq!((&read.sha256, &read.bytes), (&lock.sha256, &lock.bytes));
        assert!(String::from_utf8(lock.bytes).unwrap().contains("\"slo\":{\"ttft_ms\":400}"));
    }

    #[test]
    fn a_number_written_otherwise_is_no_change_and_another_one_is() {
        let lock = registered(json!({"slo": {"ttft_ms": 400.0}})).lock();
        let same = registered(json!({"slo": {"ttft_ms": 400}}));
        assert_eq!(lock.changes(&same), []);
        assert!(lock.is_text_of(&same));
        let other = registered(json!({"slo": {"ttft_ms": 401}}));
        let changes = lock.changes(&other);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].to_string(), "experiment.slo.ttft_ms: 400 -> 401");
        assert!(!lock.is_text_of(&other));
    }

    #[test]
    fn each_version_names_the_one_before_and_keeps_the_whole_history() {
        let first = registered(json!({"requests": 1})).lock();
        let second = first.deviate(registered(json!({"requests": 2})), "too few");
        let third = second.deviate(registered(json!({"requests": 3})), "still too few");
        let deviations = &third.preregistration.deviations;
        assert_eq!((&deviations[0].previous, &deviations[1].previous), (&first.sha256, &second.sha256));
        assert_eq!(deviations[1].changes[0].to_string(), "experiment.requests: 2 -> 3");
    }

    #[test]
    fn a_file_that_is_no_lock_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toy.lock.json");
        for (text, words) in
            [("{\"v\":9}", "version 9 is not known"), ("{\"v\":1}", "missing field"), ("", "EOF")]
        {
            fs::write(&path, text).unwrap();
            let error = Lock::read(&path).unwrap_err().to_string();
            assert!(error.contains("toy.lock.json") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_integer_that_json_does_not_keep_is_named() {
        let seeds = registered(json!({"seeds": [1, (1u64 << 53) + 1]}));
        assert_eq!(seeds.inexact_integer().as_deref(), Some("seeds"));
        assert_eq!(registered(json!({"seeds": [1, -5]})).inexact_integer(), None);
    }
}
