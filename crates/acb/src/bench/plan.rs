//! From arguments to a load, and from its end to a document.

use super::model::only_model;
use super::recount::Recount;
use super::rows::{Row, jsonl, sharegpt};
use super::source::{BenchSource, Lengths, Timed, row_of};
use super::summary::SummaryDocument;
use crate::cli::{
    ApiName, AskedArgs, BenchArgs, Dataset, Form, Gaps, Runtime, ServerArgs, Stages, TimingArgs,
};
use acb_live::check::{GapLaw, RunCheck, Thresholds};
use acb_live::load::{
    AnswerLength, Answers, Api, Bodies, Dialect, Limits, Load, PromptForm, Rate, Retries, Stage, Staged,
    Texts,
};
use acb_live::{Authorities, ClientOptions, Protocol, Target, Text};
use acb_routing::{CostModel, PolicySpec, PrefixIndexSpec, Router, RouterContext};
use acb_types::{AdapterRole, Adapters, Nanos, QualityTable, Request, Seed, Slo, TaskId};
use acb_workload::trace::{TraceFormat, TraceSpec, info};
use acb_workload::{Arrivals, CountLaw, Kind, NamedBy, Workload, WorkloadContext, WorkloadSpec};
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Sent for so long when nothing else says when to stop.
const USUAL_DURATION: Nanos = Nanos(60_000_000_000);
/// A bound on prompt and answer together that no bench reaches: the server has its own.
const ANY_CONTEXT: u32 = u32::MAX / 2;
/// Wait before the first retry.
const BACKOFF: Nanos = Nanos::from_millis(500);

/// A bench about to start.
pub struct BenchPlan {
    /// What is sent.
    pub load: Load<BenchSource>,
    /// Task names by id.
    pub tasks: Vec<String>,
    /// Adapters.
    pub adapters: Arc<Adapters>,
    /// The load in words.
    pub words: String,
    /// Number of this run in its prompts, if any.
    pub nonce: Option<u64>,
    /// Length of the sending, as far as it is known.
    pub duration: Option<Nanos>,
    /// What its prompts share with each other.
    pub sharing: Sharing,
}

/// What the prompts of one load share with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing: whatever a server finds in its cache was left there by someone else.
    Nothing,
    /// Some of their beginnings, maybe.
    Beginnings,
}

/// `acb bench --json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchDocument {
    /// Version of this program.
    pub program_version: String,
    /// The load in words.
    pub load: String,
    /// Servers, without keys.
    pub servers: Vec<String>,
    /// Routing policy.
    pub policy: String,
    /// Seed.
    pub seed: u64,
    /// Number of this run that went into its prompts; absent with `--same-prompts`.
    pub nonce: Option<u64>,
    /// When it began, ms since 1970.
    pub started_unix_ms: u64,
    /// The figures.
    pub summary: SummaryDocument,
    /// Where no two prompts of the load share anything: the share of prompt tokens that the server had cached all the same, from
    /// an earlier run. Absent where prompts share, or the server never said.
    pub unexpected_cached_share: Option<f64>,
    /// Tokens of the answers by `--tokenizer`, beside the server's count; absent without it.
    pub recount: Option<Recount>,
    /// Whether the client did what was asked of it.
    pub check: RunCheck,
}

/// Reads files and makes everything that a run needs. `nonce` is this run's own number.
///
/// # Errors
/// When the arguments don't make a load, with the argument that is at fault.
pub fn plan(args: &BenchArgs, nonce: u64) -> miette::Result<BenchPlan> {
    let rows = rows(&args.asked.dataset)?;
    let tasks = tasks(&args.asked);
    let adapters = Arc::new(catalogue(&args.asked)?);
    let timing = timing(args)?;
    let spec = workload(args, &timing);
    refuse_faults(&spec)?;
    let context = WorkloadContext { tasks: &tasks, adapters: &adapters, context_tokens: ANY_CONTEXT };
    let workload = Workload::new(&spec, &context, Seed(args.seed)).into_diagnostic()?;
    let timed = match &timing.bent {
        None => Timed::Plain(Box::new(workload)),
        Some(rate) => Timed::Staged(Box::new(Staged::new(workload, rate.clone()))),
    };
    let lengths = if args.asked.output_tokens.is_some() { Lengths::Law } else { Lengths::Rows };
    let nonce = (!args.asked.same_prompts).then_some(nonce);
    let targets = targets(&args.server)?;
    let bodies = bodies(args, &adapters, (rows.clone(), nonce, &targets))?;
    let load = Load {
        source: BenchSource::new(timed, rows, lengths),
        router: router(args, tasks.len(), &adapters)?,
        targets,
        client: ClientOptions::default(),
        bodies,
        limits: limits(args, &timing),
        text: if args.asked.tokenizer.is_some() { Text::Kept } else { Text::Dropped },
        retries: Retries { most: args.server.retries, backoff: BACKOFF },
        scrapes: None,
        threads: args.threads,
        thresholds: Thresholds::default(),
        law: timing.law.clone(),
    };
    let sharing = match args.asked.dataset {
        Dataset::Random(share) if share <= 0.0 => Sharing::Nothing,
        _ => Sharing::Beginnings,
    };
    Ok(BenchPlan { load, tasks, adapters, words: timing.words, nonce, duration: timing.duration, sharing })
}

