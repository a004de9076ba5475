//! When requests are due.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arrival process. Open processes set due times whatever the servers do; `closed` waits for answers.
///
/// `rate_rps` counts requests. Where a session has several turns, sessions start at `rate_rps` over their mean number
/// of turns, and the later turns come when the earlier ones have ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Requests per second.
        #[schemars(range(min = 0.000001, max = 1_000_000))]
        rate_rps: f64,
    },
    /// Poisson: exponential gaps.
    Poisson {
        /// Mean requests per second.
        #[schemars(range(min = 0.000001, max = 1_000_000))]
        rate_rps: f64,
    },
    /// Gamma-distributed gaps of shape 1/cv^2: cv 1 is Poisson, above is bursty.
    Gamma {
        /// Mean requests per second.
        #[schemars(range(min = 0.000001, max = 1_000_000))]
        rate_rps: f64,
        /// Coefficient of variation of the gaps.
        #[schemars(range(min = 0.01, max = 100))]
        cv: f64,
    },
    /// Poisson within windows of `on_s`, nothing for `off_s` after each: the mean rate over whole periods is `rate_rps`.
    OnOff {
        /// Mean requests per second over on and off windows together.
        #[schemars(range(min = 0.000001, max = 1_000_000))]
        rate_rps: f64,
        /// Seconds of an on window; the run starts with one.
        #[schemars(range(min = 0.001, max = 1_000_000_000))]
        on_s: f64,
        /// Seconds of an off window.
        #[schemars(range(min = 0, max = 1_000_000_000))]
        off_s: f64,
    },
    /// Closed loop: every user sends, waits for the end of the answer, thinks, and sends again. Latency under a closed
    /// loop does not show what an open arrival process would suffer.
    Closed {
        /// Users, which is the greatest number of requests in flight.
        #[schemars(range(min = 1, max = 1_000_000))]
        users: u32,
        /// Mean think time in milliseconds, exponentially distributed; 0 is none. First requests are spread over it.
        #[serde(default)]
        #[schemars(range(min = 0, max = 86_400_000))]
        think_ms: f64,
    },
    /// The times of the trace in `trace`, from its first row.
    Trace {
        /// How many times faster than recorded.
        #[serde(default = "as_recorded")]
        #[schemars(range(min = 0.000001, max = 1_000_000))]
        speed: f64,
    },
}

fn as_recorded() -> f64 {
    1.0
}
