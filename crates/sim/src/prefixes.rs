//! The longest prefix that any earlier prompt shares with a new one: what the best cache of all could hold.

use acb_types::{Prompt, Segment};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

/// All prompts (and answers) seen so far, as a tree over their runs of tokens.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    /// For each (path of whole runs, next content): the most tokens of it that any prompt has there.
    longest: FxHashMap<(u64, u64), u32>,
}

const ROOT: u64 = 0;

fn child(path: u64, segment: Segment) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(path);
    hasher.write_u64(segment.content.0);
    hasher.write_u32(segment.tokens);
    hasher.finish()
}

impl Prefixes {
    /// Tokens of the longest common prefix with any prompt remembered.
    pub(crate) fn longest_match(&self, prompt: &Prompt) -> u32 {
        let (mut path, mut matched) = (ROOT, 0);
        for &segment in prompt.segments() {
            let Some(&known) = self.longest.get(&(path, segment.content.0)) else { break };
            matched += known.min(segment.tokens);
            if known < segment.tokens {
                break;
            }
            path = child(path, segment);
        }
        matched
    }

    /// Remembers a prompt.
    pub(crate) fn insert(&mut self, prompt: &Prompt) {
        let mut path = ROOT;
        for &segment in prompt.segments() {
            let known = self.longest.entry((path, segment.content.0)).or_insert(0);
            *known = segment.tokens.max(*known);
            path = child(path, segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acb_types::ContentId;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_match_is_that_of_the_best_prompt(
            prompts in prop::collection::vec(prop::collection::vec((0u64..3, 1u32..4), 1..5), 1..30),
        ) {
            let prompts: Vec<Prompt> = prompts
                .iter()
                .map(|runs| Prompt::new(runs.iter().map(|&(c, tokens)| Segment { content: ContentId(c), tokens })))
                .collect();
            let mut seen = Prefixes::default();
            for (at, prompt) in prompts.iter().enumerate() {
                let best = prompts[..at].iter().map(|p| p.common_prefix(prompt)).max().unwrap_or(0);
                prop_assert_eq!(seen.longest_match(prompt), best);
                seen.insert(prompt);
            }
        }
    }
}
