//! Time per dispatch of each policy, with one event in and one out: `cargo bench -p acb-routing`.
//!
//! Each iteration dispatches one request of about 1,000 prompt tokens, 512 of them of one of 100 shared documents, and
//! ends the one that was dispatched 256 requests before. State is scraped once, so that reading it is part of the cost.
//! Allocations are counted: a dispatch without a log makes none once its tables have grown (those of the policies that
//! never forget a prefix always grow).

#![allow(missing_docs)]

use acb_routing::{
    CostModel, PolicySpec, PrefixIndexSpec, ReplicaSnapshot, Router, RouterContext, RouterEvent,
};
use acb_types::{
    AdapterId, AdapterRole, Adapters, ContentId, Nanos, Outcomes, Prompt, QualityTable, ReplicaId, Request,
    RequestId, Seed, Segment, SessionId, Slo, TaskId, TenantId, TrustGroupId,
};
use std::sync::Arc;

const TASKS: u32 = 32;
const IN_FLIGHT: u64 = 256;
const REQUESTS: u64 = 4096;

fn main() {
    divan::main();
}

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

#[divan::bench(args = policies(), consts = [8, 64])]
fn dispatch<const REPLICAS: u32>(bencher: divan::Bencher, policy: &str) {
    let spec =
        PolicySpec::all().into_iter().find(|spec| spec.name() == policy).expect("a policy of this name");
    let mut router = Router::new(&spec, context(REPLICAS)).expect("the context is complete");
    for replica in (0..REPLICAS).map(ReplicaId) {
        router.apply(&RouterEvent::Scraped { at: Nanos::ZERO, replica, snapshot: snapshot() });
    }
    let requests: Vec<Request> = (0..REQUESTS).map(request).collect();
    let mut next = 0;
    let mut turn = || {
        let mut request = requests[(next % REQUESTS) as usize].clone();
        request.id = RequestId(next);
        let decision = router.dispatch(Nanos::from_millis(next), &request);
        if let Some(oldest) = next.checked_sub(IN_FLIGHT) {
            let at = Nanos::from_millis(next);
            router.apply(&RouterEvent::Finished { at, request: RequestId(oldest) });
        }
        next += 1;
        decision
    };
    for _ in 0..2 * REQUESTS {
        turn();
    }
    bencher.bench_local(turn);
}

fn context(replicas: u32) -> RouterContext {
    let specialist = |t| (format!("s{t}"), 16, 1 << 25, AdapterRole::Specialist(TaskId(t)));
    let multitask = ("multitask".to_owned(), 16, 1 << 25, AdapterRole::Multitask);
    let adapters = Adapters::new((0..TASKS).map(specialist).chain([multitask])).expect("names differ");
    let prior = QualityTable::from_fn(TASKS as usize, adapters.len(), |task, adapter| match adapter {
        Some(a) if a.0 == task.0 => 0.9,
        Some(AdapterId(TASKS)) => 0.8,
        _ => 0.5,
    });
    let prior = prior.expect("qualities are between 0 and 1");
    RouterContext {
        merged: Default::default(),
        replicas,
        adapters: Arc::new(adapters),
        truth: Some(Outcomes::new(prior.clone(), Seed(2))),
        prior: Arc::new(prior),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(500)), tpot_ns: None, e2e_ns: None },
        costs: CostModel::default(),
        prefix: PrefixIndexSpec::default(),
        seed: Seed(1),
    }
}

fn snapshot() -> ReplicaSnapshot {
    ReplicaSnapshot {
        pending_prefill_tokens: Some(500),
        gpu_adapters: Some((0..4).map(AdapterId).collect()),
        cpu_adapters: Some((0..16).map(AdapterId).collect()),
        active_adapters: Some((0..2).map(AdapterId).collect()),
        ..ReplicaSnapshot::default()
    }
}

fn request(id: u64) -> Request {
    let shared = Segment { content: ContentId(id % 100), tokens: 512 };
    let own = Segment { content: ContentId(1_000 + id), tokens: 512 };
    Request {
        id: RequestId(id),
        due: Nanos::from_millis(id),
        session: SessionId(id % 500),
        turn: 0,
        tenant: TenantId((id % 7) as u32),
        trust_group: TrustGroupId((id % 3) as u32),
        task: TaskId((id * 7 % u64::from(TASKS)) as u32),
        document: None,
        prompt: Prompt::new([shared, own]),
        max_output_tokens: 128,
        cache_salt: None,
        ask: id,
        required_adapter: None,
    }
}

fn policies() -> Vec<&'static str> {
    PolicySpec::all().iter().map(PolicySpec::name).collect()
}

/// One scrape of one replica, as a true-state policy takes in per replica and dispatch.
#[divan::bench]
fn scrape(bencher: divan::Bencher) {
    let spec = PolicySpec::Specialists(Default::default());
    let mut router = Router::new(&spec, context(64)).expect("the context is complete");
    let event = |id| RouterEvent::Scraped { at: Nanos::ZERO, replica: ReplicaId(id), snapshot: snapshot() };
    let events: Vec<_> = (0..64).map(event).collect();
    let mut next = 0;
    bencher.bench_local(|| {
        router.apply(&events[next % 64]);
        next += 1;
    });
}
