//! Words about serving engines that records and routers share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an adapter's weights lie, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// In a GPU slot: usable in the next step.
    Gpu,
    /// In host memory: a copy away.
    Cpu,
    /// On the server's disk.
    Disk,
    /// Behind a network.
    Remote,
}
