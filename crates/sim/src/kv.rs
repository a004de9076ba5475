//! The block pool: KV memory in blocks, with a cache of full blocks by content (vLLM `v1/core/block_pool.py`).
//!
//! A free block keeps its content until it is taken: the free list is also the cache's LRU order. This module knows
//! nothing of requests.

use std::ops::Range;

/// Index of a block.
pub(crate) type BlockId = u32;

/// No block: the end of a bucket.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Bucket of its content, while registered.
    bucket: u32,
    /// Next block in the same bucket, while registered.
    chained: u32,
    /// Two marks, then for a free block its place in the free list, else how many requests hold it: one word, to keep a
    /// block small.
    state: u32,
}

const REGISTERED: u32 = 1 << 31;
const FREE: u32 = 1 << 30;
const PLACE: u32 = FREE - 1;

/// Contents that follow one another in a text have buckets side by side, up to so many.
const NEIGHBOURS: usize = 16;

/// The buckets that one line of a processor's cache holds: the first registered block of each; oldest registration first
/// within a content.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u32; NEIGHBOURS]);

/// All blocks of one replica.
#[derive(Clone, Debug)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    /// Content hash of each block; meaningful while it is registered.
    hashes: Vec<u64>,
    lines: Vec<Line>,
    free_list: FreeList,
    free: u32,
    /// Free blocks that are registered.
    cached_free: u32,
    evictions: u64,
}

impl BlockPool {
    /// A pool of `count` blocks, free in ascending order.
    pub(crate) fn new(count: u32) -> Self {
        assert!(count > 0 && count < FREE / 4, "a pool has at least one block");
        let block = |place: u32| Block { bucket: NONE, chained: NONE, state: FREE | place };
        let lines = (count as usize * 2).div_ceil(NEIGHBOURS).next_power_of_two();
        Self {
            blocks: (0..count).map(block).collect(),
            hashes: vec![0; count as usize],
            lines: vec![Line([NONE; NEIGHBOURS]); lines],
            free_list: FreeList::new(count),
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

    /// The block with the content number `at` of a text that was registered first. `hashes` are those of the text's
    /// contents in order.
    pub(crate) fn lookup(&self, hashes: &[u64], at: usize) -> Option<BlockId> {
        self.find(self.bucket(hashes, at), hashes[at])
    }

    fn find(&self, bucket: u32, hash: u64) -> Option<BlockId> {
        let mut at = self.lines[bucket as usize / NEIGHBOURS].0[bucket as usize % NEIGHBOURS];
        while at != NONE && self.hashes[at as usize] != hash {
            at = self.blocks[at as usize].chained;
        }
        (at != NONE).then_some(at)
    }

    /// Whether nobody holds the block.
    pub(crate) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].state & FREE != 0
    }

    /// Takes one more hold of a cached block; a free one leaves the free list.
    pub(crate) fn touch(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.free -= 1;
            self.cached_free -= 1;
            self.blocks[id as usize].state = REGISTERED;
        }
        self.blocks[id as usize].state += 1;
    }

    /// Takes blocks from the front of the free list, giving up their contents, and appends them to `taken`.
    ///
    /// # Panics
    /// When fewer are free: the caller checks first.
    pub(crate) fn take(&mut self, count: u32, taken: &mut Vec<BlockId>) {
        assert!(count <= self.free, "blocks are taken only when they are free");
        let Self { blocks, lines, free_list, .. } = self;
        let mut front = free_list.front();
        let mut given_up = 0;
        taken.extend((0..count).map(|_| {
            loop {
                let (place, id) = front.next().expect("every free block has an entry");
                let block = &mut blocks[id as usize];
                if !block.is_entry(place) {
                    continue;
                }
                let was = *block;
                block.state = 1;
                if was.state & REGISTERED != 0 {
                    let line = &mut lines[was.bucket as usize / NEIGHBOURS];
                    *link_to(&mut line.0[was.bucket as usize % NEIGHBOURS], blocks, id) = was.chained;
                    given_up += 1;
                }
                return id;
            }
        }));
        let left = front.len() as u32;
        drop(front);
        free_list.drop_front(left);
        self.free -= count;
        self.cached_free -= given_up;
        self.evictions += u64::from(given_up);
    }

    /// Registers the contents `full` of a text in the blocks that hold it.
    pub(crate) fn register(&mut self, blocks: &[BlockId], hashes: &[u64], full: Range<usize>) {
        let mut from = full.start;
        while from < full.end {
            let aside = from % NEIGHBOURS;
            let to = full.end.min(from - aside + NEIGHBOURS);
            let bucket = self.bucket(hashes, from);
            let line = &mut self.lines[bucket as usize / NEIGHBOURS].0[aside..];
            let contents = blocks[from..to].iter().zip(&hashes[from..to]);
            for ((first, bucket), (&id, &hash)) in line.iter_mut().zip(bucket..).zip(contents) {
                let block = &mut self.blocks[id as usize];
                assert!(
                    block.state & (REGISTERED | FREE) == 0,
                    "a block is registered once, by who holds it"
                );
                *block = Block { bucket, chained: NONE, state: block.state | REGISTERED };
                self.hashes[id as usize] = hash;
                *link_to(first, &mut self.blocks, NONE) = id;
            }
            from = to;
        }
    }

    /// Gives back a request's blocks, tail first: registered ones go to the back of the free list, others to the
    /// front. Those that others hold stay.
    pub(crate) fn release(&mut self, held: &mut Vec<BlockId>) {
        self.make_room(held.len());
        for &id in held.iter().rev() {
            let block = &mut self.blocks[id as usize];
            assert!(block.state & FREE == 0, "a block is given back by who holds it");
            block.state -= 1;
            if block.state & PLACE > 0 {
                continue;
            }
            self.free += 1;
            if block.state & REGISTERED != 0 {
                self.cached_free += 1;
                block.state = REGISTERED | FREE | self.free_list.push_back(id);
            } else {
                block.state = FREE | self.free_list.push_front(id);
            }
        }
        held.clear();
    }

    /// Forgets all contents, and says whether it did: not while somebody holds a block (`reset_prefix_cache`).
    pub(crate) fn forget(&mut self) -> bool {
        if self.free < self.len() {
            return false;
        }
        for block in &mut self.blocks {
            block.state &= !REGISTERED;
        }
        self.lines.fill(Line([NONE; NEIGHBOURS]));
        self.cached_free = 0;
        true
    }

    /// Bucket of the content number `at`. Its line follows from the hash of the first of its neighbours, which the text
    /// up to here determines, so that a text's contents are found in few places of memory.
    fn bucket(&self, hashes: &[u64], at: usize) -> u32 {
        let aside = at % NEIGHBOURS;
        let line = hashes[at - aside] as usize & (self.lines.len() - 1);
        (line * NEIGHBOURS + aside) as u32
    }

    /// Makes room for as many more entries of the free list, by dropping those that are out of date.
    fn make_room(&mut self, more: usize) {
        if self.free_list.len as usize + more <= self.free_list.ring.len() {
            return;
        }
        for _ in 0..self.free_list.len {
            let (id, place) = self.free_list.pop_front();
            let block = &mut self.blocks[id as usize];
            if block.is_entry(place) {
                block.state = block.state & !PLACE | self.free_list.push_back(id);
            }
        }
    }
}

