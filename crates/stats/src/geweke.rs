//! Is the start of a series like its end? Geweke's comparison, for requests within a run.

use crate::error::{check_finite, check_size};
use crate::{StatsError, mean, variance};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Batches in the first tenth; the last half has five times as many of the same length.
const FIRST_BATCHES: usize = 10;

/// The start of a series against its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geweke {
    /// Mean of the first tenth minus mean of the last half.
    pub difference: f64,
    /// The difference over its standard error.
    pub t: f64,
    /// Two-sided p.
    pub p: f64,
}

/// Geweke's comparison (1992) of the first tenth with the last half. The variance of each mean is that of batch
/// means, since neighbouring requests are alike, and the degrees of freedom are Welch's (1947). Valid when a batch, a
/// hundredth of the series, is longer than requests stay alike.
///
/// # Errors
/// When there are fewer than 200 observations, one is not finite, or all batches have the same mean.
pub fn geweke(series: &[f64]) -> Result<Geweke, StatsError> {
    check_finite(series)?;
    check_size("a comparison of start and end", series.len(), 20 * FIRST_BATCHES)?;
    let batch = series.len() / (10 * FIRST_BATCHES);
    let means = |part: &[f64]| -> Vec<f64> {
        part.chunks_exact(batch).map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect()
    };
    let start = means(&series[..FIRST_BATCHES * batch]);
    let end = means(&series[series.len() - 5 * FIRST_BATCHES * batch..]);
    let (a, b) = (variance(&start)? / start.len() as f64, variance(&end)? / end.len() as f64);
    if a + b == 0.0 {
        return Err(StatsError::NoSpread { have: series.len() });
    }
    let freedom = (a + b).powi(2) / (a * a / (start.len() as f64 - 1.0) + b * b / (end.len() as f64 - 1.0));
    let law = StudentsT::new(0.0, 1.0, freedom).expect("Welch's degrees of freedom are at least 9");
    let difference = mean(&start)? - mean(&end)?;
    let t = difference / (a + b).sqrt();
    Ok(Geweke { difference, t, p: 2.0 * law.cdf(-t.abs()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autocorrelation::tests::series;

    #[test]
    fn without_a_trend_it_rejects_as_rarely_as_it_says() {
        for correlation in [0.0, 0.5] {
            let trials = 1500;
            let rejected = (0..trials)
                .filter(|seed| geweke(&series(*seed, 2000, correlation)).unwrap().p <= 0.05)
                .count() as f64;
            let share = rejected / trials as f64;
            assert!(share < 0.05 + 0.03 && share > 0.02, "correlation {correlation}: {share}");
        }
    }

    #[test]
    fn a_high_start_is_found() {
        let high: Vec<f64> = series(3, 1000, 0.3)
            .into_iter()
            .enumerate()
            .map(|(i, x)| x + if i < 100 { 3.0 } else { 0.0 })
            .collect();
        let seen = geweke(&high).unwrap();
        assert!(seen.p < 1e-4 && seen.difference > 2.0, "{seen:?}");
    }

    #[test]
    fn start_and_end_are_as_by_hand() {
        // First twenty alternate 0 and 2 in pairs, so that batch means do: mean 1, variance 10/9. The last hundred: 0.
        let pairs = (0..20).map(|i| if i / 2 % 2 == 0 { 0.0 } else { 2.0 });
        let x: Vec<f64> = pairs.chain([0.0; 180]).collect();
        let seen = geweke(&x).unwrap();
        assert!((seen.difference - 1.0).abs() < 1e-12 && (seen.t - 3.0).abs() < 1e-12, "{seen:?}");
        // Nine degrees of freedom; t = 3: two-sided p 0.01496 (tables: 0.0149).
        assert!((seen.p - 0.014_96).abs() < 5e-5, "{seen:?}");
    }

    #[test]
    fn what_is_too_short_or_constant_is_refused() {
        assert!(matches!(geweke(&[1.0; 199]), Err(StatsError::NotEstimable { needed: 200, .. })));
        assert!(matches!(geweke(&[1.0; 200]), Err(StatsError::NoSpread { .. })));
        assert!(geweke(&[f64::INFINITY; 200]).is_err());
    }
}
