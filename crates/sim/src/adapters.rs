//! Adapters of one replica in two tiers: GPU slots and host memory, both LRU (vLLM `lora/worker_manager.py`).
//!
//! An adapter is used as long as a running request has it; used ones are touched in every step, so the LRU order of
//! the others is that of the step in which they were last used, ascending id within a step. (The engine touches the
//! adapters of a step in the order of a Python set, which is no order; ours is by id.)

use crate::exact::{Exact, Stretch};
use crate::loads::{Disk, StepLoads, Turns};
use crate::{ClusterSpec, Prefetch, Profile};
use acb_types::{AdapterId, AdapterLoad, Adapters, Nanos, Tier};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What an adapter costs to move and to keep.
#[derive(Clone, Copy, Debug)]
struct Weight {
    bytes: u64,
    gpu_load: Exact,
    cpu_load: Exact,
    fetch: Exact,
}

/// Sizes and costs of a catalogue, the same for all replicas.
#[derive(Clone, Debug)]
pub(crate) struct AdapterCosts {
    weights: Vec<Weight>,
    /// Most adapters in GPU slots.
    pub(crate) gpu_slots: u32,
    /// Most adapters in host memory.
    pub(crate) cpu_slots: u32,
    /// Most adapters on a replica's disk; `None`: all of them are there.
    pub(crate) disk_slots: Option<usize>,
    /// Loads that a replica makes at a time.
    pub(crate) loads_at_once: u32,
    /// What is read ahead.
    pub(crate) prefetch: Prefetch,
    /// Bytes of one slot, padding included.
    pub(crate) slot_bytes: u64,
}

impl AdapterCosts {
    pub(crate) fn new(adapters: &Adapters, spec: &ClusterSpec, profile: &Profile) -> Self {
        let tiers = &spec.adapter_tiers;
        let weight = |a: &acb_types::Adapter| Weight {
            bytes: a.bytes,
            fetch: Exact::from_millis(tiers.remote.as_ref().map_or(0.0, |remote| remote.fetch_ms(a.bytes))),
            gpu_load: Exact::from_millis(profile.gpu_load_ms(a.bytes)),
            cpu_load: Exact::from_millis(profile.cpu_load_ms(a.bytes)),
        };
        let (gpu_slots, rank) = spec.slots();
        Self {
            weights: adapters.iter().map(weight).collect(),
            gpu_slots,
            cpu_slots: spec.cpu_slots().unwrap_or(adapters.len() as u32),
            disk_slots: tiers
                .remote
                .as_ref()
                .map(|remote| remote.max_disk_loras.map_or(adapters.len(), |most| most as usize)),
            loads_at_once: tiers.loads_at_once,
            prefetch: tiers.prefetch,
            slot_bytes: u64::from(rank) * profile.lora_bytes_per_rank,
        }
    }

    /// Time to copy an adapter from host memory into a slot.
    pub(crate) fn gpu_load(&self, adapter: AdapterId) -> Exact {
        self.weights[adapter.index()].gpu_load
    }

    /// Time to read an adapter from disk.
    pub(crate) fn cpu_load(&self, adapter: AdapterId) -> Exact {
        self.weights[adapter.index()].cpu_load
    }

    /// Time to fetch an adapter that the disk does not hold.
    pub(crate) fn fetch(&self, adapter: AdapterId) -> Exact {
        self.weights[adapter.index()].fetch
    }

    /// Size of an adapter.
    pub(crate) fn bytes(&self, adapter: AdapterId) -> u64 {
        self.weights[adapter.index()].bytes
    }
}

/// Where an adapter is on a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    users: u32,
    last_used: u64,
    on_gpu: bool,
    on_cpu: bool,
    /// Being read ahead of need.
    on_way: bool,
    /// Requests that came for it, where that is counted.
    asked: u64,
}

/// An adapter that is being read ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OnWay {
    ready: Exact,
    adapter: AdapterId,
    from: Tier,
}

/// What moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdapterCounters {
    pub(crate) loads_cpu: u64,
    pub(crate) loads_disk: u64,
    pub(crate) loads_remote: u64,
    pub(crate) prefetches: u64,
    pub(crate) prefetches_dropped: u64,
    pub(crate) evictions_gpu: u64,
    pub(crate) evictions_cpu: u64,
    pub(crate) stall: Exact,
    /// Most adapters in host memory at any moment, the one being loaded before another is evicted included.
    pub(crate) most_on_cpu: u32,
}

