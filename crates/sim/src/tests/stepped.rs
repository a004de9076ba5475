//! A replica that is stepped gives what a run gives.

use super::bed::{Ask, Kept, List, adapters, ask, cluster, run, sglang, sglang_cluster};
use super::fast::{asks, specs, with_turns};
use super::sglang_laws;
use crate::{Cluster, ClusterSpec, Refusal, Served, StepEvent, Stepped, Submission};
use acb_types::{AdapterId, Nanos, Outcome, ReplicaId, RequestId};
use acb_workload::{Arrival, RequestSource};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// How a request went, as the events said it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    admitted: Option<(u64, Option<u32>)>,
    tokens: Vec<u64>,
    served: Option<Served>,
    refused: Option<Refusal>,
}

struct Stepping {
    stepped: Stepped,
    events: Vec<StepEvent>,
    told: BTreeMap<u64, Told>,
}

impl Stepping {
    fn new(spec: &ClusterSpec) -> Self {
        let cluster = Cluster::new(spec, adapters(6)).unwrap();
        let stepped = Stepped::new(&cluster, ReplicaId(0));
        Self { stepped, events: Vec::new(), told: BTreeMap::new() }
    }

    fn submit(&mut self, arrival: Arrival) {
        let Arrival { request, truth } = arrival;
        let (id, at, adapter) = (request.id.0, request.due, request.required_adapter);
        let submission = Submission { request, adapter, output_tokens: truth.output_tokens };
        let refused = self.stepped.submit(at, submission, &mut self.events).err();
        self.told.entry(id).or_default().refused = refused;
    }

    fn take_events(&mut self) {
        for event in self.events.drain(..) {
            match event {
                StepEvent::Admitted { at, request, hit_tokens } => {
                    self.told.entry(request.0).or_default().admitted = Some((at.0, hit_tokens));
                }
                StepEvent::Token { at, request, index } => {
                    let tokens = &mut self.told.entry(request.0).or_default().tokens;
                    assert_eq!(tokens.len(), index as usize, "tokens come in order");
                    tokens.push(at.0);
                }
                StepEvent::Finished { request, served } => {
                    self.told.entry(request.0).or_default().served = Some(served);
                }
            }
        }
    }

    fn drain(&mut self) {
        while let Some(next) = self.stepped.next_event() {
            self.stepped.advance(next, &mut self.events);
        }
        self.take_events();
    }
}

/// Steps through the requests, looking at the replica at the times `looks` too.
fn step_through(spec: &ClusterSpec, asks: &[Ask], looks: &[u64]) -> BTreeMap<u64, Told> {
    let (mut stepping, mut source) = (Stepping::new(spec), List::new(asks));
    let mut looks: Vec<u64> = looks.to_vec();
    looks.sort_unstable();
    let mut looks = looks.into_iter().peekable();
    while let Some(arrival) = source.take() {
        let due = arrival.request.due.0;
        while let Some(look) = looks.next_if(|&look| look < due) {
            stepping.stepped.advance(Nanos(look), &mut stepping.events);
            let before = stepping.stepped.now();
            let _ = (stepping.stepped.snapshot(), stepping.stepped.row());
            assert_eq!(stepping.stepped.now(), before);
        }
        stepping.submit(arrival);
    }
    stepping.drain();
    assert_eq!(stepping.stepped.in_flight(), 0);
    stepping.told
}

fn assert_same(seen: &Told, right: &Kept) -> Result<(), TestCaseError> {
    let outcome = match seen.refused {
        Some(Refusal::Impossible) => Some(Outcome::Rejected),
        Some(Refusal::QueueFull) => Some(Outcome::Shed),
        None => seen.served.map(|served| served.outcome),
    };
    prop_assert_eq!(outcome, Some(right.outcome));
    prop_assert_eq!(seen.tokens.len() as u32, right.output);
    prop_assert_eq!(seen.tokens.first().copied(), right.first);
    prop_assert_eq!(seen.tokens.last().copied(), right.last);
    prop_assert_eq!(seen.admitted, right.admitted.map(|at| (at, right.hit)));
    let Some(served) = seen.served else { return Ok(()) };
    prop_assert_eq!((served.sent.0, served.ended_at.0), (right.sent, right.ended_at));
    prop_assert_eq!(served.itl_max.map(|t| t.0), right.itl_max);
    prop_assert_eq!(served.adapter_load, right.load);
    prop_assert_eq!((served.preemptions, served.overtaken), (right.preemptions, right.overtaken));
    let gaps = seen.tokens.windows(2).map(|two| two[1] - two[0]).max();
    let near = |a: u64, b: u64| a.abs_diff(b) <= 1;
    prop_assert!(
        gaps.is_none_or(|gap| near(gap, right.itl_max.unwrap())),
        "the longest gap is among the tokens"
    );
    Ok(())
}

