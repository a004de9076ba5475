//! Numbers to estimates: quantiles, paired tests, intervals, multiplicity, equivalence, stopping, power.
//!
//! Numbers only: no other crate of the project, no clock, no file. Where chance is needed, its source is an argument.
//! What a sample is too small for is [`StatsError::NotEstimable`] with the size that would do, never a number.
//! Which test for which question, and how often intervals really cover: `docs/statistics.md`.

mod arrivals;
mod auc;
mod autocorrelation;
mod bootstrap;
mod confidence_sequence;
mod early_stopping;
mod equivalence;
mod error;
mod gatekeeping;
mod geweke;
mod goodness;
mod harrell_davis;
mod histogram;
mod interval;
mod ks_two_sample;
pub mod linear;
mod mcnemar;
mod multiplicity;
mod non_negative;
mod noncentral_t;
mod normal;
mod power;
mod proportion;
mod quantile;
mod rank_sum;
mod sign_flip;
mod signed_rank;
mod spending;
mod spread;
mod sprt;
mod t_test;
mod trend;
mod verdict;
mod warm_up;

pub use arrivals::arrival_dispersion;
pub use auc::{Auc, auc, hanley_mcneil_error};
pub use autocorrelation::{
    BatchMeans, batch_means, design_effect, effective_size, intraclass_correlation, lag_one_correlation,
};
pub use bootstrap::{Bootstrap, Statistic};
pub use confidence_sequence::{robbins_half_width, t_confidence_sequence};
pub use early_stopping::{EarlyStopping, requests_for_margin};
pub use equivalence::{Equivalence, rank_tost, tost};
pub use error::StatsError;
pub use gatekeeping::serial_gatekeeping;
pub use geweke::{Geweke, geweke};
pub use goodness::{KsTest, kolmogorov_smirnov, unit_gamma_cdf};
pub use harrell_davis::{HarrellDavis, harrell_davis};
pub use histogram::Histogram;
pub use interval::Interval;
pub use ks_two_sample::{KsTwoSample, kolmogorov_smirnov_two_sample};
pub use mcnemar::mcnemar;
pub use multiplicity::{benjamini_hochberg, blocks_needed, hochberg, holm};
pub use non_negative::non_negative_least_squares;
pub use power::{minimal_effect, paired_power, pairs_needed, trials_needed};
pub use proportion::{clopper_pearson, wilson};
pub use quantile::{
    Placement, QuantileInterval, inverted_rank, order_statistic_interval, quantile_inverted, quantile_linear,
    quantile_placed, samples_needed,
};
pub use rank_sum::{RankSum, mann_whitney};
pub use sign_flip::{Draws, Sides, SignFlip, TestMethod, sign_flip};
pub use signed_rank::{SignedRank, hodges_lehmann, hodges_lehmann_interval, wilcoxon, wilcoxon_normal};
pub use spending::Spending;
pub use spread::{coefficient_of_variation, gini, index_of_dispersion, jain, mean, variance};
pub use sprt::sprt_bounds;
pub use t_test::{PairedT, paired_t};
pub use trend::{Trend, mann_kendall};
pub use verdict::Verdict;
pub use warm_up::mser;
