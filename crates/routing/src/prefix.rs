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
    /// By an index of these rules.
    Kept(PrefixRules),
}

impl PrefixUse {
    /// Shared under the same adapter and salt, as servers do, in an index of the context's size.
    pub const PER_ADAPTER: Self = Self::Kept(PrefixRules::keyed_by(PrefixKey::AdapterAndSalt));
}

/// What tells two equal prompts apart in the index. Servers tell by adapter and salt; what tells by less aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixKey {
    /// Adapter and salt.
    AdapterAndSalt,
    /// The adapter, whatever the salt.
    Adapter,
    /// The salt, whatever the adapter.
    Salt,
    /// Nothing: adapters, base and tenants alias.
    Text,
}

/// What a router's own index is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixRules {
    /// What tells two equal prompts apart.
    pub key: PrefixKey,
    /// Block and room per replica; `None`: the context's, which are the servers'.
    pub size: Option<PrefixIndexSpec>,
    /// Most blocks of a prompt that are looked at and remembered; `None`: all.
    pub prompt_blocks: Option<u32>,
}

impl PrefixRules {
    /// An index of the context's size for whole prompts.
    #[must_use]
    pub const fn keyed_by(key: PrefixKey) -> Self {
        Self { key, size: None, prompt_blocks: None }
    }
}

/// Blocks sent to each replica, least recently sent forgotten first, with look-up over all replicas at once.
///
/// A block is only ever present together with all blocks before it: a prompt's blocks are touched from last to first,
/// so that a block is always older than the one that it continues.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    spec: PrefixIndexSpec,
    key: PrefixKey,
    prompt_blocks: usize,
    replicas: Vec<Lru<u64, ()>>,
    /// For each group of 64 replicas: which of them hold a block.
    holders: Vec<FxHashMap<u64, u64>>,
    scratch: Vec<u64>,
}

