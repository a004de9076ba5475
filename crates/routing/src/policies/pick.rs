//! Choosing among replicas that a rule finds equally good.

use acb_types::{ReplicaId, Stream};

/// The replicas of the lowest key, in the order given; `lowest` is overwritten.
pub(super) fn lowest_by<K: PartialOrd>(
    replicas: impl IntoIterator<Item = ReplicaId>,
    key: impl Fn(ReplicaId) -> K,
    lowest: &mut Vec<ReplicaId>,
) {
    lowest.clear();
    let mut least: Option<K> = None;
    for replica in replicas {
        let key = key(replica);
        if least.as_ref().is_none_or(|least| key < *least) {
            lowest.clear();
            least = Some(key);
        } else if least.as_ref().is_some_and(|least| key > *least) {
            continue;
        }
        lowest.push(replica);
    }
}

/// One of them, each as likely as any other. A single one takes no draw.
///
/// # Panics
/// When there is none.
pub(super) fn draw(replicas: &[ReplicaId], rng: &mut Stream) -> ReplicaId {
    match replicas {
        [only] => *only,
        several => several[rng.below(several.len() as u64) as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_replicas_of_the_lowest_key_are_kept_in_order() {
        let mut lowest = vec![ReplicaId(9)];
        let keys = [3.0, 1.0, 2.0, 1.0];
        lowest_by((0..4).map(ReplicaId), |r| keys[r.index()], &mut lowest);
        assert_eq!(lowest, [ReplicaId(1), ReplicaId(3)]);
    }
}