fn rows(dataset: &Dataset) -> miette::Result<Option<Arc<[Row]>>> {
    let rows = match dataset {
        Dataset::Sharegpt(path) => sharegpt(path)?,
        Dataset::Jsonl(path) => jsonl(path)?,
        Dataset::Random(_) | Dataset::Mooncake(_) | Dataset::Azure(_) => return Ok(None),
    };
    Ok(Some(rows.into()))
}

fn tasks(asked: &AskedArgs) -> Vec<String> {
    if asked.adapters.is_empty() { vec!["base".to_owned()] } else { asked.adapters.clone() }
}

/// One specialist for each task. A server doesn't tell rank and weight of an adapter, and nothing here asks for them.
fn catalogue(asked: &AskedArgs) -> miette::Result<Adapters> {
    let entry = |(id, name): (u32, &String)| (name.clone(), 1, 1, AdapterRole::Specialist(TaskId(id)));
    Adapters::new((0..).zip(&asked.adapters).map(entry)).map_err(|error| miette!("--adapters: {error}"))
}

/// When requests are due, in all the forms in which it is needed.
struct Timing {
    arrivals: Arrivals,
    law: GapLaw,
    bent: Option<Rate>,
    requests: Option<u64>,
    duration: Option<Nanos>,
    words: String,
}

fn timing(args: &BenchArgs) -> miette::Result<Timing> {
    let asked = &args.timing;
    let trace_rows = trace_rows(&args.asked.dataset)?;
    let requests = asked.requests.or(trace_rows);
    let usual = asked.duration.or(if requests.is_none() { Some(USUAL_DURATION) } else { None });
    match (asked.concurrency, &asked.stages, asked.rate, trace_rows) {
        (Some(users), ..) => Ok(closed(asked, users, (requests, usual))),
        (None, Some(Stages(stages)), ..) => staged(asked, stages),
        (None, None, Some(rps), _) => steady(asked, rps, (requests, usual)),
        (None, None, None, Some(rows)) => Ok(traced(asked, rows)),
        (None, None, None, None) => {
            Err(miette!("no load is named; give --rate, --stages, --concurrency or a trace as --dataset"))
        }
    }
}

/// Requests and duration.
type Until = (Option<u64>, Option<Nanos>);

fn closed(asked: &TimingArgs, users: u32, (requests, duration): Until) -> Timing {
    Timing {
        arrivals: Arrivals::Closed { users, think_ms: 0.0 },
        law: GapLaw { rate: None, cv: None, open_loop: false },
        bent: None,
        requests,
        duration,
        words: format!("closed loop of {users} users{}", until(asked, duration)),
    }
}

fn staged(asked: &TimingArgs, stages: &[Stage]) -> miette::Result<Timing> {
    let (cv, name) = cv(asked.arrivals);
    let rate = Rate::new(stages).map_err(|error| miette!("--stages: {error}"))?;
    let duration = Some(asked.duration.map_or(rate.end(), |asked| asked.min(rate.end())));
    Ok(Timing {
        arrivals: arrivals(asked.arrivals, 1.0),
        law: GapLaw { rate: Some(rate.clone()), cv: Some(cv), open_loop: true },
        bent: Some(rate),
        requests: asked.requests,
        duration,
        words: format!("open loop, {name} gaps in {} stages{}", stages.len(), until(asked, duration)),
    })
}

