//! The two statements about a bundle: what was tested and how it went, and what it was made of.

use super::documents::BundleDocument;
use super::layout::{CONFIG, MERKLE, PROVENANCE, RESULTS, TEST_RESULT};
use acb_bundle::{
    BuildDefinition, BuildMetadata, Builder, Case, CaseOutcome, Hash, Provenance, ResourceDescriptor,
    RunDetails, Statement, Sums, TestResult, TestVerdict,
};
use std::collections::BTreeMap;

/// Kind of process, for provenance. No page describes it: `docs/bundles.md` does.
const BUILD_TYPE: &str = "urn:x-acb:sweep:v1";
/// The program, for provenance.
const BUILDER: &str = "urn:x-acb:program";

/// The statements as they are signed, by the path of their envelope. Both are about `SHA256SUMS`, and so about every file,
/// and about the tree, whose root stays the same when files are withheld.
#[must_use]
pub fn statements(sums: &Sums, bundle: &BundleDocument, cases: &[Case]) -> [(&'static str, Vec<u8>); 2] {
    let mut subject = vec![ResourceDescriptor::sha256(Sums::FILE, Hash::of(sums.text().as_bytes()))];
    subject.extend(sums.0.get(MERKLE).map(|hash| ResourceDescriptor::sha256(MERKLE, *hash)));
    let configuration = configurations(sums, bundle);
    let tested = test_result(cases, configuration.clone());
    let made = provenance(sums, bundle, configuration);
    [
        (TEST_RESULT, Statement::test_result(subject.clone(), tested).bytes()),
        (PROVENANCE, Statement::provenance(subject, made).bytes()),
    ]
}

fn configurations(sums: &Sums, bundle: &BundleDocument) -> Vec<ResourceDescriptor> {
    let path = |sweep: &str| format!("{RESULTS}/_sweeps/{sweep}/{CONFIG}");
    let paths = bundle.sweeps.iter().map(|sweep| path(&sweep.sweep));
    paths.filter_map(|path| Some(ResourceDescriptor::sha256(&path, *sums.0.get(&path)?))).collect()
}

fn test_result(cases: &[Case], configuration: Vec<ResourceDescriptor>) -> TestResult {
    let named = |wanted: fn(&CaseOutcome) -> bool| -> Vec<String> {
        let cases = cases.iter().filter(|case| wanted(&case.outcome));
        cases.map(|case| format!("{}/{}", case.class, case.name)).collect()
    };
    let passed_tests = named(|outcome| matches!(outcome, CaseOutcome::Passed(_)));
    let warned_tests = named(|outcome| matches!(outcome, CaseOutcome::Warned(_)));
    let failed_tests = named(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
    let result = match (failed_tests.is_empty(), warned_tests.is_empty()) {
        (false, _) => TestVerdict::Failed,
        (true, false) => TestVerdict::Warned,
        (true, true) => TestVerdict::Passed,
    };
    TestResult { result, configuration, passed_tests, warned_tests, failed_tests }
}

fn provenance(sums: &Sums, bundle: &BundleDocument, configuration: Vec<ResourceDescriptor>) -> Provenance {
    let data = bundle.data.iter().map(|file| super::layout::stored(&file.file));
    let data = data.filter_map(|path| Some(ResourceDescriptor::sha256(&path, *sums.0.get(&path)?)));
    Provenance {
        build_definition: BuildDefinition {
            build_type: BUILD_TYPE.to_owned(),
            external_parameters: serde_json::json!({
                "sweeps": bundle.sweeps,
                "withheld": bundle.data.iter().filter(|file| file.withheld).map(|file| &file.path).collect::<Vec<_>>(),
            }),
            resolved_dependencies: configuration.into_iter().chain(data).collect(),
        },
        run_details: RunDetails {
            builder: Builder {
                id: BUILDER.to_owned(),
                version: BTreeMap::from([("acb".to_owned(), bundle.program_version.clone())]),
            },
            metadata: BuildMetadata {
                started_on: bundle.started.clone(),
                finished_on: bundle.finished.clone(),
            },
        },
    }
}
