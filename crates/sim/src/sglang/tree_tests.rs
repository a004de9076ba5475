//! Worked examples of the radix tree: S rows were executed against SGLang 0.5.23's own.

use super::subtrees::depth_first;
use super::text::Text;
use super::tree::{Insertion, NodeId, ROOT, RadixTree};
use crate::RadixEvictionPolicy;
use acb_types::{ContentId, Prompt, RequestId, Segment};
use proptest::prelude::*;

struct Bed {
    page: u32,
    tree: RadixTree,
}

fn prompt(runs: &[(u64, u32)]) -> Prompt {
    Prompt::new(runs.iter().map(|&(c, tokens)| Segment { content: ContentId(c), tokens }))
}

impl Bed {
    fn new(page: u32, policy: RadixEvictionPolicy) -> Self {
        Self { page, tree: RadixTree::new(page, policy) }
    }

    fn insert(&mut self, namespace: u64, runs: &[(u64, u32)], priority: u32) -> NodeId {
        let prompt = prompt(runs);
        let length = prompt.tokens() - prompt.tokens() % self.page;
        let text = Text::new(&prompt, RequestId(0), length);
        let inserted = self.tree.insert(&Insertion { namespace, text, priority, inserted: 0 });
        self.tree.assert_sound();
        inserted.end
    }

    /// What a request with this prompt hits: at most all but its last token, in whole pages.
    fn hit(&mut self, namespace: u64, runs: &[(u64, u32)]) -> u32 {
        let prompt = prompt(runs);
        let most = prompt.tokens() - 1;
        let text = Text::new(&prompt, RequestId(0), most - most % self.page);
        let (found, _) = self.tree.find(namespace, text);
        self.tree.assert_sound();
        found
    }

    fn size(&self) -> u64 {
        self.tree.evictable() + self.tree.protected()
    }
}

#[test]
fn s1_the_same_prompt_again_leaves_one_token_to_compute() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    bed.insert(0, &[(1, 100)], 0);
    assert_eq!(bed.hit(0, &[(1, 100)]), 99);
}

#[test]
fn s2_an_adapter_shares_nothing_with_the_base_model() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    bed.insert(0, &[(1, 100)], 0);
    assert_eq!(bed.hit(7, &[(1, 100)]), 0);
    bed.insert(7, &[(1, 100)], 0);
    assert_eq!((bed.hit(7, &[(1, 100)]), bed.size()), (99, 200));
}

#[test]
fn s3_pages_are_whole() {
    let mut bed = Bed::new(16, RadixEvictionPolicy::Lru);
    bed.insert(0, &[(1, 100)], 0);
    assert_eq!((bed.size(), bed.hit(0, &[(1, 100)]), bed.hit(0, &[(1, 64)])), (96, 96, 48));
    assert_eq!(bed.hit(0, &[(1, 16)]), 0, "one page is never hit by itself");
    assert_eq!(bed.hit(0, &[(1, 17)]), 16);
}

#[test]
fn s4_two_texts_share_their_common_start() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    bed.insert(0, &[(1, 60), (2, 40)], 0);
    bed.insert(0, &[(1, 60), (3, 40)], 0);
    assert_eq!((bed.size(), bed.hit(0, &[(1, 60), (4, 40)])), (140, 60));
}

/// X is inserted three times, then Y and Z; 50 tokens are given up: who is still there?
fn left_after_s6(policy: RadixEvictionPolicy) -> [bool; 3] {
    let mut bed = Bed::new(1, policy);
    for content in [1, 1, 1, 2, 3] {
        bed.insert(0, &[(content, 50)], 0);
    }
    assert_eq!(bed.tree.evict(50), 50);
    [1, 2, 3].map(|content| bed.hit(0, &[(content, 50)]) > 0)
}

#[test]
fn s6_each_policy_gives_up_its_own_leaf() {
    use RadixEvictionPolicy::{Fifo, Filo, Lfu, Lru, Mru, Slru};
    for policy in [Lru, Fifo] {
        assert_eq!(left_after_s6(policy), [false, true, true], "{policy:?}");
    }
    for policy in [Lfu, Slru] {
        assert_eq!(left_after_s6(policy), [true, false, true], "{policy:?}");
    }
    for policy in [Mru, Filo] {
        assert_eq!(left_after_s6(policy), [true, true, false], "{policy:?}");
    }
}

