//! Why there is no number.

/// Why an estimate can't be given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// The sample is too small for what is asked.
    #[error("not estimable: {what} needs at least {needed} observations, there are {have}")]
    NotEstimable {
        /// What was asked for.
        what: &'static str,
        /// Observations that there are.
        have: usize,
        /// The least that would do.
        needed: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {value}; only finite numbers can be compared")]
    NotFinite {
        /// Its position, from 0.
        index: usize,
        /// What it is.
        value: f64,
    },
    /// A parameter lies outside its range.
    #[error("{name} is {value}, but must lie in {range}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// What it is.
        value: f64,
        /// Where it must lie.
        range: &'static str,
    },
    /// All observations are the same, so that nothing can be said about their spread.
    #[error("not estimable: all {have} observations are equal")]
    NoSpread {
        /// Observations that there are.
        have: usize,
    },
    /// A series has no stretch that is steady to its end.
    #[error(
        "the series does not settle: its steadiest end starts after observation {cut} of {have}, \
         past the middle; measure for longer"
    )]
    NotSettled {
        /// Observations that there are.
        have: usize,
        /// Observations that would have to be left out.
        cut: usize,
    },
    /// The sample is larger than the method can take in reasonable time.
    #[error("{what} takes at most {limit} observations, there are {have}")]
    TooMany {
        /// What was asked for.
        what: &'static str,
        /// Observations that there are.
        have: usize,
        /// The most that it takes.
        limit: usize,
    },
}

/// Refuses NaN and infinity.
pub(crate) fn check_finite(values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index, value: values[index] }),
        None => Ok(()),
    }
}

/// Observations up to which statrs' incomplete beta function is exact for every quantile. It sums 140 terms; for the
/// median of 1e8 observations that is no longer enough, and the interval would come out wrong.
pub(crate) const BETA_LIMIT: usize = 20_000_000;

/// Refuses a sample that is too large.
pub(crate) fn check_limit(what: &'static str, have: usize, limit: usize) -> Result<(), StatsError> {
    if have <= limit { Ok(()) } else { Err(StatsError::TooMany { what, have, limit }) }
}

/// Refuses a level that is not strictly between 0 and 1.
pub(crate) fn check_level(name: &'static str, value: f64) -> Result<(), StatsError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(StatsError::OutOfRange { name, value, range: "0 to 1, both excluded" })
}

/// Refuses what is not a positive finite number.
pub(crate) fn check_positive(name: &'static str, value: f64) -> Result<(), StatsError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(StatsError::OutOfRange { name, value, range: "the positive numbers" })
}

/// Refuses a sample that is too small.
pub(crate) fn check_size(what: &'static str, have: usize, needed: usize) -> Result<(), StatsError> {
    if have >= needed { Ok(()) } else { Err(StatsError::NotEstimable { what, have, needed }) }
}
