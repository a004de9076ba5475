//! Prompts as the caches see them: which tokens are the same as which.

use crate::ContentId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A run of `tokens` tokens from the start of a content. Token `i` of the run is identified by `(content, i)`,
/// so two runs of one content agree on their common length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment {
    /// What the tokens are.
    pub content: ContentId,
    /// How many of them, counted by the tokenizer.
    pub tokens: u32,
}

/// A prompt: runs of tokens, one after the other. Two prompts share a prefix exactly as far as their runs agree.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Prompt {
    segments: SmallVec<[Segment; 4]>,
    tokens: u32,
}

impl Prompt {
    /// A prompt of these runs; empty runs are dropped.
    #[must_use]
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Self {
        let segments: SmallVec<[Segment; 4]> = segments.into_iter().filter(|s| s.tokens > 0).collect();
        let tokens = segments.iter().map(|s| s.tokens).sum();
        Self { segments, tokens }
    }

    /// Length in tokens.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// The runs, in order, none empty.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Appends a run.
    pub fn push(&mut self, segment: Segment) {
        if segment.tokens > 0 {
            self.tokens += segment.tokens;
            self.segments.push(segment);
        }
    }

    /// Tokens that both prompts start with.
    #[must_use]
    pub fn common_prefix(&self, other: &Self) -> u32 {
        let mut common = 0;
        for (a, b) in self.segments.iter().zip(&other.segments) {
            if a.content != b.content {
                break;
            }
            common += a.tokens.min(b.tokens);
            if a.tokens != b.tokens {
                break;
            }
        }
        common
    }

    /// 64-bit hashes of the full blocks of `block` tokens, each of all tokens up to the block's end: equal hashes mean
    /// equal tokens from the start of the prompt (up to a collision: below 3 in 10,000 for a hundred million blocks in
    /// one cache) under the same `namespace` (adapter, salt). The trailing partial block has none, as in vLLM.
    ///
    /// # Panics
    /// When `block` is zero.
    pub fn block_hashes(&self, namespace: u64, block: u32) -> BlockHashes<'_> {
        assert!(block > 0, "a block holds at least one token");
        let mut hashes = BlockHashes { segments: &self.segments, offset: 0, run: 0, block };
        hashes.enter(mix(namespace, SEED));
        hashes
    }
}

/// Full blocks of a text that end in one of its runs of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Hash of all tokens before the run, and of its content. Where it and a block's number within the text are equal,
    /// the tokens up to the block's end are (up to a collision, as for [`Prompt::block_hashes`]).
    pub hash: u64,
    /// Number of the last block that ends in it, and one.
    pub end: u32,
}

/// The full blocks of `block` tokens of a text, by the runs in which they end; runs in which none ends are left out. Blocks
/// are told apart as by [`Prompt::block_hashes`], without a hash for each.
///
/// # Panics
/// When `block` is zero.
pub fn block_runs(
    segments: impl IntoIterator<Item = Segment>,
    namespace: u64,
    block: u32,
) -> impl Iterator<Item = BlockRun> {
    assert!(block > 0, "a block holds at least one token");
    let (mut before, mut tokens, mut end) = (mix(namespace, SEED), 0, 0);
    segments.into_iter().filter(|segment| segment.tokens > 0).filter_map(move |segment| {
        let hash = mix(before, segment.content.0);
        before = mix(hash, u64::from(segment.tokens));
        tokens += segment.tokens;
        let start = std::mem::replace(&mut end, tokens / block);
        (start < end).then_some(BlockRun { hash, end })
    })
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Two rounds of multiply-and-fold: cheap and well mixed for structured input.
fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a ^ 0xa076_1d64_78bd_642f).wrapping_mul(u128::from(b ^ 0xe703_7ed1_a0b4_28db));
    let folded = (wide as u64) ^ ((wide >> 64) as u64);
    let wide = u128::from(folded ^ a.rotate_left(32)).wrapping_mul(0x8ebc_6af0_9c88_c6e3_u128);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Iterator of [`Prompt::block_hashes`].
pub struct BlockHashes<'a> {
    /// The run in which the last block ended and those after it.
    segments: &'a [Segment],
    /// Tokens of that run up to the end of the last block.
    offset: u32,
    /// Hash of all before that run, and of its content.
    run: u64,
    block: u32,
}

impl BlockHashes<'_> {
    /// Starts the first of the runs that are left, after what has the hash `before`.
    fn enter(&mut self, before: u64) {
        self.offset = 0;
        self.run = self.segments.first().map_or(before, |segment| mix(before, segment.content.0));
    }
}

