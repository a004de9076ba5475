//! Quality-adjusted goodput as the original harness computed it, before and from July 2026.

use super::QagDefinition;
use super::rows::Rows;

/// Both definitions over the rows of a run; `None` without a bound, a duration, or the quality of every answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Qag {
    /// Goodput times the mean quality of all answers.
    pub product: f64,
    /// Sum of the qualities of on-time answers, over time.
    pub on_time: f64,
}

impl Qag {
    pub(super) fn of(rows: &Rows, slo_ttft_ms: Option<f64>, seconds: Option<f64>) -> Option<Self> {
        let (bound, seconds) = (slo_ttft_ms?, seconds.filter(|seconds| *seconds > 0.0)?);
        let quality: Vec<f64> = rows.quality.iter().copied().collect::<Option<_>>()?;
        if quality.is_empty() {
            return None;
        }
        let good = rows.ttft_ms.iter().filter(|ttft| **ttft <= bound).count() as f64;
        let mean = quality.iter().sum::<f64>() / quality.len() as f64;
        let in_time = rows.ttft_ms.iter().zip(&quality).filter(|(ttft, _)| **ttft <= bound);
        Some(Self { product: good / seconds * mean, on_time: in_time.map(|(_, q)| q).sum::<f64>() / seconds })
    }

    /// Which of the two a published value is.
    pub(super) fn definition(self, published: f64) -> QagDefinition {
        match (agree(self.product, published), agree(self.on_time, published)) {
            (true, true) => QagDefinition::Either,
            (true, false) => QagDefinition::GoodputTimesMeanQuality,
            (false, true) => QagDefinition::SumOnTime,
            (false, false) => QagDefinition::Neither,
        }
    }
}

/// Equal to one part in a million: sums in another order differ by less, another definition by more.
pub(super) fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 1e-12
}
