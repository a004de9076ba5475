//! Loads on a scripted server, with everything that came of them kept in memory.

use acb_fake::shapes::{Script, ShapeOptions, ShapeServer};
use acb_live::check::{GapLaw, Thresholds};
use acb_live::load::{AnswerLength, Api, Control, PromptForm};
use acb_live::load::{Bodies, Dialect, Limits, Load, LoadEnd, Rate, Retries, Served, Sink, run};
use acb_live::{ClientOptions, Target, Text};
use acb_routing::{
    CostModel, PolicySpec, PrefixIndexSpec, RoundRobinSpec, Router, RouterContext, RoutingRow,
};
use acb_types::{AdapterRole, Adapters, Nanos, QualityTable, Seed, Slo, TaskId};
use acb_workload::{Arrivals, CountLaw, Kind, NamedBy, Workload, WorkloadContext, WorkloadSpec};
use std::io;
use std::sync::Arc;

/// Keeps everything, until `room` rows of requests are there.
#[derive(Default)]
pub struct Kept {
    pub served: Vec<Served>,
    pub routed: Vec<RoutingRow>,
    pub room: Option<usize>,
}

impl Sink for Kept {
    fn served(&mut self, served: &Served) -> io::Result<()> {
        if self.room == Some(self.served.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.served.push(served.clone());
        Ok(())
    }

    fn routed(&mut self, row: &RoutingRow) -> io::Result<()> {
        self.routed.push(row.clone());
        Ok(())
    }
}

impl Kept {
    /// How often each ending occurred.
    pub fn count(&self, class: &str) -> usize {
        self.served.iter().filter(|served| served.last().ending.class() == class).count()
    }
}

pub fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// First token after `ttft` ms, then one each `itl` ms.
pub fn script(ttft: u64, itl: u64, tokens: u32) -> Script {
    Script { ttft_ns: ms(ttft), itl_ns: ms(itl), tokens, ..Script::default() }
}

pub fn server(options: impl Into<ShapeOptions>) -> ShapeServer {
    ShapeServer::launch(options.into()).unwrap()
}

/// Adapters `a0`, `a1`, ..., one for each of as many tasks.
pub fn catalogue(adapters: u32) -> Arc<Adapters> {
    let entry = |i| (format!("a{i}"), 8, 1, AdapterRole::Specialist(TaskId(i)));
    Arc::new(Adapters::new((0..adapters).map(entry)).unwrap())
}

/// Requests of 8 tokens for 16 under these arrivals, each naming an adapter.
pub fn spec(arrivals: Arrivals, requests: u64) -> WorkloadSpec {
    let fixed = |value| Some(CountLaw::Fixed { value });
    WorkloadSpec {
        arrivals: Some(arrivals),
        requests,
        prompt_tokens: fixed(8),
        output_tokens: fixed(16),
        adapter_named_by: NamedBy::Client,
        ..WorkloadSpec::of(Kind::MultiLora)
    }
}

pub fn workload(spec: &WorkloadSpec, adapters: &Adapters) -> Workload {
    let tasks: Vec<String> = (0..adapters.len()).map(|i| format!("t{i}")).collect();
    let context = WorkloadContext { tasks: &tasks, adapters, context_tokens: 8192 };
    Workload::new(spec, &context, Seed(11)).unwrap()
}

pub fn context(replicas: u32, adapters: &Arc<Adapters>) -> RouterContext {
    RouterContext {
        merged: std::collections::BTreeMap::new(),
        replicas,
        adapters: adapters.clone(),
        prior: Arc::new(QualityTable::from_fn(adapters.len(), adapters.len(), |_, _| 0.5).unwrap()),
        slo: Slo { ttft_ns: Some(ms(500)), tpot_ns: None, e2e_ns: None },
        costs: CostModel::default(),
        prefix: PrefixIndexSpec::default(),
        seed: Seed(11),
        truth: None,
    }
}

/// An open-loop load of three adapters on these servers in turn.
pub fn load(spec: &WorkloadSpec, servers: &[&ShapeServer]) -> Load<Workload> {
    let policy = PolicySpec::RoundRobin(RoundRobinSpec::default());
    load_by(&policy, spec, servers, 3)
}

pub fn load_by(
    policy: &PolicySpec,
    spec: &WorkloadSpec,
    servers: &[&ShapeServer],
    adapters: u32,
) -> Load<Workload> {
    let adapters = catalogue(adapters);
    let rate = match spec.arrivals {
        Some(Arrivals::Poisson { rate_rps } | Arrivals::Constant { rate_rps }) => {
            Some(Rate::steady(rate_rps).unwrap())
        }
        _ => None,
    };
    let open_loop = !matches!(spec.arrivals, Some(Arrivals::Closed { .. }));
    Load {
        source: workload(spec, &adapters),
        law: GapLaw { rate, cv: Some(1.0), open_loop },
        router: Router::new(policy, context(servers.len() as u32, &adapters)).unwrap(),
        targets: servers.iter().map(|server| Target::parse(&server.url()).unwrap()).collect(),
        client: ClientOptions::default(),
        bodies: Bodies {
            api: Api::Completions,
            dialect: Dialect::Vllm,
            model: "base".into(),
            adapters,
            form: PromptForm::default(),
            length: AnswerLength::default(),
            nonce: Some(1),
            answers: acb_live::load::Answers::Untold,
            texts: None,
        },
        limits: Limits { timeout: ms(60_000), ..Limits::default() },
        text: Text::Dropped,
        retries: Retries::default(),
        scrapes: None,
        threads: 1,
        thresholds: Thresholds::default(),
    }
}

pub fn ran(load: Load<Workload>) -> LoadEnd<Workload, Kept> {
    run(load, Kept::default(), &Control::default()).unwrap()
}
