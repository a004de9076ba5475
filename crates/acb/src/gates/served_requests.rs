//! *served requests*: what the servers' limits do to the replayed requests before anybody routes well or badly.

use super::{Evidence, Verdict, note, pass, refuse};

const GATE: &str = "served-requests";

/// Share of requests from which loads from disk are worth a word.
const MANY_LOADS: f64 = 0.02;

pub(super) fn verdict(seen: &Evidence<'_>) -> Verdict {
    let replay = seen.replay;
    let all = replay.requests as f64;
    let mut found: Vec<String> = Vec::new();
    for (outcome, count) in &replay.not_ok {
        let share = 100.0 * *count as f64 / all;
        found.push(format!("{count} ({share:.1} %) end as {outcome}"));
    }
    if replay.loads_from_disk as f64 > MANY_LOADS * all {
        let share = 100.0 * replay.loads_from_disk as f64 / all;
        found.push(format!("{share:.1} % wait for an adapter to be read from disk"));
    }
    let lost: u64 = replay.not_ok.values().sum();
    if lost == replay.requests {
        let how = if found.is_empty() {
            "none comes before limits.max_sim_seconds".to_owned()
        } else {
            found.join("; ")
        };
        return refuse(
            GATE,
            format!("of {} replayed requests none is served: {how}", replay.requests),
            "raise the limit that ends them (kv memory, context_tokens, limits), or the arrival rate",
        );
    }
    match found.is_empty() {
        true => {
            pass(GATE, format!("all {} replayed requests are served, few wait for a disk", replay.requests))
        }
        false => note(
            GATE,
            format!("of {} replayed requests, all arms together, {}", replay.requests, found.join("; ")),
            "cluster.engine.context_tokens bounds prompt and answer, max_cpu_loras (max_loras when absent) says how many \
             adapters stay in host memory; every run starts with none",
        ),
    }
}
