//! The noncentral t distribution, which statrs lacks.

use crate::normal;
use statrs::distribution::ContinuousCDF;
use statrs::function::gamma::ln_gamma;

/// Steps of the integration: even, for Simpson's rule.
const STEPS: i32 = 4000;

/// P(T <= t) for `T = (Z + delta) / S` with a standard normal Z and S squared a chi-squared over its `freedom`:
/// the normal distribution function, integrated over the law of S. Absolute error below 1e-9.
pub(crate) fn noncentral_t_cdf(t: f64, freedom: f64, delta: f64) -> f64 {
    // ln of the density of S, without the factors that depend on s.
    let constant = 2f64.ln() + 0.5 * freedom * (0.5 * freedom).ln() - ln_gamma(0.5 * freedom);
    let density = |s: f64| {
        // At 0 only one degree of freedom has any density.
        let power = if freedom == 1.0 { 0.0 } else { (freedom - 1.0) * s.ln() };
        (constant + power - 0.5 * freedom * s * s).exp()
    };
    let spread = 12.0 / (2.0 * freedom).sqrt();
    let (low, high) = ((1.0 - spread).max(0.0), 1.0 + spread);
    let step = (high - low) / f64::from(STEPS);
    let term = |i: i32| {
        let s = low + f64::from(i) * step;
        let weight = match i {
            0 | STEPS => 1.0,
            i if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        weight * density(s) * normal::standard().cdf(t * s - delta)
    };
    ((0..=STEPS).map(term).sum::<f64>() * step / 3.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::StudentsT;

    #[test]
    fn it_equals_that_of_scipy() {
        // scipy 1.17.1, nct.cdf(t, freedom, delta).
        for (freedom, delta, t, expected) in [
            (4.0, 1.5, 2.0, 0.618_928_925_139_654_8),
            (7.0, 3.2, 2.36, 0.215_590_795_867_001_7),
            (1.0, 0.5, 1.0, 0.592_747_736_440_029_3),
            (30.0, -1.0, 0.2, 0.884_530_757_799_422_8),
            (32.367, 2.9, 2.035, 0.196_537_559_022_834_18),
        ] {
            let seen = noncentral_t_cdf(t, freedom, delta);
            assert!((seen - expected).abs() < 1e-9, "{freedom} {delta} {t}: {seen}");
        }
    }

    #[test]
    fn without_an_effect_it_is_students() {
        for freedom in [1.0, 2.0, 5.0, 19.0, 200.0] {
            let law = StudentsT::new(0.0, 1.0, freedom).unwrap();
            for t in [-3.0, 0.0, 0.7, 2.5] {
                let seen = noncentral_t_cdf(t, freedom, 0.0);
                assert!((seen - law.cdf(t)).abs() < 1e-9, "{freedom} {t}: {seen}");
            }
        }
    }
}
