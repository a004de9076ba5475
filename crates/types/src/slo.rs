//! Service-level objectives of one request.

use crate::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds that a request must meet to count as good. Absent bounds are not checked; at least one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// Time to first token, from the due time.
    pub ttft_ns: Option<Nanos>,
    /// Mean time per output token after the first.
    pub tpot_ns: Option<Nanos>,
    /// Due time to last token.
    pub e2e_ns: Option<Nanos>,
}
