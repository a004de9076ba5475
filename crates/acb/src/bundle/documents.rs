//! The documents of a bundle that follow from its raw files: one function makes them all, for writing and for checking.

use super::evidence::{DataFile, Evidence};
use super::examine::Examined;
use super::layout::{
    BUNDLE, CONFIG, JUNIT, MERKLE, PUBLIC_KEY, RESULTS, RO_CRATE, description, media_type, stored,
};
use crate::commands::json_text;
use acb_bundle::{
    Action, CrateFile, CrateInfo, Hash, PublicKey, Sums, Tree, iso_8601, junit_xml, ro_crate_metadata,
};
use acb_evidence::{LogEvent, RunCounts, RunState, Status, read_json, run_counts};
use acb_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a bundle is: `bundle.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleDocument {
    /// Version of this document.
    pub v: u32,
    /// Version of the program that made the bundle.
    pub program_version: String,
    /// The sweeps in it.
    pub sweeps: Vec<BundledSweep>,
    /// What the log of runs says.
    pub runs: RunCounts,
    /// Lines of the log of runs.
    pub log_lines: u64,
    /// Begin of the first run, ISO 8601, by the clock of the machine that ran it.
    pub started: String,
    /// Last line of the log of runs, as above.
    pub finished: String,
    /// Root of the tree over the raw files.
    pub merkle_root: Hash,
    /// The data files that the experiments name.
    pub data: Vec<DataFile>,
    /// What is missing or unfinished; empty for a bundle made with `--strict`.
    pub gaps: Vec<String>,
    /// Name of the key that signed it: SHA-256 of the public key; null when nobody did.
    pub signed_by: Option<String>,
}

/// A sweep of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundledSweep {
    /// Its name.
    pub sweep: String,
    /// Name of its experiment; null when it can't be set up again.
    pub experiment: Option<String>,
    /// Hash of the resolved experiment (BLAKE3), as above.
    pub experiment_digest: Option<Digest>,
}

/// What can't be computed from the raw files.
pub struct Header {
    /// Version of the program that made the bundle.
    pub program_version: String,
    /// The key that signs it.
    pub key: Option<PublicKey>,
}

/// Hash and size of stored files, by their path in the bundle.
pub type Stored = BTreeMap<String, (Hash, u64)>;

/// The documents of a bundle.
pub struct Documents {
    /// `bundle.json`.
    pub bundle: BundleDocument,
    /// All documents as their files hold them, by their path.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Makes every document that is about the raw files, which are stored as `raw` says.
#[must_use]
pub fn documents(
    evidence: &Evidence,
    examined: &Examined,
    header: &Header,
    tree: &Tree,
    raw: &Stored,
) -> Documents {
    let bundle = bundle(evidence, examined, header, tree);
    let mut files: BTreeMap<String, Vec<u8>> = examined.tables.iter().cloned().collect();
    files.insert(BUNDLE.to_owned(), json_text(&bundle).into_bytes());
    files.insert(MERKLE.to_owned(), json_text(tree).into_bytes());
    files.insert(JUNIT.to_owned(), junit_xml(&name(&bundle), &examined.cases).into_bytes());
    if let Some(key) = &header.key {
        files.insert(PUBLIC_KEY.to_owned(), key.pem().into_bytes());
    }
    let sizes = raw.iter().map(|(path, (_, bytes))| (path.clone(), *bytes));
    let made = files.iter().map(|(path, text)| (path.clone(), text.len() as u64));
    let listed: BTreeMap<String, u64> = sizes.chain(made).collect();
    files.insert(RO_CRATE.to_owned(), ro_crate(evidence, &bundle, &listed).into_bytes());
    Documents { bundle, files }
}

/// The sums of all files: stored raw files and documents.
#[must_use]
pub fn sums(raw: &Stored, documents: &Documents) -> Sums {
    let raw = raw.iter().map(|(path, (hash, _))| (path.clone(), *hash));
    let made = documents.files.iter().map(|(path, text)| (path.clone(), Hash::of(text)));
    Sums(raw.chain(made).collect())
}

fn bundle(evidence: &Evidence, examined: &Examined, header: &Header, tree: &Tree) -> BundleDocument {
    let sweeps = evidence.sweeps.iter().map(|(sweep, rebuilt)| {
        let experiment = rebuilt.as_ref().ok().map(|rebuilt| &rebuilt.experiment);
        BundledSweep {
            sweep: sweep.clone(),
            experiment: experiment.map(|experiment| experiment.spec.name.clone()),
            experiment_digest: experiment.map(|experiment| experiment.digest.clone()),
        }
    });
    let started = examined.log.iter().find(|entry| matches!(entry.event, LogEvent::Started { .. }));
    let last = examined.log.last();
    let time = |entry: Option<&acb_evidence::LogEntry>| iso_8601(entry.map_or(0, |entry| entry.unix_ms));
    BundleDocument {
        v: 1,
        program_version: header.program_version.clone(),
        sweeps: sweeps.collect(),
        runs: run_counts(&examined.log),
        log_lines: examined.log.len() as u64,
        started: time(started.or(last)),
        finished: time(last),
        merkle_root: tree.root,
        data: evidence.data.clone(),
        gaps: examined.gaps.clone(),
        signed_by: header.key.as_ref().map(PublicKey::id),
    }
}

/// The names of the sweeps.
fn name(bundle: &BundleDocument) -> String {
    bundle.sweeps.iter().map(|sweep| sweep.sweep.as_str()).collect::<Vec<_>>().join(", ")
}

fn ro_crate(evidence: &Evidence, bundle: &BundleDocument, listed: &BTreeMap<String, u64>) -> String {
    let info = CrateInfo {
        name: format!("Evidence of {}", name(bundle)),
        description: format!(
            "{} runs of experiments on serving LoRA adapters, with their raw rows, configurations, log and tables. \
             `acb verify` checks all of it.",
            bundle.runs.started
        ),
        date: bundle.finished.clone(),
        license: "Nothing is said of a licence: ask whoever made this bundle.".to_owned(),
        program: "acb".to_owned(),
        version: bundle.program_version.clone(),
    };
    let file = |(path, bytes): (&String, &u64)| CrateFile {
        path: path.clone(),
        description: what(path),
        media_type: media_type(path),
        bytes: *bytes,
    };
    let files: Vec<CrateFile> = listed.iter().map(file).collect();
    let actions: Vec<Action> =
        evidence.runs().into_iter().filter_map(|run| action(evidence, run, listed)).collect();
    ro_crate_metadata(&info, &files, &actions)
}

/// What a stored file is, in a sentence.
fn what(path: &str) -> String {
    let raw = path.strip_prefix(RESULTS).and_then(|path| path.strip_prefix('/'));
    let raw = raw.map(|path| path.strip_suffix(".zst").unwrap_or(path));
    let words = match path {
        BUNDLE => "What this bundle is",
        MERKLE => "Hash tree over the raw files",
        JUNIT => "The checks as test cases",
        PUBLIC_KEY => "The key that the statements are signed with",
        _ if path.starts_with("tables/") => "A table, computed from the raw files",
        _ => raw.and_then(description).unwrap_or("Data that an experiment names"),
    };
    words.to_owned()
}

fn action(evidence: &Evidence, run: &str, listed: &BTreeMap<String, u64>) -> Option<Action> {
    let status: Status = read_json(&evidence.results.join(run)).ok()?;
    let prefix = format!("{RESULTS}/{run}/");
    let config = format!("{prefix}{CONFIG}");
    let data = evidence.data.iter().map(|file| stored(&file.file));
    let inputs = std::iter::once(config.clone()).chain(data).filter(|path| listed.contains_key(path));
    let outputs = listed.keys().filter(|path| path.starts_with(&prefix) && **path != config);
    let error = match status.state {
        RunState::Complete => None,
        state => Some(status.message.unwrap_or_else(|| format!("{state:?}").to_lowercase())),
    };
    Some(Action {
        id: format!("#{run}"),
        name: format!("Run {run}"),
        start: iso_8601(status.started_unix_ms.unwrap_or(status.heartbeat_unix_ms)),
        end: iso_8601(status.heartbeat_unix_ms),
        error,
        inputs: inputs.collect(),
        outputs: outputs.cloned().collect(),
    })
}
