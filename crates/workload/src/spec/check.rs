//! Impossible values that a schema can't express, and fields that a kind has no use for.

use super::{Arrivals, CountLaw, Drift, Kind, Popularity, Sessions, WorkloadSpec};
use acb_tasks::{Family, MIN_PASSAGE_TOKENS};

/// A day.
const MAX_THINK_MS: f64 = 86_400_000.0;
/// Greatest number of tokens or turns that a law can name.
const MAX_COUNT: u32 = 1_000_000;

/// A JSON pointer below the workload and what is wrong there.
type Fault = (String, String);

impl WorkloadSpec {
    /// Every fault of the spec that can be seen without the adapters and the files: a JSON pointer below the workload
    /// and a message with the remedy. Empty when there is none.
    #[must_use]
    pub fn check(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        self.check_use(&mut faults);
        self.check_counts(&mut faults);
        self.check_laws(&mut faults);
        self.check_arrivals(&mut faults);
        if faults.is_empty() {
            self.check_halves(&mut faults);
            self.check_facts(&mut faults);
        }
        faults
    }

    /// Fields without use for the kind are faults: silence would pass for effect.
    fn check_use(&self, faults: &mut Vec<Fault>) {
        let kind = self.kind;
        let turns = matches!(self.plan().sessions, Sessions::Turns(_));
        let rows = kind == Kind::JsonlEval;
        let trace_times = self.has_trace_times();
        for (field, given, used) in self.uses(turns) {
            if given && !used {
                faults.push(fault(field, format!("has no effect for {}; remove it", kind.name())));
            }
        }
        if self.trace.is_none() && (kind == Kind::Trace || trace_times) {
            faults.push(fault("trace", "is missing; name the trace's path and format".to_owned()));
        }
        if turns && trace_times {
            let message = "the trace's times are those of requests, and turns make their own; remove turns, use a kind \
                           without them, or an arrival process with a rate";
            faults.push(fault("arrivals", message.to_owned()));
        }
        if self.dataset_path.is_none() && rows {
            faults.push(fault("dataset_path", "is missing; name the file of rows".to_owned()));
        }
    }

    /// Fields with a use for some kinds only: name, whether it is given, whether it has a use here.
    fn uses(&self, turns: bool) -> [(&'static str, bool, bool); 18] {
        let kind = self.kind;
        let rows = kind == Kind::JsonlEval;
        let trace = kind == Kind::Trace || self.has_trace_times();
        let fraction = kind == Kind::ControlledOverlap || kind.asks_for_adapters_tasks();
        [
            ("sessions", self.sessions.is_some(), !turns && !rows),
            ("session_popularity", self.session_popularity.is_some(), !turns && !rows),
            ("turns", self.turns.is_some(), !rows && kind != Kind::Trace),
            ("think_ms", self.think_ms.is_some(), turns),
            ("tenant_popularity", self.tenant_popularity.is_some(), !rows),
            ("trust_groups", self.trust_groups.is_some(), !rows),
            ("popularity", self.popularity.is_some(), !kind.fixes_tasks()),
            ("popularity_order", self.popularity_order.is_some(), !kind.fixes_tasks()),
            ("drift", self.drift.is_some(), !kind.fixes_tasks()),
            ("stickiness", self.stickiness.is_some(), !kind.fixes_tasks()),
            ("documents", self.documents.is_some(), kind.draws_documents()),
            ("document_popularity", self.document_popularity.is_some(), kind.draws_documents()),
            ("document_tokens", self.document_tokens.is_some(), kind.has_documents()),
            ("shared_prefix_fraction", self.shared_prefix_fraction.is_some(), fraction),
            ("layout", self.layout.is_some(), kind.has_documents()),
            ("prompt_tokens", self.prompt_tokens.is_some(), kind == Kind::MultiLora),
            ("trace", self.trace.is_some(), trace),
            ("dataset_path", self.dataset_path.is_some(), rows),
        ]
    }

    fn has_trace_times(&self) -> bool {
        matches!(self.arrivals, Some(Arrivals::Trace { .. }))
    }

    fn check_counts(&self, faults: &mut Vec<Fault>) {
        let counts = [
            ("requests", Some(self.requests)),
            ("sessions", self.sessions.map(u64::from)),
            ("tenants", Some(u64::from(self.tenants))),
            ("trust_groups", self.trust_groups.map(u64::from)),
            ("documents", self.documents.map(u64::from)),
            ("document_tokens", self.document_tokens.map(u64::from)),
            ("max_output_tokens", self.max_output_tokens.map(u64::from)),
            ("trace/block_tokens", self.trace.as_ref().map(|trace| u64::from(trace.block_tokens))),
        ];
        for (field, count) in counts {
            if count == Some(0) {
                faults.push(fault(field, "is 0; it must be at least 1".to_owned()));
            }
        }
        if self.trust_groups.is_some_and(|groups| groups > self.tenants) {
            let message =
                format!("exceeds the {} tenants; a tenant belongs to one trust group", self.tenants);
            faults.push(fault("trust_groups", message));
        }
        if self.document_tokens.is_some_and(|tokens| tokens > 100_000) {
            faults.push(fault("document_tokens", "exceeds 100000; make the document shorter".to_owned()));
        }
        if self.kind == Kind::RegimePhaseShift && self.plan().documents < 2 {
            faults.push(fault(
                "documents",
                "regime_phase_shift needs 2 or more, a half for each phase".to_owned(),
            ));
        }
        let share = |field, value: Option<f64>, faults: &mut Vec<Fault>| {
            if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
                faults.push(fault(field, "must be a number from 0 to 1".to_owned()));
            }
        };
        share("stickiness", self.stickiness, faults);
        share("shared_prefix_fraction", self.shared_prefix_fraction, faults);
        if self.think_ms.is_some_and(|think| !(0.0..=MAX_THINK_MS).contains(&think)) {
            faults.push(fault(
                "think_ms",
                format!("must be a number of milliseconds from 0 to {MAX_THINK_MS}"),
            ));
        }
    }

