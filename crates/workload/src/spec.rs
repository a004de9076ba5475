//! What a user writes about a workload.

mod arrivals;
mod check;
mod expect;
mod gaps;
mod kind;
mod law;
mod plan;

pub use arrivals::Arrivals;
pub use gaps::Gaps;
pub use kind::Kind;
pub use law::{CountLaw, Drift, Popularity, PopularityOrder};
pub(crate) use plan::{Plan, Sessions, TaskLaw};

use crate::trace::TraceSpec;
use acb_tasks::Family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Order of a prompt's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayoutChoice {
    /// Document, instruction, question.
    DocumentFirst,
    /// Instruction, question, document: requests about one document share no prefix beyond the instruction.
    InstructionFirst,
    /// One or the other for each request, by a fair coin that nothing else depends on.
    Both,
}

/// Whose cached state a request may share: becomes the cache salt that is sent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Everybody's: no salt.
    None,
    /// Its tenant's.
    Tenant,
    /// Its trust group's.
    #[default]
    TrustGroup,
}

/// Who decides which adapter serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The router, from the task.
    #[default]
    Router,
    /// The client: it names the specialist of its task, and the router decides only where it runs.
    Client,
}

/// A workload: what is asked for, by whom, how long it is and when it comes. Only `kind` is required; a field that
/// the kind has no use for is an error, never ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// What is asked for.
    pub kind: Kind,
    /// Requests in all.
    #[serde(default = "forty")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub requests: u64,
    /// When requests are due. Default: Poisson at 1 request per second; the trace's own times for kind `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Sessions that requests belong to, each drawn from them independently of everything else; they wait for
    /// nothing. Default 8. Not with `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub sessions: Option<u32>,
    /// How often each session sends a request. Default uniform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_popularity: Option<Popularity>,
    /// Turns of a session: a turn is sent when the one before has ended and the think time has passed. Default: 5 for
    /// `agent_session`, uniform from 4 to 8 for `regime_bursty_session`; otherwise sessions are labels without turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<CountLaw>,
    /// Mean think time between turns in milliseconds, exponentially distributed; 0 is none. Default 1000, and 100 for
    /// `regime_bursty_session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400_000))]
    pub think_ms: Option<f64>,
    /// Tenants. A session belongs to one tenant, whatever it asks for.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tenants: u32,
    /// How many of the sessions each tenant has. Default uniform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_popularity: Option<Popularity>,
    /// Trust groups. A tenant belongs to one of them, dealt at random in equal parts. Default: one for each tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub trust_groups: Option<u32>,
    /// Who may share cached state.
    #[serde(default)]
    pub isolation: Isolation,
    /// How often each task is asked for. Default by kind: uniform; for `regime_zipfian` weights 12, 6, 3, 1; for
    /// `agent_session` qa, json and summary alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popularity: Option<Popularity>,
    /// Which task has which rank. Default `by_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popularity_order: Option<PopularityOrder>,
    /// How popularity moves. Default: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Probability that a request asks for the same task as the request of its session before. Default 0, which keeps
    /// session and task independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub stickiness: Option<f64>,
    /// Who decides which adapter serves a request.
    #[serde(default)]
    pub adapter_named_by: NamedBy,
    /// Documents that requests share. Default 2; 1 for `mixed_tasks_same_doc`, `controlled_overlap` and
    /// `prompt_layout_ablation`; 8 for the regimes that draw them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub documents: Option<u32>,
    /// How often each document is asked about. Default uniform; linear decay for `regime_zipfian`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_popularity: Option<Popularity>,
    /// Tokens of a document. Default 180; 90 for `agent_session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub document_tokens: Option<u32>,
    /// Share of the tokens that are the same for all requests of a document (`controlled_overlap`, default 1) or of a
    /// task (`multi_lora` and traces without prefix blocks, default 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub shared_prefix_fraction: Option<f64>,
    /// Order of a prompt's parts. Default `document_first`; `instruction_first` for `low_overlap_control`; `both` for
    /// `prompt_layout_ablation` and `regime_adversarial_churn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutChoice>,
    /// Prompt tokens of `multi_lora`. Default uniform from 8 to 511, as in S-LoRA's suites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<CountLaw>,
    /// Tokens of an answer, cut at `max_output_tokens`. Default lognormal with mean 32 and cv 0.5; uniform from 8 to
    /// 511 for `multi_lora`; the recorded length for `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<CountLaw>,
    /// Most tokens that an answer may have. Default 64; 512 for `multi_lora`; the recorded length for `trace`; the
    /// row's own for `jsonl_eval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_output_tokens: Option<u32>,
    /// The trace file, for kind `trace` and for arrivals of kind `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSpec>,
    /// The rows of `jsonl_eval`. A relative path starts from the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_path: Option<PathBuf>,
}

impl WorkloadSpec {
    /// A workload of this kind with every other field at its default.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            requests: forty(),
            arrivals: None,
            sessions: None,
            session_popularity: None,
            turns: None,
            think_ms: None,
            tenants: two(),
            tenant_popularity: None,
            trust_groups: None,
            isolation: Isolation::default(),
            popularity: None,
            popularity_order: None,
            drift: None,
            stickiness: None,
            adapter_named_by: NamedBy::default(),
            documents: None,
            document_popularity: None,
            document_tokens: None,
            shared_prefix_fraction: None,
            layout: None,
            prompt_tokens: None,
            output_tokens: None,
            max_output_tokens: None,
            trace: None,
            dataset_path: None,
        }
    }

    /// Names of the tasks that requests ask for; a [`acb_types::TaskId`] indexes them. The four families, or for
    /// `multi_lora` and `trace` the adapters' tasks, each once, in the order given.
    #[must_use]
    pub fn task_names(&self, adapters_tasks: &[String]) -> Vec<String> {
        if !self.kind.asks_for_adapters_tasks() {
            return Family::ALL.iter().map(|family| family.name().to_owned()).collect();
        }
        let mut seen = std::collections::BTreeSet::new();
        adapters_tasks.iter().filter(|task| seen.insert(*task)).cloned().collect()
    }

    /// Requests that a run will see.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Files that the workload reads: what they hold belongs to the identity of a run.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let trace = self.trace.as_ref().map(|trace| trace.path.clone());
        trace.into_iter().chain(self.dataset_path.clone()).collect()
    }

    /// Reads a file from another place; what it holds is the same.
    pub fn relocate(&mut self, path: &Path, place: &Path) {
        let trace = self.trace.as_mut().map(|trace| &mut trace.path);
        let named = trace.into_iter().chain(self.dataset_path.as_mut());
        named.filter(|named| *named == path).for_each(|named| *named = place.to_path_buf());
    }
}

fn forty() -> u64 {
    40
}

fn two() -> u32 {
    2
}
