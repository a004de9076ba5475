//! The standard normal distribution, from statrs.

use statrs::distribution::{ContinuousCDF, Normal};

/// The standard normal.
pub(crate) fn standard() -> Normal {
    Normal::new(0.0, 1.0).expect("mean 0 and deviation 1 make a normal distribution")
}

/// The two-sided critical value of a level, such as 1.96 for 0.95.
pub(crate) fn critical(level: f64) -> f64 {
    standard().inverse_cdf(0.5 + level / 2.0)
}
