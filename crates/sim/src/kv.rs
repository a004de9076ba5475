//! The block pool: KV memory in blocks, with a cache of full blocks by content (vLLM `v1/core/block_pool.py`).
//!
//! A free block keeps its content until it is taken: the free list is also the cache's LRU order. Blocks without content
//! are first in it and alike, so they are only counted. Contents that are registered together are kept in *chunks*, so
//! that most of the work is per chunk; what happens is as if each block was in the list alone. This module knows nothing
//! of requests.

use std::collections::VecDeque;
use std::ops::Range;

/// No chunk: the end of a bucket.
const NONE: u32 = u32::MAX;

/// Most contents of a chunk: those of one text whose numbers differ only in the remainder.
const NEIGHBOURS: usize = 16;

/// State of a content that isn't in a block any more.
const GONE: u32 = 0;
/// Mark of a free block, beside the place of its entry in the free list. Without it: how many requests hold the block.
const FREE: u32 = 1 << 31;
const PLACE: u32 = FREE - 1;

/// Contents of one text that were registered together.
#[derive(Clone, Debug)]
struct Chunk {
    /// State of the block of each content.
    states: [u32; NEIGHBOURS],
    /// Contents that are still in a block.
    left: u32,
    bucket: u32,
    /// The chunk that was registered next of those in the same bucket.
    next: u32,
}

/// Blocks of one chunk that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    chunk: u32,
    from: u8,
    to: u8,
}

impl Span {
    fn len(self) -> u32 {
        u32::from(self.to - self.from)
    }

    fn range(self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }
}

/// Blocks in a request's hands, in the order of its text: those whose content is registered, then the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    spans: Vec<Span>,
    registered: u32,
    blank: u32,
}

impl Held {
    /// Blocks in all.
    pub(crate) fn len(&self) -> u32 {
        self.registered + self.blank
    }

    /// Adds blocks that were taken from the pool.
    pub(crate) fn add(&mut self, taken: u32) {
        self.blank += taken;
    }
}

/// All blocks of one replica.
#[derive(Clone, Debug)]
pub(crate) struct BlockPool {
    len: u32,
    free: u32,
    /// Free blocks that are registered.
    cached_free: u32,
    evictions: u64,
    chunks: Vec<Chunk>,
    /// Content hashes of each chunk; meaningful while they are in a block.
    hashes: Vec<[u64; NEIGHBOURS]>,
    /// Places of `chunks` that are not in use.
    vacant: Vec<u32>,
    /// First chunk of each bucket.
    buckets: Vec<u32>,
    /// The free list behind the blocks without content: chunks, each for those of its blocks that name this place, the
    /// last of them first. Entries that no block names any more are left in.
    entries: VecDeque<u32>,
    /// Place of the first entry; places wrap around.
    first_place: u32,
}

impl BlockPool {
    /// A pool of `count` free blocks.
    pub(crate) fn new(count: u32) -> Self {
        assert!(count > 0 && count < FREE / 8, "a pool has at least one block");
        Self {
            len: count,
            free: count,
            cached_free: 0,
            evictions: 0,
            chunks: Vec::new(),
            hashes: Vec::new(),
            vacant: Vec::new(),
            buckets: vec![NONE; count.div_ceil(4).next_power_of_two() as usize],
            entries: VecDeque::new(),
            first_place: 0,
        }
    }