fn same_as_a_run(spec: &ClusterSpec, asks: &[Ask], looks: &[u64]) -> Result<(), TestCaseError> {
    let asks = with_turns(asks, run(spec, asks).totals.end.0);
    let ran = run(spec, &asks);
    let told = step_through(spec, &asks, looks);
    prop_assert_eq!(told.len(), ran.by_id.len());
    for right in &ran.by_id {
        assert_same(&told[&right.id], right)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stepped_vllm_replica_gives_what_a_run_gives(
        asks in asks(), spec in specs(), looks in prop::collection::vec(0u64..200_000_000, 0..40),
    ) {
        same_as_a_run(&spec, &asks, &looks)?;
    }

    #[test]
    fn a_stepped_sglang_replica_gives_what_a_run_gives(
        asks in asks(), spec in sglang_laws::specs(), looks in prop::collection::vec(0u64..200_000_000, 0..40),
    ) {
        same_as_a_run(&spec, &asks, &looks)?;
    }

    #[test]
    fn whoever_goes_away_gives_everything_back(
        asks in asks(), vllm in specs(), radix in sglang_laws::specs(), every in 1u64..4, after in 0u64..60_000_000,
    ) {
        for spec in [vllm, radix] {
            let (mut stepping, mut source) = (Stepping::new(&spec), List::new(&asks));
            let mut leaving = Vec::new();
            while let Some(arrival) = source.take() {
                let (id, due) = (arrival.request.id, arrival.request.due);
                while let Some(&(at, who)) = leaving.first().filter(|&&(at, _)| at <= due) {
                    leaving.remove(0);
                    stepping.stepped.cancel(at, who, &mut stepping.events);
                }
                stepping.submit(arrival);
                if id.0 % every == 0 {
                    leaving.push((due + Nanos(after), id));
                }
            }
            for (at, who) in leaving {
                stepping.stepped.cancel(at, who, &mut stepping.events);
            }
            stepping.drain();
            prop_assert_eq!(stepping.stepped.in_flight(), 0);
            prop_assert!((0..6).all(|a| !stepping.stepped.uses_adapter(AdapterId(a))));
            prop_assert!(stepping.stepped.reset_prefix_cache());
        }
    }
}

fn hit(stepping: &mut Stepping, at: u64, id: u64, adapter: Option<u32>) -> Option<u32> {
    let asked = Ask { adapter, ..ask(at, 1, 100, 2) };
    stepping.submit(asked.arrival(id));
    stepping.drain();
    stepping.told[&id].admitted.unwrap().1
}

#[test]
fn a_reset_cache_holds_nothing_and_is_refused_while_requests_hold_memory() {
    for spec in [cluster(100), sglang_cluster(1000)] {
        let mut stepping = Stepping::new(&spec);
        hit(&mut stepping, 0, 0, None);
        assert!(hit(&mut stepping, 1_000_000_000, 1, None) >= Some(96));
        stepping.submit(ask(2_000_000_000, 1, 100, 2).arrival(2));
        assert!(!stepping.stepped.reset_prefix_cache());
        stepping.drain();
        assert!(stepping.stepped.reset_prefix_cache());
        assert_eq!(hit(&mut stepping, 3_000_000_000, 3, None), Some(0));
        assert!(hit(&mut stepping, 4_000_000_000, 4, None) >= Some(96));
    }
}

#[test]
fn other_weights_under_the_same_name_and_path_hit_the_old_prefixes_on_vllm() {
    let mut stepping = Stepping::new(&cluster(100));
    let (one, two) = (AdapterId(0), AdapterId(1));
    stepping.stepped.replace_adapter(one, "swap", "/a");
    assert_eq!(hit(&mut stepping, 0, 0, Some(0)), Some(0));
    stepping.stepped.drop_adapter(one);
    stepping.stepped.replace_adapter(two, "swap", "/a");
    assert_eq!(hit(&mut stepping, 1_000_000_000, 1, Some(1)), Some(96));
    stepping.stepped.replace_adapter(two, "swap", "/b");
    assert_eq!(hit(&mut stepping, 2_000_000_000, 2, Some(1)), Some(0));
}

#[test]
fn an_adapter_that_was_dropped_is_read_again_and_finds_nothing_on_sglang() {
    let mut spec = sglang_cluster(1000);
    sglang(&mut spec).max_loaded_loras = Some(8);
    let mut stepping = Stepping::new(&spec);
    hit(&mut stepping, 0, 0, Some(0));
    assert_eq!(hit(&mut stepping, 1_000_000_000, 1, Some(0)), Some(99));
    stepping.stepped.drop_adapter(AdapterId(0));
    assert_eq!(hit(&mut stepping, 2_000_000_000, 2, Some(0)), Some(0));
    let load = stepping.told[&2].served.unwrap().adapter_load;
    assert!(load.is_some(), "it was read from disk");
}

#[test]
fn a_request_that_can_never_be_served_is_refused() {
    let mut stepping = Stepping::new(&cluster(2));
    stepping.submit(ask(0, 1, 100, 2).arrival(0));
    assert_eq!(stepping.told[&0].refused, Some(Refusal::Impossible));
    assert_eq!(stepping.stepped.cancel(Nanos(5), RequestId(0), &mut Vec::new()), None);
    assert_eq!((stepping.stepped.next_event(), stepping.stepped.now()), (None, Nanos(5)));
}
