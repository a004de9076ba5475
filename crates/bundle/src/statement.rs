//! in-toto statements, version 1, with the two predicates that a bundle carries: Test Result v0.1 and SLSA Provenance v1.

use crate::Hash;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A statement about files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement<P> {
    /// Type of the statement.
    #[serde(rename = "_type")]
    pub kind: &'static str,
    /// What it is about.
    pub subject: Vec<ResourceDescriptor>,
    /// Type of the predicate.
    #[serde(rename = "predicateType")]
    pub predicate_type: &'static str,
    /// What it says.
    pub predicate: P,
}

/// A file by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceDescriptor {
    /// Its name.
    pub name: String,
    /// Its hash by algorithm.
    pub digest: BTreeMap<&'static str, String>,
}

impl ResourceDescriptor {
    /// A file by its SHA-256.
    #[must_use]
    pub fn sha256(name: &str, hash: Hash) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([("sha256", hash.to_string())]) }
    }
}

/// Predicate of `https://in-toto.io/attestation/test-result/v0.1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// The worst of all tests.
    pub result: TestVerdict,
    /// The configurations that were tested.
    pub configuration: Vec<ResourceDescriptor>,
    /// Names of tests that passed.
    #[serde(rename = "passedTests")]
    pub passed_tests: Vec<String>,
    /// Names of tests that were passed over or have a remark.
    #[serde(rename = "warnedTests")]
    pub warned_tests: Vec<String>,
    /// Names of tests that failed.
    #[serde(rename = "failedTests")]
    pub failed_tests: Vec<String>,
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestVerdict {
    /// All passed.
    Passed,
    /// None failed, some have a remark.
    Warned,
    /// Some failed.
    Failed,
}

/// Predicate of `https://slsa.dev/provenance/v1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// What was asked for.
    pub build_definition: BuildDefinition,
    /// Who did it, when.
    pub run_details: RunDetails,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDefinition {
    /// URI of the kind of process.
    pub build_type: String,
    /// What the user chose.
    pub external_parameters: Json,
    /// What it started from.
    pub resolved_dependencies: Vec<ResourceDescriptor>,
}

/// Who did it, when.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDetails {
    /// The program.
    pub builder: Builder,
    /// The times.
    pub metadata: BuildMetadata,
}

/// The program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Builder {
    /// URI of the program.
    pub id: String,
    /// Versions by name.
    pub version: BTreeMap<String, String>,
}

/// The times of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildMetadata {
    /// Start of the first run.
    pub started_on: String,
    /// End of the last.
    pub finished_on: String,
}

impl Statement<TestResult> {
    /// A statement of test results.
    #[must_use]
    pub fn test_result(subject: Vec<ResourceDescriptor>, predicate: TestResult) -> Self {
        Self {
            kind: KIND,
            subject,
            predicate_type: "https://in-toto.io/attestation/test-result/v0.1",
            predicate,
        }
    }
}

impl Statement<Provenance> {
    /// A statement of where files come from.
    #[must_use]
    pub fn provenance(subject: Vec<ResourceDescriptor>, predicate: Provenance) -> Self {
        Self { kind: KIND, subject, predicate_type: "https://slsa.dev/provenance/v1", predicate }
    }
}

const KIND: &str = "https://in-toto.io/Statement/v1";

impl<P: Serialize> Statement<P> {
    /// The statement as it is signed.
    ///
    /// # Panics
    /// Never: a statement has only text keys.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a statement has a form in JSON")
    }
}
