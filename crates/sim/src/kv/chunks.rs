//! The contents of a pool: which are in a block, where they are found, and what state the block is in.
//!
//! Contents of one run of a text that are registered together are a *chunk*. Mostly all blocks of a chunk have one state,
//! and it is kept once; where they differ, each has its own.

use acb_types::BlockRun;
use std::ops::Range;

/// No chunk: the end of a bucket.
const NONE: u32 = u32::MAX;

/// Most contents of a chunk: those of one run whose numbers differ only in the remainder.
pub(super) const NEIGHBOURS: u32 = 64;

/// State of a content that isn't in a block any more.
pub(super) const GONE: u32 = 0;
/// Mark of a free block, beside the place of its entry in the free list. Without it: how many requests hold the block.
pub(super) const FREE: u32 = 1 << 31;
/// The places in the free list.
pub(super) const PLACE: u32 = FREE - 1;
/// State of a chunk whose blocks have each a state of their own.
const MIXED: u32 = PLACE;

/// Contents of one run of a text that were registered together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Hash of the run.
    run: u64,
    /// Number of its contents within the text, without the remainder.
    line: u32,
    /// State of all its blocks, or [`MIXED`].
    state: u32,
    /// Where the states of its blocks are, when they are mixed.
    mixed: u32,
    bucket: u32,
    /// The chunk that was registered next of those in the same bucket.
    next: u32,
    /// Remainders of its first content, and of its last and one. Unless the states are mixed, none of them is gone.
    from: u8,
    to: u8,
}

/// Blocks of one chunk that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(super) chunk: u32,
    from: u8,
    to: u8,
}

impl Span {
    pub(super) fn len(self) -> u32 {
        u32::from(self.to - self.from)
    }

    pub(super) fn range(self) -> Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }
}

/// Contents of a text that are in one run and one line of neighbours.
#[derive(Clone, Copy, Debug)]
struct Piece {
    run: u64,
    line: u32,
    from: u8,
    to: u8,
}

/// The contents `range` of a text, in pieces.
fn pieces(text: &[BlockRun], range: Range<u32>) -> impl Iterator<Item = Piece> {
    let mut at = range.start;
    let mut runs = text[text.partition_point(|run| run.end <= at)..].iter();
    let mut run = runs.next();
    std::iter::from_fn(move || {
        let BlockRun { hash, end } = *run.filter(|_| at < range.end)?;
        let line = at / NEIGHBOURS;
        let to = end.min(range.end).min((line + 1) * NEIGHBOURS);
        let piece =
            Piece { run: hash, line, from: (at % NEIGHBOURS) as u8, to: (to - line * NEIGHBOURS) as u8 };
        at = to;
        if at == end {
            run = runs.next();
        }
        Some(piece)
    })
}

/// All chunks of a pool.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    chunks: Vec<Chunk>,
    /// Places of `chunks` that are not in use.
    vacant: Vec<u32>,
    /// States of the blocks of chunks that are mixed.
    mixed: Vec<[u32; NEIGHBOURS as usize]>,
    /// Places of `mixed` that are not in use.
    vacant_mixed: Vec<u32>,
    /// First chunk of each bucket.
    buckets: Vec<u32>,
}

impl Chunks {
    /// No contents, of a pool of `count` blocks.
    pub(super) fn new(count: u32) -> Self {
        Self {
            chunks: Vec::new(),
            vacant: Vec::new(),
            mixed: Vec::new(),
            vacant_mixed: Vec::new(),
            buckets: vec![NONE; count.div_ceil(8).next_power_of_two() as usize],
        }
    }

    /// Appends to `hits` the blocks with the first contents of a text, `most` at most, as far as they are there, and says
    /// how many they are. Of several blocks with one content, the one registered first is hit.
    pub(super) fn find(&self, text: &[BlockRun], most: u32, hits: &mut Vec<Span>) -> u32 {
        for mut piece in pieces(text, 0..most) {
            while piece.from < piece.to {
                let Some(span) = self.first_with(&piece) else {
                    return piece.line * NEIGHBOURS + u32::from(piece.from);
                };
                hits.push(span);
                piece.from = span.to;
            }
        }
        most
    }

