//! *merged replicas*: a replica with an adapter in its weights serves nothing else, and an arm must not send it anything else.

use super::{Evidence, Verdict, pass, refuse};

const GATE: &str = "merged-replicas";

pub(super) fn verdict(seen: &Evidence<'_>) -> Verdict {
    let misplaced = &seen.replay.misplaced;
    if misplaced.is_empty() {
        return pass(GATE, "every replayed request is sent where it can be served");
    }
    let sentence = |(arm, (count, first)): (&String, &(u64, String))| {
        format!("arm {arm} sends {count} where they can't be served, such as {first}")
    };
    let found: Vec<String> = misplaced.iter().map(sentence).collect();
    refuse(
        GATE,
        format!("of {} replayed requests, {}", seen.replay.requests, found.join("; ")),
        "give the arm a policy that passes over such replicas (base, semantic, multitask, least_in_flight, specialists), keep \
         a replica that serves everything, or leave cluster.what_if.merged out",
    )
}
