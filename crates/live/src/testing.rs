//! Workloads and catalogues for this crate's tests.

use crate::{Channel, Connection, Ending, Observation, TokenEvent, Usage};
use acb_types::{AdapterRole, Adapters, Nanos, Seed, TaskId};
use acb_workload::{Arrivals, CountLaw, Kind, NamedBy, Workload, WorkloadContext, WorkloadSpec};
use std::num::NonZeroU32;

/// Three specialists, one for each of three tasks.
pub(crate) fn adapters() -> Adapters {
    let entry = |(i, name): (u32, &str)| (name.to_owned(), 16, 1 << 20, AdapterRole::Specialist(TaskId(i)));
    Adapters::new((0..).zip(["a", "b", "c"]).map(entry)).unwrap()
}

/// Names of those tasks.
pub(crate) fn tasks() -> Vec<String> {
    ["ta", "tb", "tc"].map(str::to_owned).to_vec()
}

/// Requests of 16 tokens for 4, each naming one of [`adapters`].
pub(crate) fn spec(arrivals: Arrivals, requests: u64) -> WorkloadSpec {
    WorkloadSpec {
        arrivals: Some(arrivals),
        requests,
        prompt_tokens: Some(CountLaw::Fixed { value: 16 }),
        output_tokens: Some(CountLaw::Fixed { value: 4 }),
        max_output_tokens: Some(4),
        adapter_named_by: NamedBy::Client,
        ..WorkloadSpec::of(Kind::MultiLora)
    }
}

/// The source of [`spec`].
pub(crate) fn workload(arrivals: Arrivals, requests: u64, seed: u64) -> Workload {
    source(&spec(arrivals, requests), seed)
}

/// The source of any spec over [`tasks`].
pub(crate) fn source(spec: &WorkloadSpec, seed: u64) -> Workload {
    let (tasks, adapters) = (tasks(), adapters());
    let context = WorkloadContext { tasks: &tasks, adapters: &adapters, context_tokens: 4096 };
    Workload::new(spec, &context, Seed(seed)).unwrap()
}

/// A sound exchange of so many token events, 10 ms apart from 100 ms on.
pub(crate) fn observation(events: u64) -> Observation {
    let event = |i| TokenEvent {
        at_ns: Nanos::from_millis(100 + 10 * i),
        tokens: NonZeroU32::new(1),
        channel: Channel::Content,
    };
    let count = Some(events as u32);
    Observation {
        begun_ns: Nanos::ZERO,
        sent_ns: Some(Nanos::ZERO),
        connection: Connection::Reused,
        status: Some(200),
        headers_ns: Some(Nanos::from_millis(1)),
        first_event_ns: Some(Nanos::from_millis(100)),
        token_events: (0..events).map(event).collect(),
        closed_ns: None,
        ended_ns: Nanos::from_millis(100 + 10 * events),
        ending: Ending::Ok,
        usage: Some(Usage { prompt_tokens: Some(16), completion_tokens: count, cached_tokens: None }),
        model: None,
        finish_reason: None,
        text: None,
        bytes: 0,
        simulated: false,
    }
}
