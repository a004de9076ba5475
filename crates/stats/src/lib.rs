//! Numbers to estimates: quantiles, paired tests, intervals, multiplicity.
//!
//! Numbers only: no other crate of the project, no clock, no file. Where chance is needed, its source is an argument.
//! What a sample is too small for is [`StatsError::NotEstimable`] with the size that would do, never a number.

mod error;
mod goodness;
mod histogram;
mod interval;
mod multiplicity;
mod non_negative;
mod normal;
mod proportion;
mod quantile;
mod sign_flip;
mod signed_rank;
mod spread;
mod t_test;

pub use error::StatsError;
pub use goodness::{KsTest, kolmogorov_smirnov, unit_gamma_cdf};
pub use histogram::Histogram;
pub use interval::Interval;
pub use multiplicity::{benjamini_hochberg, blocks_needed, hochberg, holm};
pub use non_negative::non_negative_least_squares;
pub use proportion::{clopper_pearson, wilson};
pub use quantile::{
    QuantileInterval, order_statistic_interval, quantile_inverted, quantile_linear, samples_needed,
};
pub use sign_flip::{Draws, Sides, SignFlip, TestMethod, sign_flip};
pub use signed_rank::{SignedRank, hodges_lehmann, hodges_lehmann_interval, wilcoxon};
pub use spread::{coefficient_of_variation, gini, index_of_dispersion, jain, mean, variance};
pub use t_test::{PairedT, paired_t};
