//! Looking after every block, and stopping at the first that looks good.

use crate::chance::{LAWS, head, rates, row};
use acb_stats::{Spending, StatsError, paired_t, t_confidence_sequence};
use statrs::distribution::{ContinuousCDF, Normal};

const FIRST: usize = 6;
const LAST: usize = 30;

/// Blocks at which the group sequential design looks.
const LOOKS: [usize; 5] = [6, 12, 18, 24, 30];

/// Both arms are the same: how often some look says otherwise.
pub fn looks(trials: u32) {
    head(
        "False alarms over all looks at 5 % when both arms are the same, up to 30 blocks",
        &[
            "blocks follow",
            "t test at each of 25 looks",
            "Lan-DeMets (O'Brien-Fleming), 5 looks",
            "Lan-DeMets (Pocock), 5 looks",
            "t confidence sequence, each look",
        ],
    );
    let shares = LOOKS.map(|look| look as f64 / LAST as f64);
    let boundaries = |spending: Spending| spending.boundaries(&shares, 0.05).unwrap_or_default();
    let (obf, pocock) = (boundaries(Spending::OBrienFleming), boundaries(Spending::Pocock));
    for law in LAWS {
        let seen = rates(trials, 11, |chance| {
            let d = chance.same_arms(law, LAST);
            let p = |n: usize| paired_t(&d[..n], 0.95).map_or(1.0, |test| test.p);
            let crosses =
                |bounds: &[f64]| LOOKS.iter().zip(bounds).any(|(look, bound)| z(p(*look)) >= *bound);
            let excludes = |n: usize| match t_confidence_sequence(&d[..n], 1.0, 0.95) {
                Ok(interval) => !interval.contains(0.0),
                Err(StatsError::NotEstimable { .. }) => false,
                Err(_) => true,
            };
            [(FIRST..=LAST).any(|n| p(n) <= 0.05), crosses(&obf), crosses(&pocock), (2..=LAST).any(excludes)]
        });
        row(&[law.name().to_owned()], &seen);
    }
    println!();
}

/// The |z| of a two-sided p.
fn z(p: f64) -> f64 {
    let standard = Normal::new(0.0, 1.0).expect("mean 0 and deviation 1 make a normal distribution");
    -standard.inverse_cdf(p / 2.0)
}
