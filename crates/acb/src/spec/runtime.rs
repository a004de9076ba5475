//! Where an experiment's requests go: to the embedded simulator, or to servers.

use super::ExperimentSpec;
use super::resolve::Finding;
use acb_live::load::Dialect;
use acb_routing::Information;
use acb_sim::CacheCondition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where requests go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RuntimeSpec {
    /// To the embedded simulator.
    #[default]
    Simulated,
    /// To servers that are not known yet; such an experiment can be planned, not run.
    Server(ServerPlan),
    /// To vLLM servers.
    Vllm(LiveSpec),
    /// To SGLang servers.
    Sglang(LiveSpec),
    /// To llama.cpp's `llama-server`.
    Llamacpp(LiveSpec),
    /// To any other servers of the OpenAI API.
    Openai(LiveSpec),
}

/// What a run on servers is estimated to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// Estimated time of one run, s.
    #[schemars(extend("exclusiveMinimum" = 0.0, "maximum" = 1e9))]
    pub seconds_per_run: f64,
    /// GPUs that a run holds.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub gpus: u32,
}

/// Servers, and how they are spoken to. Either they stand (`replicas`) or the program starts them (`command`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveSpec {
    /// URLs of servers that stand, one for each replica of the cluster, in order.
    pub replicas: Vec<String>,
    /// Program and arguments that start one server; `{port}` and `{replica}` (from 0) are filled in.
    pub command: Vec<String>,
    /// Variables of a started server's environment, besides those of this program. They are recorded: put no key here.
    pub env: BTreeMap<String, String>,
    /// Ports of started servers, one for each replica, in order; free ones when empty.
    pub ports: Vec<u16>,
    /// Longest time from the start of a server until it answers and lists its models, s.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub ready_within_s: f64,
    /// Longest time that a started server has to end when it is told to; then it is killed, s.
    #[schemars(range(min = 0.0, max = 3_600))]
    pub stop_within_s: f64,
    /// Name of the base model, as the servers list it; when absent, the only one that they list.
    pub model: Option<String>,
    /// Endpoint that requests go to.
    pub api: ApiSpec,
    /// How prompts are written.
    pub prompt: PromptSpec,
    /// Name of the environment variable that holds the servers' key, if they want one. The key itself reaches no file.
    pub api_key_env: Option<String>,
    /// Longest time from sending a request to the end of its answer, s.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub request_timeout_s: f64,
    /// How long answers may still come after the last request was sent, or the run was stopped, s.
    #[schemars(range(min = 0.0, max = 86_400))]
    pub grace_s: f64,
    /// What is done to the servers' prefix caches before each run.
    pub cache_before_run: CacheBeforeRun,
}

impl Default for LiveSpec {
    fn default() -> Self {
        Self {
            replicas: Vec::new(),
            command: Vec::new(),
            env: BTreeMap::new(),
            ports: Vec::new(),
            ready_within_s: 600.0,
            stop_within_s: 30.0,
            model: None,
            api: ApiSpec::Completions,
            prompt: PromptSpec::TokenIds,
            api_key_env: None,
            request_timeout_s: 600.0,
            grace_s: 30.0,
            cache_before_run: CacheBeforeRun::Reset,
        }
    }
}

/// Endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiSpec {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`, one user message.
    Chat,
}

/// Forms of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptSpec {
    /// Token ids: as many as the workload says, shared exactly as the workload shares them.
    TokenIds,
    /// One common word per token, for chats and for servers that take text alone.
    Words,
}

/// What is done to prefix caches before each run, so that no run finds what another left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheBeforeRun {
    /// Emptied, and a probe proves it; a run whose reset can't be proved does not start.
    Reset,
    /// Left alone: each run writes its own number into its prompts, so that runs share no prefix.
    OtherPrompts,
}

impl RuntimeSpec {
    /// The servers and the way requests are written for them; `None` where there are none.
    #[must_use]
    pub fn live(&self) -> Option<(Dialect, &LiveSpec)> {
        match self {
            Self::Simulated | Self::Server(_) => None,
            Self::Vllm(live) => Some((Dialect::Vllm, live)),
            Self::Sglang(live) => Some((Dialect::Sglang, live)),
            Self::Llamacpp(live) => Some((Dialect::LlamaCpp, live)),
            Self::Openai(live) => Some((Dialect::OpenAi, live)),
        }
    }
}

impl LiveSpec {
    /// Whether this program starts the servers.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        !self.command.is_empty()
    }
}

/// What is wrong with the servers of an experiment.
pub(super) fn check_runtime(spec: &ExperimentSpec) -> Vec<Finding> {
    let Some((dialect, live)) = spec.runtime.live() else { return Vec::new() };
    let mut found = check_counts(spec, live);
    found.extend(check_command(live));
    found.extend(check_words(live));
    found.extend(check_seen(spec));
    found.extend(check_cluster(spec, live));
    if dialect == Dialect::OpenAi && live.cache_before_run == CacheBeforeRun::Reset {
        let message = "a server of kind `openai` has no known way to reset its cache: use `other_prompts`";
        found.push(fault("cache_before_run", message));
    }
    found
}

