//! Published tables of the original harness, kept as data: a file each, with where it is from and under what conditions
//! it was measured. What bars it from the claim ladder follows from the conditions and is written in no file.

use super::obstacle::{MOCK, NOT_BLOCKED, OLD_METRIC, rung};
use super::{Obstacle, QagDefinition, Reason};
use crate::{EvidenceError, FILE_VERSION};
use acb_types::Source;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoricalSet {
    /// [`FILE_VERSION`].
    pub v: u32,
    /// Name of the set; also of its file.
    pub id: String,
    /// What it shows, in a line.
    pub title: String,
    /// Where it is from.
    pub provenance: Provenance,
    /// What was measured.
    pub system: System,
    /// Under what conditions.
    pub conditions: Conditions,
    /// The columns, each of one source.
    pub columns: Vec<Column>,
    /// The rows: a cell per column, `null` where nothing was published.
    pub rows: Vec<Vec<serde_json::Value>>,
    /// What a reader must know beside that.
    pub remarks: Vec<String>,
}

/// Where a table is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The page that published it.
    pub published_in: String,
    /// The day of the runs as far as it was published.
    pub measured_on: Option<String>,
    /// How the numbers came here.
    pub transcribed: String,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Runtime and version; `null` where it was not published.
    pub runtime: Option<String>,
    /// The base models.
    pub models: Vec<String>,
    /// The cards.
    pub hardware: Vec<String>,
}

/// Under what conditions a table was measured. Unknown is `null`, and counts as not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// What answered.
    pub backing: Backing,
    /// The workload, by the harness's name.
    pub workload: Option<String>,
    /// Whether the answers follow from the prompts.
    pub answerable: Option<bool>,
    /// Whether the server was reset before each run.
    pub server_reset: ServerReset,
    /// Definition of quality-adjusted goodput; `null` when the table has none.
    pub qag_definition: Option<QagDefinition>,
    /// Whether the runs have the lifecycle file.
    pub status_files: bool,
    /// Whether raw rows are at hand.
    pub raw_rows: bool,
    /// Runs behind the table, as published.
    pub runs: Option<u64>,
    /// Requests behind the table, as published.
    pub requests: Option<u64>,
}

/// What answered in a published run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// A server on a card.
    Server,
    /// The harness's mock.
    Mock,
}

/// Resets of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerReset {
    /// Before each run.
    PerRun,
    /// None.
    Never,
    /// Not published.
    Unknown,
    /// Nothing to reset: each observation is a start of its own.
    NotApplicable,
}

/// A column: its numbers have one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Unit; `null` for a word or a count.
    pub unit: Option<String>,
    /// Who saw it; `null` for what was set rather than seen.
    pub source: Option<Source>,
}

impl HistoricalSet {
    /// Reads a set from the text of its file.
    ///
    /// # Errors
    /// When it isn't such a set, of another version, or a row has more or fewer cells than there are columns.
    pub fn parse(path: &Path, text: &str) -> Result<Self, EvidenceError> {
        let fault = |message| EvidenceError::Document { path: path.to_path_buf(), message };
        let set: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        if set.v != FILE_VERSION {
            return Err(EvidenceError::Version {
                path: path.to_path_buf(),
                found: set.v.into(),
                known: FILE_VERSION,
            });
        }
        let wide = |row: &&Vec<serde_json::Value>| row.len() != set.columns.len();
        if let Some(row) = set.rows.iter().find(wide) {
            let (cells, columns) = (row.len(), set.columns.len());
            return Err(fault(format!(
                "a row has {cells} cells and there are {columns} columns; give each its cell"
            )));
        }
        Ok(set)
    }

    /// The rung that it stands on.
    #[must_use]
    pub fn rung(&self) -> u8 {
        rung(&self.obstacles())
    }

    /// Why it can't stand higher.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let conditions = &self.conditions;
        let old = conditions.qag_definition.is_some_and(|definition| definition != QagDefinition::SumOnTime);
        let mock = conditions.backing == Backing::Mock;
        let bars = [
            (!conditions.raw_rows, Reason::NoRows.because(NO_ROWS)),
            (!conditions.status_files, Reason::NoStatus.because(NO_STATUS)),
            (mock, Reason::Mock.because(MOCK)),
            (old, Reason::OldMetric.because(OLD_METRIC)),
        ];
        let holding = bars.into_iter().filter(|bar| bar.0).map(|bar| bar.1);
        let asked = conditions.workload.as_ref().and_then(|_| match conditions.answerable {
            Some(true) => None,
            Some(false) => Some(Reason::Unanswerable.because(UNANSWERABLE)),
            None => {
                Some(Reason::Unanswerable.because("nobody showed that the answers follow from the prompts"))
            }
        });
        let reset = match conditions.server_reset {
            ServerReset::PerRun | ServerReset::NotApplicable => None,
            ServerReset::Never => Some(Reason::NoReset.because(NEVER_RESET)),
            ServerReset::Unknown => Some(Reason::NoReset.because("no reset of the server was published")),
        };
        holding.chain(asked).chain(reset).chain([Reason::NotBlocked.because(NOT_BLOCKED)]).collect()
    }
}

const NO_ROWS: &str = "the rows were not published: no number can be computed again";
const NO_STATUS: &str = "the runs are older than status.json: nobody can say that they are whole";
const UNANSWERABLE: &str = "the answers stand in no prompt: quality is noise of the scorer";
const NEVER_RESET: &str = "the server was not reset: order decides who finds it warm";