fn steady(asked: &TimingArgs, rps: f64, (requests, duration): Until) -> miette::Result<Timing> {
    let (cv, name) = cv(asked.arrivals);
    let rate = Rate::steady(rps).map_err(|error| miette!("--rate: {error}"))?;
    Ok(Timing {
        arrivals: arrivals(asked.arrivals, rps),
        law: GapLaw { rate: Some(rate), cv: Some(cv), open_loop: true },
        bent: None,
        requests,
        duration,
        words: format!("open loop, {name} gaps, {rps} requests/s{}", until(asked, duration)),
    })
}

fn traced(asked: &TimingArgs, rows: u64) -> Timing {
    Timing {
        arrivals: Arrivals::Trace { speed: 1.0 },
        law: GapLaw { rate: None, cv: None, open_loop: true },
        bent: None,
        requests: asked.requests.or(Some(rows)),
        duration: asked.duration,
        words: format!("open loop, the trace's own times, {rows} rows{}", until(asked, asked.duration)),
    }
}

/// Divided, not multiplied by 1e-9: whole seconds stay whole.
fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn until(asked: &TimingArgs, duration: Option<Nanos>) -> String {
    match (duration, asked.requests) {
        (Some(time), Some(n)) => format!(" for {} s or {n} requests", seconds(time)),
        (Some(time), None) => format!(" for {} s", seconds(time)),
        (None, Some(n)) => format!(" for {n} requests"),
        (None, None) => String::new(),
    }
}

/// Rows of a trace dataset: as many requests can be had from it.
fn trace_rows(dataset: &Dataset) -> miette::Result<Option<u64>> {
    let Some(spec) = trace(dataset) else { return Ok(None) };
    Ok(Some(info(&spec).into_diagnostic()?.rows))
}

fn trace(dataset: &Dataset) -> Option<TraceSpec> {
    match dataset {
        Dataset::Mooncake(path) => Some(TraceSpec::strict(path.clone(), TraceFormat::Mooncake)),
        Dataset::Azure(path) => Some(TraceSpec::strict(path.clone(), TraceFormat::Azure)),
        _ => None,
    }
}

fn cv(gaps: Gaps) -> (f64, String) {
    match gaps {
        Gaps::Constant => (0.0, "even".to_owned()),
        Gaps::Poisson => (1.0, "Poisson".to_owned()),
        Gaps::Gamma(cv) => (cv, format!("gamma (cv {cv})")),
    }
}

fn arrivals(gaps: Gaps, rate_rps: f64) -> Arrivals {
    match gaps {
        Gaps::Constant => Arrivals::Constant { rate_rps },
        Gaps::Poisson => Arrivals::Poisson { rate_rps },
        Gaps::Gamma(cv) => Arrivals::Gamma { rate_rps, cv },
    }
}

fn workload(args: &BenchArgs, timing: &Timing) -> WorkloadSpec {
    let asked = &args.asked;
    let trace = trace(&asked.dataset);
    let kind = if trace.is_some() { Kind::Trace } else { Kind::MultiLora };
    let of_random = |value| if kind == Kind::MultiLora { Some(value) } else { None };
    let output = asked.output_tokens.or(of_random(CountLaw::Fixed { value: 128 }));
    WorkloadSpec {
        requests: timing.requests.unwrap_or(1_000_000_000),
        arrivals: Some(timing.arrivals),
        popularity: Some(asked.popularity.clone()),
        adapter_named_by: if asked.adapters.is_empty() { NamedBy::Router } else { NamedBy::Client },
        shared_prefix_fraction: match asked.dataset {
            Dataset::Random(share) => Some(share),
            _ => None,
        },
        prompt_tokens: of_random(asked.input_tokens.unwrap_or(CountLaw::Fixed { value: 512 })),
        output_tokens: output,
        max_output_tokens: output.map(|_| 1_000_000),
        trace,
        isolation: acb_workload::Isolation::None,
        ..WorkloadSpec::of(kind)
    }
}

fn refuse_faults(spec: &WorkloadSpec) -> miette::Result<()> {
    match spec.check().first() {
        None => Ok(()),
        Some((pointer, message)) => Err(miette!("the load: {} {message}", pointer.trim_start_matches('/'))),
    }
}