    /// Blocks in all.
    pub(crate) fn len(&self) -> u32 {
        self.len
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

    /// Appends to `hits` the blocks with the first contents of a text, as far as they are cached, and says how many they
    /// are. `hashes` are those of the contents. Of several blocks with one content, the one registered first is hit.
    pub(crate) fn find(&self, hashes: &[u64], hits: &mut Vec<Span>) -> u32 {
        for (line, hashes) in (0u32..).zip(hashes.chunks(NEIGHBOURS)) {
            let first = self.buckets[self.bucket(hashes[0])];
            for (aside, &hash) in (0u8..).zip(hashes) {
                let Some(chunk) = self.first_with(first, usize::from(aside), hash) else {
                    return line * NEIGHBOURS as u32 + u32::from(aside);
                };
                match hits.last_mut() {
                    Some(span) if span.chunk == chunk && span.to == aside => span.to += 1,
                    _ => hits.push(Span { chunk, from: aside, to: aside + 1 }),
                }
            }
        }
        hashes.len() as u32
    }

    /// The first chunk of a bucket, from `first` on, with this content.
    fn first_with(&self, first: u32, aside: usize, hash: u64) -> Option<u32> {
        let mut at = first;
        while at != NONE {
            let chunk = &self.chunks[at as usize];
            if self.hashes[at as usize][aside] == hash && chunk.states[aside] != GONE {
                return Some(at);
            }
            at = chunk.next;
        }
        None
    }

    /// How many of these blocks nobody holds.
    pub(crate) fn free_among(&self, hits: &[Span]) -> u32 {
        let states = hits.iter().flat_map(|hit| &self.chunks[hit.chunk as usize].states[hit.range()]);
        states.filter(|&&state| state & FREE != 0).count() as u32
    }

    /// Takes one more hold of cached blocks for who holds nothing yet; free ones leave the free list.
    pub(crate) fn touch(&mut self, hits: &[Span], held: &mut Held) {
        assert_eq!(held.len(), 0, "hits are the first blocks of a text");
        for hit in hits {
            for state in &mut self.chunks[hit.chunk as usize].states[hit.range()] {
                if *state & FREE != 0 {
                    self.free -= 1;
                    self.cached_free -= 1;
                    *state = 0;
                }
                *state += 1;
            }
            held.registered += hit.len();
        }
        held.spans.extend_from_slice(hits);
    }

    /// Takes blocks from the front of the free list, giving up their contents.
    ///
    /// # Panics
    /// When fewer are free: the caller checks first.
    pub(crate) fn take(&mut self, count: u32) {
        assert!(count <= self.free, "blocks are taken only when they are free");
        let blank = self.free - self.cached_free;
        self.free -= count;
        if count > blank {
            self.evict(count - blank);
        }
    }

    /// Gives up the contents of so many blocks at the front of the free list.
    fn evict(&mut self, count: u32) {
        self.cached_free -= count;
        self.evictions += u64::from(count);
        let mut missing = count;
        while missing > 0 {
            let &id = self.entries.front().expect("every free block with content has an entry");
            let chunk = &mut self.chunks[id as usize];
            let before = missing;
            for state in chunk.states.iter_mut().rev() {
                if *state == FREE | self.first_place {
                    if missing == 0 {
                        break;
                    }
                    *state = GONE;
                    missing -= 1;
                }
            }
            chunk.left -= before - missing;
            if chunk.left == 0 && before > missing {
                self.remove(id);
            }
            if missing > 0 {
                self.pop_entry();
            }
        }
    }

    /// Registers the contents `full` of a text in the blocks that hold it. `hashes` are those of the text's contents.
    ///
    /// # Panics
    /// Unless all contents before them are registered, and they are not.
    pub(crate) fn register(&mut self, held: &mut Held, hashes: &[u64], full: Range<usize>) {
        assert_eq!(full.start, held.registered as usize, "a block is registered once, by who holds it");
        let count = full.len() as u32;
        held.blank = held.blank.checked_sub(count).expect("a block is registered by who holds it");
        held.registered += count;
        let mut from = full.start;
        while from < full.end {
            let line = from - from % NEIGHBOURS;
            let to = full.end.min(line + NEIGHBOURS);
            let span = Span { chunk: self.vacancy(), from: (from - line) as u8, to: (to - line) as u8 };
            self.hashes[span.chunk as usize][span.range()].copy_from_slice(&hashes[from..to]);
            self.insert(span, self.bucket(hashes[line]));
            held.spans.push(span);
            from = to;
        }
    }

    /// A place for a chunk.
    fn vacancy(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk { states: [GONE; NEIGHBOURS], left: 0, bucket: NONE, next: NONE });
            self.hashes.push([0; NEIGHBOURS]);
            (self.chunks.len() - 1) as u32
        })
    }

    /// Puts a new chunk with these blocks, held once, last into a bucket.
    fn insert(&mut self, span: Span, bucket: usize) {
        let chunk = &mut self.chunks[span.chunk as usize];
        chunk.states[span.range()].fill(1);
        (chunk.left, chunk.bucket, chunk.next) = (span.len(), bucket as u32, NONE);
        *self.link_to(bucket, NONE) = span.chunk;
    }

    /// Takes a chunk without contents out of its bucket.
    fn remove(&mut self, id: u32) {
        let Chunk { bucket, next, .. } = self.chunks[id as usize];
        *self.link_to(bucket as usize, id) = next;
        self.vacant.push(id);
    }

    /// The link of a bucket that leads to `id`, or to the bucket's end.
    fn link_to(&mut self, bucket: usize, id: u32) -> &mut u32 {
        let first = &mut self.buckets[bucket];
        if *first == id {
            return first;
        }
        let mut at = *first as usize;
        while self.chunks[at].next != id {
            at = self.chunks[at].next as usize;
        }
        &mut self.chunks[at].next
    }

    /// Gives back a request's blocks, tail first: registered ones go to the back of the free list, others to the
    /// front. Those that others hold stay.
    pub(crate) fn release(&mut self, held: &mut Held) {
        self.drop_old_entries();
        for span in held.spans.drain(..).rev() {
            let entry = FREE | (self.first_place.wrapping_add(self.entries.len() as u32) & PLACE);
            let mut freed = 0;
            for state in &mut self.chunks[span.chunk as usize].states[span.range()] {
                assert!(*state != GONE && *state & FREE == 0, "a block is given back by who holds it");
                *state -= 1;
                if *state == 0 {
                    *state = entry;
                    freed += 1;
                }
            }
            if freed > 0 {
                self.entries.push_back(span.chunk);
                self.cached_free += freed;
                self.free += freed;
            }
        }
        self.free += held.blank;
        (held.registered, held.blank) = (0, 0);
    }

    /// Forgets all contents, and says whether it did: not while somebody holds a block (`reset_prefix_cache`).
    pub(crate) fn forget(&mut self) -> bool {
        if self.free < self.len {
            return false;
        }
        self.chunks.clear();
        self.hashes.clear();
        self.vacant.clear();
        self.entries.clear();
        self.buckets.fill(NONE);
        self.cached_free = 0;
        true
    }

    /// Bucket of a line of neighbours, by the hash of its first content, which the text up to there determines.
    fn bucket(&self, first: u64) -> usize {
        first as usize & (self.buckets.len() - 1)
    }

    fn pop_entry(&mut self) -> Option<u32> {
        let id = self.entries.pop_front()?;
        self.first_place = (self.first_place + 1) & PLACE;
        Some(id)
    }

    /// Drops entries of the free list that no block names any more, once they are most.
    fn drop_old_entries(&mut self) {
        if self.entries.len() <= 2 * self.cached_free as usize + NEIGHBOURS {
            return;
        }
        for _ in 0..self.entries.len() {
            let entry = FREE | self.first_place;
            let id = self.pop_entry().expect("as many as there were");
            let moved = FREE | (self.first_place.wrapping_add(self.entries.len() as u32) & PLACE);
            let mut is_named = false;
            for state in self.chunks[id as usize].states.iter_mut().filter(|state| **state == entry) {
                (*state, is_named) = (moved, true);
            }
            if is_named {
                self.entries.push_back(id);
            }
        }
    }
}

