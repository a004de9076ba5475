//! Where the quality of answers comes from. It is never a router's own belief.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What answers are worth, and what routers believe of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QualitySpec {
    /// The hidden table of outcomes.
    pub source: QualitySource,
    /// How routers come to a belief.
    pub prior: PriorSpec,
}

/// The hidden table of outcomes: expected quality by task and adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QualitySource {
    /// Drawn from a hidden stream around means; results are labelled synthetic.
    Synthetic(SyntheticQuality),
    /// Read from a file.
    Table(QualityFile),
}

impl Default for QualitySource {
    fn default() -> Self {
        Self::Synthetic(SyntheticQuality::default())
    }
}

/// Means of a synthetic table, each from 0 to 1. A placebo adapter is worth what the base model is. The default means
/// are the qualities that the original harness's streaming run at one request in flight reported for a 500-row fixture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SyntheticQuality {
    /// The base model.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub base: f64,
    /// The task's own specialist.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub specialist: f64,
    /// The multitask adapter.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub multitask: f64,
    /// A specialist of another task; the base model's mean when absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub off_task: Option<f64>,
    /// Standard deviation of the draw around each mean.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub spread: f64,
}

impl Default for SyntheticQuality {
    fn default() -> Self {
        Self { base: 0.153, specialist: 0.841, multitask: 0.707, off_task: None, spread: 0.0 }
    }
}

/// A table in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QualityFile {
    /// Path, relative to the working directory.
    #[schemars(length(min = 1))]
    pub file: String,
}

/// How routers come to a belief.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PriorSpec {
    /// Graded calibration answers per task and adapter, none of which a run uses.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub calibration_samples: u32,
}

impl Default for PriorSpec {
    fn default() -> Self {
        Self { calibration_samples: 100 }
    }
}
