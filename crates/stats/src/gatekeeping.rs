//! Families of tests in an order that was fixed in advance: a later one counts only when the earlier ones are won.

use crate::{StatsError, holm};

/// Serial gatekeeping (Westfall and Krishen 2001; Dmitrienko and others 2010, "Multiple testing problems in
/// pharmaceutical statistics", chapter 5): adjusted p-values per family, in the order of the input. A family is
/// tested at the full level, Holm within, once every test of the families before it is significant. So an adjusted
/// value is never below the largest of the families before. The family-wise error over all families is kept. A gate
/// that is passed or not (isolation, validity) is a family with p 0 or 1; an empty family lets everything pass.
///
/// # Errors
/// When a p-value is not in 0 to 1.
pub fn serial_gatekeeping(families: &[&[f64]]) -> Result<Vec<Vec<f64>>, StatsError> {
    let mut gate: f64 = 0.0;
    let mut adjusted = Vec::with_capacity(families.len());
    for family in families {
        let family: Vec<f64> = holm(family)?.into_iter().map(|p| p.max(gate)).collect();
        gate = family.iter().copied().fold(gate, f64::max);
        adjusted.push(family);
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lost_gate_closes_what_comes_after_it() {
        // Isolation and validity passed, one of two primary tests lost: the secondary one can't be won.
        let seen = serial_gatekeeping(&[&[0.0], &[0.0], &[0.01, 0.2], &[0.001]]).unwrap();
        assert_eq!(seen, [vec![0.0], vec![0.0], vec![0.02, 0.2], vec![0.2]]);
        let closed = serial_gatekeeping(&[&[1.0], &[0.001]]).unwrap();
        assert_eq!(closed, [vec![1.0], vec![1.0]]);
    }

    #[test]
    fn an_open_gate_costs_nothing() {
        let seen = serial_gatekeeping(&[&[0.0, 0.0], &[], &[0.01, 0.04, 0.03]]).unwrap();
        assert_eq!(seen[2], holm(&[0.01, 0.04, 0.03]).unwrap());
        assert_eq!(serial_gatekeeping(&[]).unwrap(), Vec::<Vec<f64>>::new());
        assert!(serial_gatekeeping(&[&[0.5], &[1.5]]).is_err());
    }

    proptest! {
        #[test]
        fn adjusted_values_never_fall_from_family_to_family(
            families in prop::collection::vec(prop::collection::vec(0.0..=1.0f64, 1..4), 1..4),
        ) {
            let given: Vec<&[f64]> = families.iter().map(Vec::as_slice).collect();
            let seen = serial_gatekeeping(&given).unwrap();
            for (before, after) in seen.iter().zip(&seen[1..]) {
                let highest = before.iter().copied().fold(0.0, f64::max);
                prop_assert!(after.iter().all(|p| *p >= highest && *p <= 1.0));
            }
            for (family, adjusted) in families.iter().zip(&seen) {
                prop_assert!(family.iter().zip(adjusted).all(|(p, adjusted)| adjusted >= p));
            }
        }
    }
}
