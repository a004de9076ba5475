//! The block pool block by block, and the fast pool against it.

use crate::kv::{BlockPool, Held};
use acb_types::{BlockRun, ContentId, Prompt, Segment, block_runs};
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

const BLOCKS: u32 = 150;
const TEXT: u32 = 135;

/// A text of [`TEXT`] contents as both pools see it.
#[derive(Clone, Default)]
struct Text {
    hashes: Vec<u64>,
    runs: Vec<BlockRun>,
}

impl Text {
    /// Run and number of each content.
    fn numbered(&self) -> Vec<(u64, u32)> {
        let run_of = |number| self.runs[self.runs.partition_point(|run| run.end <= number)].hash;
        (0..TEXT).map(|number| (run_of(number), number)).collect()
    }
}

/// A text of one token a block: it shares `shared` contents with the others and goes on alone.
fn text(shared: u32, own: u64) -> Text {
    let run = |content, tokens| Segment { content: ContentId(content), tokens };
    let prompt = Prompt::new([run(0, shared), run(own, TEXT - shared)]);
    let runs = block_runs(prompt.segments().iter().copied(), 0, 1).collect();
    Text { hashes: prompt.block_hashes(0, 1).collect(), runs }
}

/// Texts that part from each other at the start, within and at the end of lines of neighbours.
fn texts() -> Vec<Text> {
    [(0, 1), (5, 2), (64, 3), (70, 4), (70, 5), (128, 6), (TEXT, 7)]
        .map(|(shared, own)| text(shared, own))
        .into()
}

/// The hash of each content by its run and number.
fn hashes() -> BTreeMap<(u64, u32), u64> {
    texts().iter().flat_map(|text| text.numbered().into_iter().zip(text.hashes.clone())).collect()
}

/// What a request has in both pools.
#[derive(Default)]
struct Asker {
    text: Text,
    slow: Vec<u32>,
    fast: Held,
    registered: usize,
}

struct Both {
    slow: Pool,
    fast: BlockPool,
    askers: Vec<Asker>,
    texts: Vec<Text>,
    hashes: BTreeMap<(u64, u32), u64>,
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
            Act::Ask { text, blocks } => self.ask(self.texts[text].clone(), blocks),
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

    fn ask(&mut self, text: Text, blocks: usize) {
        let slow = self.slow.find(&text.hashes[..blocks]);
        let mut hits = Vec::new();
        assert_eq!(self.fast.find(&text.runs, blocks as u32, &mut hits), slow.len() as u32, "hits");
        let revived = slow.iter().filter(|&&id| self.slow.holders[id as usize] == 0).count();
        assert_eq!(self.fast.free_among(&hits), revived as u32, "hits that nobody holds");
        let mut asker = Asker { text, registered: slow.len(), ..Asker::default() };
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
            self.slow.register(asker.slow[content], asker.text.hashes[content]);
        }
        self.fast.register(&mut asker.fast, &asker.text.runs, full.start as u32..full.end as u32);
        asker.registered = full.end;
    }

    fn check(&self) {
        self.fast.assert_sound();
        let order = self.slow.free_order();
        let fast = self.fast.free_order().into_iter().map(|content| content.map(|named| self.hashes[&named]));
        assert_eq!(fast.collect::<Vec<_>>(), order, "the free list");
        assert_eq!(self.fast.free(), order.len() as u32, "free blocks");
        assert_eq!(
            self.fast.cached_free(),
            order.iter().flatten().count() as u32,
            "free blocks with content"
        );
        assert_eq!(self.fast.evictions(), self.slow.evictions, "evictions");
        for text in &self.texts {
            let found = self.slow.find(&text.hashes).len() as u32;
            let fast = self.fast.find(&text.runs, TEXT, &mut Vec::new());
            assert_eq!(fast, found, "a text's longest cached run");
        }
    }
}

fn an_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..7usize, 0..TEXT as usize).prop_map(|(text, blocks)| Act::Ask { text, blocks }),
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
        let (slow, fast) = (Pool::new(BLOCKS), BlockPool::new(BLOCKS));
        let mut both = Both { slow, fast, askers: Vec::new(), texts: texts(), hashes: hashes() };
        for act in acts {
            both.act(&act);
            both.check();
        }
    }
}
