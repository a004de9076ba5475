//! What a server's prefix cache does when an adapter is loaded again under its old name.

use super::{AdapterFile, Driver, DriverError, Pin};
use serde::{Deserialize, Serialize};

/// The name that the check uses, and leaves unloaded.
const NAME: &str = "acb-swap-check";

/// What the cache knows an adapter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwapFinding {
    /// Each load is a new adapter: new weights never meet old KV.
    EachLoad,
    /// Name and path (vLLM 0.32.0): new weights under both are answered with the old weights' KV. Give each version a path
    /// of its own, or reset the cache after a swap.
    NameAndPath,
}

/// What was found, and by which counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapReport {
    /// The finding.
    pub finding: SwapFinding,
    /// Cached tokens of a prompt asked twice.
    pub before: u32,
    /// Cached tokens of the same prompt after the adapter was unloaded and loaded again.
    pub after: u32,
}

impl Driver {
    /// Loads the adapter at `path` under a name of its own, asks, loads it again under the same name and path, and asks
    /// once more. The weights need not change for this: whoever finds the KV of the load before would find it then too.
    ///
    /// # Errors
    /// When the runtime can't load, the server refuses, or nothing is seen to be cached at all.
    pub async fn check_hot_swap(&self, path: &str) -> Result<SwapReport, DriverError> {
        let file = AdapterFile { name: NAME, path, pin: Pin::Evictable };
        self.load(&file).await?;
        let found = self.swap(&file).await;
        let unloaded = self.unload(NAME).await;
        let (before, after) = found?;
        unloaded?;
        let finding = if after > 0 { SwapFinding::NameAndPath } else { SwapFinding::EachLoad };
        Ok(SwapReport { finding, before, after })
    }

    async fn swap(&self, file: &AdapterFile<'_>) -> Result<(u32, u32), DriverError> {
        let before = self.warmed(Some(NAME), "swap").await?;
        self.unload(NAME).await?;
        self.load(file).await?;
        Ok((before, self.cached(Some(NAME), "swap").await?))
    }
}
