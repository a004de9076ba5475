//! A test bed: a list of requests, a least-in-flight router, and a sink that keeps everything.

use crate::{Cluster, ClusterSpec, Completion, Profile, ProfileSpec, Run, RunTotals, Service, Sink};
use acb_routing::{Decision, LeastInFlightSpec, PolicySpec, Router, RouterContext};
use acb_types::{
    AdapterId, AdapterLoad, AdapterRole, Adapters, ContentId, Nanos, Outcome, Prompt, QualityTable,
    ReplicaId, Request, RequestId, Seed, Segment, ServerRow, SessionId, Slo, TaskId, TenantId, TrustGroupId,
    Truth,
};
use acb_workload::{Arrival, RequestSource};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a test says of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub due: u64,
    pub runs: Vec<(u64, u32)>,
    pub answer: u32,
    pub adapter: Option<u32>,
    pub salt: Option<u64>,
}

/// A request of `prompt` tokens of content `content`.
pub fn ask(due: u64, content: u64, prompt: u32, answer: u32) -> Ask {
    Ask { due, runs: vec![(content, prompt)], answer, adapter: None, salt: None }
}

impl Ask {
    pub fn with(mut self, adapter: u32) -> Self {
        self.adapter = Some(adapter);
        self
    }

    pub fn salted(mut self, salt: u64) -> Self {
        self.salt = Some(salt);
        self
    }

    pub fn arrival(&self, id: u64) -> Arrival {
        let run = |&(c, tokens): &(u64, u32)| Segment { content: ContentId(c), tokens };
        let request = Request {
            id: RequestId(id),
            due: Nanos(self.due),
            session: SessionId(id),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new(self.runs.iter().map(run)),
            max_output_tokens: self.answer,
            cache_salt: self.salt,
            ask: id,
            required_adapter: self.adapter.map(AdapterId),
        };
        Arrival { truth: Truth { request: request.id, output_tokens: self.answer }, request }
    }
}

/// Requests in order of due time.
pub struct List(VecDeque<Arrival>);

impl List {
    pub fn new(asks: &[Ask]) -> Self {
        let mut sorted: Vec<&Ask> = asks.iter().collect();
        sorted.sort_by_key(|ask| ask.due);
        Self((0..).zip(sorted).map(|(id, ask)| ask.arrival(id)).collect())
    }
}

impl RequestSource for List {
    fn next_due(&self) -> Option<Nanos> {
        self.0.front().map(|a| a.request.due)
    }
    fn take(&mut self) -> Option<Arrival> {
        self.0.pop_front()
    }
    fn ended(&mut self, _: RequestId, _: Nanos) {}
}

/// A completion that outlives the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub id: u64,
    pub decision: Decision,
    pub replica: Option<ReplicaId>,
    pub outcome: Outcome,
    pub sent: u64,
    pub admitted: Option<u64>,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub itl_max: Option<u64>,
    pub output: u32,
    pub hit: Option<u32>,
    pub load: Option<AdapterLoad>,
    pub preemptions: u32,
    pub overtaken: u32,
    pub ended_at: u64,
}

#[derive(Default)]
pub struct Keep {
    pub completions: Vec<Kept>,
    pub rows: Vec<ServerRow>,
}

impl Sink for Keep {
    fn completed(&mut self, c: &Completion<'_>) -> ControlFlow<()> {
        self.completions.push(Kept {
            id: c.request.id.0,
            decision: c.decision,
            replica: c.replica,
            outcome: c.outcome,
            sent: c.sent.0,
            admitted: c.admitted.map(|t| t.0),
            first: c.first_token.map(|t| t.0),
            last: c.last_token.map(|t| t.0),
            itl_max: c.itl_max.map(|t| t.0),
            output: c.output_tokens,
            hit: c.prefix_hit_tokens,
            load: c.adapter_load,
            preemptions: c.preemptions,
            overtaken: c.overtaken,
            ended_at: c.ended_at.0,
        });
        ControlFlow::Continue(())
    }
    fn server(&mut self, row: &ServerRow) {
        self.rows.push(row.clone());
    }
}

/// What a run gave, completions by id.
pub struct Ran {
    pub by_id: Vec<Kept>,
    pub rows: Vec<ServerRow>,
    pub totals: RunTotals,
}

