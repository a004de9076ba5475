//! The radix tree of SGLang 0.5.23 (`mem_cache/radix_cache.py`): which prefixes are in KV memory, and which may go.
//!
//! A node holds a whole number of pages of one text. Matching splits a node where texts part and refreshes the path;
//! a node that a request uses is locked with all above it; what is not locked is given up leaf by leaf. Time is a count
//! of look-ups and insertions, in which every node that is made takes a tick of its own.

use super::text::{Runs, Text, page_key, split};
use crate::RadixEvictionPolicy;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Place of a node in the table.
pub(super) type NodeId = u32;

/// Order of giving up (`mem_cache/evict_policy.py`): least first.
type Rank = (u32, u64);

/// The root, which holds nothing and is never given up.
pub(super) const ROOT: NodeId = 0;

#[derive(Clone, Debug)]
struct Node {
    parent: NodeId,
    /// Its key among its parent's children.
    key: u64,
    runs: Runs,
    tokens: u32,
    locks: u32,
    children: u32,
    /// Insertions that passed through it.
    hits: u32,
    last_access: u64,
    created: u64,
    /// When its parent got a child with its key: the order of siblings.
    order: u64,
    priority: u32,
    /// Whether it is among the leaves.
    listed: bool,
}

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inserted {
    /// Tokens that were there before.
    pub(super) known: u32,
    /// The node that the text ends with.
    pub(super) end: NodeId,
}

/// A text to insert, and what it counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Insertion<'a> {
    pub(super) namespace: u64,
    pub(super) text: Text<'a>,
    pub(super) priority: u32,
    /// Tokens of it that the same request inserted before: nodes within don't count another hit.
    pub(super) inserted: u32,
}

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct RadixTree {
    page: u32,
    policy: RadixEvictionPolicy,
    nodes: Vec<Node>,
    vacant: Vec<NodeId>,
    children: FxHashMap<(NodeId, u64), NodeId>,
    /// Leaves that nobody uses, and nodes that were such leaves, the first to go on top.
    leaves: BinaryHeap<Reverse<(Rank, NodeId)>>,
    ticks: u64,
    evictable: u64,
    protected: u64,
    evicted: u64,
}

impl RadixTree {
    /// An empty tree with pages of `page` tokens.
    pub(super) fn new(page: u32, policy: RadixEvictionPolicy) -> Self {
        let root = Node { locks: 1, ..Node::new(ROOT, 0, Runs::new(), 0) };
        Self {
            page,
            policy,
            nodes: vec![root],
            vacant: Vec::new(),
            children: FxHashMap::default(),
            leaves: BinaryHeap::new(),
            ticks: 0,
            evictable: 0,
            protected: 0,
            evicted: 0,
        }
    }

    /// Tokens that nobody uses and that can be given up.
    pub(super) fn evictable(&self) -> u64 {
        self.evictable
    }

    /// Tokens that running requests use.
    #[cfg(test)]
    pub(super) fn protected(&self) -> u64 {
        self.protected
    }

    /// Tokens given up so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Forgets everything; nobody uses any of it.
    pub(super) fn forget(&mut self) {
        assert_eq!(self.protected, 0, "what a request uses is not forgotten");
        *self = Self { evicted: self.evicted, ..Self::new(self.page, self.policy) };
    }

    /// Whether priorities of nodes count.
    pub(super) fn ranks_priority(&self) -> bool {
        self.policy == RadixEvictionPolicy::Priority
    }

    /// The longest prefix of the text, cut at a page, that is in the tree, and the node that it ends with.
    pub(super) fn find(&mut self, namespace: u64, text: Text<'_>) -> (u32, NodeId) {
        let (mut text, now) = (text, self.tick());
        let (mut node, mut found) = (ROOT, 0);
        while let Some(child) = self.child(node, namespace, &text) {
            self.touch(child, now);
            let same = self.pass(child, &mut text);
            found += same;
            if same < self.nodes[child as usize].tokens {
                node = self.split(child, same);
                break;
            }
            node = child;
        }
        (found, node)
    }

    /// Puts a text into the tree; its length is a whole number of pages.
    pub(super) fn insert(&mut self, insertion: &Insertion<'_>) -> Inserted {
        let &Insertion { namespace, mut text, priority, inserted } = insertion;
        assert_eq!(text.left() % self.page, 0, "a tree holds whole pages");
        let now = self.tick();
        let (mut node, mut known) = (ROOT, 0);
        while let Some(child) = self.child(node, namespace, &text) {
            self.touch(child, now);
            let same = self.pass(child, &mut text);
            known += same;
            node = if same < self.nodes[child as usize].tokens { self.split(child, same) } else { child };
            let passed = &mut self.nodes[node as usize];
            passed.priority = passed.priority.max(priority);
            if known > inserted {
                passed.hits += 1;
            }
        }
        if text.left() > 0 {
            node = self.add_leaf(node, namespace, &text, priority);
            self.nodes[node as usize].hits = u32::from(known + text.left() > inserted);
        }
        Inserted { known, end: node }
    }

