//! The block pool: KV memory in blocks, with a cache of full blocks by content (vLLM `v1/core/block_pool.py`).
//!
//! A free block keeps its content until it is taken: the free list is also the cache's LRU order. This module knows
//! nothing of requests.

/// Index of a block.
pub(crate) type BlockId = u32;

/// No block: the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Content hash; meaningful while `registered`.
    hash: u64,
    /// Neighbours in the free list, while free.
    before: u32,
    after: u32,
    /// Next block in the same bucket, while registered.
    chained: u32,
    /// Requests that hold it, and whether it is registered: one word, to keep a block in half a cache line.
    holders: u32,
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
    first_free: u32,
    last_free: u32,
    free: u32,
    /// Free blocks that are registered.
    cached_free: u32,
    evictions: u64,
}

impl BlockPool {
    /// A pool of `count` blocks, free in ascending order.
    pub(crate) fn new(count: u32) -> Self {
        assert!(count > 0 && count < REGISTERED, "a pool has at least one block");
        let block = |i: u32| Block {
            hash: 0,
            before: i.wrapping_sub(1),
            after: if i + 1 == count { NONE } else { i + 1 },
            chained: NONE,
            holders: 0,
        };
        let buckets = (count as usize * 2).next_power_of_two();
        Self {
            blocks: (0..count).map(block).collect(),
            buckets: vec![NONE; buckets],
            first_free: 0,
            last_free: count - 1,
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
            self.unlink(id);
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
            for _ in 0..group {
                taken.push(self.first_free);
                self.unlink(self.first_free);
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

    fn unlink(&mut self, id: BlockId) {
        let Block { before, after, .. } = self.blocks[id as usize];
        match before {
            NONE => self.first_free = after,
            _ => self.blocks[before as usize].after = after,
        }
        match after {
            NONE => self.last_free = before,
            _ => self.blocks[after as usize].before = before,
        }
        self.free -= 1;
    }

    fn link_back(&mut self, id: BlockId) {
        let last = self.last_free;
        self.blocks[id as usize].before = last;
        self.blocks[id as usize].after = NONE;
        match last {
            NONE => self.first_free = id,
            _ => self.blocks[last as usize].after = id,
        }
        self.last_free = id;
        self.free += 1;
    }

    fn link_front(&mut self, id: BlockId) {
        let first = self.first_free;
        self.blocks[id as usize].before = NONE;
        self.blocks[id as usize].after = first;
        match first {
            NONE => self.last_free = id,
            _ => self.blocks[first as usize].before = id,
        }
        self.first_free = id;
        self.free += 1;
    }
}

#[cfg(test)]
impl BlockPool {
    /// The free list from front to back.
    pub(crate) fn free_order(&self) -> Vec<BlockId> {
        let mut order = Vec::new();
        let mut at = self.first_free;
        while at != NONE {
            order.push(at);
            at = self.blocks[at as usize].after;
        }
        order
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
