//! Where what lies in a bundle, and what each file is.

use acb_evidence::{Divergence, Manifest, RunLog, Status, Summary, SweepPlan, Versioned};

/// Folder of the results, as they were left.
pub const RESULTS: &str = "results";
/// Folder of the data files that experiments name.
pub const DATA: &str = "data";
/// Folder of the tables.
pub const TABLES: &str = "tables";
/// The tree over the raw files.
pub const MERKLE: &str = "merkle.json";
/// What the bundle is.
pub const BUNDLE: &str = "bundle.json";
/// The checks as test cases.
pub const JUNIT: &str = "junit.xml";
/// The metadata for repositories.
pub const RO_CRATE: &str = "ro-crate-metadata.json";
/// The key that the statements are signed with.
pub const PUBLIC_KEY: &str = "public_key.pem";
/// The signed test results.
pub const TEST_RESULT: &str = "attestations/test-result.dsse.json";
/// The signed provenance.
pub const PROVENANCE: &str = "attestations/provenance.dsse.json";
/// End of the name of a preregistration's lock.
const LOCK: &str = ".lock.json";

/// Files of a sweep's folder that belong to a bundle.
const OF_SWEEP: [(&str, &str); 3] = [
    (SweepPlan::FILE, "What the sweep set out to do"),
    (Divergence::FILE, "How often arms decide differently"),
    (CONFIG, "The experiment, resolved"),
];
/// Files of a run's folder that belong to a bundle.
const OF_RUN: [(&str, &str); 10] = [
    (Manifest::FILE, "What the run is"),
    (Status::FILE, "How the run ended"),
    (Summary::FILE, "Every metric of the run, from its rows"),
    (CONFIG, "The run's configuration, resolved"),
    ("requests.jsonl", "One record per request"),
    ("routing.jsonl", "What the router was told and decided, in order"),
    ("server.jsonl", "State and counters of the servers"),
    ("observations.jsonl", "What the client saw of each exchange"),
    ("scrapes.jsonl", "What the servers' metrics said"),
    ("client_check.json", "The client's check of itself"),
];
/// The resolved configuration.
pub const CONFIG: &str = "config_resolved.yaml";

/// What a file of a results folder is, by its path from there; `None` when it is no part of a bundle.
#[must_use]
pub fn description(path: &str) -> Option<&'static str> {
    let of = |table: &[(&str, &'static str)], name: &str| {
        table.iter().find(|(file, _)| *file == name).map(|(_, description)| *description)
    };
    if path.ends_with(LOCK) && (!path.contains('/') || path.starts_with("_sweeps/")) {
        return Some("The preregistration as it was locked");
    }
    match path.split('/').collect::<Vec<_>>()[..] {
        [RunLog::FILE] => Some("The log of every run that was begun, as a hash chain"),
        ["_sweeps", _, file] => of(&OF_SWEEP, file),
        [run, file] if !run.starts_with('_') => of(&OF_RUN, file),
        _ => None,
    }
}

/// Whether a file is a preregistration's lock.
#[must_use]
pub fn is_lock(path: &str) -> bool {
    path.ends_with(LOCK)
}

/// The name under which a raw file is stored: rows are compressed, the log of runs is left for anybody to read.
#[must_use]
pub fn stored(path: &str) -> String {
    match path.ends_with(".jsonl") && path != format!("{RESULTS}/{}", RunLog::FILE) {
        true => format!("{path}.zst"),
        false => path.to_owned(),
    }
}

/// Media type by the end of a name.
#[must_use]
pub fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("json") => "application/json",
        Some("jsonl") => "application/jsonl",
        Some("yaml") => "application/yaml",
        Some("md") => "text/markdown",
        Some("xml") => "application/xml",
        Some("zst") => "application/zstd",
        Some("csv") => "text/csv",
        Some("pem") => "application/x-pem-file",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bundle_takes_is_listed_and_the_rest_stays() {
        for taken in [
            "run_log.jsonl",
            "e001.lock.json",
            "_sweeps/a/sweep_plan.json",
            "_sweeps/a/x.lock.json",
            "a-s1/requests.jsonl",
        ] {
            assert!(description(taken).is_some(), "{taken}");
        }
        for left in
            ["_sweeps/a/servers/replica-0.log", "_sweeps/a/lock", "a-s1/requests.jsonl.partial", "notes.md"]
        {
            assert!(description(left).is_none(), "{left}");
        }
        assert_eq!(stored("results/a/requests.jsonl"), "results/a/requests.jsonl.zst");
        assert_eq!(stored("results/run_log.jsonl"), "results/run_log.jsonl");
    }
}
