//! Runs workloads against a server that answers after a set time.
#![allow(dead_code, reason = "each test file uses its part")]

use acb_types::{AdapterRole, Adapters, Nanos, RequestId, Seed, TaskId};
use acb_workload::{Arrival, RequestSource, Workload, WorkloadContext, WorkloadError, WorkloadSpec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub fn spec(json: serde_json::Value) -> WorkloadSpec {
    serde_json::from_value(json).unwrap()
}

/// A specialist for each task.
pub fn adapters(tasks: &[String]) -> Adapters {
    let entry = |(i, task): (usize, &String)| {
        (format!("{task}-lora"), 16, 1 << 20, AdapterRole::Specialist(TaskId(i as u32)))
    };
    Adapters::new(tasks.iter().enumerate().map(entry)).unwrap()
}

pub fn tasks(spec: &WorkloadSpec) -> Vec<String> {
    spec.task_names(&(0..1000).map(|i| format!("t{i}")).collect::<Vec<_>>())
}

pub fn open(spec: &WorkloadSpec, seed: u64) -> Result<Workload, WorkloadError> {
    let tasks = tasks(spec);
    let adapters = adapters(&tasks);
    let context = WorkloadContext { tasks: &tasks, adapters: &adapters, context_tokens: 32_768 };
    Workload::new(spec, &context, Seed(seed))
}

/// Every request, each answered after `latency` of it.
pub fn run(spec: &WorkloadSpec, seed: u64, latency: impl Fn(&Arrival) -> Nanos) -> Vec<Arrival> {
    let mut workload = open(spec, seed).unwrap();
    let (mut taken, mut busy) = (Vec::new(), BinaryHeap::<Reverse<(Nanos, RequestId)>>::new());
    loop {
        let ends = busy.peek().map(|&Reverse((at, _))| at);
        match (workload.next_due(), ends) {
            (Some(due), end) if end.is_none_or(|end| due < end) => {
                let arrival = workload.take().unwrap();
                assert_eq!(arrival.request.due, due, "the due time was announced");
                busy.push(Reverse((due + latency(&arrival), arrival.request.id)));
                taken.push(arrival);
            }
            (_, Some(_)) => {
                let Reverse((at, id)) = busy.pop().unwrap();
                workload.ended(id, at);
            }
            (None, None) => break,
            (Some(_), None) => unreachable!("a due request is taken"),
        }
    }
    assert!(workload.fault().is_none());
    assert_eq!(workload.take(), None, "nothing is left");
    taken
}

pub fn quick(spec: &WorkloadSpec, seed: u64) -> Vec<Arrival> {
    run(spec, seed, |_| Nanos::from_millis(50))
}