/// What a running server can't be made to be: factors of the plan that would change nothing.
pub(super) fn check_factors(spec: &ExperimentSpec) -> Vec<Finding> {
    if spec.runtime.live().is_none() {
        return Vec::new();
    }
    let fixed = |path: &&String| {
        let root = path.split('.').next().unwrap_or_default();
        ["cluster", "model", "adapters", "runtime"].contains(&root)
    };
    let message = |path: &String| {
        let pointer = format!("/factors/{}", path.replace('~', "~0").replace('/', "~1"));
        let message = format!(
            "`{path}` belongs to the servers, which a plan can't change while they run: run one sweep for each setting"
        );
        (pointer, message)
    };
    spec.factors.keys().filter(fixed).map(message).collect()
}

fn fault(key: &str, message: impl Into<String>) -> Finding {
    let slash = if key.is_empty() { "" } else { "/" };
    (format!("/runtime{slash}{key}"), message.into())
}

fn check_counts(spec: &ExperimentSpec, live: &LiveSpec) -> Vec<Finding> {
    let (replicas, wanted) = (live.replicas.len(), spec.cluster.replicas);
    let differ = |count: usize| count != 0 && count as u64 != u64::from(wanted);
    let mut found = Vec::new();
    match (replicas > 0, live.is_managed()) {
        (false, false) => {
            let message =
                "no servers: give `replicas` (URLs of servers that stand) or `command` (which starts one)";
            found.push(fault("", message));
        }
        (true, true) => {
            let message = "`replicas` and `command` exclude each other: keep the URLs, or the command";
            found.push(fault("command", message));
        }
        _ => {}
    }
    let counted = [("replicas", replicas, "URLs"), ("ports", live.ports.len(), "ports")];
    for (key, count, what) in counted.into_iter().filter(|(_, count, _)| differ(*count)) {
        let message = format!(
            "runtime.{key} has {count} {what} and cluster.replicas is {wanted}: give one for each replica"
        );
        found.push(fault(key, message));
    }
    let urls = live.replicas.iter().enumerate();
    let wrong = urls.filter_map(|(at, url)| Some((at, acb_live::Target::parse(url).err()?)));
    found.extend(wrong.map(|(at, error)| fault(&format!("replicas/{at}"), error.to_string())));
    found
}

fn check_command(live: &LiveSpec) -> Vec<Finding> {
    if live.is_managed() && !live.command.iter().any(|word| word.contains("{port}")) {
        return vec![fault(
            "command",
            "no word holds `{port}`: tell the server the port that it is to listen on",
        )];
    }
    let has_own = !live.env.is_empty() || !live.ports.is_empty();
    if has_own && !live.is_managed() {
        return vec![fault(
            "",
            "`env` and `ports` are of servers that `command` starts: give it, or leave them out",
        )];
    }
    Vec::new()
}

fn check_words(live: &LiveSpec) -> Vec<Finding> {
    match (live.api, live.prompt) {
        (ApiSpec::Chat, PromptSpec::TokenIds) => {
            vec![fault("prompt", "a chat message is text: use `words`, or `api: completions`")]
        }
        _ => Vec::new(),
    }
}

/// A server shows its state when it is scraped, at an interval, and never as it is at the decision.
fn check_seen(spec: &ExperimentSpec) -> Vec<Finding> {
    let sees_true_state = |arm: &super::ArmSpec| arm.policy.information() == Information::TrueState;
    let arms = spec.arms.iter().enumerate().filter(|(_, arm)| sees_true_state(arm));
    let message = |(at, arm): (usize, &super::ArmSpec)| {
        let message = format!(
            "the arm `{}` sees the servers as they are at each decision, which no server shows: give its policy a \
             scrape interval above 0",
            arm.name
        );
        (format!("/arms/{at}/policy"), message)
    };
    arms.map(message).collect()
}

/// What only the simulator can make of a cluster.
fn check_cluster(spec: &ExperimentSpec, live: &LiveSpec) -> Vec<Finding> {
    let mut found = Vec::new();
    let reset = live.cache_before_run == CacheBeforeRun::Reset;
    let condition = match spec.cluster.cache_condition {
        CacheCondition::Cold => Some("a server's cache can't be emptied before every admission: use `warm`"),
        CacheCondition::PrefixDisabled if reset => Some(
            "a cache that is off can't be seen to be emptied: set runtime.cache_before_run to `other_prompts`",
        ),
        _ => None,
    };
    found.extend(condition.map(|message| ("/cluster/cache_condition".to_owned(), message.to_owned())));
    if let Some(words) = spec.cluster.what_ifs().first() {
        let message = format!("no server does this: {words}; leave it out on servers");
        found.push(("/cluster/what_if".to_owned(), message));
    }
    found
}

fn one() -> u32 {
    1
}