    /// The first chunk with the first content of a piece, and how many more of the piece are hit there.
    fn first_with(&self, piece: &Piece) -> Option<Span> {
        let (from, mut to) = (piece.from, piece.to);
        let mut at = self.buckets[self.bucket(piece.run, piece.line)];
        while at != NONE {
            let chunk = &self.chunks[at as usize];
            if (chunk.run, chunk.line) == (piece.run, piece.line) {
                let there = self.there(chunk, from);
                if there.start == from {
                    return Some(Span { chunk: at, from, to: to.min(there.end) });
                }
                // It was registered before any chunk that has the contents up to there.
                to = to.min(there.start);
            }
            at = chunk.next;
        }
        None
    }

    /// The first contents of a chunk from `from` on that are in a block; from 255 on when none is.
    fn there(&self, chunk: &Chunk, from: u8) -> Range<u8> {
        let from = from.max(chunk.from);
        if from >= chunk.to {
            return u8::MAX..u8::MAX;
        }
        if chunk.state != MIXED {
            return from..chunk.to;
        }
        let states = &self.mixed[chunk.mixed as usize];
        let is_there = |&at: &u8| states[usize::from(at)] != GONE;
        let Some(start) = (from..chunk.to).find(is_there) else { return u8::MAX..u8::MAX };
        start..(start..chunk.to).find(|at| !is_there(at)).unwrap_or(chunk.to)
    }

    /// How many of these blocks nobody holds.
    pub(super) fn free_among(&self, hits: &[Span]) -> u32 {
        let free = |hit: &Span| match &self.chunks[hit.chunk as usize] {
            Chunk { state: MIXED, mixed, .. } => {
                let states = &self.mixed[*mixed as usize][hit.range()];
                states.iter().filter(|&&state| state & FREE != 0).count() as u32
            }
            Chunk { state, .. } if state & FREE != 0 => hit.len(),
            _ => 0,
        };
        hits.iter().map(free).sum()
    }

    /// The states of the blocks of a span: one for all of them where it is the whole chunk, else one for each.
    pub(super) fn states(&mut self, span: Span) -> (&mut [u32], u32) {
        let chunk = &mut self.chunks[span.chunk as usize];
        if chunk.state != MIXED {
            if (chunk.from, chunk.to) == (span.from, span.to) {
                return (std::slice::from_mut(&mut chunk.state), span.len());
            }
            let mut states = [GONE; NEIGHBOURS as usize];
            states[usize::from(chunk.from)..usize::from(chunk.to)].fill(chunk.state);
            chunk.state = MIXED;
            chunk.mixed = match self.vacant_mixed.pop() {
                Some(place) => {
                    self.mixed[place as usize] = states;
                    place
                }
                None => {
                    self.mixed.push(states);
                    (self.mixed.len() - 1) as u32
                }
            };
        }
        (&mut self.mixed[chunk.mixed as usize][span.range()], 1)
    }

    /// Gives up the contents of at most `most` blocks of a chunk that have the state `free`, the last first, and says how
    /// many they were.
    pub(super) fn evict(&mut self, id: u32, free: u32, most: u32) -> u32 {
        let chunk = &mut self.chunks[id as usize];
        let (mut evicted, mut is_left) = (0, true);
        if chunk.state == free {
            evicted = most.min(u32::from(chunk.to - chunk.from));
            chunk.to -= evicted as u8;
            is_left = chunk.from < chunk.to;
        } else if chunk.state == MIXED {
            let states = &mut self.mixed[chunk.mixed as usize];
            let given_up = states.iter_mut().rev().filter(|state| **state == free).take(most as usize);
            evicted = given_up.map(|state| *state = GONE).count() as u32;
            is_left = states.iter().any(|&state| state != GONE);
        }
        if !is_left && evicted > 0 {
            self.remove(id);
        }
        evicted
    }

