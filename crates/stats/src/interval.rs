//! Two ends and how sure.

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The level that it really has, which for exact methods is at least the one asked for.
    pub level: f64,
}

impl Interval {
    /// Whether the value lies within, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval of a monotone increasing function of the estimate.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high), level: self.level }
    }
}