impl PrefixIndex {
    /// An empty index of so many replicas; `servers` is its size when the rules name none.
    #[must_use]
    pub fn new(rules: PrefixRules, servers: PrefixIndexSpec, replicas: u32) -> Self {
        let spec = rules.size.unwrap_or(servers);
        Self {
            spec,
            key: rules.key,
            prompt_blocks: rules.prompt_blocks.map_or(usize::MAX, |blocks| blocks as usize),
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

    /// Tokens that this replica was sent and that are remembered: the size of its tree.
    #[must_use]
    pub fn held_tokens(&self, replica: ReplicaId) -> u64 {
        self.replicas[replica.index()].len() as u64 * u64::from(self.spec.block_tokens)
    }

    fn blocks<'a>(
        &self,
        adapter: Option<AdapterId>,
        request: &'a Request,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let namespace = self.key.namespace(adapter, request);
        request.prompt.block_hashes(namespace, self.spec.block_tokens).take(self.prompt_blocks)
    }
}

impl PrefixKey {
    /// The part of a block's hash that is not its text.
    pub(crate) fn namespace(self, adapter: Option<AdapterId>, request: &Request) -> u64 {
        let by_adapter = match self {
            Self::AdapterAndSalt | Self::Adapter => adapter.map_or(0, |a| 1 + u64::from(a.0)),
            Self::Salt | Self::Text => 0,
        };
        let by_salt = match self {
            Self::AdapterAndSalt | Self::Salt => request.cache_salt.map_or(0, |salt| mix(salt) | 1),
            Self::Adapter | Self::Text => 0,
        };
        mix(by_adapter) ^ by_salt
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{prompt, request};
    use proptest::prelude::*;

    const SPEC: PrefixIndexSpec = PrefixIndexSpec { block_tokens: 16, capacity_blocks: 100 };

    fn index(spec: PrefixIndexSpec, key: PrefixKey, replicas: u32) -> PrefixIndex {
        PrefixIndex::new(PrefixRules::keyed_by(key), spec, replicas)
    }

    fn about(runs: &[(u64, u32)]) -> Request {
        Request { prompt: prompt(runs), ..request(0, 0, 1) }
    }

    #[test]
    fn full_blocks_from_the_start_match_where_they_were_sent() {
        let mut index = index(SPEC, PrefixKey::AdapterAndSalt, 2);
        index.insert(ReplicaId(1), None, &about(&[(1, 100), (2, 20)]));
        let mut tokens = Vec::new();
        index.match_all(None, &about(&[(1, 100), (3, 20)]), &mut tokens);
        assert_eq!(tokens, [0, 96], "six full blocks of the shared hundred tokens");
    }

    #[test]
    fn another_adapter_or_salt_is_another_namespace() {
        let mut index = index(SPEC, PrefixKey::AdapterAndSalt, 1);
        let sent = about(&[(1, 64)]);
        index.insert(ReplicaId(0), Some(AdapterId(0)), &sent);
        let under = |adapter, salt| {
            let request = Request { cache_salt: salt, ..sent.clone() };
            index.match_tokens(ReplicaId(0), adapter, &request)
        };
        assert_eq!(under(Some(AdapterId(0)), None), 64);
        assert_eq!(under(None, None), 0);
        assert_eq!(under(Some(AdapterId(1)), None), 0);
        assert_eq!(under(Some(AdapterId(0)), Some(0)), 0, "a salt of zero is a salt");
    }

    #[test]
    fn what_the_key_leaves_out_aliases() {
        let sent = about(&[(1, 64)]);
        for (key, by_adapter, by_salt) in [
            (PrefixKey::AdapterAndSalt, true, true),
            (PrefixKey::Adapter, true, false),
            (PrefixKey::Salt, false, true),
            (PrefixKey::Text, false, false),
        ] {
            let mut index = index(SPEC, key, 1);
            index.insert(ReplicaId(0), Some(AdapterId(0)), &sent);
            let told_apart = |adapter, salt| {
                let request = Request { cache_salt: salt, ..sent.clone() };
                index.match_tokens(ReplicaId(0), adapter, &request) == 0
            };
            assert_eq!(told_apart(None, None), by_adapter, "{key:?}");
            assert_eq!(told_apart(Some(AdapterId(0)), Some(1)), by_salt, "{key:?}");
        }
    }

    #[test]
    fn rules_of_its_own_say_how_much_is_remembered() {
        let size = Some(PrefixIndexSpec { block_tokens: 8, capacity_blocks: u64::MAX });
        let rules = PrefixRules { key: PrefixKey::Text, size, prompt_blocks: Some(3) };
        let mut index = PrefixIndex::new(rules, SPEC, 2);
        index.insert(ReplicaId(1), None, &about(&[(1, 64)]));
        assert_eq!(index.match_tokens(ReplicaId(1), None, &about(&[(1, 64)])), 24);
        assert_eq!((index.held_tokens(ReplicaId(0)), index.held_tokens(ReplicaId(1))), (0, 24));
    }

    #[test]
    fn the_tail_of_the_oldest_prompt_is_forgotten_first() {
        let spec = PrefixIndexSpec { block_tokens: 16, capacity_blocks: 5 };
        let mut index = index(spec, PrefixKey::AdapterAndSalt, 1);
        let (old, new) = (about(&[(1, 64)]), about(&[(2, 48)]));
        index.insert(ReplicaId(0), None, &old);
        index.insert(ReplicaId(0), None, &new);
        assert_eq!(index.match_tokens(ReplicaId(0), None, &new), 48);
        assert_eq!(index.match_tokens(ReplicaId(0), None, &old), 32, "two of its four blocks are left");
    }

    proptest! {
        #[test]
        fn a_walk_over_all_replicas_agrees_with_one_replica_at_a_time_and_nothing_is_orphaned(
            capacity in 0u64..20, replicas in 1u32..70,
            sent in proptest::collection::vec((0u32..70, 0u64..4, 0u32..60, 0u64..4, 0u32..100), 0..40)
        ) {
            let spec = PrefixIndexSpec { block_tokens: 8, capacity_blocks: capacity };
            let mut index = index(spec, PrefixKey::AdapterAndSalt, replicas);
            let prompts: Vec<_> = sent.iter().map(|&(_, a, n, b, m)| about(&[(a, n), (10 + b, m)])).collect();
            for ((replica, ..), prompt) in sent.iter().zip(&prompts) {
                index.insert(ReplicaId(replica % replicas), None, prompt);
            }
            let mut tokens = Vec::new();
            for prompt in &prompts {
                index.match_all(None, prompt, &mut tokens);
                for replica in (0..replicas).map(ReplicaId) {
                    let alone = index.match_tokens(replica, None, prompt);
                    prop_assert_eq!(tokens[replica.index()], alone);
                    let held = &index.replicas[replica.index()];
                    let anywhere = index.blocks(None, prompt).filter(|&block| held.contains(block)).count();
                    prop_assert_eq!(anywhere as u32 * 8, alone, "a block is held without those before it");
                }
            }
            let held: u32 = index.holders.iter().flat_map(|h| h.values()).map(|mask| mask.count_ones()).sum();
            prop_assert!(u64::from(held) <= capacity * u64::from(replicas));
        }
    }
}