impl Iterator for BlockHashes<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let mut missing = self.block;
        loop {
            let segment = self.segments.first()?;
            let rest = segment.tokens - self.offset;
            if missing <= rest {
                self.offset += missing;
                return Some(mix(self.run, u64::from(self.offset)));
            }
            missing -= rest;
            self.segments = &self.segments[1..];
            self.enter(mix(self.run, u64::from(segment.tokens)));
        }
    }

    /// As by [`Iterator::next`], without asking at each block which segment it is in.
    #[inline]
    fn fold<B, F: FnMut(B, u64) -> B>(mut self, init: B, mut each: F) -> B {
        let (mut folded, mut missing) = (init, self.block);
        while let Some(segment) = self.segments.first() {
            while missing <= segment.tokens - self.offset {
                self.offset += missing;
                missing = self.block;
                folded = each(folded, mix(self.run, u64::from(self.offset)));
            }
            missing -= segment.tokens - self.offset;
            self.segments = &self.segments[1..];
            self.enter(mix(self.run, u64::from(segment.tokens)));
        }
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(runs: &[(u64, u32)]) -> Prompt {
        Prompt::new(runs.iter().map(|&(c, tokens)| Segment { content: ContentId(c), tokens }))
    }

    #[test]
    fn hashes_agree_exactly_as_far_as_whole_blocks_of_tokens_agree() {
        let a = prompt(&[(1, 100)]);
        let b = prompt(&[(1, 60), (2, 40)]);
        let equal = a.block_hashes(0, 16).zip(b.block_hashes(0, 16)).take_while(|(x, y)| x == y).count();
        assert_eq!(a.common_prefix(&b), 60);
        assert_eq!(equal, 3, "60 shared tokens are three full blocks of 16");
        assert_eq!(a.block_hashes(0, 16).count(), 6, "the partial seventh block has no hash");
    }

    #[test]
    fn a_run_that_ends_with_a_block_shares_that_block_with_a_longer_one() {
        let (a, b) = (prompt(&[(1, 32), (2, 32)]), prompt(&[(1, 33), (2, 32)]));
        let equal: Vec<bool> =
            a.block_hashes(0, 16).zip(b.block_hashes(0, 16)).map(|(x, y)| x == y).collect();
        assert_eq!(equal, [true, true, false, false]);
        let twice = prompt(&[(1, 32), (1, 32)]);
        let longer = prompt(&[(1, 64)]);
        let equal = twice.block_hashes(0, 16).zip(longer.block_hashes(0, 16)).filter(|(x, y)| x == y).count();
        assert_eq!(equal, 2, "a content that starts again is not its continuation");
    }

    /// The hash of the run and the number of each full block.
    fn numbered(runs: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let mut blocks = Vec::new();
        for run in block_runs(prompt(runs).segments().iter().copied(), 7, 16) {
            blocks.extend((blocks.len() as u32..run.end).map(|number| (run.hash, number)));
        }
        blocks
    }

    #[test]
    fn runs_tell_blocks_apart_as_their_hashes_do() {
        let texts: [&[(u64, u32)]; 7] = [
            &[(1, 100)],
            &[(1, 64)],
            &[(1, 60), (2, 40)],
            &[(1, 32), (1, 32)],
            &[(1, 33), (2, 3), (3, 80)],
            &[(1, 33), (2, 3), (4, 80)],
            &[(2, 15)],
        ];
        for (a, b) in texts.iter().flat_map(|a| texts.map(|b| (a, b))) {
            let hashes = [a, b].map(|text| prompt(text).block_hashes(7, 16).collect::<Vec<_>>());
            let numbers = [a, b].map(numbered);
            assert_eq!(hashes[0].len(), numbers[0].len(), "the full blocks of {a:?}");
            let pairs = hashes[0].iter().zip(&hashes[1]).zip(numbers[0].iter().zip(&numbers[1]));
            for ((x, y), (m, n)) in pairs {
                assert_eq!(x == y, m == n, "blocks of {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn another_namespace_shares_nothing() {
        let a = prompt(&[(1, 100)]);
        assert!(a.block_hashes(1, 16).zip(a.block_hashes(2, 16)).all(|(x, y)| x != y));
    }

    #[test]
    fn a_longer_run_of_one_content_extends_a_shorter_one() {
        let (short, long) = (prompt(&[(7, 64)]), prompt(&[(7, 128)]));
        assert_eq!(short.common_prefix(&long), 64);
        assert!(short.block_hashes(0, 16).zip(long.block_hashes(0, 16)).all(|(x, y)| x == y));
    }
}