/// The adapters of one replica.
#[derive(Clone, Debug)]
pub(crate) struct AdapterPool {
    places: Vec<Place>,
    /// Used adapters, in order of first use.
    used: Vec<AdapterId>,
    /// Adapters on the GPU that are not used, least recently used first.
    idle_gpu: BTreeSet<(u64, AdapterId)>,
    /// Adapters in host memory that are not used.
    idle_cpu: BTreeSet<(u64, AdapterId)>,
    /// Adapters being read ahead of need, in no order.
    on_way: Vec<OnWay>,
    /// Reads into host memory.
    reads: Turns,
    step_loads: StepLoads,
    disk: Disk,
    on_gpu: u32,
    on_cpu: u32,
    cpu_bytes: u64,
    counters: AdapterCounters,
}

impl AdapterPool {
    /// A replica that holds no adapter yet.
    pub(crate) fn new(costs: &AdapterCosts) -> Self {
        let count = costs.weights.len();
        Self {
            places: vec![Place::default(); count],
            used: Vec::new(),
            idle_gpu: BTreeSet::new(),
            idle_cpu: BTreeSet::new(),
            on_way: Vec::new(),
            reads: Turns::new(costs.loads_at_once),
            step_loads: StepLoads::new(costs.loads_at_once),
            disk: Disk::new(count),
            on_gpu: 0,
            on_cpu: 0,
            cpu_bytes: 0,
            counters: AdapterCounters::default(),
        }
    }

    /// Adapters of running requests.
    pub(crate) fn used(&self) -> &[AdapterId] {
        &self.used
    }

    /// Whether a running request has it.
    pub(crate) fn is_used(&self, adapter: AdapterId) -> bool {
        self.places[adapter.index()].users > 0
    }

    pub(crate) fn counters(&self) -> &AdapterCounters {
        &self.counters
    }

    pub(crate) fn on_gpu(&self) -> u32 {
        self.on_gpu
    }

    pub(crate) fn cpu_bytes(&self) -> u64 {
        self.cpu_bytes
    }

    /// Adapters in GPU slots, ascending.
    pub(crate) fn gpu_adapters(&self) -> Vec<AdapterId> {
        self.resident(&self.idle_gpu, |place| place.on_gpu)
    }

    /// Adapters in host memory, ascending.
    pub(crate) fn cpu_adapters(&self) -> Vec<AdapterId> {
        self.resident(&self.idle_cpu, |place| place.on_cpu)
    }

    fn resident(&self, idle: &BTreeSet<(u64, AdapterId)>, here: impl Fn(&Place) -> bool) -> Vec<AdapterId> {
        let used = self.used.iter().copied().filter(|a| here(&self.places[a.index()]));
        let mut found: Vec<AdapterId> = used.chain(idle.iter().map(|&(_, a)| a)).collect();
        found.sort_unstable();
        found
    }

    /// One more running request has this adapter.
    pub(crate) fn acquire(&mut self, adapter: AdapterId) {
        let place = &mut self.places[adapter.index()];
        place.users += 1;
        if place.users == 1 {
            self.used.push(adapter);
            self.idle_gpu.remove(&(place.last_used, adapter));
            self.idle_cpu.remove(&(place.last_used, adapter));
        }
    }

    /// One running request less has this adapter, which was last used in step `step`.
    pub(crate) fn release(&mut self, adapter: AdapterId, step: u64) {
        let place = &mut self.places[adapter.index()];
        assert!(place.users > 0, "an adapter is released by who has it");
        place.users -= 1;
        if place.users > 0 {
            return;
        }
        place.last_used = step;
        let (on_gpu, on_cpu) = (place.on_gpu, place.on_cpu);
        let at =
            self.used.iter().position(|&a| a == adapter).expect("an acquired adapter is in the used list");
        self.used.remove(at);
        if on_gpu {
            self.idle_gpu.insert((step, adapter));
        }
        if on_cpu {
            self.idle_cpu.insert((step, adapter));
        }
    }

    /// The loads of a step that begins at `now` follow.
    pub(crate) fn begin_loads(&mut self, now: Exact) {
        self.step_loads.begin(now);
    }

    /// How long the step waits for its loads.
    pub(crate) fn end_loads(&mut self) -> Exact {
        let wait = self.step_loads.wait();
        self.counters.stall += wait;
        wait
    }

    /// Brings a used adapter into a GPU slot; `None` when it is in one. The engine's step waits for it.
    pub(crate) fn load(&mut self, adapter: AdapterId, costs: &AdapterCosts) -> Option<AdapterLoad> {
        assert!(self.is_used(adapter), "only the adapter of a running request is loaded");
        if self.places[adapter.index()].on_gpu {
            return None;
        }
        let begin = self.step_loads.next();
        let (from, ready) = self.bring(adapter, costs, begin);
        if self.on_gpu == costs.gpu_slots {
            self.evict_from_gpu();
        }
        self.places[adapter.index()].on_gpu = true;
        self.on_gpu += 1;
        *match from {
            Tier::Gpu | Tier::Cpu => &mut self.counters.loads_cpu,
            Tier::Disk => &mut self.counters.loads_disk,
            Tier::Remote => &mut self.counters.loads_remote,
        } += 1;
        assert!(self.on_gpu <= costs.gpu_slots, "adapters fit their slots");
        let copied = self.step_loads.copy(ready, costs.gpu_load(adapter));
        Some(AdapterLoad { from, stall_ns: (copied - begin).floor() })
    }

