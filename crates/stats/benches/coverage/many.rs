//! Many observations: quantiles, shares, areas, correlated series, drift.

use crate::chance::{Chance, Law, covers, head, rates, row};
use acb_stats::{
    Sides, auc, batch_means, clopper_pearson, geweke, harrell_davis, mann_kendall, mser,
    order_statistic_interval, wilson,
};
use statrs::distribution::{ContinuousCDF, Normal};

/// The standard normal's distribution function and quantile.
fn standard() -> Normal {
    Normal::new(0.0, 1.0).expect("mean 0 and deviation 1 make a normal distribution")
}

/// Coverage of quantiles of a lognormal sample.
pub fn quantiles(trials: u32) {
    head(
        "Coverage of quantiles of lognormal observations at nominal 95 % (-: not estimable)",
        &["observations", "quantile", "order statistics", "its own level", "Harrell-Davis"],
    );
    for n in [100, 1000] {
        for q in [0.5, 0.9, 0.99] {
            let Ok(ranks) = order_statistic_interval(n, q, 0.95) else { continue };
            let truth = standard().inverse_cdf(q).exp();
            let [by_rank, smooth] = rates(trials, 5, |chance| {
                let mut x = chance.sample(Law::Lognormal, n);
                x.sort_by(f64::total_cmp);
                let at = |rank: usize| x.get(rank.wrapping_sub(1)).copied();
                let by_rank =
                    at(ranks.low).zip(at(ranks.high)).is_some_and(|(a, b)| a <= truth && truth <= b);
                [by_rank, covers(harrell_davis(&x, q).and_then(|seen| seen.interval(0.95)), truth)]
            });
            let shown =
                |rate: f64, estimable: bool| if estimable { format!("{rate:.1}") } else { "-".to_owned() };
            let bounded = ranks.low >= 1 && ranks.high <= n;
            let long_tail = n as f64 * (1.0 - q) >= 10.0 - 1e-9;
            let own = shown(100.0 * ranks.coverage, bounded);
            println!("| {n} | {q} | {} | {own} | {} |", shown(by_rank, bounded), shown(smooth, long_tail));
        }
    }
    println!();
}

/// Coverage of everything else that has an interval.
pub fn others(trials: u32) {
    head("Coverage of other intervals at nominal 95 %", &["interval", "case", "covered"]);
    let print = |name: &str, case: &str, rate: f64| row(&[name.to_owned(), case.to_owned()], &[rate]);
    for (share, n) in [(0.9, 20), (0.99, 1000)] {
        let [by_score, exact] = rates(trials, 6, |chance| {
            let hits = (0..n).filter(|_| chance.unit() < share).count() as u64;
            [covers(wilson(hits, n, 0.95), share), covers(clopper_pearson(hits, n, 0.95), share)]
        });
        print("Wilson", &format!("share {share} of {n}"), by_score);
        print("Clopper-Pearson", &format!("share {share} of {n}"), exact);
    }
    for n in [20, 50] {
        let apart = 1.19;
        let area = standard().cdf(apart / 2f64.sqrt());
        let [seen] = rates(trials, 7, |chance| {
            let positives: Vec<f64> = chance.sample(Law::Normal, n).iter().map(|x| x + apart).collect();
            let negatives = chance.sample(Law::Normal, n);
            [covers(auc(&positives, &negatives).and_then(|auc| auc.interval(0.95)), area)]
        });
        print("AUC by DeLong", &format!("area {area:.2}, {n} and {n} scores"), seen);
    }
    for (correlation, n) in [(0.6, 2000), (0.95, 2000)] {
        let [batched, naive] = rates(trials.min(2000), 8, |chance| {
            let x = chance.correlated(correlation, n);
            let naive = acb_stats::paired_t(&x, 0.95).map(|test| test.interval);
            [covers(batch_means(&x, 20, 0.95).map(|seen| seen.interval), 0.0), covers(naive, 0.0)]
        });
        let case = format!("mean of {n}, correlation {correlation}");
        print("20 batch means", &case, batched);
        print("t as if independent", &case, naive);
    }
    println!();
}

/// False alarms of the checks that a series is steady.
pub fn drift(trials: u32) {
    head("False alarms of drift checks on steady series (tests at 5 %)", &["check", "series", "alarms"]);
    let print = |name: &str, case: &str, rate: f64| row(&[name.to_owned(), case.to_owned()], &[rate]);
    for n in [6, 8, 12, 20] {
        let trend = |chance: &mut Chance| {
            mann_kendall(&chance.sample(Law::Heavy, n), Sides::Two).is_ok_and(|trend| trend.p <= 0.05)
        };
        let [seen] = rates(trials, 9, |chance| [trend(chance)]);
        print("Mann-Kendall", &format!("{n} blocks"), seen);
    }
    for (correlation, n) in [(0.0, 2000), (0.6, 2000), (0.95, 2000)] {
        let [start, unsettled] = rates(trials.min(2000), 10, |chance| {
            let x = chance.correlated(correlation, n);
            [geweke(&x).is_ok_and(|seen| seen.p <= 0.05), mser(&x, 5).is_err()]
        });
        let case = format!("{n} requests, correlation {correlation}");
        print("Geweke", &case, start);
        print("MSER-5 refuses", &case, unsettled);
    }
    println!();
}