    /// Protects the node and all above it.
    pub(super) fn lock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            let node = &mut self.nodes[at as usize];
            if node.locks == 0 {
                self.evictable -= u64::from(node.tokens);
                self.protected += u64::from(node.tokens);
            }
            node.locks += 1;
            at = node.parent;
        }
    }

    /// Takes one protection back.
    pub(super) fn unlock(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT {
            let node = &mut self.nodes[at as usize];
            node.locks = node.locks.checked_sub(1).expect("a node is unlocked by who locked it");
            let above = node.parent;
            if node.locks == 0 {
                self.evictable += u64::from(node.tokens);
                self.protected -= u64::from(node.tokens);
                self.list(at);
            }
            at = above;
        }
    }

    /// Tokens of the node and above it that are not protected.
    pub(super) fn unlocked_above(&self, node: NodeId) -> u64 {
        let (mut at, mut tokens) = (node, 0);
        while at != ROOT && self.nodes[at as usize].locks == 0 {
            tokens += u64::from(self.nodes[at as usize].tokens);
            at = self.nodes[at as usize].parent;
        }
        tokens
    }

    /// Gives up whole leaves until at least `tokens` tokens are gone or none is left to give up; says how many are gone.
    pub(super) fn evict(&mut self, tokens: u64) -> u64 {
        let mut gone = 0;
        while gone < tokens {
            let Some(Reverse((rank, node))) = self.leaves.pop() else { break };
            self.nodes[node as usize].listed = false;
            if !self.is_leaf(node) {
                continue;
            }
            let current = self.rank(node);
            if rank != current {
                self.list(node);
                continue;
            }
            gone += u64::from(self.nodes[node as usize].tokens);
            self.delete(node);
        }
        self.evicted += gone;
        gone
    }

    fn delete(&mut self, id: NodeId) {
        let Node { parent, key, tokens, .. } = self.nodes[id as usize];
        self.children.remove(&(parent, key));
        self.evictable -= u64::from(tokens);
        self.nodes[id as usize].tokens = 0;
        self.vacant.push(id);
        self.nodes[parent as usize].children -= 1;
        self.list(parent);
    }

    /// Whether the node can be given up next.
    fn is_leaf(&self, id: NodeId) -> bool {
        let node = &self.nodes[id as usize];
        node.tokens > 0 && node.locks == 0 && node.children == 0
    }

    /// Tells the leaves of a node that has become one of them.
    fn list(&mut self, id: NodeId) {
        if self.is_leaf(id) && !self.nodes[id as usize].listed {
            self.nodes[id as usize].listed = true;
            self.leaves.push(Reverse((self.rank(id), id)));
        }
    }

    fn rank(&self, id: NodeId) -> Rank {
        let node = &self.nodes[id as usize];
        let (accessed, created) = (node.last_access, node.created);
        match self.policy {
            RadixEvictionPolicy::Lru => (0, accessed),
            RadixEvictionPolicy::Lfu => (node.hits, accessed),
            RadixEvictionPolicy::Slru => (u32::from(node.hits >= SLRU_PROTECTED_HITS), accessed),
            RadixEvictionPolicy::Fifo => (0, created),
            RadixEvictionPolicy::Mru => (0, u64::MAX - accessed),
            RadixEvictionPolicy::Filo => (0, u64::MAX - created),
            RadixEvictionPolicy::Priority => (node.priority, accessed),
        }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn touch(&mut self, id: NodeId, now: u64) {
        self.nodes[id as usize].last_access = now;
        // Only under MRU does a touch bring a leaf forward; elsewhere an outdated rank is seen when it comes up.
        if self.policy == RadixEvictionPolicy::Mru && self.is_leaf(id) {
            self.leaves.push(Reverse((self.rank(id), id)));
        }
    }

    /// The child whose first page is the text's next one.
    fn child(&self, node: NodeId, namespace: u64, text: &Text<'_>) -> Option<NodeId> {
        if text.left() < self.page {
            return None;
        }
        self.children.get(&(node, self.child_key(node, namespace, text.page_key(self.page)))).copied()
    }

    fn child_key(&self, node: NodeId, namespace: u64, page_key: u64) -> u64 {
        if node == ROOT { page_key ^ namespace.rotate_left(23).wrapping_mul(NAMESPACE_MIX) } else { page_key }
    }

    /// Passes the text over the node's tokens as far as both agree in whole pages.
    fn pass(&self, node: NodeId, text: &mut Text<'_>) -> u32 {
        let before = *text;
        let same = text.pass_common(&self.nodes[node as usize].runs);
        let whole = same - same % self.page;
        assert!(whole > 0, "a child agrees with the text that finds it for a page");
        if whole < same {
            *text = before;
            let mut head = self.nodes[node as usize].runs.clone();
            split(&mut head, whole);
            text.pass_common(&head);
        }
        whole
    }

    /// Cuts a node after `tokens` tokens; the upper part is new and is returned.
    fn split(&mut self, id: NodeId, tokens: u32) -> NodeId {
        let made = self.tick();
        let lower = &mut self.nodes[id as usize];
        let (parent, key) = (lower.parent, lower.key);
        let mut upper = Node::new(parent, key, std::mem::take(&mut lower.runs), made);
        lower.runs = split(&mut upper.runs, tokens);
        upper.tokens = tokens;
        (upper.locks, upper.hits, upper.priority) = (lower.locks, lower.hits, lower.priority);
        (upper.children, upper.order) = (1, lower.order);
        lower.tokens -= tokens;
        lower.key = page_key(&lower.runs, self.page);
        lower.order = made;
        let below = lower.key;
        let upper = self.place(upper);
        self.nodes[id as usize].parent = upper;
        self.children.insert((parent, key), upper);
        self.children.insert((upper, below), id);
        upper
    }

    fn add_leaf(&mut self, parent: NodeId, namespace: u64, text: &Text<'_>, priority: u32) -> NodeId {
        let made = self.tick();
        let key = self.child_key(parent, namespace, text.page_key(self.page));
        let mut leaf = Node::new(parent, key, text.runs(), made);
        (leaf.tokens, leaf.priority) = (text.left(), priority);
        let id = self.place(leaf);
        self.children.insert((parent, key), id);
        self.nodes[parent as usize].children += 1;
        self.evictable += u64::from(text.left());
        self.list(id);
        id
    }

    fn place(&mut self, node: Node) -> NodeId {
        match self.vacant.pop() {
            Some(id) => {
                let listed = self.nodes[id as usize].listed;
                self.nodes[id as usize] = Node { listed, ..node };
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as NodeId
            }
        }
    }

    /// The node above.
    pub(super) fn parent(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].parent
    }

    /// Its order among its siblings.
    pub(super) fn order(&self, node: NodeId) -> u64 {
        self.nodes[node as usize].order
    }
}

