//! GPU slots of one replica (`lora/mem_pool.py`, `lora/eviction_policy.py`, `lora/lora_overlap_loader.py`): the base
//! model takes one like any adapter, and has one from the start (`lora/lora_manager.py`, `init_memory_pool`).
//!
//! Only what the step at hand needs is safe: a running request's adapter can lose its slot to a prefill step that does
//! not have it, and is loaded again when it decodes.

use super::rules::LoraRules;
use crate::LoraEvictionPolicy;
use crate::adapters::AdapterCosts;
use crate::exact::Exact;
use acb_types::{AdapterId, AdapterLoad, Tier};

/// What a slot holds: an adapter, or the base model.
pub(super) type Holder = Option<AdapterId>;

#[derive(Clone, Copy, Debug)]
struct Slot {
    holder: Holder,
    /// Order of giving up, least first.
    stamp: u64,
    /// When its weights are there; copies made by a step itself are there at once.
    ready: Exact,
    /// The copy beside the computation that brought it, until the first request that it was made for enters.
    brought: Option<AdapterLoad>,
}

/// How a load beside the computation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// The weights are there.
    Ready,
    /// They are on their way, or there is no room for them yet.
    NotYet,
}

/// The slots.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    marks: u64,
    /// When the last copy beside the computation is done.
    copied: Exact,
    evictions: u64,
}

impl Slots {
    /// As at start: the base model has a slot, and the others are empty.
    pub(super) fn new() -> Self {
        let base = Slot { holder: None, stamp: 0, ready: Exact::ZERO, brought: None };
        Self { slots: vec![base], marks: 0, copied: Exact::ZERO, evictions: 0 }
    }

    /// Adapters in slots, ascending.
    pub(super) fn adapters(&self) -> Vec<AdapterId> {
        let mut found: Vec<AdapterId> = self.slots.iter().filter_map(|slot| slot.holder).collect();
        found.sort_unstable();
        found
    }

    /// Adapters dropped so far.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Makes room for all of `batch` (ascending, base first) and marks them as used in that order; what has to be copied
    /// is appended to `missing`.
    pub(super) fn prepare(&mut self, batch: &[Holder], rules: &LoraRules, missing: &mut Vec<AdapterId>) {
        let first = self.marks + 1;
        self.marks += batch.len() as u64;
        for (stamp, &holder) in (first..).zip(batch) {
            let slot = self.slots.iter_mut().find(|slot| slot.holder == holder);
            if let (Some(slot), LoraEvictionPolicy::Lru) = (slot, rules.eviction) {
                slot.stamp = stamp;
            }
        }
        for (stamp, &holder) in (first..).zip(batch) {
            if self.slots.iter().any(|slot| slot.holder == holder) {
                continue;
            }
            if self.slots.len() == rules.slots {
                self.evict(batch, rules);
            }
            self.slots.push(Slot { holder, stamp, ready: Exact::ZERO, brought: None });
            missing.extend(holder);
        }
    }

    /// Drops the holder that is next to go: an adapter if any can go, else the base model.
    fn evict(&mut self, batch: &[Holder], rules: &LoraRules) {
        let may_go = |slot: &Slot| {
            !batch.contains(&slot.holder) && slot.holder.is_none_or(|a| !rules.pinned[a.index()])
        };
        let candidates = self.slots.iter().enumerate().filter(|(_, slot)| may_go(slot));
        let victim = candidates.min_by_key(|(_, slot)| (slot.holder.is_none(), slot.stamp));
        let (at, slot) = victim.expect("a batch that passed the check has room for its adapters");
        assert!(!batch.contains(&slot.holder), "an adapter in use is never evicted");
        self.evictions += u64::from(slot.holder.is_some());
        self.slots.swap_remove(at);
    }

    /// Drops an adapter that left host memory.
    pub(super) fn remove(&mut self, adapter: AdapterId) {
        if let Some(at) = self.slots.iter().position(|slot| slot.holder == Some(adapter)) {
            self.slots.swap_remove(at);
            self.evictions += 1;
        }
    }