    /// Has an adapter in host memory: where it was, and when it is there. What is on its way is waited for.
    fn bring(&mut self, adapter: AdapterId, costs: &AdapterCosts, begin: Exact) -> (Tier, Exact) {
        let Place { on_cpu, on_way, .. } = self.places[adapter.index()];
        if on_cpu {
            return (Tier::Cpu, begin);
        }
        let OnWay { ready, from, .. } = match on_way {
            true => self.take_on_way(adapter),
            false => self.read(adapter, costs, begin),
        };
        self.register(adapter, costs);
        (from, ready.max(begin))
    }

    /// Reads an adapter when it is its turn.
    fn read(&mut self, adapter: AdapterId, costs: &AdapterCosts, at: Exact) -> OnWay {
        let (from, length) = self.disk.read(adapter, costs);
        let ready = self.reads.next(at) + length;
        self.reads.take(ready);
        OnWay { ready, adapter, from }
    }

    fn take_on_way(&mut self, adapter: AdapterId) -> OnWay {
        let at = self.on_way.iter().position(|one| one.adapter == adapter);
        let taken = self.on_way.swap_remove(at.expect("an adapter on its way is in the list"));
        self.places[adapter.index()].on_way = false;
        taken
    }

    /// A request for this adapter came at `at`: reads ahead what the policy says. What was on its way has been settled.
    pub(crate) fn asked(&mut self, adapter: AdapterId, costs: &AdapterCosts, at: Nanos) {
        let wanted = match costs.prefetch {
            Prefetch::None => return,
            Prefetch::OnArrival => Some(adapter),
            Prefetch::Popular => {
                self.places[adapter.index()].asked += 1;
                self.most_asked_outside(costs)
            }
        };
        let outside = |a: &AdapterId| !self.places[a.index()].on_cpu && !self.places[a.index()].on_way;
        if let Some(wanted) = wanted.filter(outside) {
            let read = self.read(wanted, costs, Exact::from(at));
            self.on_way.push(read);
            self.places[wanted.index()].on_way = true;
            self.counters.prefetches += 1;
        }
    }

    /// The adapter most asked for that is neither in host memory nor on its way, if it is worth a place there.
    fn most_asked_outside(&self, costs: &AdapterCosts) -> Option<AdapterId> {
        let places = self.places.iter().zip((0..).map(AdapterId));
        let outside = places.filter(|(place, _)| place.asked > 0 && !place.on_cpu && !place.on_way);
        let (best, id) = outside.max_by_key(|&(place, id)| (place.asked, Reverse(id)))?;
        let room = self.on_cpu + (self.on_way.len() as u32) < costs.cpu_slots;
        let next_to_go = self.idle_cpu.first().map(|&(_, id)| self.places[id.index()].asked);
        (room || next_to_go.is_some_and(|asked| asked < best.asked)).then_some(id)
    }

    /// Whether anything is being read ahead.
    pub(crate) fn awaits_any(&self) -> bool {
        !self.on_way.is_empty()
    }

    /// Takes in what was read ahead by `at`. `stretch` are the steps in progress, the first of which is number `step`:
    /// an adapter counts as used in the step in which it came.
    pub(crate) fn settle(
        &mut self,
        costs: &AdapterCosts,
        at: Exact,
        (step, stretch): (u64, Option<&Stretch>),
    ) {
        while let Some(&next) = self.on_way.iter().min().filter(|next| next.ready <= at) {
            self.take_on_way(next.adapter);
            if self.on_cpu == costs.cpu_slots && self.idle_cpu.is_empty() {
                self.counters.prefetches_dropped += 1;
                continue;
            }
            let ended = stretch.map_or(0, |stretch| stretch.ended_by(next.ready.floor()));
            self.register(next.adapter, costs);
            self.places[next.adapter.index()].last_used = step + ended;
            self.idle_cpu.insert((step + ended, next.adapter));
        }
    }

    /// Takes an adapter that nobody uses out of both tiers; no eviction, for nothing else needed its place.
    pub(crate) fn forget(&mut self, adapter: AdapterId, costs: &AdapterCosts) {
        self.assert_idle(adapter);
        if self.places[adapter.index()].on_way {
            self.take_on_way(adapter);
        }
        let place = &mut self.places[adapter.index()];
        let (was_on_gpu, was_on_cpu) = (place.on_gpu, place.on_cpu);
        (place.on_gpu, place.on_cpu) = (false, false);
        if was_on_gpu {
            self.idle_gpu.remove(&(place.last_used, adapter));
            self.on_gpu -= 1;
        }
        if was_on_cpu {
            self.idle_cpu.remove(&(place.last_used, adapter));
            self.on_cpu -= 1;
            self.cpu_bytes -= costs.weights[adapter.index()].bytes;
        }
    }