/// Hits from which SLRU keeps a node in its protected segment (`SLRUStrategy`'s default).
const SLRU_PROTECTED_HITS: u32 = 2;

/// An odd number with mixed bits, to keep namespaces apart.
const NAMESPACE_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Node {
    fn new(parent: NodeId, key: u64, runs: Runs, made: u64) -> Self {
        Self {
            parent,
            key,
            runs,
            tokens: 0,
            locks: 0,
            children: 0,
            hits: 0,
            last_access: made,
            created: made,
            order: made,
            priority: 0,
            listed: false,
        }
    }
}

#[cfg(test)]
impl RadixTree {
    /// Panics unless counters and nodes agree and no child is less protected than its parent needs.
    pub(super) fn assert_sound(&self) {
        let live = || (1..self.nodes.len()).filter(|&i| self.nodes[i].tokens > 0);
        let tokens = |locked: bool| -> u64 {
            live()
                .filter(|&i| (self.nodes[i].locks > 0) == locked)
                .map(|i| u64::from(self.nodes[i].tokens))
                .sum()
        };
        assert_eq!(
            (tokens(false), tokens(true)),
            (self.evictable, self.protected),
            "evictable and protected"
        );
        for i in live() {
            let node = &self.nodes[i];
            assert_eq!(self.children[&(node.parent, node.key)], i as NodeId, "a node is its parent's child");
            assert_eq!(node.runs.iter().map(|r| r.tokens).sum::<u32>(), node.tokens, "runs hold the tokens");
            assert_eq!(node.tokens % self.page, 0, "whole pages");
            let above = &self.nodes[node.parent as usize];
            assert!(node.parent == ROOT || above.locks >= node.locks, "who locks a node locks all above it");
            assert!(!self.is_leaf(i as NodeId) || node.listed, "every leaf is listed");
        }
    }
}
