//! The block pool: KV memory in blocks, with a cache of full blocks by content (vLLM `v1/core/block_pool.py`).
//!
//! A free block keeps its content until it is taken: the free list is also the cache's LRU order. This module knows
//! nothing of requests.

use std::collections::VecDeque;

/// Index of a block.
pub(crate) type BlockId = u32;

/// No block: the end of a bucket.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Content hash; meaningful while `registered`.
    hash: u64,
    /// Next block in the same bucket, while registered.
    chained: u32,
    /// Requests that hold it, and whether it is registered: one word, to keep a block small.
    holders: u32,
    /// Its place in the free list, while free.
    place: u32,
}

const REGISTERED: u32 = 1 << 31;

/// Blocks whose buckets are read together.
const GROUP: u32 = 16;

/// All blocks of one replica.
#[derive(Clone, Debug)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    /// First registered block of each bucket; oldest registration first within a content.
    buckets: Vec<u32>,
    free_list: FreeList,
    free: u32,
    /// Free blocks that are registered.
    cached_free: u32,
    evictions: u64,
}

impl BlockPool {
    /// A pool of `count` blocks, free in ascending order.
    pub(crate) fn new(count: u32) -> Self {
        assert!(count > 0 && count < REGISTERED, "a pool has at least one block");
        let block = |i: u32| Block { hash: 0, chained: NONE, holders: 0, place: i };
        let buckets = (count as usize * 2).next_power_of_two();
        Self {
            blocks: (0..count).map(block).collect(),
            buckets: vec![NONE; buckets],
            free_list: FreeList { entries: (0..count).collect(), first_place: 0 },
            free: count,
            cached_free: 0,
            evictions: 0,
        }
    }

    /// Blocks in all.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Blocks that nobody holds.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Of these, blocks whose content can still be hit.
    pub(crate) fn cached_free(&self) -> u32 {
        self.cached_free
    }

    /// Contents given up to make room, so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The block with this content that was registered first.
    pub(crate) fn lookup(&self, hash: u64) -> Option<BlockId> {
        let mut at = self.buckets[self.bucket(hash)];
        while at != NONE {
            let block = &self.blocks[at as usize];
            if block.hash == hash {
                return Some(at);
            }
            at = block.chained;
        }
        None
    }

