//! Checks that several policies' parameters share.

use crate::{Information, RoutingError};
use acb_types::Nanos;
use std::ops::RangeInclusive;

/// A parameter that is to be checked, and whose it is.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) owner: &'static str,
    pub(super) parameter: &'static str,
    pub(super) value: f64,
}

impl Parameter {
    pub(super) fn at_least_zero(self) -> Result<(), RoutingError> {
        self.within(0.0..=f64::MAX, "a finite number of at least 0")
    }

    pub(super) fn at_least_one(self) -> Result<(), RoutingError> {
        self.within(1.0..=f64::MAX, "a finite number of at least 1")
    }

    pub(super) fn positive_count(self) -> Result<(), RoutingError> {
        self.within(1.0..=f64::MAX, "at least 1")
    }

    pub(super) fn share(self) -> Result<(), RoutingError> {
        self.within(0.0..=1.0, "between 0 and 1")
    }

    pub(super) fn within(
        self,
        possible: RangeInclusive<f64>,
        allowed: &'static str,
    ) -> Result<(), RoutingError> {
        let Self { owner, parameter, value } = self;
        if possible.contains(&value) {
            return Ok(());
        }
        Err(RoutingError::Parameter { owner, parameter, value, allowed })
    }
}

/// An interval of scrapes in milliseconds.
pub(super) fn check_interval(interval_ms: Parameter) -> Result<(), RoutingError> {
    interval_ms.within(0.0..=1e12, "from 0 to 1e12")
}

/// What is seen by scrapes of this interval in milliseconds; 0 is the true state.
pub(super) fn scraped_every(interval_ms: f64) -> Information {
    // An impossible interval is refused by the check, and must not panic before it.
    match Nanos::from_millis_f64(interval_ms.max(0.0)) {
        Nanos::ZERO => Information::TrueState,
        interval_ns => Information::Scraped { interval_ns },
    }
}