#[cfg(test)]
impl Held {
    /// Chunk and number of each block whose content is registered.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.spans.iter().flat_map(|span| span.range().map(|at| (span.chunk, at)))
    }

    /// Blocks whose content is not registered.
    pub(crate) fn blank(&self) -> u32 {
        self.blank
    }
}

#[cfg(test)]
impl BlockPool {
    /// The free list from front to back: the content hash of each block, or that it has none.
    pub(crate) fn free_order(&self) -> Vec<Option<u64>> {
        let mut order = vec![None; (self.free - self.cached_free) as usize];
        for (&id, nth) in self.entries.iter().zip(0..) {
            let entry = FREE | (self.first_place.wrapping_add(nth) & PLACE);
            let contents = self.chunks[id as usize].states.iter().zip(&self.hashes[id as usize]).rev();
            order.extend(contents.filter(|&(&state, _)| state == entry).map(|(_, &hash)| Some(hash)));
        }
        order
    }

    /// Panics unless used + free = total and list, counters and index agree.
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.free_order().len(), self.free as usize, "free list and its count");
        let states = || self.chunks.iter().flat_map(|chunk| chunk.states).filter(|&state| state != GONE);
        let cached_free = states().filter(|state| state & FREE != 0).count();
        assert_eq!(cached_free, self.cached_free as usize, "cached free blocks");
        let used = states().count() - cached_free;
        assert!(used + self.free as usize <= self.len as usize, "used + free = total");
        for (chunk, hashes) in self.chunks.iter().zip(&self.hashes) {
            let left = (0..NEIGHBOURS).filter(|&at| chunk.states[at] != GONE);
            assert_eq!(left.clone().count(), chunk.left as usize, "contents left in a chunk");
            for at in left {
                let found = self.first_with(self.buckets[chunk.bucket as usize], at, hashes[at]);
                assert!(found.is_some(), "a registered block is found");
            }
        }
    }
}
