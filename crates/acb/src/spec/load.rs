//! From files and `--set` arguments to a value of a type: the one place here that reads files.

use super::merge::{merge, set};
use super::parse::parse;
use super::tree::Node;
use super::validate::validate;
use super::{Fault, Faults, Located, SourceId, Sources};
use crate::presets::Preset;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest experiment file in bytes: 4 MiB.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a preset and files, merges them left to right, applies `path=value` arguments and checks the result against a
/// schema.
///
/// # Errors
/// All faults at the first stage that has any: texts, then arguments, then the schema.
///
/// # Panics
/// When neither a preset nor a file is given: the command line asks for one.
pub fn load<T: DeserializeOwned>(
    schema: &serde_json::Value,
    preset: Option<&Preset>,
    files: &[PathBuf],
    sets: &[String],
) -> Result<(T, Located), Faults> {
    assert!(preset.is_some() || !files.is_empty(), "an experiment is read from a preset or a file");
    let mut sources = Sources::default();
    let mut tree: Option<Node> = None;
    let mut faults = Vec::new();
    let shipped = preset.map(|preset| Ok(sources.add(format!("preset {}", preset.name), preset.text)));
    let read: Vec<_> = shipped.into_iter().chain(files.iter().map(|file| read(&mut sources, file))).collect();
    for id in read {
        match id.and_then(|id| parse(&sources, id, 0)) {
            Ok(over) => tree = Some(tree.map_or(over.clone(), |base| merge(base, over))),
            Err(found) => faults.extend(found),
        }
    }
    if let Some(tree) = tree.as_mut().filter(|_| faults.is_empty()) {
        for argument in sets {
            faults.extend(set(&mut sources, tree, argument).err().unwrap_or_default());
        }
    }
    match tree {
        Some(tree) if faults.is_empty() => typed(schema, Located::new(sources, tree)),
        _ => Err(Faults::new(&sources, faults)),
    }
}

/// Checks a tree against a schema and reads a value from it.
///
/// # Errors
/// All faults.
pub fn typed<T: DeserializeOwned>(
    schema: &serde_json::Value,
    located: Located,
) -> Result<(T, Located), Faults> {
    let (sources, mut tree) = located.into_parts();
    let faults = validate(schema, &mut tree);
    if !faults.is_empty() {
        return Err(Faults::new(&sources, faults));
    }
    match serde_path_to_error::deserialize(tree.to_json()) {
        Ok(value) => Ok((value, Located::new(sources, tree))),
        Err(error) => {
            let pointer = error.path().iter().fold(String::new(), |pointer, segment| {
                super::tree::join(&pointer, &segment.to_string().replace(['[', ']'], ""))
            });
            let fault = Fault::new(tree.nearest(&pointer), error.inner().to_string()).at(pointer);
            Err(Faults::new(&sources, vec![fault]))
        }
    }
}

fn read(sources: &mut Sources, path: &Path) -> Result<SourceId, Vec<Fault>> {
    let name = path.display().to_string();
    let refuse = |sources: &mut Sources, message: String| {
        let id = sources.add(name.clone(), "");
        Err(vec![Fault::new(sources.span(id, 0..0), message)])
    };
    let mut bytes = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = opened {
        return refuse(sources, format!("can't be read: {error}"));
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return refuse(
            sources,
            format!(
                "is larger than {MAX_FILE_BYTES} bytes, so it is no experiment: give the path of a YAML file"
            ),
        );
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(sources.add(name, &text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[valid];
            let id = sources.add(name, &String::from_utf8_lossy(error.as_bytes()));
            let message = format!("the byte 0x{byte:02x} is not UTF-8: save the file as UTF-8");
            Err(vec![Fault::new(sources.span(id, valid..valid + 1), message)])
        }
    }
}
