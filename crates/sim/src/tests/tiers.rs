//! Adapters on their way to a slot: worked examples by hand, and laws on random traffic.
//!
//! The round profile copies into a slot in 5 ms and reads a disk in 50 ms; adapters have 1 MB, so that a store at 10 ms and
//! 50 MB/s takes 30 ms.

use super::bed::{Ask, Ran, adapters, ask, cluster, run, sglang, sglang_cluster, vllm};
use super::fast::{asks, specs};
use super::laws::served_with_cuts;
use crate::adapters::{AdapterCosts, AdapterPool};
use crate::exact::Exact;
use crate::{AdapterTiers, ClusterSpec, Prefetch, RemoteTier};
use acb_types::Tier::{Cpu, Disk, Remote};
use acb_types::{AdapterId, Nanos, Outcome, ServerCounters, Tier};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn tiers(spec: &mut ClusterSpec) -> &mut AdapterTiers {
    &mut spec.adapter_tiers
}

fn store(max_disk_loras: Option<u32>) -> Option<RemoteTier> {
    Some(RemoteTier { latency_ms: 10.0, mb_per_s: 50.0, max_disk_loras })
}

/// One replica with so many adapters on the GPU and in host memory.
fn slots(gpu: u32, cpu: u32) -> ClusterSpec {
    let mut spec = cluster(1000);
    (vllm(&mut spec).max_loras, vllm(&mut spec).max_cpu_loras) = (gpu, Some(cpu));
    spec
}

/// Where each request's adapter was, and how many ms it was waited for.
fn loads(ran: &Ran) -> Vec<Option<(Tier, u64)>> {
    ran.by_id.iter().map(|k| k.load.map(|load| (load.from, load.stall_ns.0 / MS))).collect()
}

fn stalls(ran: &Ran) -> Vec<u64> {
    loads(ran).into_iter().map(|load| load.unwrap().1).collect()
}

fn counters(ran: &Ran) -> &ServerCounters {
    &ran.rows.last().unwrap().counters
}

/// A request alone in its second.
fn alone(second: u64, adapter: u32) -> Ask {
    ask(second * 1000 * MS, 100 + second, 20, 1).with(adapter)
}

#[test]
fn the_first_load_comes_from_the_store_the_next_from_the_disk_and_then_from_host_memory() {
    let mut spec = slots(1, 1);
    tiers(&mut spec).remote = store(None);
    let ran = run(&spec, &[alone(0, 0), alone(1, 1), alone(2, 0), alone(3, 0)]);
    assert_eq!(loads(&ran), [Some((Remote, 85)), Some((Remote, 85)), Some((Disk, 55)), None]);
    let seen = counters(&ran);
    let of_tiers = (seen.adapter_loads_cpu, seen.adapter_loads_disk, seen.adapter_loads_remote);
    assert_eq!(of_tiers, (Some(0), Some(1), Some(2)));
    assert_eq!(seen.adapter_stall_ns.map(|stall| stall.0), Some(225 * MS));
}

#[test]
fn a_small_disk_gives_up_what_was_read_longest_ago() {
    let mut spec = slots(1, 1);
    tiers(&mut spec).remote = store(Some(2));
    let ran = run(&spec, &[alone(0, 0), alone(1, 1), alone(2, 0), alone(3, 2), alone(4, 0), alone(5, 1)]);
    let from: Vec<Tier> = ran.by_id.iter().map(|k| k.load.unwrap().from).collect();
    assert_eq!(from, [Remote, Remote, Disk, Remote, Disk, Remote], "a1 went when a2 came");
}

#[test]
fn a_step_waits_for_its_loads_one_after_the_other_or_several_at_a_time() {
    let asks = [0, 1, 2].map(|a| ask(0, u64::from(a), 20, 1).with(a));
    let wait = |at_once| {
        let mut spec = slots(3, 3);
        tiers(&mut spec).loads_at_once = at_once;
        let ran = run(&spec, &asks);
        (counters(&ran).adapter_stall_ns.unwrap().0 / MS, stalls(&ran))
    };
    assert_eq!(wait(1), (165, vec![55, 55, 55]), "3 x (50 + 5)");
    // Two are read by 50 and copied by 55 and 60; the third is read from 55 to 105.
    assert_eq!(wait(2), (110, vec![55, 60, 55]));
    assert_eq!(wait(3), (65, vec![55, 60, 65]), "all are read by 50, and copied one after the other");
}

/// A base request that runs for 50 steps, and one for a0 behind it while the batch is full.
fn behind(spec: &mut ClusterSpec) -> [Ask; 2] {
    vllm(spec).max_num_seqs = 1;
    [ask(0, 1, 16, 80), ask(MS, 2, 16, 1).with(0)]
}

