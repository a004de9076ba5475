//! Laws of numbers that a spec can name: lengths, counts, popularity and its drift.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A law of whole numbers from 1: tokens or turns, as the field that holds it says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum CountLaw {
    /// Always the same.
    Fixed {
        /// The number.
        #[schemars(range(min = 1, max = 1_000_000))]
        value: u32,
    },
    /// Every whole number from `min` to `max`, both included, alike.
    Uniform {
        /// The least.
        #[schemars(range(min = 1, max = 1_000_000))]
        min: u32,
        /// The greatest.
        #[schemars(range(min = 1, max = 1_000_000))]
        max: u32,
    },
    /// Lognormal, rounded to the nearest whole number, at least 1.
    Lognormal {
        /// Its mean before rounding.
        #[schemars(range(min = 1, max = 1_000_000))]
        mean: f64,
        /// Its coefficient of variation: standard deviation over mean.
        #[schemars(range(min = 0, max = 100))]
        cv: f64,
    },
    /// Geometric on 1, 2, 3, ...
    Geometric {
        /// Its mean.
        #[schemars(range(min = 1, max = 1_000_000))]
        mean: f64,
    },
}

/// How often each of N things is asked for. Thing 0 comes first in the list that defines them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Popularity {
    /// All alike.
    Uniform {},
    /// Share of the k-th thing proportional to 1/k^s.
    Zipf {
        /// The exponent s; 0 is uniform, 1 the classical law.
        #[schemars(range(min = 0, max = 20))]
        s: f64,
    },
    /// S-LoRA's dialect: share of the k-th of N is (k/N)^alpha - ((k-1)/N)^alpha. alpha 1 is uniform, small alpha is
    /// skewed (floor of N times a draw of numpy's `random.power(alpha)`).
    SloraPower {
        /// The power alpha.
        #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
        alpha: f64,
    },
    /// Punica's and SGLang's dialect ("zipf alpha"): each thing gets alpha times the requests of the next one.
    PunicaGeometric {
        /// The ratio alpha.
        #[schemars(range(max = 1000), extend("exclusiveMinimum" = 1))]
        alpha: f64,
    },
    /// Linear decay: share of the k-th of N proportional to N + 1 - k.
    Linear {},
    /// Given weights, one for each thing.
    Weights {
        /// Non-negative weights, not all zero.
        #[schemars(length(min = 1), inner(range(min = 0)))]
        weights: Vec<f64>,
    },
}

/// How popularity moves over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Drift {
    /// Every `every_s` the ranks move on by `step` things: yesterday's first is then `step` places further.
    Rotate {
        /// Seconds between moves.
        #[schemars(range(min = 0.001, max = 1_000_000_000))]
        every_s: f64,
        /// Places per move.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        step: u32,
    },
    /// Every `every_s` the ranks are dealt anew at random.
    Reshuffle {
        /// Seconds between deals.
        #[schemars(range(min = 0.001, max = 1_000_000_000))]
        every_s: f64,
    },
}

/// Which thing has which rank of the popularity law at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PopularityOrder {
    /// The first listed is the most popular.
    ById,
    /// Dealt at random by the seed, so that popularity is not confounded with what the order of the list means (rank).
    Shuffled,
}

fn one() -> u32 {
    1
}
