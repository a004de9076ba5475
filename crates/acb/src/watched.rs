//! A source that keeps the structure of what it hands out.

use acb_types::{Nanos, RequestId};
use acb_workload::{Arrival, RequestSource, Structure, Workload, WorkloadError};

/// A workload whose structure and realised popularity are kept.
pub struct Watched {
    workload: Workload,
    structure: Structure,
}

impl Watched {
    /// Watches a workload from its first request.
    #[must_use]
    pub fn new(workload: Workload) -> Self {
        Self { workload, structure: Structure::default() }
    }

    /// Why the source ended before its time: a file that changed after it was checked.
    #[must_use]
    pub fn fault(&self) -> Option<&WorkloadError> {
        self.workload.fault()
    }

    /// What was handed out, as the manifest shows it.
    ///
    /// # Panics
    /// When the report has no form in JSON, which only our own bug can cause.
    #[must_use]
    pub fn structure(&self) -> serde_json::Value {
        serde_json::to_value(self.structure.finish()).expect("a report of finite numbers has a form in JSON")
    }
}

impl RequestSource for Watched {
    fn next_due(&self) -> Option<Nanos> {
        self.workload.next_due()
    }

    fn take(&mut self) -> Option<Arrival> {
        let arrival = self.workload.take()?;
        self.structure.add(&arrival.request);
        Some(arrival)
    }

    fn ended(&mut self, request: RequestId, at: Nanos) {
        self.workload.ended(request, at);
    }
}
