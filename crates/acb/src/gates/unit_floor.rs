//! *unit floor*: the unit of analysis is the block, and a paired test of too few blocks can't reach its level.

use super::{Verdict, note, pass, refuse};
use crate::experiment::Experiment;

const GATE: &str = "unit-floor";

pub(super) fn verdict(experiment: &Experiment) -> Verdict {
    let blocks = experiment.blocks.len();
    let alpha = experiment.spec.decision_rule.alpha;
    // With several levels the primary family is each contrast over all of them: its size is the number of contrasts.
    let contrasts = experiment.spec.contrasts().len();
    if contrasts == 0 {
        return note(GATE, "no contrast is tested", "name contrasts under decision_rule to test something");
    }
    let (needed, needed_for_all) = (floor(alpha), floor(alpha / contrasts as f64));
    let smallest = 2.0_f64.powi(1 - blocks as i32);
    if blocks < needed {
        return refuse(
            GATE,
            format!(
                "{blocks} blocks: the smallest two-sided p that an exact sign-flip test can give is {smallest:.3}, \
                 above alpha {alpha}"
            ),
            format!("plan at least {needed} seeds"),
        );
    }
    match blocks < needed_for_all {
        true => note(
            GATE,
            format!(
                "{blocks} blocks reach alpha {alpha} in one comparison (smallest p {smallest:.4}), but Holm's first \
                 step over {contrasts} comparisons needs p <= {:.5}",
                alpha / contrasts as f64
            ),
            format!("{needed_for_all} seeds let every comparison count on its own"),
        ),
        false => pass(GATE, format!("{blocks} blocks; {contrasts} comparisons; smallest p {smallest:.5}")),
    }
}

/// Fewest blocks with 2 / 2^n <= alpha.
fn floor(alpha: f64) -> usize {
    (1..=64).find(|&n| 2.0_f64.powi(1 - n) <= alpha).unwrap_or(64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_blocks_can_never_reach_five_percent_and_six_can() {
        assert_eq!(floor(0.05), 6);
        assert_eq!(floor(0.01), 8);
    }
}