    fn check_laws(&self, faults: &mut Vec<Fault>) {
        for (field, law) in [
            ("turns", self.turns),
            ("prompt_tokens", self.prompt_tokens),
            ("output_tokens", self.output_tokens),
        ] {
            if let Some((place, message)) = law.and_then(|law| law.fault()) {
                faults.push(fault(&format!("{field}/{place}"), message));
            }
        }
        let plan = self.plan();
        // The adapters' tasks are not known here.
        let families = (!self.kind.asks_for_adapters_tasks()).then_some(Family::ALL.len() as u32);
        for (field, law, n) in [
            ("popularity", &self.popularity, families),
            ("session_popularity", &self.session_popularity, self.sessions.or(Some(8))),
            ("tenant_popularity", &self.tenant_popularity, Some(self.tenants)),
            ("document_popularity", &self.document_popularity, Some(plan.documents)),
        ] {
            if let Some((place, message)) = law.as_ref().and_then(|law| law.fault(n)) {
                faults.push(fault(&format!("{field}/{place}"), message));
            }
        }
        if let Some(Drift::Rotate { every_s, .. } | Drift::Reshuffle { every_s }) = self.drift {
            if !(1e-3..=1e9).contains(&every_s) {
                faults
                    .push(fault("drift/every_s", "must be a number of seconds from 0.001 to 1e9".to_owned()));
            }
            if matches!(plan.arrivals, Arrivals::Closed { .. }) {
                let message = "can't be combined with closed arrivals: what is asked for would depend on how fast \
                               the arm answers; use an open arrival process";
                faults.push(fault("drift", message.to_owned()));
            }
        }
    }

    fn check_arrivals(&self, faults: &mut Vec<Fault>) {
        let rate = |rate_rps| ("rate_rps", rate_rps, 1e-6..=1e6);
        let numbers = match self.plan().arrivals {
            Arrivals::Constant { rate_rps } | Arrivals::Poisson { rate_rps } => vec![rate(rate_rps)],
            Arrivals::Gamma { rate_rps, cv } => vec![rate(rate_rps), ("cv", cv, 0.01..=100.0)],
            Arrivals::OnOff { rate_rps, on_s, off_s } => {
                vec![rate(rate_rps), ("on_s", on_s, 1e-3..=1e9), ("off_s", off_s, 0.0..=1e9)]
            }
            Arrivals::Closed { users, think_ms } => {
                vec![("users", f64::from(users), 1.0..=1e6), ("think_ms", think_ms, 0.0..=MAX_THINK_MS)]
            }
            Arrivals::Trace { speed } => vec![("speed", speed, 1e-6..=1e6)],
        };
        for (field, value, range) in numbers {
            if !range.contains(&value) {
                let (least, most) = (range.start(), range.end());
                let message = format!("is {value}; it must be a number from {least} to {most}");
                faults.push(fault(&format!("arrivals/{field}"), message));
            }
        }
    }

