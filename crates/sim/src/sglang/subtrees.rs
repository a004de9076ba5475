//! Subtrees of the radix tree by the number of texts that end in them (`dfs_weight_order` in
//! `mem_cache/base_prefix_cache.py`).

use super::tree::{NodeId, ROOT, RadixTree};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The order in which a depth-first walk meets the ends of texts, heaviest subtree first (`dfs_weight_order`): the
/// weight of a subtree is the number of texts that end in it, siblings of one weight keep their order, and a node's
/// own texts come after those below it.
pub(super) fn depth_first(tree: &RadixTree, ends: &[NodeId]) -> Vec<usize> {
    let mut weights: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut below: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    let mut own: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (text, &end) in ends.iter().enumerate() {
        own.entry(end).or_default().push(text);
        let mut at = end;
        while at != ROOT {
            let parent = tree.parent(at);
            let weight = weights.entry(at).or_insert(0);
            *weight += 1;
            if *weight == 1 {
                below.entry(parent).or_default().push(at);
            }
            at = parent;
        }
    }
    for siblings in below.values_mut() {
        siblings.sort_by_key(|&id| (Reverse(weights[&id]), tree.order(id)));
    }
    let (mut order, mut stack) = (Vec::with_capacity(ends.len()), vec![(ROOT, false)]);
    while let Some((node, seen)) = stack.pop() {
        if seen {
            order.extend(own.get(&node).into_iter().flatten());
            continue;
        }
        stack.push((node, true));
        let children = below.get(&node).into_iter().flatten().rev();
        stack.extend(children.map(|&child| (child, false)));
    }
    order
}
