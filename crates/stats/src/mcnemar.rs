//! Paired yes-or-no outcomes: McNemar's exact test.

use crate::StatsError;
use crate::error::{BETA_LIMIT, check_limit, check_size};
use statrs::distribution::{Binomial, DiscreteCDF};

/// Two-sided p of McNemar's test (1947) in its exact form: of the pairs in which only one of the two succeeded, `only_a`
/// and `only_b`, each is as likely either way. Pairs that agree don't count.
///
/// # Errors
/// `NotEstimable` when all pairs agree; when more than 20 million differ.
pub fn mcnemar(only_a: u64, only_b: u64) -> Result<f64, StatsError> {
    let pairs = only_a.saturating_add(only_b);
    check_limit("McNemar's test (counted in pairs that differ)", pairs as usize, BETA_LIMIT)?;
    check_size("McNemar's test (counted in pairs that differ)", pairs.min(1) as usize, 1)?;
    let law = Binomial::new(0.5, pairs).expect("a half and a count make a binomial distribution");
    Ok((2.0 * law.cdf(only_a.min(only_b))).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_equals_that_of_statsmodels() {
        // shared/data/statistics-vectors.json: `mcnemar_exact_b3_c12`.
        assert!((mcnemar(3, 12).unwrap() - 0.035_156_25).abs() < 1e-12);
        assert_eq!(mcnemar(3, 12), mcnemar(12, 3));
    }

    #[test]
    fn a_tie_is_no_evidence_and_agreement_no_test() {
        assert_eq!(mcnemar(5, 5), Ok(1.0));
        assert!((mcnemar(0, 5).unwrap() - 0.0625).abs() < 1e-12, "five pairs can't reach 5 %");
        assert!(matches!(mcnemar(0, 0), Err(StatsError::NotEstimable { needed: 1, .. })));
    }
}
