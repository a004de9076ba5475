//! The block pool block by block, and the fast pool against it.

use crate::kv::{BlockPool, Held};
use acb_types::{ContentId, Prompt, Segment};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// The block pool with a queue and a map.
pub struct Pool {
    pub free: VecDeque<u32>,
    pub holders: Vec<u32>,
    hash: Vec<Option<u64>>,
    cached: BTreeMap<u64, Vec<u32>>,
    pub evictions: u64,
}

impl Pool {
    pub fn new(blocks: u32) -> Self {
        let count = blocks as usize;
        Self {
            free: (0..blocks).collect(),
            holders: vec![0; count],
            hash: vec![None; count],
            cached: BTreeMap::new(),
            evictions: 0,
        }
    }

    pub fn take(&mut self) -> u32 {
        let id = self.free.pop_front().unwrap();
        if let Some(hash) = self.hash[id as usize].take() {
            self.cached.get_mut(&hash).unwrap().retain(|&b| b != id);
            self.evictions += 1;
        }
        self.holders[id as usize] = 1;
        id
    }

    pub fn lookup(&self, hash: u64) -> Option<u32> {
        self.cached.get(&hash)?.first().copied()
    }

    pub fn touch(&mut self, id: u32) {
        self.free.retain(|&b| b != id);
        self.holders[id as usize] += 1;
    }

    pub fn register(&mut self, id: u32, hash: u64) {
        self.hash[id as usize] = Some(hash);
        self.cached.entry(hash).or_default().push(id);
    }

    pub fn release(&mut self, blocks: &mut Vec<u32>) {
        for id in blocks.drain(..).rev() {
            self.holders[id as usize] -= 1;
            if self.holders[id as usize] == 0 {
                match self.hash[id as usize] {
                    Some(_) => self.free.push_back(id),
                    None => self.free.push_front(id),
                }
            }
        }
    }
}

impl Pool {
    /// The longest run of cached contents that a text begins with.
    fn find(&self, hashes: &[u64]) -> Vec<u32> {
        hashes.iter().map_while(|&hash| self.lookup(hash)).collect()
    }

    fn free_order(&self) -> Vec<Option<u64>> {
        self.free.iter().map(|&id| self.hash[id as usize]).collect()
    }

    fn forget(&mut self) -> bool {
        let is_idle = self.free.len() == self.holders.len();
        if is_idle {
            self.hash.fill(None);
            self.cached.clear();
        }
        is_idle
    }
}

const BLOCKS: u32 = 48;
const TEXT: u32 = 40;

/// The contents of a text of one token a block: it shares `shared` of them with the others and goes on alone.
fn text(shared: u32, own: u64) -> Vec<u64> {
    let run = |content, tokens| Segment { content: ContentId(content), tokens };
    Prompt::new([run(0, shared), run(own, TEXT - shared)]).block_hashes(0, 1).collect()
}

/// Texts that part from each other at the start, within and at the end of lines of 16 contents.
fn texts() -> Vec<Vec<u64>> {
    [(0, 1), (5, 2), (16, 3), (21, 4), (21, 5), (TEXT, 6)].map(|(shared, own)| text(shared, own)).into()
}

/// What a request has in both pools.
#[derive(Default)]
struct Asker {
    hashes: Vec<u64>,
    slow: Vec<u32>,
    fast: Held,
    registered: usize,
}

struct Both {
    slow: Pool,
    fast: BlockPool,
    askers: Vec<Asker>,
}

#[derive(Clone, Debug)]
enum Act {
    /// A request for the first `blocks` contents of a text takes what is cached.
    Ask {
        text: usize,
        blocks: usize,
    },
    /// A request takes `blocks` more and registers `full` of those that are not registered.
    Grow {
        asker: usize,
        blocks: u32,
        full: usize,
    },
    Release {
        asker: usize,
    },
    Forget,
}

impl Both {
    fn act(&mut self, act: &Act) {
        match *act {
            Act::Ask { text, blocks } => self.ask(&texts()[text], blocks),
            Act::Grow { asker, blocks, full } => {
                if let Some(at) = asker.checked_rem(self.askers.len()) {
                    self.grow(at, blocks, full);
                }
            }
            Act::Release { asker } => {
                if let Some(at) = asker.checked_rem(self.askers.len()) {
                    let mut asker = self.askers.remove(at);
                    self.slow.release(&mut asker.slow);
                    self.fast.release(&mut asker.fast);
                    assert_eq!(asker.fast.len(), 0);
                }
            }
            Act::Forget => assert_eq!(self.slow.forget(), self.fast.forget()),
        }
    }

    fn ask(&mut self, hashes: &[u64], blocks: usize) {
        let slow = self.slow.find(&hashes[..blocks]);
        let mut hits = Vec::new();
        assert_eq!(self.fast.find(&hashes[..blocks], &mut hits), slow.len() as u32, "hits");
        let revived = slow.iter().filter(|&&id| self.slow.holders[id as usize] == 0).count();
        assert_eq!(self.fast.free_among(&hits), revived as u32, "hits that nobody holds");
        let mut asker = Asker { hashes: hashes.to_vec(), registered: slow.len(), ..Asker::default() };
        slow.iter().for_each(|&id| self.slow.touch(id));
        self.fast.touch(&hits, &mut asker.fast);
        self.askers.push(Asker { slow, ..asker });
    }

    fn grow(&mut self, at: usize, blocks: u32, full: usize) {
        let asker = &mut self.askers[at];
        let blocks = blocks.min(self.fast.free()).min(TEXT - asker.slow.len() as u32);
        asker.slow.extend((0..blocks).map(|_| self.slow.take()));
        self.fast.take(blocks);
        asker.fast.add(blocks);
        let full = asker.registered..asker.slow.len().min(asker.registered + full);
        for content in full.clone() {
            self.slow.register(asker.slow[content], asker.hashes[content]);
        }
        self.fast.register(&mut asker.fast, &asker.hashes, full.clone());
        asker.registered = full.end;
    }

    fn check(&self) {
        self.fast.assert_sound();
        let order = self.slow.free_order();
        assert_eq!(self.fast.free_order(), order, "the free list");
        assert_eq!(self.fast.free(), order.len() as u32, "free blocks");
        assert_eq!(
            self.fast.cached_free(),
            order.iter().flatten().count() as u32,
            "free blocks with content"
        );
        assert_eq!(self.fast.evictions(), self.slow.evictions, "evictions");
        for text in texts() {
            let found = self.slow.find(&text).len() as u32;
            assert_eq!(self.fast.find(&text, &mut Vec::new()), found, "a text's longest cached run");
        }
    }
}

fn an_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..texts().len(), 0..TEXT as usize).prop_map(|(text, blocks)| Act::Ask { text, blocks }),
        6 => (0usize..100, prop_oneof![0u32..3, 0..TEXT], prop_oneof![0usize..3, Just(TEXT as usize)])
            .prop_map(|(asker, blocks, full)| Act::Grow { asker, blocks, full }),
        4 => (0usize..100).prop_map(|asker| Act::Release { asker }),
        1 => Just(Act::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_do_what_single_blocks_do(acts in prop::collection::vec(an_act(), 1..120)) {
        let mut both = Both { slow: Pool::new(BLOCKS), fast: BlockPool::new(BLOCKS), askers: Vec::new() };
        for act in acts {
            both.act(&act);
            both.check();
        }
    }
}