#[test]
fn s7_what_a_request_uses_stays() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    let older = bed.insert(0, &[(1, 60), (2, 40)], 0);
    bed.insert(0, &[(1, 60), (3, 40)], 0);
    bed.tree.lock(older);
    assert_eq!((bed.tree.evict(1000), bed.tree.evictable(), bed.tree.protected()), (40, 0, 100));
    bed.tree.unlock(older);
    assert_eq!(bed.tree.evict(1), 40, "the leaf goes whole, its parent stays");
    assert_eq!(bed.tree.evict(1), 60, "then the parent, which has no child any more");
    bed.tree.assert_sound();
}

#[test]
fn s8_a_salt_is_a_namespace() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    let salted = |salt| crate::rules::salted(0, Some(salt));
    bed.insert(salted(1), &[(1, 32)], 0);
    assert_eq!((bed.hit(salted(1), &[(1, 32)]), bed.hit(salted(2), &[(1, 32)])), (31, 0));
}

#[test]
fn texts_that_part_within_a_page_are_siblings() {
    let mut bed = Bed::new(16, RadixEvictionPolicy::Lru);
    bed.insert(0, &[(1, 24), (2, 40)], 0);
    bed.insert(0, &[(1, 24), (3, 40)], 0);
    assert_eq!(bed.size(), 16 + 48 + 48);
    assert_eq!(bed.hit(0, &[(1, 24), (3, 40), (9, 1)]), 64);
}

#[test]
fn a_look_up_protects_from_lru_and_exposes_to_mru() {
    for (policy, expected) in
        [(RadixEvictionPolicy::Lru, [true, false]), (RadixEvictionPolicy::Mru, [false, true])]
    {
        let mut bed = Bed::new(1, policy);
        bed.insert(0, &[(1, 50)], 0);
        bed.insert(0, &[(2, 50)], 0);
        assert_eq!(bed.hit(0, &[(1, 51)]), 50);
        bed.tree.evict(1);
        assert_eq!([1, 2].map(|c| bed.hit(0, &[(c, 51)]) > 0), expected, "{policy:?}");
    }
}

#[test]
fn answers_go_before_prompts_under_priority() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Priority);
    bed.insert(0, &[(1, 50), (2, 20)], 0);
    bed.insert(0, &[(1, 50)], 1);
    bed.insert(0, &[(3, 30), (4, 10)], 0);
    bed.insert(0, &[(3, 30)], 1);
    assert_eq!((bed.tree.evict(1), bed.tree.evict(1)), (20, 10), "both answers");
    assert_eq!(bed.tree.evict(1), 50, "then the older prompt");
}

#[test]
fn the_heaviest_subtree_comes_first_and_a_node_after_its_children() {
    let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
    let light = bed.insert(0, &[(1, 10)], 0);
    let heavy = bed.insert(0, &[(2, 10)], 0);
    let below = bed.insert(0, &[(2, 10), (3, 5)], 0);
    let order = depth_first(&bed.tree, &[ROOT, light, heavy, below, heavy]);
    assert_eq!(order, [3, 2, 4, 1, 0]);
}

#[test]
fn evicting_in_parts_gives_up_the_same_leaves_as_at_once() {
    let fill = || {
        let mut bed = Bed::new(1, RadixEvictionPolicy::Lru);
        for i in 0..20 {
            bed.insert(0, &[(i % 5, 10), (100 + i, 7)], 0);
        }
        bed
    };
    let (mut once, mut parts) = (fill(), fill());
    once.tree.evict(60);
    let mut gone = 0;
    for target in [5, 20, 41, 60] {
        gone += parts.tree.evict(60u64.min(target) - u64::min(gone, target));
    }
    assert_eq!(once.size(), parts.size());
    for i in 0..20 {
        assert_eq!(once.hit(0, &[(i % 5, 10), (100 + i, 8)]), parts.hit(0, &[(i % 5, 10), (100 + i, 8)]));
    }
}