fn router(args: &BenchArgs, tasks: usize, adapters: &Arc<Adapters>) -> miette::Result<Router> {
    let name = &args.server.policy;
    let policy = PolicySpec::all().into_iter().find(|policy| policy.name() == name);
    let policy = policy
        .ok_or_else(|| miette!("--policy {name}: not known; `acb list policies` shows what there is"))?;
    let prior = QualityTable::from_fn(tasks, adapters.len(), |_, _| 0.5).into_diagnostic()?;
    let context = RouterContext {
        replicas: args.server.url.len() as u32,
        merged: BTreeMap::new(),
        adapters: adapters.clone(),
        prior: Arc::new(prior),
        slo: Slo { ttft_ns: None, tpot_ns: None, e2e_ns: Some(args.server.timeout) },
        costs: CostModel::default(),
        prefix: PrefixIndexSpec::default(),
        seed: Seed(args.seed),
        truth: None,
    };
    Router::new(&policy, context).map_err(|error| miette!("--policy {name}: {error}"))
}

fn targets(server: &ServerArgs) -> miette::Result<Vec<Target>> {
    let key = server.api_key_env.as_ref().map(|name| key(name)).transpose()?;
    let authorities = server.ca.as_deref().map(authorities).transpose()?;
    let protocol = if server.http2 { Protocol::Http2 } else { Protocol::Http1 };
    let target = |url: &String| {
        let mut target = Target::parse(url).map_err(|error| miette!("--url: {error}"))?;
        target = target.with_protocol(protocol);
        if let Some(authorities) = &authorities {
            target = target.with_authorities(authorities.clone());
        }
        match &key {
            None => Ok(target),
            Some(key) => target.with_api_key(key).map_err(|error| miette!("--api-key-env: {error}")),
        }
    };
    server.url.iter().map(target).collect()
}

fn key(variable: &str) -> miette::Result<String> {
    std::env::var(variable).map_err(|_| {
        miette!("--api-key-env {variable}: there is no such variable, or it is no text; export it")
    })
}

fn authorities(path: &Path) -> miette::Result<Authorities> {
    let pem = std::fs::read(path).map_err(|error| miette!("--ca {}: {error}", path.display()))?;
    Ok(Authorities::Pem(pem))
}

type Said<'a> = (Option<Arc<[Row]>>, Option<u64>, &'a [Target]);

fn bodies(
    args: &BenchArgs,
    adapters: &Arc<Adapters>,
    (rows, nonce, targets): Said<'_>,
) -> miette::Result<Bodies> {
    let (server, asked) = (&args.server, &args.asked);
    let dialect = match server.runtime {
        Runtime::Openai => Dialect::OpenAi,
        Runtime::Vllm => Dialect::Vllm,
        Runtime::Sglang => Dialect::Sglang,
        Runtime::Llamacpp => Dialect::LlamaCpp,
    };
    let adapter_is_model = matches!(dialect, Dialect::OpenAi | Dialect::Vllm) && !adapters.is_empty();
    let model = match (&server.model, targets.first()) {
        (Some(model), _) => model.clone(),
        (None, Some(target)) if !adapter_is_model => only_model(target)?,
        (None, _) => String::new(),
    };
    let api = match server.api {
        ApiName::Completions => Api::Completions,
        ApiName::Chat => Api::Chat,
    };
    let form = match (asked.prompt_form, api) {
        (Some(Form::TokenIds), Api::Chat) => {
            return Err(miette!(
                "--prompt-form token-ids: a chat message is text; use words, or --api completions"
            ));
        }
        (Some(Form::Words), _) | (None, Api::Chat) => PromptForm::Words,
        (Some(Form::TokenIds) | None, Api::Completions) => PromptForm::default(),
    };
    let texts = rows
        .map(|rows| -> Texts { Arc::new(move |request: &Request| row_of(&rows, request).1.text.clone()) });
    Ok(Bodies {
        api,
        dialect,
        model: model.into(),
        adapters: adapters.clone(),
        form,
        length: if asked.stop_early { AnswerLength::UpToBound } else { AnswerLength::AsDrawn },
        nonce,
        answers: Answers::Untold,
        texts,
    })
}

fn limits(args: &BenchArgs, timing: &Timing) -> Limits {
    Limits {
        duration: timing.duration,
        requests: timing.requests,
        max_in_flight: args.timing.max_in_flight,
        warmup: args.timing.warmup,
        timeout: args.server.timeout,
        grace: args.timing.grace,
    }
}
