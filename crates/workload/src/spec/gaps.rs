//! The law of the gaps between arrivals, for whoever checks that it was kept.

use super::{Arrivals, Sessions, WorkloadSpec};

/// How requests were asked to arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// Requests per second, where they are the same throughout and known.
    pub rate_rps: Option<f64>,
    /// Coefficient of variation of gamma-distributed gaps, 1 for Poisson, 0 for even ones; `None` for another law.
    pub cv: Option<f64>,
    /// Whether arrivals wait for no answer. (Later turns of a session do, whatever this says.)
    pub open_loop: bool,
}

impl WorkloadSpec {
    /// How requests were asked to arrive. Turns of sessions leave no law for the gaps of all requests.
    #[must_use]
    pub fn gaps(&self) -> Gaps {
        let plan = self.plan();
        let (rate_rps, cv) = match (plan.sessions, plan.arrivals) {
            (Sessions::Turns(_), _) => (None, None),
            (_, Arrivals::Constant { rate_rps }) => (Some(rate_rps), Some(0.0)),
            (_, Arrivals::Poisson { rate_rps }) => (Some(rate_rps), Some(1.0)),
            (_, Arrivals::Gamma { rate_rps, cv }) => (Some(rate_rps), Some(cv)),
            (_, Arrivals::OnOff { .. } | Arrivals::Closed { .. } | Arrivals::Trace { .. }) => (None, None),
        };
        Gaps { rate_rps, cv, open_loop: !matches!(plan.arrivals, Arrivals::Closed { .. }) }
    }
}
