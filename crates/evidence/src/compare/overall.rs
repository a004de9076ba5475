//! One effect per pair over all levels: the mean over levels of the log ratio, block by block.
//!
//! Levels of one block share its seed and are not independent of each other, so a block still gives one number.

use super::cells::Level;
use super::contrast::{Test, Values};
use super::{Contrast, Pair};
use std::collections::BTreeMap;

/// The pairs over all levels; none where there is but one level, or levels that may not be mixed.
pub(super) fn overall(levels: &[Level<'_>], metric: &str, pairs: &[Pair], test: Test) -> Vec<Contrast> {
    let mixed = levels.windows(2).any(|two| {
        let key = |l: &Level<'_>| (l.experiment_digest.clone(), l.source, l.engine.clone());
        key(&two[0]) != key(&two[1])
    });
    if levels.len() < 2 || mixed {
        return Vec::new();
    }
    let contrast = |pair: &Pair| match log_ratios(levels, metric, pair) {
        Ok(by_block) => Contrast::of_log_ratios(metric, pair, &by_block, test),
        Err(why) => Contrast::without_number(metric, pair, why),
    };
    pairs.iter().map(contrast).collect()
}

/// Mean log ratio by block, over the blocks that have both arms at every level.
fn log_ratios(levels: &[Level<'_>], metric: &str, pair: &Pair) -> Result<BTreeMap<u64, f64>, String> {
    let mut sums: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for level in levels {
        let arm =
            |name: &str| level.arm(name).ok_or_else(|| format!("arm \"{name}\" has no run at some level"));
        let values = Values::of(metric, arm(&pair.arm)?, arm(&pair.against)?)?;
        if let Some(why) = values.zero() {
            return Err(format!("{why} of some level; see the levels"));
        }
        for (block, (a, b)) in values.blocks.iter().zip(values.pairs()) {
            let sum = sums.entry(*block).or_default();
            *sum = (sum.0 + (a / b).ln(), sum.1 + 1);
        }
    }
    let whole = sums.into_iter().filter(|(_, (_, count))| *count == levels.len());
    Ok(whole.map(|(block, (sum, count))| (block, sum / count as f64)).collect())
}
