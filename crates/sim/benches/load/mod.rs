//! A synthetic load for benchmarks: lengths like Splitwise's conversation trace (means of about 1155 tokens in and 211
//! out, both lognormal), Poisson arrivals, prompts that share nothing.

use acb_routing::{LeastInFlightSpec, PolicySpec, Router, RouterContext};
use acb_sim::{
    Cluster, ClusterSpec, Completion, EngineSpec, KvSpec, Run, RunTotals, Service, SglangSpec, Sink, VllmSpec,
};
use acb_types::{
    AdapterId, AdapterRole, Adapters, ContentId, Nanos, Prompt, QualityTable, Request, RequestId, Seed,
    Segment, SessionId, Slo, Stream, TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::{Arrival, RequestSource};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A load and the cluster that serves it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub requests: u64,
    pub replicas: u32,
    pub adapters: u32,
    /// Requests per second of each replica.
    pub rate_rps: f64,
    pub engine: Engine,
}

/// What serves.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    Vllm,
    Sglang,
}

impl Load {
    pub fn new(requests: u64, replicas: u32, adapters: u32) -> Self {
        Self { requests, replicas, adapters, rate_rps: 6.45, engine: Engine::Vllm }
    }

    /// Replicas with 288,000 tokens of KV memory each, eight adapter slots and the Llama-3.1-8B profile.
    fn cluster(&self) -> ClusterSpec {
        let mut spec = ClusterSpec::new(self.replicas, 18_000, "llama-3.1-8b-vllm-0.8.5");
        spec.engine = match self.engine {
            Engine::Vllm => {
                let max_cpu_loras = Some(self.adapters.max(8));
                EngineSpec::Vllm(VllmSpec { max_loras: 8, max_cpu_loras, ..VllmSpec::default() })
            }
            Engine::Sglang => {
                spec.kv = KvSpec::Blocks(288_000);
                EngineSpec::Sglang(SglangSpec::default())
            }
        };
        spec
    }

    /// Serves the load.
    pub fn run(&self) -> (RunTotals, Count) {
        let entry = |i| (format!("a{i}"), 16, 84_000_000, AdapterRole::Placebo);
        let adapters = Arc::new(Adapters::new((0..self.adapters).map(entry)).expect("names differ"));
        let spec = self.cluster();
        let cluster = Cluster::new(&spec, adapters.clone()).expect("the cluster is sound");
        let prior = QualityTable::from_fn(1, adapters.len(), |_, _| 0.5).expect("0.5 is a quality");
        let context = RouterContext {
            merged: Default::default(),
            replicas: self.replicas,
            adapters: adapters.clone(),
            prior: Arc::new(prior),
            slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
            costs: spec.costs(&adapters),
            prefix: spec.prefix_index(),
            seed: Seed(1),
            truth: None,
        };
        let policy = PolicySpec::LeastInFlight(LeastInFlightSpec::default());
        let mut router = Router::new(&policy, context).expect("the policy is sound");
        let (mut source, mut sink) = (Synthetic::new(*self), Count::default());
        let run = Run {
            cluster: &cluster,
            source: &mut source,
            router: &mut router,
            sink: &mut sink,
            mode: Service::Contended,
        };
        (run.run().expect("the source is in order"), sink)
    }
}

/// Counts what comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub completions: u64,
    pub output_tokens: u64,
}

impl Sink for Count {
    fn completed(&mut self, completion: &Completion<'_>) -> ControlFlow<()> {
        self.completions += 1;
        self.output_tokens += u64::from(completion.output_tokens);
        ControlFlow::Continue(())
    }
}

struct Synthetic {
    load: Load,
    stream: Stream,
    next: u64,
    due: Nanos,
}

impl Synthetic {
    fn new(load: Load) -> Self {
        Self { load, stream: Seed(11).stream("synthetic"), next: 0, due: Nanos::ZERO }
    }

    /// Lognormal with this mean and sigma 1, from 1 to `most`.
    fn length(&mut self, mean: f64, most: u32) -> u32 {
        let drawn = (mean.ln() - 0.5 + self.stream.normal()).exp();
        (drawn as u32).clamp(1, most)
    }
}

impl RequestSource for Synthetic {
    fn next_due(&self) -> Option<Nanos> {
        (self.next < self.load.requests).then_some(self.due)
    }

    fn take(&mut self) -> Option<Arrival> {
        let due = self.next_due()?;
        let id = RequestId(self.next);
        let (prompt, answer) = (self.length(1155.0, 16_000), self.length(211.0, 4_000));
        let adapters = u64::from(self.load.adapters);
        let adapter = (adapters > 0).then(|| AdapterId(self.stream.below(adapters) as u32));
        let gap = self.stream.exp1() / (self.load.rate_rps * f64::from(self.load.replicas));
        self.next += 1;
        self.due += Nanos::from_secs_f64(gap);
        let request = Request {
            id,
            due,
            session: SessionId(id.0),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new([Segment { content: ContentId(id.0), tokens: prompt }]),
            max_output_tokens: answer,
            cache_salt: None,
            ask: id.0,
            required_adapter: adapter,
        };
        Some(Arrival { request, truth: Truth { request: id, output_tokens: answer } })
    }

    fn ended(&mut self, _: RequestId, _: Nanos) {}
}