#[test]
fn what_is_read_while_its_request_waits_costs_only_the_copy() {
    let mut spec = slots(1, 1);
    let asks = behind(&mut spec);
    let plain = run(&spec, &asks);
    tiers(&mut spec).prefetch = Prefetch::OnArrival;
    let ahead = run(&spec, &asks);
    assert_eq!((loads(&plain)[1], loads(&ahead)[1]), (Some((Disk, 55)), Some((Cpu, 5))));
    let gained = plain.by_id[1].first.unwrap() - ahead.by_id[1].first.unwrap();
    assert_eq!(
        (gained, plain.by_id[0].last),
        (50 * MS, ahead.by_id[0].last),
        "nobody else waits less or more"
    );
    assert_eq!(counters(&ahead).adapter_prefetches, Some(1));
}

#[test]
fn a_step_waits_for_the_rest_of_what_is_on_its_way() {
    let mut spec = slots(1, 1);
    tiers(&mut spec).prefetch = Prefetch::OnArrival;
    // Read from 0 to 50 ms either way: an idle replica needs it at once.
    let ran = run(&spec, &[ask(0, 1, 16, 1).with(0)]);
    assert_eq!(loads(&ran), [Some((Disk, 55))]);
    vllm(&mut spec).max_num_seqs = 1;
    // The base request ends in 20 steps of a little over 1 ms: the rest of 50 ms, and the copy, are left.
    let ran = run(&spec, &[ask(0, 1, 16, 20), ask(0, 2, 16, 1).with(0)]);
    let (base, other) = (&ran.by_id[0], &ran.by_id[1]);
    assert!(other.load.unwrap().stall_ns.0.abs_diff(55 * MS - base.last.unwrap()) <= 1);
}

#[test]
fn reading_ahead_takes_turns_with_the_loads_that_steps_wait_for() {
    let mut spec = slots(2, 4);
    vllm(&mut spec).max_num_seqs = 2;
    tiers(&mut spec).prefetch = Prefetch::OnArrival;
    // At 0, a0 and a1 are asked for and needed at once: read by 50 and 100, copied by 55 and 105.
    let ran = run(&spec, &[ask(0, 1, 16, 1).with(0), ask(0, 2, 16, 1).with(1)]);
    assert_eq!(counters(&ran).adapter_stall_ns.unwrap().0, 105 * MS);
    tiers(&mut spec).loads_at_once = 2;
    let ran = run(&spec, &[ask(0, 1, 16, 1).with(0), ask(0, 2, 16, 1).with(1)]);
    assert_eq!(counters(&ran).adapter_stall_ns.unwrap().0, 60 * MS);
}

#[test]
fn what_was_read_ahead_makes_an_idle_adapter_leave_before_its_own_step() {
    let mut spec = slots(1, 1);
    let [base, waiting] = behind(&mut spec);
    // a1 is idle in the slot; a0 is read ahead from 1001 to 1051 ms and a1 leaves; a0 is needed after 1080.
    spec.server_interval_ms = 1060;
    let asks = [alone(0, 1), shifted(base, 1000), shifted(waiting, 1000)];
    let at_1060 = |spec: &ClusterSpec| run(spec, &asks).rows[1].gpu_adapters.clone().unwrap();
    assert_eq!(at_1060(&spec), ["a1"]);
    tiers(&mut spec).prefetch = Prefetch::OnArrival;
    assert_eq!(at_1060(&spec), [""; 0]);
}

fn shifted(ask: Ask, ms: u64) -> Ask {
    Ask { due: ask.due + ms * MS, ..ask }
}

#[test]
fn where_all_of_host_memory_is_in_use_what_was_read_ahead_is_dropped() {
    let mut spec = slots(1, 1);
    tiers(&mut spec).prefetch = Prefetch::OnArrival;
    let ran = run(&spec, &[ask(0, 1, 16, 200).with(0), ask(60 * MS, 2, 16, 1).with(1)]);
    assert_eq!(counters(&ran).adapter_prefetches_dropped, Some(1));
    assert_eq!(loads(&ran)[1], Some((Disk, 55)), "it is read again when its turn comes");
}

#[test]
fn popular_reads_what_was_asked_for_oftener_than_what_would_leave() {
    let mut spec = slots(1, 2);
    // a0 is asked for three times, a1 and a2 once, which makes a0 leave; the next request for a2 finds that out.
    let asks = [alone(0, 0), alone(1, 0), alone(2, 0), alone(3, 1), alone(4, 2), alone(5, 2), alone(6, 0)];
    assert_eq!(loads(&run(&spec, &asks))[6], Some((Disk, 55)));
    tiers(&mut spec).prefetch = Prefetch::Popular;
    let ran = run(&spec, &asks);
    assert_eq!(loads(&ran)[6], Some((Cpu, 5)));
    // a0 and a1 while there was room, and a0 once more.
    assert_eq!(counters(&ran).adapter_prefetches, Some(3));
}

#[test]
fn sglang_fetches_again_what_its_disk_gave_up() {
    let mut spec = sglang_cluster(10_000);
    let engine = sglang(&mut spec);
    (engine.max_loras_per_batch, engine.max_loaded_loras) = (2, Some(2));
    spec.adapter_tiers.remote = store(Some(3));
    // Loaded at start in the order of the catalogue: a4 and a5 are in host memory, a3 to a5 on the disk.
    let ran = run(&spec, &[alone(0, 5), alone(1, 3), alone(2, 0)]);
    assert_eq!(loads(&ran), [Some((Cpu, 5)), Some((Disk, 55)), Some((Remote, 85))]);
}

