//! The block pool: KV memory in blocks, with a cache of full blocks by content (vLLM `v1/core/block_pool.py`).
//!
//! A free block keeps its content until it is taken: the free list is also the cache's LRU order. Blocks without content
//! are first in it and alike, so they are only counted. The others are kept in *chunks*, so that most of the work is per
//! chunk; what happens is as if each block was in the list alone. This module knows nothing of requests.

mod chunks;

pub(crate) use chunks::Span;

use acb_types::BlockRun;
use chunks::{Chunks, FREE, GONE, NEIGHBOURS, PLACE};
use std::collections::VecDeque;
use std::ops::Range;

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
    contents: Chunks,
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
            contents: Chunks::new(count),
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

    /// Appends to `hits` the blocks with the first contents of a text, `most` at most, as far as they are cached, and says
    /// how many they are. Of several blocks with one content, the one registered first is hit.
    pub(crate) fn find(&self, text: &[BlockRun], most: u32, hits: &mut Vec<Span>) -> u32 {
        self.contents.find(text, most, hits)
    }

    /// How many of these blocks nobody holds.
    pub(crate) fn free_among(&self, hits: &[Span]) -> u32 {
        self.contents.free_among(hits)
    }

    /// Takes one more hold of cached blocks for who holds nothing yet; free ones leave the free list.
    pub(crate) fn touch(&mut self, hits: &[Span], held: &mut Held) {
        assert_eq!(held.len(), 0, "hits are the first blocks of a text");
        for &hit in hits {
            let (states, each) = self.contents.states(hit);
            let mut revived = 0;
            for state in states {
                if *state & FREE != 0 {
                    revived += each;
                    *state = 0;
                }
                *state += 1;
            }
            self.free -= revived;
            self.cached_free -= revived;
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
            missing -= self.contents.evict(id, FREE | self.first_place, missing);
            if missing > 0 {
                self.pop_entry();
            }
        }
    }

    /// Registers the contents `full` of a text in the blocks that hold it.
    ///
    /// # Panics
    /// Unless all contents before them are registered, and they are not.
    pub(crate) fn register(&mut self, held: &mut Held, text: &[BlockRun], full: Range<u32>) {
        assert_eq!(full.start, held.registered, "a block is registered once, by who holds it");
        let count = full.end - full.start;
        held.blank = held.blank.checked_sub(count).expect("a block is registered by who holds it");
        held.registered += count;
        self.contents.register(text, full, &mut held.spans);
    }

    /// Gives back a request's blocks, tail first: registered ones go to the back of the free list, others to the
    /// front. Those that others hold stay.
    pub(crate) fn release(&mut self, held: &mut Held) {
        self.drop_old_entries();
        while let Some(span) = held.spans.pop() {
            let entry = FREE | (self.first_place.wrapping_add(self.entries.len() as u32) & PLACE);
            let (states, each) = self.contents.states(span);
            let mut freed = 0;
            for state in states {
                assert!(*state != GONE && *state & FREE == 0, "a block is given back by who holds it");
                *state -= 1;
                if *state == 0 {
                    *state = entry;
                    freed += each;
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
        self.contents.clear();
        self.entries.clear();
        self.cached_free = 0;
        true
    }

    fn pop_entry(&mut self) -> Option<u32> {
        let id = self.entries.pop_front()?;
        self.first_place = (self.first_place + 1) & PLACE;
        Some(id)
    }

    /// Drops entries of the free list that no block names any more, once they are most.
    fn drop_old_entries(&mut self) {
        if self.entries.len() <= 2 * self.cached_free as usize + NEIGHBOURS as usize {
            return;
        }
        for _ in 0..self.entries.len() {
            let entry = FREE | self.first_place;
            let id = self.pop_entry().expect("as many as there were");
            let moved = FREE | (self.first_place.wrapping_add(self.entries.len() as u32) & PLACE);
            if self.contents.rename(id, entry, moved) {
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
    /// The free list from front to back: the content (run, number) of each block, or that it has none.
    pub(crate) fn free_order(&self) -> Vec<Option<(u64, u32)>> {
        let mut order = vec![None; (self.free - self.cached_free) as usize];
        for (&id, nth) in self.entries.iter().zip(0..) {
            let entry = FREE | (self.first_place.wrapping_add(nth) & PLACE);
            let named = self.contents.blocks_of(id).rev().filter(|&(_, state)| state == entry);
            order.extend(named.map(|(content, _)| Some(content)));
        }
        order
    }

    /// Panics unless used + free = total and list, counters and index agree.
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.free_order().len(), self.free as usize, "free list and its count");
        let blocks = |id| self.contents.blocks_of(id).map(|(_, state)| state);
        let states = || (0..self.contents.len()).flat_map(blocks);
        let cached_free = states().filter(|state| state & FREE != 0).count();
        assert_eq!(cached_free, self.cached_free as usize, "cached free blocks");
        let used = states().count() - cached_free;
        assert!(used + self.free as usize <= self.len as usize, "used + free = total");
        self.contents.assert_sound();
    }
}
