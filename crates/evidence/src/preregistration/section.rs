//! What is registered beyond the experiment itself: the `preregistration` section of an experiment file.
//!
//! Question, hypothesis, arms, metrics, contrasts, SLO and level of the test stand in the experiment already and are
//! registered with it. Everything here may be left out while the file is being written; a lock refuses what is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is fixed before the first run and is not part of how the runs are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PreregistrationSection {
    /// Data on this question that were seen before, and what was learnt from them; say "none" when there are none.
    pub existing_data: Option<String>,
    /// What must hold for the hypothesis to be promoted: all of it.
    pub promotion: Vec<PromotionRule>,
    /// What refutes the hypothesis: any one of it.
    pub falsification: Vec<FalsificationRule>,
    /// Which runs or requests are left out, and by which rule; say "none" when none are.
    pub exclusions: Option<String>,
    /// How many blocks, and why.
    pub sample_size: Option<SampleSize>,
    /// When the runs end, and who may look before.
    pub stopping_rule: Option<String>,
    /// The analyses, in words: tests, intervals, correction, and what is exploratory.
    pub analyses: Option<String>,
    /// What is done about departures from this plan.
    pub deviations: Option<String>,
}

/// One condition of the hypothesis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PromotionRule {
    /// Superior on the primary metric in every contrast, over all levels together.
    Superior,
    /// Superior on the primary metric in every contrast, at single levels.
    SuperiorAtLevels {
        /// At how many of them.
        #[schemars(range(min = 1))]
        at_least: u32,
    },
    /// Not worse on another metric in any contrast, at any level, by more than a margin.
    NotWorse {
        /// The metric (`acb list metrics`).
        metric: String,
        /// The margin, as the ratio of the better to the worse: 1.05 for five percent.
        #[schemars(extend("exclusiveMinimum" = 1.0, "maximum" = 1e6))]
        margin_ratio: f64,
    },
}

/// One thing that refutes the hypothesis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FalsificationRule {
    /// The effect exists only in the simulator.
    OnlySimulated,
    /// The effect is gone where a factor has a value, such as `cluster.cache_condition` = `prefix_disabled`.
    VanishesAt {
        /// Path of the factor.
        factor: String,
        /// Its value.
        #[schemars(with = "FactorValue")]
        value: Value,
    },
    /// The effect rests on quality that nobody measured.
    QualityNotMeasured,
    /// The servers' own counters say the opposite: the treatment is worse on a metric that they report.
    CountersContradict {
        /// The metric (`acb list metrics`).
        metric: String,
    },
}

/// A value of a factor.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum FactorValue {
    /// Truth.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// The number of blocks and the smallest effect that it can show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleSize {
    /// Blocks; as many as there are seeds.
    #[schemars(range(min = 1))]
    pub blocks: u32,
    /// Standard deviation over blocks of the log ratio of the primary metric, from a pilot (`acb power`).
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1e3))]
    pub log_ratio_sd: f64,
    /// Where that deviation comes from.
    #[schemars(length(min = 1))]
    pub pilot: String,
    /// Probability of showing an effect of that size.
    #[schemars(range(min = 0.5, max = 0.9999))]
    pub power: f64,
    /// The minimal detectable effect, as a ratio of the better to the worse.
    #[schemars(extend("exclusiveMinimum" = 1.0, "maximum" = 1e6))]
    pub minimal_effect_ratio: f64,
}
