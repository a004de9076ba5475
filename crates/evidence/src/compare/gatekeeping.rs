//! Families after the primary one: each is tested once every test before it is significant.

use super::cells::Level;
use super::contrast::Adjusted;
use super::{ComparisonRule, Contrast, Pair, overall};
use crate::Multiplicity;
use acb_stats::serial_gatekeeping;

/// The named metrics in their order, each over all levels, with p-values adjusted behind the gates before them; none where
/// the rule is another, or where levels may not be mixed.
pub(super) fn families(
    levels: &[Level<'_>],
    (primary, pairs): (&[&Contrast], &[Pair]),
    rule: &ComparisonRule,
) -> Vec<Contrast> {
    if rule.multiplicity != Multiplicity::Gatekeeping || primary.is_empty() {
        return Vec::new();
    }
    let of_metric = |metric: &String| match levels {
        [level] => level.contrasts(metric, pairs, rule.test()),
        _ => overall::overall(levels, metric, pairs, rule.test()),
    };
    let mut families: Vec<Vec<Contrast>> = rule.named.iter().map(of_metric).collect();
    let differences = behind_gates(primary, &families, |contrast| contrast.p);
    // A gate before equality is the same: a family is reached once everything before it is significant as a difference.
    let equalities = behind_gates(primary, &families, |contrast| contrast.p_equivalence);
    for (family, (p, p_equivalence)) in families.iter_mut().zip(differences.iter().zip(&equalities)) {
        let size = family.len();
        for (contrast, (p, p_equivalence)) in family.iter_mut().zip(p.iter().zip(p_equivalence)) {
            contrast.settle(Adjusted { p: *p, p_equivalence: *p_equivalence }, size, rule);
        }
    }
    families.into_iter().flatten().collect()
}

/// Adjusted p-values of each family behind the differences of the families before it.
fn behind_gates(
    primary: &[&Contrast],
    families: &[Vec<Contrast>],
    p: fn(&Contrast) -> Option<f64>,
) -> Vec<Vec<f64>> {
    let difference = |contrast: &Contrast| contrast.p.unwrap_or(1.0);
    let mut gates: Vec<Vec<f64>> = vec![primary.iter().map(|contrast| difference(contrast)).collect()];
    let mut adjusted = Vec::new();
    for family in families {
        let own: Vec<f64> = family.iter().map(|contrast| p(contrast).unwrap_or(1.0)).collect();
        let before = gates.iter().map(Vec::as_slice).chain([own.as_slice()]).collect::<Vec<_>>();
        let seen = serial_gatekeeping(&before).expect("the tests give p-values between 0 and 1");
        adjusted.push(seen.into_iter().next_back().unwrap_or_default());
        gates.push(family.iter().map(difference).collect());
    }
    adjusted
}
