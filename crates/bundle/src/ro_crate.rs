//! `ro-crate-metadata.json`: RO-Crate 1.1 with the Process Run Crate profile, for people and repositories.

use serde_json::{Value as Json, json};

/// What a crate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrateInfo {
    /// Its title.
    pub name: String,
    /// What it holds, a sentence or two.
    pub description: String,
    /// When its last run ended, ISO 8601.
    pub date: String,
    /// Under what terms it may be used, in words.
    pub license: String,
    /// Name of the program.
    pub program: String,
    /// Version of the program.
    pub version: String,
}

/// A file of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrateFile {
    /// Its path.
    pub path: String,
    /// What it holds.
    pub description: String,
    /// Media type.
    pub media_type: &'static str,
    /// Size, bytes.
    pub bytes: u64,
}

/// Something that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its name within the crate.
    pub id: String,
    /// What was done.
    pub name: String,
    /// Start, ISO 8601.
    pub start: String,
    /// End, ISO 8601.
    pub end: String,
    /// Why it failed; `None` when it did not.
    pub error: Option<String>,
    /// Files that went in.
    pub inputs: Vec<String>,
    /// Files that came out.
    pub outputs: Vec<String>,
}

const CONTEXT: &str = "https://w3id.org/ro/crate/1.1/context";
const SPECIFICATION: &str = "https://w3id.org/ro/crate/1.1";
const PROFILE: &str = "https://w3id.org/ro/wfrun/process/0.5";

/// The metadata of a crate.
///
/// # Panics
/// Never: the document has only text keys.
#[must_use]
pub fn ro_crate_metadata(info: &CrateInfo, files: &[CrateFile], actions: &[Action]) -> String {
    let reference = |id: &str| json!({"@id": id});
    let descriptor = json!({
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "conformsTo": reference(SPECIFICATION),
        "about": reference("./"),
    });
    let root = json!({
        "@id": "./",
        "@type": "Dataset",
        "name": info.name,
        "description": info.description,
        "datePublished": info.date,
        "license": reference("#license"),
        "conformsTo": [reference(PROFILE)],
        "hasPart": files.iter().map(|file| reference(&file.path)).collect::<Vec<_>>(),
        "mentions": actions.iter().map(|action| reference(&action.id)).collect::<Vec<_>>(),
    });
    let license = json!({
        "@id": "#license",
        "@type": "CreativeWork",
        "name": info.license,
        "description": info.license,
    });
    let profile = json!({
        "@id": PROFILE,
        "@type": "CreativeWork",
        "name": "Process Run Crate",
        "version": "0.5",
    });
    let program = json!({
        "@id": "#program",
        "@type": "SoftwareApplication",
        "name": info.program,
        "description": "Runs the experiment and wrote this crate.",
        "url": "#program",
        "softwareVersion": info.version,
    });
    let mut graph = vec![descriptor, root, license, profile, program];
    graph.extend(files.iter().map(file_entity));
    graph.extend(actions.iter().map(action_entity));
    let document = json!({"@context": CONTEXT, "@graph": graph});
    serde_json::to_string_pretty(&document).expect("the metadata have a form in JSON") + "\n"
}

fn file_entity(file: &CrateFile) -> Json {
    json!({
        "@id": file.path,
        "@type": "File",
        "name": file.path,
        "description": file.description,
        "encodingFormat": file.media_type,
        "contentSize": file.bytes.to_string(),
    })
}

fn action_entity(action: &Action) -> Json {
    let list = |paths: &[String]| paths.iter().map(|path| json!({"@id": path})).collect::<Vec<_>>();
    let status = match action.error {
        None => "http://schema.org/CompletedActionStatus",
        Some(_) => "http://schema.org/FailedActionStatus",
    };
    let mut entity = json!({
        "@id": action.id,
        "@type": "CreateAction",
        "name": action.name,
        "description": action.name,
        "instrument": {"@id": "#program"},
        "startTime": action.start,
        "endTime": action.end,
        "actionStatus": {"@id": status},
        "object": list(&action.inputs),
        "result": list(&action.outputs),
    });
    if let Some(error) = &action.error {
        entity["error"] = json!(error);
    }
    entity
}