    /// Reads into host memory first and evicts after, as the engine does: one more for a moment.
    fn register(&mut self, adapter: AdapterId, costs: &AdapterCosts) {
        self.places[adapter.index()].on_cpu = true;
        self.on_cpu += 1;
        self.cpu_bytes += costs.weights[adapter.index()].bytes;
        self.counters.most_on_cpu = self.counters.most_on_cpu.max(self.on_cpu);
        if self.on_cpu > costs.cpu_slots {
            let (_, victim) = self.idle_cpu.pop_first().expect("an adapter that is not used can be evicted");
            self.assert_idle(victim);
            let place = &mut self.places[victim.index()];
            place.on_cpu = false;
            self.on_cpu -= 1;
            self.cpu_bytes -= costs.weights[victim.index()].bytes;
            self.counters.evictions_cpu += 1;
            if std::mem::take(&mut place.on_gpu) {
                self.idle_gpu.remove(&(place.last_used, victim));
                self.on_gpu -= 1;
                self.counters.evictions_gpu += 1;
            }
        }
    }

    fn evict_from_gpu(&mut self) {
        let (_, victim) = self.idle_gpu.pop_first().expect("an adapter that is not used can be evicted");
        self.assert_idle(victim);
        self.places[victim.index()].on_gpu = false;
        self.on_gpu -= 1;
        self.counters.evictions_gpu += 1;
    }

    fn assert_idle(&self, victim: AdapterId) {
        assert!(!self.is_used(victim), "an adapter in use is never evicted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::AdapterRole;

    fn costs(gpu_slots: u32, cpu_slots: u32) -> AdapterCosts {
        let adapters =
            Adapters::new((0..6).map(|i| (format!("a{i}"), 8, 100, AdapterRole::Placebo))).unwrap();
        let vllm =
            crate::VllmSpec { max_loras: gpu_slots, max_cpu_loras: Some(cpu_slots), ..Default::default() };
        let spec = ClusterSpec { engine: crate::EngineSpec::Vllm(vllm), ..ClusterSpec::new(1, 9, "") };
        AdapterCosts::new(&adapters, &spec, &crate::profile("llama-3.1-8b-vllm-0.8.5").unwrap())
    }

    fn serve(pool: &mut AdapterPool, costs: &AdapterCosts, adapter: u32, step: u64) -> Option<Tier> {
        pool.acquire(AdapterId(adapter));
        pool.begin_loads(Exact::ZERO);
        let loaded = pool.load(AdapterId(adapter), costs).map(|load| load.from);
        pool.release(AdapterId(adapter), step);
        loaded
    }

    #[test]
    fn the_least_recently_used_adapter_leaves_its_slot_and_stays_in_host_memory() {
        let costs = costs(2, 6);
        let mut pool = AdapterPool::new(&costs);
        for (step, adapter) in (0..).zip([0, 1, 0, 2]) {
            serve(&mut pool, &costs, adapter, step);
        }
        assert_eq!(pool.gpu_adapters(), [AdapterId(0), AdapterId(2)]);
        assert_eq!(pool.cpu_adapters(), [AdapterId(0), AdapterId(1), AdapterId(2)]);
        assert_eq!(serve(&mut pool, &costs, 1, 9), Some(Tier::Cpu));
        assert_eq!(serve(&mut pool, &costs, 1, 10), None);
    }

    #[test]
    fn host_memory_holds_one_more_while_an_adapter_is_read() {
        let costs = costs(1, 2);
        let mut pool = AdapterPool::new(&costs);
        for (step, adapter) in (0..).zip([0, 1, 2, 0]) {
            assert_eq!(serve(&mut pool, &costs, adapter, step), Some(Tier::Disk));
        }
        assert_eq!(pool.counters().most_on_cpu, 3);
        assert_eq!((pool.cpu_adapters().len(), pool.cpu_bytes()), (2, 200));
        assert_eq!(pool.counters().evictions_cpu, 2);
    }

    #[test]
    fn an_adapter_in_use_is_never_evicted() {
        let costs = costs(2, 2);
        let mut pool = AdapterPool::new(&costs);
        pool.acquire(AdapterId(0));
        pool.load(AdapterId(0), &costs);
        for (step, adapter) in (0..).zip([1, 2, 3, 4, 5]) {
            serve(&mut pool, &costs, adapter, step);
            assert!(pool.gpu_adapters().contains(&AdapterId(0)));
        }
    }
}
