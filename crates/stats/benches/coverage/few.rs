//! Few blocks: intervals of a centre, paired tests, equivalence, power.

use crate::chance::{LAWS, Law, covers, head, rates, row};
use acb_stats::{
    Bootstrap, Draws, Sides, StatsError, hodges_lehmann_interval, minimal_effect, paired_t, rank_tost,
    sign_flip, tost, wilcoxon,
};

const BLOCKS: [usize; 4] = [6, 8, 12, 20];

/// Resamples where they are drawn.
const DRAWS: u64 = 1999;

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// Coverage of the true centre at nominal 95 %.
pub fn intervals(trials: u32) {
    head(
        "Coverage of the centre by intervals at nominal 95 %",
        &["blocks follow", "blocks", "t", "percentile", "BCa", "Hodges-Lehmann", "its own level"],
    );
    for law in LAWS {
        for n in BLOCKS {
            let mut level = 0.0;
            let seen = rates(trials, 1, |chance| {
                let x = chance.sample(law, n);
                let draws = Draws { count: DRAWS, bits: &mut || chance.bits() };
                let bootstrap = Bootstrap::new(&[&x], &mean, draws);
                let of = |interval: fn(&Bootstrap, f64) -> Result<_, StatsError>| match &bootstrap {
                    Ok(bootstrap) => interval(bootstrap, 0.95),
                    Err(error) => Err(error.clone()),
                };
                let ranks = hodges_lehmann_interval(&x, 0.95);
                level = ranks.as_ref().map_or(0.0, |ranks| 100.0 * ranks.level);
                [
                    covers(paired_t(&x, 0.95).map(|test| test.interval), law.mean()),
                    covers(of(Bootstrap::percentile), law.mean()),
                    covers(of(Bootstrap::bca), law.mean()),
                    covers(ranks, law.pseudo_median()),
                ]
            });
            row(&[law.name().to_owned(), n.to_string()], &[&seen[..], &[level]].concat());
        }
    }
    println!();
}

/// Rejections at 5 % of the three paired tests, of these differences.
fn rejections(d: &[f64]) -> [bool; 3] {
    let draws = Draws { count: 0, bits: &mut || 0 };
    [
        sign_flip(d, Sides::Two, draws).is_ok_and(|test| test.p <= 0.05),
        wilcoxon(d, Sides::Two).is_ok_and(|test| test.p <= 0.05),
        paired_t(d, 0.95).is_ok_and(|test| test.p <= 0.05),
    ]
}

/// Both arms are the same: at most 5 % may be rejected.
pub fn tests(trials: u32) {
    head(
        "False alarms at 5 % when both arms are the same (A/A)",
        &["blocks follow", "blocks", "sign-flip", "Wilcoxon", "t"],
    );
    for law in LAWS {
        for n in BLOCKS {
            let seen = rates(trials, 2, |chance| rejections(&chance.same_arms(law, n)));
            row(&[law.name().to_owned(), n.to_string()], &seen);
        }
    }
    println!();
}

/// The true difference lies on the margin: at most 5 % may be called equivalent.
pub fn equivalence(trials: u32) {
    head(
        "False equivalence at 5 % when the difference is the margin",
        &["blocks follow", "blocks", "TOST by t", "TOST by ranks"],
    );
    // Wide enough that the other side never decides.
    let margin = 20.0;
    for law in LAWS {
        for n in BLOCKS {
            let seen = rates(trials, 3, |chance| {
                let d: Vec<f64> = chance.same_arms(law, n).iter().map(|d| d + margin).collect();
                [tost, rank_tost].map(|test| test(&d, margin, 0.05).is_ok_and(|test| test.p() <= 0.05))
            });
            row(&[law.name().to_owned(), n.to_string()], &seen);
        }
    }
    println!();
}

/// How often an effect is found that the t test finds in 80 % of the cases.
pub fn power(trials: u32) {
    head(
        "Power at the t test's minimal effect for 80 % (normal differences)",
        &["blocks", "effect (deviations)", "sign-flip", "Wilcoxon", "t"],
    );
    for n in BLOCKS {
        let effect = minimal_effect(n as f64, 0.05, 0.8).unwrap_or(f64::NAN);
        let seen = rates(trials, 4, |chance| {
            rejections(&chance.sample(Law::Normal, n).iter().map(|x| x + effect).collect::<Vec<_>>())
        });
        row(&[n.to_string(), format!("{effect:.2}")], &seen);
    }
    println!();
}
