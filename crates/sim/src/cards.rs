//! Cards whose datasheet numbers are known: `data/cards.json`.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Numbers of one accelerator card: speeds from its datasheet (dense bf16, SXM where there are several), memory as its
/// driver reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The name that commands and profiles use.
    pub name: String,
    /// Memory that the driver reports, MiB: a little less than what the datasheet says.
    pub memory_mib: u64,
    /// Peak of dense bf16 arithmetic, flop/s.
    pub flops_bf16: f64,
    /// Peak memory bandwidth, bytes/s.
    pub bytes_per_s: f64,
    /// Peak of the host link in one direction, bytes/s.
    pub pcie_bytes_per_s: f64,
}

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/cards.json")).expect("data/cards.json is a list of cards")
});

/// Every known card, in name order.
#[must_use]
pub fn cards() -> &'static [Card] {
    &CARDS
}

/// The card of this name.
#[must_use]
pub fn card(name: &str) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_in_name_order() {
        assert!(cards().iter().map(|card| &card.name).is_sorted());
        assert!(card("h100").is_some() && card("nope").is_none());
    }
}
