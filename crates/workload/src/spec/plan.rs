//! A spec with its defaults filled in: the one place where they are decided.

use super::{
    Arrivals, CountLaw, Drift, Isolation, Kind, LayoutChoice, NamedBy, Popularity, PopularityOrder,
    WorkloadSpec,
};

/// How requests group into sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sessions {
    /// So many labels, one drawn for each request.
    Labels(u32),
    /// A new session at every arrival, with so many dependent turns.
    Turns(CountLaw),
}

/// How often each task is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TaskLaw {
    /// One law throughout.
    Steady(Popularity),
    /// One law for the first half of the requests and another for the second.
    Halves([Popularity; 2]),
    /// Any task but the one before, all alike.
    Churn,
}

/// Everything that a workload needs to know, nothing optional that has a default.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub kind: Kind,
    pub requests: u64,
    pub arrivals: Arrivals,
    pub sessions: Sessions,
    pub session_popularity: Popularity,
    pub think_ms: f64,
    pub tenants: u32,
    pub tenant_popularity: Popularity,
    pub trust_groups: u32,
    pub isolation: Isolation,
    pub tasks: TaskLaw,
    pub order: PopularityOrder,
    pub drift: Option<Drift>,
    pub stickiness: f64,
    pub named_by: NamedBy,
    pub documents: u32,
    pub document_popularity: Popularity,
    pub document_tokens: u32,
    pub shared_fraction: f64,
    pub layout: LayoutChoice,
    pub prompt_tokens: CountLaw,
    /// None: as recorded in the trace.
    pub output_tokens: Option<CountLaw>,
    /// None: as the trace or the row says.
    pub max_output_tokens: Option<u32>,
}

impl WorkloadSpec {
    pub(crate) fn plan(&self) -> Plan {
        let kind = self.kind;
        let uniform = || Popularity::Uniform {};
        let decays = matches!(kind, Kind::RegimeZipfian);
        let session_default = if decays { Popularity::Zipf { s: 1.2 } } else { uniform() };
        let document_default = if decays { Popularity::Linear {} } else { uniform() };
        let fraction_default = if kind == Kind::ControlledOverlap { 1.0 } else { 0.0 };
        Plan {
            kind,
            requests: self.requests,
            arrivals: self.arrivals.unwrap_or_else(|| default_arrivals(kind)),
            sessions: self.sessions_plan(),
            session_popularity: self.session_popularity.clone().unwrap_or(session_default),
            think_ms: self.think_ms.unwrap_or(if kind == Kind::RegimeBurstySession { 100.0 } else { 1000.0 }),
            tenants: self.tenants,
            tenant_popularity: self.tenant_popularity.clone().unwrap_or_else(uniform),
            trust_groups: self.trust_groups.unwrap_or(self.tenants),
            isolation: self.isolation,
            tasks: self.task_law(),
            order: self.popularity_order.unwrap_or(PopularityOrder::ById),
            drift: self.drift,
            stickiness: self.stickiness.unwrap_or(0.0),
            named_by: self.adapter_named_by,
            documents: self.documents.unwrap_or_else(|| default_documents(kind)),
            document_popularity: self.document_popularity.clone().unwrap_or(document_default),
            document_tokens: self.document_tokens.unwrap_or(if kind == Kind::AgentSession {
                90
            } else {
                180
            }),
            shared_fraction: self.shared_prefix_fraction.unwrap_or(fraction_default),
            layout: self.layout.unwrap_or_else(|| default_layout(kind)),
            prompt_tokens: self.prompt_tokens.unwrap_or(SLORA_LENGTHS),
            output_tokens: self.output_tokens.or_else(|| default_output(kind)),
            max_output_tokens: self.max_output_tokens.or_else(|| default_max_output(kind)),
        }
    }

    fn sessions_plan(&self) -> Sessions {
        match (self.turns, self.kind) {
            (Some(turns), _) => Sessions::Turns(turns),
            (None, Kind::AgentSession) => Sessions::Turns(CountLaw::Fixed { value: 5 }),
            (None, Kind::RegimeBurstySession) => Sessions::Turns(CountLaw::Uniform { min: 4, max: 8 }),
            (None, _) => Sessions::Labels(self.sessions.unwrap_or(8)),
        }
    }

    fn task_law(&self) -> TaskLaw {
        if let Some(popularity) = &self.popularity {
            return TaskLaw::Steady(popularity.clone());
        }
        match self.kind {
            Kind::SharedDocQa => TaskLaw::Steady(weights([1, 0, 0, 0])),
            Kind::AgentSession => TaskLaw::Steady(weights([1, 1, 1, 0])),
            Kind::PromptLayoutAblation => TaskLaw::Steady(weights([1, 1, 0, 0])),
            Kind::RegimeZipfian => TaskLaw::Steady(weights([12, 6, 3, 1])),
            Kind::RegimePhaseShift => TaskLaw::Halves([weights([6, 4, 1, 0]), weights([0, 1, 4, 6])]),
            Kind::RegimeAdversarialChurn => TaskLaw::Churn,
            _ => TaskLaw::Steady(Popularity::Uniform {}),
        }
    }
}

/// Lengths of S-LoRA's synthetic suites: uniform on [8, 512).
const SLORA_LENGTHS: CountLaw = CountLaw::Uniform { min: 8, max: 511 };

fn weights(of_four: [u32; 4]) -> Popularity {
    Popularity::Weights { weights: of_four.map(f64::from).to_vec() }
}

fn default_arrivals(kind: Kind) -> Arrivals {
    if kind == Kind::Trace { Arrivals::Trace { speed: 1.0 } } else { Arrivals::Poisson { rate_rps: 1.0 } }
}

fn default_documents(kind: Kind) -> u32 {
    match kind {
        Kind::MixedTasksSameDoc | Kind::ControlledOverlap | Kind::PromptLayoutAblation => 1,
        Kind::RegimeUniform | Kind::RegimeZipfian | Kind::RegimeBurstySession | Kind::RegimePhaseShift => 8,
        _ => 2,
    }
}

fn default_layout(kind: Kind) -> LayoutChoice {
    match kind {
        Kind::LowOverlapControl => LayoutChoice::InstructionFirst,
        Kind::PromptLayoutAblation | Kind::RegimeAdversarialChurn => LayoutChoice::Both,
        _ => LayoutChoice::DocumentFirst,
    }
}

fn default_output(kind: Kind) -> Option<CountLaw> {
    match kind {
        Kind::Trace => None,
        Kind::MultiLora => Some(SLORA_LENGTHS),
        _ => Some(CountLaw::Lognormal { mean: 32.0, cv: 0.5 }),
    }
}

fn default_max_output(kind: Kind) -> Option<u32> {
    match kind {
        Kind::Trace | Kind::JsonlEval => None,
        Kind::MultiLora => Some(512),
        _ => Some(64),
    }
}
