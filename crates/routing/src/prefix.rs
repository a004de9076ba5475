//! The router's own approximation of each replica's prefix cache: what it sent where.
//!
//! It knows nothing of evictions, of answers (until they come back in a later prompt) or of other routers' requests,
//! so it may be wrong both ways; it is what a router can know without help from the servers.

use crate::PrefixIndexSpec;
use crate::hash::mix;
use crate::lru::{Lru, Touched};
use acb_types::{AdapterId, ReplicaId, Request};
use rustc_hash::FxHashMap;

/// Whether and how a policy looks at cached prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixUse {
    /// Not at all: no index is kept.
    Unused,
    /// Prefixes are shared under the same adapter and salt, as servers do.
    PerAdapter,
    /// Prefixes are shared under the same salt whatever the adapter: the original harness's belief.
    SharedByAdapters,
}

/// Blocks sent to each replica, least recently sent forgotten first, with look-up over all replicas at once.
///
/// A block is only ever present together with all blocks before it: a prompt's blocks are touched from last to first,
/// so that a block is always older than the one that it continues.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    spec: PrefixIndexSpec,
    sharing: PrefixUse,
    replicas: Vec<Lru<u64, ()>>,
    /// For each group of 64 replicas: which of them hold a block.
    holders: Vec<FxHashMap<u64, u64>>,
    scratch: Vec<u64>,
}

impl PrefixIndex {
    /// An empty index of so many replicas.
    #[must_use]
    pub fn new(spec: PrefixIndexSpec, sharing: PrefixUse, replicas: u32) -> Self {
        Self {
            spec,
            sharing,
            replicas: (0..replicas).map(|_| Lru::new(spec.capacity_blocks)).collect(),
            holders: vec![FxHashMap::default(); replicas.div_ceil(64) as usize],
            scratch: Vec::new(),
        }
    }

    /// Remembers that the request's prompt was sent to this replica under this adapter.
    pub fn insert(&mut self, replica: ReplicaId, adapter: Option<AdapterId>, request: &Request) {
        let room = usize::try_from(self.spec.capacity_blocks).unwrap_or(usize::MAX);
        let mut blocks = std::mem::take(&mut self.scratch);
        blocks.clear();
        blocks.extend(self.blocks(adapter, request).take(room));
        let (group, bit) = (replica.index() / 64, 1 << (replica.index() % 64));
        let holders = &mut self.holders[group];
        for &block in blocks.iter().rev() {
            match self.replicas[replica.index()].touch(block, ()) {
                Touched::Known | Touched::Refused => continue,
                Touched::Added => {}
                Touched::Replaced(forgotten) => release(holders, forgotten, bit),
            }
            *holders.entry(block).or_insert(0) |= bit;
        }
        self.scratch = blocks;
    }

    /// Tokens of the request's prompt that this replica was sent before under this adapter, in full blocks from the
    /// start.
    #[must_use]
    pub fn match_tokens(&self, replica: ReplicaId, adapter: Option<AdapterId>, request: &Request) -> u32 {
        let held = &self.replicas[replica.index()];
        let blocks = self.blocks(adapter, request).take_while(|&block| held.contains(block)).count();
        blocks as u32 * self.spec.block_tokens
    }

    /// As [`Self::match_tokens`] for all replicas in one walk over the prompt; `tokens` is overwritten.
    pub fn match_all(&self, adapter: Option<AdapterId>, request: &Request, tokens: &mut Vec<u32>) {
        tokens.clear();
        tokens.resize(self.replicas.len(), 0);
        for (holders, tokens) in self.holders.iter().zip(tokens.chunks_mut(64)) {
            let mut still = u64::MAX >> (64 - tokens.len());
            let mut depth = 0;
            for block in self.blocks(adapter, request) {
                let next = still & holders.get(&block).copied().unwrap_or(0);
                set(tokens, still & !next, depth);
                still = next;
                if still == 0 {
                    break;
                }
                depth += self.spec.block_tokens;
            }
            set(tokens, still, depth);
        }
    }

    fn blocks<'a>(
        &self,
        adapter: Option<AdapterId>,
        request: &'a Request,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let adapter = match self.sharing {
            PrefixUse::SharedByAdapters => 0,
            PrefixUse::Unused | PrefixUse::PerAdapter => adapter.map_or(0, |a| 1 + u64::from(a.0)),
        };
        let salt = request.cache_salt.map_or(0, |salt| mix(salt) | 1);
        request.prompt.block_hashes(mix(adapter) ^ salt, self.spec.block_tokens)
    }
}

fn set(tokens: &mut [u32], mut replicas: u64, depth: u32) {
    while replicas != 0 {
        tokens[replicas.trailing_zeros() as usize] = depth;
        replicas &= replicas - 1;
    }
}

fn release(holders: &mut FxHashMap<u64, u64>, block: u64, bit: u64) {
    let mask = holders.get_mut(&block).expect("a remembered block has a holder");
    *mask &= !bit;
    if *mask == 0 {
        holders.remove(&block);
    }
}