fn any_tiers() -> impl Strategy<Value = AdapterTiers> {
    let prefetch = prop_oneof![Just(Prefetch::None), Just(Prefetch::OnArrival), Just(Prefetch::Popular)];
    (1u32..4, prop::option::of(prop::option::of(1u32..5)), prefetch).prop_map(
        |(loads_at_once, disk, prefetch)| AdapterTiers {
            loads_at_once,
            remote: disk.and_then(store),
            prefetch,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// The pool asserts by itself that an adapter in use never leaves and that adapters fit their slots.
    #[test]
    fn whatever_the_tiers_every_request_is_served_and_every_load_has_a_place_it_came_from(
        asks in asks(), mut spec in specs(), tiers in any_tiers(),
    ) {
        spec.adapter_tiers = tiers.clone();
        let ran = run(&spec, &asks);
        let seen = counters(&ran);
        let from = |tier: Tier| {
            ran.by_id.iter().filter(|k| k.load.is_some_and(|load| load.from == tier)).count() as u64
        };
        prop_assert_eq!(ran.by_id.len() as u64, ran.totals.completed + ran.totals.rejected);
        prop_assert!(ran.by_id.iter().all(|k| k.outcome != Outcome::Ok || k.first >= k.admitted));
        // A request that lost its memory may load again, which its record does not show.
        prop_assert!(from(Cpu) <= seen.adapter_loads_cpu.unwrap());
        prop_assert!(from(Disk) <= seen.adapter_loads_disk.unwrap());
        prop_assert!(from(Remote) <= seen.adapter_loads_remote.unwrap());
        prop_assert!(tiers.remote.is_some() || seen.adapter_loads_remote == Some(0));
        prop_assert!(seen.adapter_prefetches_dropped <= seen.adapter_prefetches);
        prop_assert!(tiers.prefetch != Prefetch::None || seen.adapter_prefetches == Some(0));
    }

    #[test]
    fn the_same_run_with_tiers_gives_the_same(asks in asks(), mut spec in specs(), tiers in any_tiers()) {
        spec.adapter_tiers = tiers;
        spec.replicas = 2;
        let (one, two) = (run(&spec, &asks), run(&spec, &asks));
        prop_assert_eq!(one.by_id, two.by_id);
        prop_assert_eq!(one.rows, two.rows);
    }

    #[test]
    fn what_is_read_ahead_does_not_depend_on_where_a_stretch_is_cut(
        asks in asks(), mut spec in specs(), tiers in any_tiers(),
        mut cuts in prop::collection::vec(0u64..300_000_000, 0..60),
    ) {
        spec.adapter_tiers = tiers;
        cuts.sort_unstable();
        prop_assert_eq!(served_with_cuts(&spec, &asks, &cuts), served_with_cuts(&spec, &asks, &[]));
    }

    #[test]
    fn no_adapter_in_use_leaves_whatever_is_read_ahead(
        turns in prop::collection::vec((0u32..6, 0u64..60, 0u32..4), 1..80), tiers in any_tiers(),
        (gpu, more) in (1u32..3, 0u32..3),
    ) {
        let mut spec = slots(gpu, gpu + more);
        spec.adapter_tiers = tiers;
        let costs = AdapterCosts::new(&adapters(6), &spec, &spec.latency_profile().unwrap());
        let (mut pool, mut now, mut held) = (AdapterPool::new(&costs), Nanos::ZERO, Vec::new());
        for (step, (adapter, pause, act)) in (0u64..).zip(turns) {
            now += Nanos(pause * MS);
            pool.settle(&costs, Exact::from(now), (step, None));
            let adapter = AdapterId(adapter);
            match act {
                0 if !held.is_empty() => pool.release(held.remove(0), step),
                1 if held.contains(&adapter) || held.len() < gpu as usize => {
                    pool.acquire(adapter);
                    pool.begin_loads(Exact::from(now));
                    pool.load(adapter, &costs);
                    pool.end_loads();
                    held.push(adapter);
                }
                _ => pool.asked(adapter, &costs, now),
            }
            let (on_gpu, on_cpu) = (pool.gpu_adapters(), pool.cpu_adapters());
            prop_assert!(held.iter().all(|a| on_gpu.contains(a)));
            prop_assert!(on_gpu.iter().all(|a| on_cpu.contains(a)));
            prop_assert!(on_gpu.len() <= gpu as usize && on_cpu.len() <= (gpu + more) as usize);
            prop_assert_eq!(pool.cpu_bytes(), on_cpu.len() as u64 * 1_000_000);
        }
    }

    #[test]
    fn how_often_servers_are_looked_at_changes_nothing(asks in asks(), mut spec in specs(), tiers in any_tiers()) {
        spec.adapter_tiers = tiers;
        let seldom = run(&spec, &asks);
        spec.server_interval_ms = 1;
        prop_assert_eq!(seldom.by_id, run(&spec, &asks).by_id);
    }
}