    /// Gives the blocks of a chunk that have the state `from` the state `to`, and says whether there are any.
    pub(super) fn rename(&mut self, id: u32, from: u32, to: u32) -> bool {
        let chunk = &mut self.chunks[id as usize];
        let states = match chunk.state {
            MIXED => &mut self.mixed[chunk.mixed as usize],
            _ => std::slice::from_mut(&mut chunk.state),
        };
        let mut is_any = false;
        for state in states.iter_mut().filter(|state| **state == from) {
            (*state, is_any) = (to, true);
        }
        is_any
    }

    /// Registers the contents `full` of a text in blocks that are held once, and appends these to `spans`.
    pub(super) fn register(&mut self, text: &[BlockRun], full: Range<u32>, spans: &mut Vec<Span>) {
        for piece in pieces(text, full) {
            let chunk = self.insert(piece);
            spans.push(Span { chunk, from: piece.from, to: piece.to });
        }
    }

    /// Puts a new chunk with these contents, held once, last into a bucket.
    fn insert(&mut self, Piece { run, line, from, to }: Piece) -> u32 {
        let bucket = self.bucket(run, line);
        let chunk = Chunk { run, line, state: 1, mixed: NONE, bucket: bucket as u32, next: NONE, from, to };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.chunks[id as usize] = chunk;
                id
            }
            None => {
                self.chunks.push(chunk);
                (self.chunks.len() - 1) as u32
            }
        };
        *self.link_to(bucket, NONE) = id;
        id
    }

    /// Takes a chunk without contents out of its bucket.
    fn remove(&mut self, id: u32) {
        let Chunk { bucket, next, state, mixed, .. } = self.chunks[id as usize];
        *self.link_to(bucket as usize, id) = next;
        if state == MIXED {
            self.vacant_mixed.push(mixed);
        }
        self.chunks[id as usize].state = GONE;
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

    /// Forgets all contents.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.vacant.clear();
        self.mixed.clear();
        self.vacant_mixed.clear();
        self.buckets.fill(NONE);
    }

    /// Bucket of a line of neighbours of a run.
    fn bucket(&self, run: u64, line: u32) -> usize {
        run.wrapping_add(u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as usize
            & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
impl Chunks {
    /// Places of chunks, in use or not.
    pub(super) fn len(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Content (run, number) and state of each block of a chunk that has one.
    pub(super) fn blocks_of(&self, id: u32) -> impl DoubleEndedIterator<Item = ((u64, u32), u32)> {
        let chunk = self.chunks[id as usize];
        let mut states = [chunk.state; NEIGHBOURS as usize];
        if chunk.state == MIXED {
            states = self.mixed[chunk.mixed as usize];
        }
        let blocks = (chunk.from..chunk.to).map(move |at| (at, states[usize::from(at)]));
        blocks
            .filter(|&(_, state)| state != GONE)
            .map(move |(at, state)| ((chunk.run, chunk.line * NEIGHBOURS + u32::from(at)), state))
    }

    /// Panics unless chunks, contents and index agree.
    pub(super) fn assert_sound(&self) {
        let mixed = self.chunks.iter().filter(|chunk| chunk.state == MIXED).count();
        assert_eq!(mixed + self.vacant_mixed.len(), self.mixed.len(), "states of mixed chunks");
        for id in 0..self.len() {
            let is_vacant = self.vacant.contains(&id);
            assert_eq!(
                self.blocks_of(id).count() == 0,
                is_vacant,
                "a chunk is there as long as its contents"
            );
            for ((run, number), _) in self.blocks_of(id) {
                let text = [BlockRun { hash: run, end: number + 1 }];
                let found = pieces(&text, number..number + 1).all(|piece| self.first_with(&piece).is_some());
                assert!(found, "a registered block is found");
            }
        }
    }
}