type Runs = Vec<(u64, u32)>;

/// One thing that happens to a tree: insert and lock, look up, unlock the oldest lock, or evict.
#[derive(Clone, Debug)]
enum Act {
    Insert(Vec<(u64, u32)>, u64, bool),
    Find(Vec<(u64, u32)>, u64),
    Unlock,
    Evict(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let runs = || prop::collection::vec((0u64..3, 1u32..9), 1..5);
    let act = prop_oneof![
        (runs(), 0u64..2, any::<bool>())
            .prop_map(|(runs, namespace, lock)| Act::Insert(runs, namespace, lock)),
        (runs(), 0u64..2).prop_map(|(runs, namespace)| Act::Find(runs, namespace)),
        Just(Act::Unlock),
        (1u64..20).prop_map(Act::Evict),
    ];
    prop::collection::vec(act, 1..60)
}

fn tokens(runs: &[(u64, u32)]) -> Vec<(u64, u32)> {
    runs.iter().flat_map(|&(content, count)| (0..count).map(move |i| (content, i))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_eviction_the_tree_finds_what_a_list_of_texts_finds(acts in acts(), page in 1u32..4) {
        let mut bed = Bed::new(page, RadixEvictionPolicy::Lru);
        let mut texts: Vec<(u64, Vec<(u64, u32)>)> = Vec::new();
        for act in acts {
            match act {
                Act::Insert(runs, namespace, _) => {
                    bed.insert(namespace, &runs, 0);
                    let mut text = tokens(&runs);
                    text.truncate(text.len() - text.len() % page as usize);
                    texts.push((namespace, text));
                }
                Act::Find(runs, namespace) => {
                    let text = tokens(&runs);
                    let most = text.len() - 1;
                    let common = |other: &Vec<(u64, u32)>| {
                        let same = text[..most].iter().zip(other).take_while(|(a, b)| a == b).count();
                        same - same % page as usize
                    };
                    let of = texts.iter().filter(|(n, _)| *n == namespace);
                    let longest = of.map(|(_, other)| common(other)).max().unwrap_or(0);
                    prop_assert_eq!(bed.hit(namespace, &runs), longest as u32);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn no_token_is_lost_and_no_locked_one_given_up(acts in acts(), page in 1u32..4, policy in 0usize..7) {
        use RadixEvictionPolicy as E;
        let policy = [E::Lru, E::Lfu, E::Slru, E::Fifo, E::Mru, E::Filo, E::Priority][policy];
        let mut bed = Bed::new(page, policy);
        let mut locked: Vec<(NodeId, u64, Runs)> = Vec::new();
        for act in acts {
            match act {
                Act::Insert(runs, namespace, lock) => {
                    let end = bed.insert(namespace, &runs, 0);
                    if lock {
                        bed.tree.lock(end);
                        locked.push((end, namespace, runs));
                    }
                }
                Act::Find(runs, namespace) => { bed.hit(namespace, &runs); }
                Act::Unlock => {
                    if !locked.is_empty() {
                        let (node, ..) = locked.remove(0);
                        bed.tree.unlock(node);
                    }
                }
                Act::Evict(tokens) => {
                    let (before, evictable) = (bed.size(), bed.tree.evictable());
                    let gone = bed.tree.evict(tokens);
                    prop_assert_eq!(bed.size() + gone, before);
                    prop_assert!(gone >= tokens.min(evictable));
                }
            }
            bed.tree.assert_sound();
            for (_, namespace, runs) in locked.clone() {
                let length = runs.iter().map(|r| r.1).sum::<u32>() / page * page;
                let longer: Vec<(u64, u32)> = runs.iter().copied().chain([(99, page)]).collect();
                prop_assert!(bed.hit(namespace, &longer) >= length);
            }
        }
        locked.iter().for_each(|(node, ..)| bed.tree.unlock(*node));
        bed.tree.evict(u64::MAX);
        prop_assert_eq!(bed.size(), 0);
    }
}