    /// Both phases of a shift need a document that is asked about.
    fn check_halves(&self, faults: &mut Vec<Fault>) {
        let Some(Popularity::Weights { weights }) = &self.document_popularity else { return };
        let (first, second) = weights.split_at(weights.len() / 2);
        let empty = |half: &[f64]| !half.iter().any(|&weight| weight > 0.0);
        if self.kind == Kind::RegimePhaseShift && (empty(first) || empty(second)) {
            let message = "leave a phase without documents; give each half a positive weight";
            faults.push(fault("document_popularity/weights", message.to_owned()));
        }
    }

    /// A document must state what is asked: a whole section in one of its parts.
    fn check_facts(&self, faults: &mut Vec<Fault>) {
        let plan = self.plan();
        if !plan.kind.has_documents() {
            return;
        }
        let shared = match plan.kind {
            Kind::ControlledOverlap => {
                (f64::from(plan.document_tokens) * plan.shared_fraction).round() as u32
            }
            _ => plan.document_tokens,
        };
        let own = plan.document_tokens - shared;
        if shared.max(own) < MIN_PASSAGE_TOKENS {
            let message = format!(
                "gives documents of {shared} shared and {own} own tokens, and a part that states a fact of each kind \
                 has {MIN_PASSAGE_TOKENS}: questions would have no answer; make documents longer"
            );
            faults.push(fault("document_tokens", message));
        }
    }
}

impl CountLaw {
    /// The least number that it gives.
    pub(crate) fn least(&self) -> u32 {
        match *self {
            Self::Fixed { value } => value,
            Self::Uniform { min, .. } => min,
            Self::Lognormal { .. } | Self::Geometric { .. } => 1,
        }
    }

    fn fault(&self) -> Option<(&'static str, String)> {
        let mean_fault = |mean: f64| !(1.0..=1e6).contains(&mean);
        match *self {
            Self::Fixed { value: 0 } => Some(("value", "is 0; it must be at least 1".to_owned())),
            Self::Uniform { min: 0, .. } => Some(("min", "is 0; it must be at least 1".to_owned())),
            Self::Uniform { min, max } if max < min => {
                Some(("max", format!("is {max}, below min {min}; swap them or raise it")))
            }
            Self::Fixed { value: most } if most > MAX_COUNT => Some(("value", too_large(most))),
            Self::Uniform { max: most, .. } if most > MAX_COUNT => Some(("max", too_large(most))),
            Self::Lognormal { mean, .. } | Self::Geometric { mean } if mean_fault(mean) => {
                Some(("mean", format!("is {mean}; it must be a number from 1 to 1000000")))
            }
            Self::Lognormal { cv, .. } if !(0.0..=100.0).contains(&cv) => {
                Some(("cv", format!("is {cv}; it must be a number from 0 to 100")))
            }
            _ => None,
        }
    }
}

impl Popularity {
    /// What is wrong with the law for `n` things; `n` is not always known yet.
    fn fault(&self, n: Option<u32>) -> Option<(&'static str, String)> {
        match self {
            Self::Zipf { s } if !(0.0..=20.0).contains(s) => {
                Some(("s", format!("is {s}; it must be a number from 0 to 20")))
            }
            Self::SloraPower { alpha } if !(*alpha > 0.0 && *alpha <= 1.0) => {
                Some(("alpha", format!("is {alpha}; it must be above 0 and at most 1 (1 is uniform)")))
            }
            Self::PunicaGeometric { alpha } if !(*alpha > 1.0 && *alpha <= 1000.0) => {
                Some(("alpha", format!("is {alpha}; it must be above 1 and at most 1000")))
            }
            Self::Weights { weights } => weights_fault(weights, n).map(|message| ("weights", message)),
            _ => None,
        }
    }
}

fn too_large(number: u32) -> String {
    format!("is {number}; it must be at most {MAX_COUNT}")
}

fn weights_fault(weights: &[f64], n: Option<u32>) -> Option<String> {
    if let Some(bad) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        return Some(format!("holds {bad}; weights are 0 or more"));
    }
    let sum: f64 = weights.iter().sum();
    if !(sum > 0.0 && sum.is_finite()) {
        return Some("add up to nothing; at least one must be positive".to_owned());
    }
    let n = n.filter(|&n| n as usize != weights.len())?;
    Some(format!("are {} for {n} things; give one for each", weights.len()))
}

fn fault(field: &str, message: String) -> Fault {
    (format!("/{field}"), message)
}
