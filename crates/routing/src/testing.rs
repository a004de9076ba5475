//! Small clusters and requests for this crate's tests.

use crate::{CostModel, PolicySpec, PrefixIndexSpec, ReplicaSnapshot, RouterContext};
use crate::{Router, RouterEvent};
use acb_types::*;
use std::sync::Arc;

/// `tasks` specialists and a multitask adapter after them.
pub(crate) fn adapters(tasks: u32) -> Adapters {
    let specialist = |t| (format!("s{t}"), 8, 1 << 20, AdapterRole::Specialist(TaskId(t)));
    let multitask = ("multi".to_owned(), 8, 1 << 20, AdapterRole::Multitask);
    Adapters::new((0..tasks).map(specialist).chain([multitask])).unwrap()
}

/// Own specialist 0.92, multitask 0.82, everything else 0.46.
pub(crate) fn prior(adapters: &Adapters, tasks: usize) -> QualityTable {
    QualityTable::from_fn(tasks, adapters.len(), |task, adapter| match adapter {
        Some(a) if adapters.specialist(task) == Some(a) => 0.92,
        Some(a) if adapters.multitask() == Some(a) => 0.82,
        _ => 0.46,
    })
    .unwrap()
}

/// A cluster with four tasks, five adapters and a TTFT objective of 500 ms.
pub(crate) fn context(replicas: u32) -> RouterContext {
    let adapters = adapters(4);
    let prior = prior(&adapters, 4);
    RouterContext {
        merged: Default::default(),
        replicas,
        truth: Some(Outcomes::new(prior.clone(), Seed(5))),
        prior: Arc::new(prior),
        adapters: Arc::new(adapters),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(500)), tpot_ns: None, e2e_ns: None },
        costs: CostModel::default(),
        prefix: PrefixIndexSpec::default(),
        seed: Seed(1),
    }
}

/// A request of its own session with a prompt of its own.
pub(crate) fn request(id: u64, task: u32, tokens: u32) -> Request {
    Request {
        id: RequestId(id),
        due: Nanos::ZERO,
        session: SessionId(id),
        turn: 0,
        tenant: TenantId(0),
        trust_group: TrustGroupId(0),
        task: TaskId(task),
        document: None,
        prompt: prompt(&[(1_000_000 + id, tokens)]),
        max_output_tokens: 16,
        cache_salt: None,
        ask: id,
        required_adapter: None,
    }
}

/// Runs of (content, tokens).
pub(crate) fn prompt(runs: &[(u64, u32)]) -> Prompt {
    Prompt::new(runs.iter().map(|&(c, tokens)| Segment { content: ContentId(c), tokens }))
}

/// A router of this policy over [`context`].
pub(crate) fn router(spec: PolicySpec, replicas: u32) -> Router {
    Router::new(&spec, context(replicas)).unwrap()
}

/// The end of a request.
pub(crate) fn finished(id: u64) -> RouterEvent {
    RouterEvent::Finished { at: Nanos::ZERO, request: RequestId(id) }
}

/// A scrape.
pub(crate) fn scraped(at: Nanos, replica: u32, snapshot: ReplicaSnapshot) -> RouterEvent {
    RouterEvent::Scraped { at, replica: ReplicaId(replica), snapshot }
}