    /// Whether nobody holds the block.
    pub(crate) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].holders & !REGISTERED == 0
    }

    /// Takes one more hold of a cached block; a free one leaves the free list.
    pub(crate) fn touch(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.free -= 1;
            self.cached_free -= 1;
        }
        self.blocks[id as usize].holders += 1;
    }

    /// Takes blocks from the front of the free list, giving up their contents, and appends them to `taken`.
    ///
    /// # Panics
    /// When fewer are free: the caller checks first.
    pub(crate) fn take(&mut self, count: u32, taken: &mut Vec<BlockId>) {
        assert!(count <= self.free, "blocks are taken only when they are free");
        let mut left = count;
        while left > 0 {
            let group = left.min(GROUP);
            let start = taken.len();
            while taken.len() < start + group as usize {
                taken.extend(self.pop_front());
            }
            self.visit_buckets(taken[start..].iter().map(|&id| self.blocks[id as usize].hash));
            for &id in &taken[start..] {
                self.give_up_content(id);
                self.blocks[id as usize].holders = 1;
            }
            left -= group;
        }
    }

    /// Reads the buckets of a group of blocks before they are changed one after the other: independent reads wait for
    /// memory together. Makes no other difference.
    fn visit_buckets(&self, hashes: impl Iterator<Item = u64>) {
        let seen = hashes.fold(0, |seen, hash| seen ^ self.buckets[self.bucket(hash)]);
        std::hint::black_box(seen);
    }

    fn give_up_content(&mut self, id: BlockId) {
        if self.is_registered(id) {
            self.cached_free -= 1;
            self.evictions += 1;
            self.unregister(id);
        }
    }

    /// Registers the contents of held blocks.
    pub(crate) fn register(&mut self, ids: &[BlockId], hashes: &[u64]) {
        let groups = ids.chunks(GROUP as usize).zip(hashes.chunks(GROUP as usize));
        for (ids, hashes) in groups {
            self.visit_buckets(hashes.iter().copied());
            for (&id, &hash) in ids.iter().zip(hashes) {
                self.register_one(id, hash);
            }
        }
    }

    fn register_one(&mut self, id: BlockId, hash: u64) {
        let block = &mut self.blocks[id as usize];
        assert!(block.holders & REGISTERED == 0, "a block is registered once");
        assert!(block.holders > 0, "only a held block is registered");
        block.hash = hash;
        block.holders |= REGISTERED;
        block.chained = NONE;
        let bucket = self.bucket(hash);
        let mut at = self.buckets[bucket];
        if at == NONE {
            self.buckets[bucket] = id;
            return;
        }
        while self.blocks[at as usize].chained != NONE {
            at = self.blocks[at as usize].chained;
        }
        self.blocks[at as usize].chained = id;
    }

    /// Gives back a request's blocks, tail first: registered ones go to the back of the free list, others to the
    /// front. Those that others hold stay.
    pub(crate) fn release(&mut self, blocks: &mut Vec<BlockId>) {
        for id in blocks.drain(..).rev() {
            let block = &mut self.blocks[id as usize];
            assert!(block.holders & !REGISTERED > 0, "a block is given back by who holds it");
            block.holders -= 1;
            if block.holders & !REGISTERED > 0 {
                continue;
            }
            if block.holders & REGISTERED != 0 {
                self.cached_free += 1;
                self.link_back(id);
            } else {
                self.link_front(id);
            }
        }
    }

    /// Forgets all contents, and says whether it did: not while somebody holds a block (`reset_prefix_cache`).
    pub(crate) fn forget(&mut self) -> bool {
        if self.free < self.len() {
            return false;
        }
        for id in 0..self.len() {
            if self.is_registered(id) {
                self.unregister(id);
            }
        }
        self.cached_free = 0;
        true
    }

    /// Whether the block's content is in the cache.
    fn is_registered(&self, id: BlockId) -> bool {
        self.blocks[id as usize].holders & REGISTERED != 0
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn unregister(&mut self, id: BlockId) {
        let Block { hash, chained, .. } = self.blocks[id as usize];
        self.blocks[id as usize].holders &= !REGISTERED;
        let bucket = self.bucket(hash);
        if self.buckets[bucket] == id {
            self.buckets[bucket] = chained;
            return;
        }
        let mut at = self.buckets[bucket];
        while self.blocks[at as usize].chained != id {
            at = self.blocks[at as usize].chained;
        }
        self.blocks[at as usize].chained = chained;
    }

    /// Takes the first entry of the free list; `None` when it is out of date.
    fn pop_front(&mut self) -> Option<BlockId> {
        let (id, place) = self.free_list.pop_front();
        let holds = self.is_entry(id, place);
        self.free -= u32::from(holds);
        holds.then_some(id)
    }

    /// Whether an entry of the free list still holds: a block that was hit in between is held, or free elsewhere.
    fn is_entry(&self, id: BlockId, place: u32) -> bool {
        self.is_free(id) && self.blocks[id as usize].place == place
    }

    fn link_back(&mut self, id: BlockId) {
        self.blocks[id as usize].place = self.free_list.push_back(id);
        self.free += 1;
        if self.free_list.entries.len() > 2 * self.blocks.len() {
            self.compact();
        }
    }

    fn link_front(&mut self, id: BlockId) {
        self.blocks[id as usize].place = self.free_list.push_front(id);
        self.free += 1;
    }

    /// Drops the entries that are out of date.
    fn compact(&mut self) {
        for _ in 0..self.free_list.entries.len() {
            let (id, place) = self.free_list.pop_front();
            if self.is_entry(id, place) {
                self.blocks[id as usize].place = self.free_list.push_back(id);
            }
        }
    }
}

/// The free list in order, with entries out of date left in. Entries are numbered by place, which wraps around.
#[derive(Clone, Debug)]
struct FreeList {
    entries: VecDeque<BlockId>,
    first_place: u32,
}

impl FreeList {
    fn pop_front(&mut self) -> (BlockId, u32) {
        let id = self.entries.pop_front().expect("every free block has an entry");
        let place = self.first_place;
        self.first_place = place.wrapping_add(1);
        (id, place)
    }

    fn push_back(&mut self, id: BlockId) -> u32 {
        self.entries.push_back(id);
        self.first_place.wrapping_add(self.entries.len() as u32 - 1)
    }

    fn push_front(&mut self, id: BlockId) -> u32 {
        self.entries.push_front(id);
        self.first_place = self.first_place.wrapping_sub(1);
        self.first_place
    }
}

#[cfg(test)]
impl BlockPool {
    /// The free list from front to back.
    pub(crate) fn free_order(&self) -> Vec<BlockId> {
        let places = (0u32..).map(|i| self.free_list.first_place.wrapping_add(i));
        let entries = self.free_list.entries.iter().copied().zip(places);
        entries.filter(|&(id, place)| self.is_entry(id, place)).map(|(id, _)| id).collect()
    }

    /// Panics unless used + free = total and list, counters and index agree.
    pub(crate) fn assert_sound(&self) {
        let order = self.free_order();
        assert_eq!(order.len(), self.free as usize, "free list and its count");
        assert!(order.iter().all(|&b| self.is_free(b)), "only free blocks are in the free list");
        let held = (0..self.len()).filter(|&b| !self.is_free(b)).count();
        assert_eq!(held + order.len(), self.blocks.len(), "used + free = total");
        let cached = order.iter().filter(|&&b| self.is_registered(b)).count();
        assert_eq!(cached, self.cached_free as usize, "cached free blocks");
        for id in (0..self.len()).filter(|&b| self.is_registered(b)) {
            assert!(self.lookup(self.blocks[id as usize].hash).is_some(), "a registered block is found");
        }
    }
}