/// Round numbers: 1 ms a step, 10 us a prompt token, 20 us a row, 100 ns a context token, 5 ms a load.
pub fn profile() -> Profile {
    Profile {
        step_ms: 1.0,
        weight_read_ms: 0.0,
        decode_compute_us: 0.0,
        prefill_request_us: 0.0,
        prefill_token_us: 10.0,
        prefill_pair_ns: 0.5,
        decode_row_us: 20.0,
        context_token_ns: 100.0,
        lora_step_ms: 0.5,
        lora_slot_ms: 0.0,
        lora_adapter_ms: 0.1,
        lora_adapter_exponent: 1.0,
        lora_rank_exponent: 0.0,
        lora_row_us: 3.0,
        lora_row_slot_us: 0.0,
        lora_row_adapter_us: 0.3,
        skipped_request_us: 0.0,
        lora_prefill_token_us: 1.7,
        load_gpu_ms: 5.0,
        load_gpu_ms_per_mb: 0.0,
        load_cpu_ms: 50.0,
        load_cpu_ms_per_mb: 0.0,
        weight_bytes: 0,
        kv_bytes_per_token: 1000,
        lora_bytes_per_rank: 125_000,
    }
}

/// One replica with `blocks` blocks and the round profile; tests change its settings with `tweak`.
pub fn cluster(blocks: u64) -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, blocks, "");
    spec.profile = ProfileSpec::Inline(Box::new(profile()));
    spec.limits.max_sim_seconds = 10_000.0;
    spec
}

pub fn vllm(spec: &mut ClusterSpec) -> &mut crate::VllmSpec {
    let crate::EngineSpec::Vllm(vllm) = &mut spec.engine else { panic!("not vLLM") };
    vllm
}

/// One SGLang replica with `tokens` tokens of KV memory in pages of one, and the round profile.
pub fn sglang_cluster(tokens: u64) -> ClusterSpec {
    let mut spec = cluster(tokens);
    spec.engine = crate::EngineSpec::Sglang(crate::SglangSpec::default());
    spec
}

pub fn sglang(spec: &mut ClusterSpec) -> &mut crate::SglangSpec {
    let crate::EngineSpec::Sglang(sglang) = &mut spec.engine else { panic!("not SGLang") };
    sglang
}

/// Adapters that no policy chooses by itself.
pub fn adapters(count: u32) -> Arc<Adapters> {
    let entry = |i| (format!("a{i}"), 8, 1_000_000, AdapterRole::Placebo);
    Arc::new(Adapters::new((0..count).map(entry)).unwrap())
}

/// A specialist and a multitask adapter.
pub fn trained() -> Arc<Adapters> {
    let roles = [AdapterRole::Specialist(TaskId(0)), AdapterRole::Multitask];
    let entry = |(i, role)| (format!("a{i}"), 8, 1_000_000, role);
    Arc::new(Adapters::new((0..).zip(roles).map(entry)).unwrap())
}

pub fn router(spec: &ClusterSpec, adapters: &Arc<Adapters>, policy: &PolicySpec) -> Router {
    let merged = spec
        .what_if
        .merged
        .iter()
        .map(|one| (ReplicaId(one.replica), adapters.by_name(&one.adapter).unwrap()));
    let context = RouterContext {
        merged: merged.collect(),
        replicas: spec.replicas,
        adapters: adapters.clone(),
        prior: Arc::new(QualityTable::from_fn(1, adapters.len(), |_, _| 0.5).unwrap()),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
        costs: spec.costs(adapters),
        prefix: spec.prefix_index(),
        seed: Seed(1),
        truth: None,
    };
    Router::new(policy, context).unwrap()
}

pub fn run_in(spec: &ClusterSpec, asks: &[Ask], mode: Service) -> Ran {
    run_with(spec, asks, (adapters(6), PolicySpec::LeastInFlight(LeastInFlightSpec::default())), mode)
}

pub fn run_with(spec: &ClusterSpec, asks: &[Ask], arm: (Arc<Adapters>, PolicySpec), mode: Service) -> Ran {
    let (adapters, policy) = arm;
    let cluster = Cluster::new(spec, adapters.clone()).unwrap();
    let mut router = router(spec, &adapters, &policy);
    let (mut source, mut sink) = (List::new(asks), Keep::default());
    let run = Run { cluster: &cluster, source: &mut source, router: &mut router, sink: &mut sink, mode };
    let totals = run.run().unwrap();
    let mut by_id = sink.completions;
    by_id.sort_by_key(|kept| kept.id);
    Ran { by_id, rows: sink.rows, totals }
}

pub fn run(spec: &ClusterSpec, asks: &[Ask]) -> Ran {
    run_in(spec, asks, Service::Contended)
}
