//! The simulator on a case that is a file, so that another engine model can be given the same one
//! (`benches/peers/crosscheck.py`). Prints a line for each request and one for the run.

use acb_routing::{PolicySpec, RoundRobinSpec, Router, RouterContext};
use acb_sim::{Cluster, ClusterSpec, Completion, EngineSpec, Profile, ProfileSpec, Run, Service, Sink};
use acb_types::{
    Adapters, ContentId, Nanos, Prompt, QualityTable, Request, RequestId, Seed, Segment, SessionId, Slo,
    TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::{Arrival, RequestSource};
use serde::Deserialize;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

const USAGE: &str = "usage: crosscheck CASE";

/// What both are told.
#[derive(Deserialize)]
struct Case {
    engine: EngineSpec,
    /// Blocks (SGLang: pages) of KV memory.
    blocks: u64,
    /// Time of a step, whatever is in it, ms.
    step_ms: f64,
    requests: Vec<Asked>,
}

/// One request.
#[derive(Deserialize)]
struct Asked {
    at_ns: u64,
    /// Runs of tokens: content and length. Runs of one content start with the same tokens.
    prompt: Vec<(u64, u32)>,
    output: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [path] = &words[..] else {
        println!("{USAGE}");
        return Ok(());
    };
    serve(&serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

fn serve(case: &Case) -> Result<(), Box<dyn Error>> {
    let none = acb_sim::profile("llama-3.1-8b-vllm-0.8.5").ok_or("the profile is gone")?;
    let fixed = Profile { step_ms: case.step_ms, prefill_token_us: 0.0, decode_row_us: 0.0, ..none };
    let mut spec = ClusterSpec::new(1, case.blocks, "");
    spec.engine = case.engine.clone();
    spec.profile = ProfileSpec::Inline(Box::new(fixed));
    spec.server_interval_ms = 1_000_000_000;
    let adapters = Arc::new(Adapters::new(std::iter::empty())?);
    let cluster = Cluster::new(&spec, adapters.clone())?;
    let context = RouterContext {
        merged: std::collections::BTreeMap::new(),
        replicas: 1,
        prior: Arc::new(QualityTable::from_fn(1, 0, |_, _| 0.5)?),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
        costs: spec.costs(&adapters),
        prefix: spec.prefix_index(),
        seed: Seed(1),
        truth: None,
        adapters,
    };
    let mut router = Router::new(&PolicySpec::RoundRobin(RoundRobinSpec::default()), context)?;
    let (mut source, mut sink) = (Listed { asked: &case.requests, next: 0 }, Rows);
    let (source, router, sink) = (&mut source, &mut router, &mut sink);
    println!("request,admitted_ms,hit_tokens,first_ms,last_ms,preemptions");
    let totals = Run { cluster: &cluster, source, router, sink, mode: Service::Contended }.run()?;
    println!("steps,{}", totals.steps);
    Ok(())
}

/// Prints each request as it ends.
struct Rows;

impl Sink for Rows {
    fn completed(&mut self, c: &Completion<'_>) -> ControlFlow<()> {
        let ms =
            |at: Option<Nanos>| at.map_or_else(|| "-".to_owned(), |at| format!("{:.6}", at.0 as f64 * 1e-6));
        let hit = c.prefix_hit_tokens.map_or_else(|| "-".to_owned(), |hit| hit.to_string());
        let (admitted, first, last) = (ms(c.admitted), ms(c.first_token), ms(c.last_token));
        println!("{},{admitted},{hit},{first},{last},{}", c.request.id.0, c.preemptions);
        ControlFlow::Continue(())
    }
}

struct Listed<'a> {
    asked: &'a [Asked],
    next: usize,
}

impl RequestSource for Listed<'_> {
    fn next_due(&self) -> Option<Nanos> {
        self.asked.get(self.next).map(|asked| Nanos(asked.at_ns))
    }

    fn take(&mut self) -> Option<Arrival> {
        let asked = self.asked.get(self.next)?;
        let id = RequestId(self.next as u64);
        self.next += 1;
        let segment = |&(content, tokens): &(u64, u32)| Segment { content: ContentId(content), tokens };
        let request = Request {
            id,
            due: Nanos(asked.at_ns),
            session: SessionId(id.0),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new(asked.prompt.iter().map(segment)),
            max_output_tokens: asked.output,
            cache_salt: None,
            ask: id.0,
            required_adapter: None,
        };
        Some(Arrival { request, truth: Truth { request: id, output_tokens: asked.output } })
    }

    fn ended(&mut self, _: RequestId, _: Nanos) {}
}
