//! Texts as runs of tokens: what a radix tree is keyed by, compared by arithmetic and never token by token.

use acb_types::{ContentId, Prompt, RequestId, Segment};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::Hasher;

/// The tokens `offset..offset + tokens` of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) content: ContentId,
    pub(super) offset: u32,
    pub(super) tokens: u32,
}

impl Run {
    fn skip(self, tokens: u32) -> Self {
        Self { offset: self.offset + tokens, tokens: self.tokens - tokens, ..self }
    }
}

/// The runs of one node of a tree.
pub(super) type Runs = SmallVec<[Run; 2]>;

/// What is left to read of a prompt and the answer after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    segments: &'a [Segment],
    offset: u32,
    answer: ContentId,
    answer_offset: u32,
    left: u32,
}

impl<'a> Text<'a> {
    /// The first `tokens` tokens of a request's prompt and answer.
    pub(super) fn new(prompt: &'a Prompt, request: RequestId, tokens: u32) -> Self {
        let answer = ContentId::of_output(request);
        Self { segments: prompt.segments(), offset: 0, answer, answer_offset: 0, left: tokens }
    }

    /// Tokens left.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next tokens of one content.
    fn next_run(&self) -> Option<Run> {
        let run = match self.segments.first() {
            Some(s) => Run { content: s.content, offset: self.offset, tokens: s.tokens - self.offset },
            None => Run { content: self.answer, offset: self.answer_offset, tokens: u32::MAX },
        };
        (self.left > 0).then(|| Run { tokens: run.tokens.min(self.left), ..run })
    }

    /// Passes over some tokens of the next run.
    fn pass(&mut self, tokens: u32) {
        self.left -= tokens;
        let Some(segment) = self.segments.first() else {
            self.answer_offset += tokens;
            return;
        };
        self.offset += tokens;
        if self.offset == segment.tokens {
            self.segments = &self.segments[1..];
            self.offset = 0;
        }
    }

    /// Passes over as many tokens as agree with `runs`, and says how many.
    pub(super) fn pass_common(&mut self, runs: &[Run]) -> u32 {
        let before = self.left;
        for &run in runs {
            let mut run = run;
            while run.tokens > 0 {
                let same = |next: &Run| (next.content, next.offset) == (run.content, run.offset);
                let Some(next) = self.next_run().filter(same) else { return before - self.left };
                let tokens = next.tokens.min(run.tokens);
                self.pass(tokens);
                run = run.skip(tokens);
            }
        }
        before - self.left
    }

    /// The rest as runs.
    pub(super) fn runs(mut self) -> Runs {
        let mut runs = Runs::new();
        while let Some(run) = self.next_run() {
            self.pass(run.tokens);
            runs.push(run);
        }
        runs
    }

    /// A hash of the next `page` tokens: what tells the children of a node apart.
    pub(super) fn page_key(mut self, page: u32) -> u64 {
        self.left = self.left.min(page);
        let mut hasher = FxHasher::default();
        while let Some(run) = self.next_run() {
            self.pass(run.tokens);
            hash_run(&mut hasher, run);
        }
        hasher.finish()
    }
}

fn hash_run(hasher: &mut FxHasher, run: Run) {
    hasher.write_u64(run.content.0);
    hasher.write_u64(u64::from(run.offset) << 32 | u64::from(run.tokens));
}

/// [`Text::page_key`] of the text that starts with these runs.
pub(super) fn page_key(runs: &[Run], page: u32) -> u64 {
    let (mut hasher, mut left) = (FxHasher::default(), page);
    for run in runs {
        let tokens = run.tokens.min(left);
        if tokens == 0 {
            break;
        }
        hash_run(&mut hasher, Run { tokens, ..*run });
        left -= tokens;
    }
    hasher.finish()
}

/// Cuts runs after `tokens` tokens: what comes after is returned.
pub(super) fn split(runs: &mut Runs, tokens: u32) -> Runs {
    let (mut at, mut before) = (0, 0);
    while before + runs[at].tokens <= tokens {
        before += runs[at].tokens;
        at += 1;
    }
    let kept = tokens - before;
    let mut rest = Runs::from_slice(&runs[at..]);
    rest[0] = rest[0].skip(kept);
    runs[at].tokens = kept;
    runs.truncate(at + usize::from(kept > 0));
    rest
}
