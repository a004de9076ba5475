//! KV memory of one replica: what is free, what requests hold by themselves, and what the radix tree holds.
//!
//! Held + evictable + protected + free = total, in tokens, always whole pages. What of a request is in the tree
//! (`shared`) is protected by it; the rest is its own until it is published.

use super::rules::SglangRules;
use super::text::Text;
use super::tree::{Insertion, NodeId, ROOT, RadixTree};
use crate::CacheCondition;
use crate::exact::Exact;
use crate::jobs::Job;

/// What of a request is in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Tokens, from the start; whole pages.
    pub(super) tokens: u32,
    /// The node that they end with.
    pub(super) node: NodeId,
    /// Tokens that it has put in itself, over all its times in memory.
    pub(super) inserted: u32,
    /// Whether the tree is cut where its prompt ends.
    pub(super) prompt_cut: bool,
    /// When it last joined the queue.
    pub(super) waits_since: Exact,
    /// Cache namespace: adapter id and salt.
    pub(super) namespace: u64,
}

/// The memory.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    page: u32,
    total: u64,
    free: u64,
    /// `None`: nothing is ever found.
    tree: Option<RadixTree>,
}

impl Memory {
    pub(super) fn new(rules: &SglangRules, condition: CacheCondition) -> Self {
        let tree = (condition == CacheCondition::Warm)
            .then(|| RadixTree::new(rules.page, rules.radix_eviction_policy));
        Self { page: rules.page, total: rules.total, free: rules.total, tree }
    }

    /// Tokens of one page.
    pub(super) fn page(&self) -> u32 {
        self.page
    }

    /// Tokens in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Cached tokens that nobody uses.
    pub(super) fn evictable(&self) -> u64 {
        self.tree.as_ref().map_or(0, RadixTree::evictable)
    }

    /// Tokens that can be had.
    pub(super) fn available(&self) -> u64 {
        self.free + self.evictable()
    }

    /// Cached tokens given up so far.
    pub(super) fn evicted(&self) -> u64 {
        self.tree.as_ref().map_or(0, RadixTree::evicted)
    }

    /// Forgets all cached tokens; nobody holds any.
    pub(super) fn forget(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.forget();
        }
        self.free = self.total;
    }

    /// The tree, unless nothing is ever found.
    pub(super) fn tree(&self) -> Option<&RadixTree> {
        self.tree.as_ref()
    }

    /// Cuts a length to whole pages.
    pub(super) fn floor(&self, tokens: u32) -> u32 {
        tokens - tokens % self.page
    }

    /// Whole pages that hold this many tokens, in tokens.
    pub(super) fn ceil(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.page) * self.page
    }

    /// Looks up the first `most` tokens of a request; the request then has what was found, not yet protected.
    pub(super) fn find(&mut self, job: &mut Job, most: u32) -> u32 {
        let Some(tree) = &mut self.tree else {
            (job.shared.tokens, job.shared.node) = (0, ROOT);
            return 0;
        };
        let text = Text::new(&job.request.prompt, job.request.id, most - most % self.page);
        (job.shared.tokens, job.shared.node) = tree.find(job.shared.namespace, text);
        job.shared.tokens
    }

    /// Tokens that can be had when what was found for the request is protected.
    pub(super) fn available_beside(&self, job: &Job) -> u64 {
        self.available() - self.tree.as_ref().map_or(0, |tree| tree.unlocked_above(job.shared.node))
    }

    /// Protects what was found.
    pub(super) fn lock(&mut self, job: &Job) {
        if let Some(tree) = &mut self.tree {
            tree.lock(job.shared.node);
        }
    }

    /// Gives up cached leaves until so many tokens are free, if it can.
    pub(super) fn make_free(&mut self, tokens: u64) {
        let short = tokens.saturating_sub(self.free);
        if let (Some(tree), 1..) = (&mut self.tree, short) {
            self.free += tree.evict(short);
        }
    }

    /// Takes free tokens.
    ///
    /// # Panics
    /// When fewer are free: the caller makes them so first.
    pub(super) fn take(&mut self, tokens: u64) {
        self.free = self.free.checked_sub(tokens).expect("tokens are taken only when they are free");
    }

    /// Publishes the first `tokens` tokens of a request, all in memory (`checkpoint`): what the tree had already is
    /// given back, the rest is the tree's from now on, and the request protects all of it.
    pub(super) fn publish(&mut self, job: &mut Job, tokens: u32) {
        let length = self.floor(tokens);
        let Some(tree) = &mut self.tree else { return };
        let shared = &mut job.shared;
        let text = |tokens| Text::new(&job.request.prompt, job.request.id, tokens);
        let whole = Insertion {
            namespace: shared.namespace,
            text: text(length),
            priority: 0,
            inserted: shared.inserted,
        };
        let known = tree.insert(&whole).known;
        shared.inserted = shared.inserted.max(length);
        let prompt = job.request.prompt.tokens() / self.page * self.page;
        if 0 < prompt && prompt < length && (!shared.prompt_cut || tree.ranks_priority()) {
            tree.insert(&Insertion { text: text(prompt), priority: 1, inserted: prompt, ..whole });
        }
        shared.prompt_cut |= prompt <= length;
        self.free += u64::from(known.saturating_sub(shared.tokens));
        let (found, node) = tree.find(shared.namespace, text(length));
        assert_eq!(found, length, "what was put in is found");
        tree.lock(node);
        tree.unlock(shared.node);
        (shared.tokens, shared.node) = (length, node);
    }

    /// Gives back what a request holds by itself, of `computed` tokens in memory, and its protection of the rest.
    pub(super) fn release(&mut self, job: &mut Job, computed: u32) {
        self.free += u64::from(self.ceil(computed) - job.shared.tokens);
        if let Some(tree) = &mut self.tree {
            tree.unlock(job.shared.node);
        }
        (job.shared.tokens, job.shared.node, job.shared.prompt_cut) = (0, ROOT, false);
    }
}

#[cfg(test)]
impl Memory {
    /// Panics unless held + evictable + protected + free = total.
    pub(super) fn assert_sound(&self, held: u64) {
        let protected = self.tree.as_ref().map_or(0, RadixTree::protected);
        assert_eq!(held + self.evictable() + protected + self.free, self.total, "no token is lost");
        self.tree.iter().for_each(RadixTree::assert_sound);
    }
}
