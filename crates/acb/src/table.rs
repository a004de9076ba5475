//! Outcome tables in files: expected quality by task and adapter, measured elsewhere.
//!
//! JSON: `{"v": 1, "quality": {"qa": {"base": 0.2, "qa": 0.9, "multitask": 0.7}, ...}}`. Every task of the workload and
//! every adapter of the catalogue (and `base`) must be there.

use acb_types::{Adapters, QualityTable};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What can be wrong with an outcome table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It can't be read.
    #[error("{}: can't be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It isn't such a table.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
    /// A cell is missing.
    #[error("{}: no quality of \"{adapter}\" on task \"{task}\"; add quality.{task}.{adapter}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The row.
        task: String,
        /// The column.
        adapter: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    v: u32,
    quality: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Reads the table for these tasks and adapters.
///
/// # Errors
/// When the file can't be read, lacks a cell, or holds a quality outside 0..=1.
pub fn read_table(path: &Path, tasks: &[String], adapters: &Adapters) -> Result<QualityTable, TableError> {
    let malformed = |message: String| TableError::Malformed { path: path.to_path_buf(), message };
    let bytes =
        std::fs::read(path).map_err(|source| TableError::Unreadable { path: path.to_path_buf(), source })?;
    let file: File = serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
    if file.v != 1 {
        return Err(malformed(format!("version {} is not known here; this program reads version 1", file.v)));
    }
    let mut missing = None;
    let table = QualityTable::from_fn(tasks.len(), adapters.len(), |task, adapter| {
        let (task, adapter) = (&tasks[task.index()], adapters.label(adapter));
        let found = file.quality.get(task).and_then(|row| row.get(adapter));
        if found.is_none() && missing.is_none() {
            missing = Some((task.clone(), adapter.to_owned()));
        }
        found.copied().unwrap_or(0.0)
    });
    if let Some((task, adapter)) = missing {
        return Err(TableError::Missing { path: path.to_path_buf(), task, adapter });
    }
    table.map_err(|error| malformed(error.to_string()))
}