/// The link of the bucket that begins at `first` that leads to `id`, or to the bucket's end.
fn link_to<'a>(first: &'a mut u32, blocks: &'a mut [Block], id: u32) -> &'a mut u32 {
    if *first == id {
        return first;
    }
    let mut at = *first as usize;
    while blocks[at].chained != id {
        at = blocks[at].chained as usize;
    }
    &mut blocks[at].chained
}

impl Block {
    /// Whether an entry of the free list still holds: a block that was hit in between is held, or free elsewhere.
    fn is_entry(self, place: u32) -> bool {
        self.state & !REGISTERED == FREE | place
    }
}

/// The free list in order, with entries out of date left in. Entries are numbered by place, which wraps around.
#[derive(Clone, Debug)]
struct FreeList {
    /// The entry of each place, modulo its length, a power of two.
    ring: Vec<BlockId>,
    first_place: u32,
    len: u32,
}

impl FreeList {
    /// All of `count` blocks in ascending order, and room for as many that are out of date.
    fn new(count: u32) -> Self {
        let mut ring: Vec<BlockId> = (0..count).collect();
        ring.resize((2 * count as usize).next_power_of_two(), NONE);
        Self { ring, first_place: 0, len: count }
    }

    fn slot(&mut self, place: u32) -> &mut BlockId {
        let mask = self.ring.len() - 1;
        &mut self.ring[place as usize & mask]
    }

    /// Entries from the front on, each with its place.
    fn front(&self) -> impl ExactSizeIterator<Item = (u32, BlockId)> {
        let (ring, first) = (&self.ring[..], self.first_place);
        (0..self.len).map(move |at| {
            let place = first.wrapping_add(at) & PLACE;
            (place, ring[place as usize & (ring.len() - 1)])
        })
    }

    /// Drops entries from the front until so many are left.
    fn drop_front(&mut self, left: u32) {
        self.first_place = (self.first_place + self.len - left) & PLACE;
        self.len = left;
    }

    fn pop_front(&mut self) -> (BlockId, u32) {
        let (place, id) = self.front().next().expect("every free block has an entry");
        self.drop_front(self.len - 1);
        (id, place)
    }

    fn push_back(&mut self, id: BlockId) -> u32 {
        let place = (self.first_place + self.len) & PLACE;
        self.len += 1;
        *self.slot(place) = id;
        place
    }

    fn push_front(&mut self, id: BlockId) -> u32 {
        let place = self.first_place.wrapping_sub(1) & PLACE;
        self.len += 1;
        self.first_place = place;
        *self.slot(place) = id;
        place
    }
}

#[cfg(test)]
impl BlockPool {
    /// The free list from front to back.
    pub(crate) fn free_order(&self) -> Vec<BlockId> {
        let entries = self.free_list.front();
        entries.filter(|&(place, id)| self.blocks[id as usize].is_entry(place)).map(|(_, id)| id).collect()
    }

    /// Panics unless used + free = total and list, counters and index agree.
    pub(crate) fn assert_sound(&self) {
        let order = self.free_order();
        assert_eq!(order.len(), self.free as usize, "free list and its count");
        assert!(order.iter().all(|&b| self.is_free(b)), "only free blocks are in the free list");
        let held = (0..self.len()).filter(|&b| !self.is_free(b)).count();
        assert_eq!(held + order.len(), self.blocks.len(), "used + free = total");
        let is_registered = |id: BlockId| self.blocks[id as usize].state & REGISTERED != 0;
        let cached = order.iter().filter(|&&b| is_registered(b)).count();
        assert_eq!(cached, self.cached_free as usize, "cached free blocks");
        for id in (0..self.len()).filter(|&b| is_registered(b)) {
            let (bucket, hash) = (self.blocks[id as usize].bucket, self.hashes[id as usize]);
            assert!(self.find(bucket, hash).is_some(), "a registered block is found");
        }
    }
}