    /// Asks for weights to be copied beside the computation, at `now`; `needed` (ascending) keep their slots. What has to
    /// be copied is appended to `missing`.
    pub(super) fn load_beside(
        &mut self,
        holder: Holder,
        needed: &[Holder],
        (rules, costs, now): (&LoraRules, &AdapterCosts, Exact),
        missing: &mut Vec<AdapterId>,
    ) -> Beside {
        if let Some(slot) = self.slots.iter().find(|slot| slot.holder == holder) {
            return if slot.ready <= now { Beside::Ready } else { Beside::NotYet };
        }
        let pending = self.slots.iter().filter(|slot| slot.ready > now).map(|slot| slot.holder);
        let mut all: Vec<Holder> = needed.iter().copied().chain(pending).chain([holder]).collect();
        all.sort_unstable();
        all.dedup();
        if !fits(&all, rules) {
            return Beside::NotYet;
        }
        self.prepare(&all, rules, missing);
        let cost = holder.map_or(Exact::ZERO, |adapter| costs.gpu_load(adapter));
        let ready = self.copied.max(now) + cost;
        if cost > Exact::ZERO {
            self.copied = ready;
        }
        let slot = self.slots.iter_mut().find(|slot| slot.holder == holder);
        slot.expect("room was just made").ready = ready;
        if ready <= now { Beside::Ready } else { Beside::NotYet }
    }

    /// An adapter is being copied beside the computation since `now`, from this tier.
    pub(super) fn note_beside(&mut self, adapter: AdapterId, from: Tier, now: Exact) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.holder == Some(adapter)) {
            let stall_ns = (slot.ready.max(now) - now).floor();
            slot.brought = Some(AdapterLoad { from, stall_ns });
        }
    }

    /// A request enters with weights that were copied beside the computation: their load, if it is the first.
    pub(super) fn take_brought(&mut self, holder: Holder) -> Option<AdapterLoad> {
        self.slots.iter_mut().find(|slot| slot.holder == holder)?.brought.take()
    }

    /// When the next copy beside the computation is done, after `now`.
    pub(super) fn next_ready(&self, now: Exact) -> Option<Exact> {
        self.slots.iter().map(|slot| slot.ready).filter(|&ready| ready > now).min()
    }
}

/// Whether these can be in slots together (`validate_lora_batch`): pinned ones hold theirs whether they are here or not.
pub(super) fn fits(batch: &[Holder], rules: &LoraRules) -> bool {
    let pinned_here = batch.iter().flatten().filter(|a| rules.pinned[a.index()]).count();
    batch.len() <= rules.slots && batch.len() - pinned_here <= rules.slots - rules.pinned_count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(slots: usize, eviction: LoraEvictionPolicy, pinned: &[u32]) -> LoraRules {
        let pinned = (0..6).map(|i| pinned.contains(&i)).collect();
        LoraRules { slots, eviction, overlap: false, drain_after: None, max_loaded: None, pinned }
    }

    fn batch(ids: &[u32]) -> Vec<Holder> {
        ids.iter().map(|&id| Some(AdapterId(id))).collect()
    }

    fn after(rules: &LoraRules, batches: &[Vec<Holder>]) -> Vec<u32> {
        let mut slots = Slots::new();
        batches.iter().for_each(|batch| slots.prepare(batch, rules, &mut Vec::new()));
        slots.adapters().iter().map(|a| a.0).collect()
    }

    #[test]
    fn l5_a_pinned_adapter_keeps_its_slot_and_counts_whether_it_is_asked_for_or_not() {
        let rules = rules(2, LoraEvictionPolicy::Lru, &[0]);
        assert_eq!(after(&rules, &[batch(&[0, 1]), batch(&[2])]), [0, 2], "b goes");
        assert!(!fits(&batch(&[2, 3]), &rules), "c and d need two slots, and one is not pinned");
        assert!(fits(&batch(&[0, 3]), &rules) && fits(&batch(&[3]), &rules));
    }

    #[test]
    fn the_least_recently_used_goes_under_lru_and_the_first_loaded_under_fifo() {
        let batches = [batch(&[0]), batch(&[1]), batch(&[0]), batch(&[2])];
        assert_eq!(after(&rules(3, LoraEvictionPolicy::Lru, &[]), &batches), [0, 2]);
        assert_eq!(after(&rules(3, LoraEvictionPolicy::Fifo, &[]), &batches), [1, 2]);
    }

    #[test]
    fn of_one_batch_the_lower_id_was_used_earlier() {
        let rules = rules(3, LoraEvictionPolicy::Lru, &[]);
        assert_eq!(after(&rules, &[batch(&[0, 1, 2]), batch(&[3])]), [1, 2, 3]);
    }

    #[test]
    fn an_adapter_goes_before_the_base_model() {
        let rules = rules(2, LoraEvictionPolicy::Lru, &[]);
        assert_eq!(
            after(&rules, &[batch(&[0]), batch(&[1])]),
            [1],
            "the base model stays, though nobody asked"
        );
        assert_eq!(after(&rules, &[batch(&[0]), batch(&[0, 1])]), [0, 1], "it goes last");
    }
}
