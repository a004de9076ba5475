//! What a list of requests looks like: concentration, switching, reuse, and the popularity that it realised.

use crate::content::{Space, space_of};
use acb_types::{ContentId, Request};
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;

/// Shares that are listed one by one; the others are summed.
const LISTED_SHARES: usize = 20;
/// Different prefixes that are remembered; beyond them reuse is undercounted, and the report says so.
const MAX_PREFIXES: usize = 1 << 20;

/// Counts over requests in order. Memory grows with tasks, adapters and different shared prefixes (to a limit).
#[derive(Clone, Debug, Default)]
pub struct Structure {
    requests: u64,
    tasks: Tally,
    adapters: Tally,
    prefixes: FxHashSet<ContentId>,
    prefixes_full: bool,
    reused: u64,
    last_session: Option<u64>,
    same_session: u64,
}

/// How often each of a set of things came, and how its comings follow each other.
#[derive(Clone, Debug, Default)]
struct Tally {
    counts: Vec<u64>,
    last_seen: FxHashMap<u32, u64>,
    total: u64,
    last: Option<u32>,
    switches: u64,
    distances: u64,
    returns: u64,
}

/// What [`Structure`] counted. Ratios are absent where there is nothing to divide by.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StructureReport {
    /// Requests counted.
    pub requests: u64,
    /// Entropy of the tasks in bits.
    pub task_entropy: Option<f64>,
    /// Gini coefficient of the tasks' counts, over the tasks up to the last one asked for: 0 is equal.
    pub task_gini_concentration: Option<f64>,
    /// Entropy of the adapters that clients named, in bits; absent when the router decides.
    pub adapter_entropy: Option<f64>,
    /// Gini coefficient of the named adapters' counts.
    pub adapter_gini_concentration: Option<f64>,
    /// Share of requests that name another adapter than the request before; of tasks where the router decides.
    pub adapter_switch_rate: Option<f64>,
    /// Mean number of requests from one request for an adapter (or task, as above) to the next for the same.
    pub mean_reuse_distance: Option<f64>,
    /// Share of requests whose prompt starts with a run of tokens that an earlier prompt started with.
    pub shared_prefix_reuse_ratio: Option<f64>,
    /// Whether there were more different prefixes than are remembered, so that the ratio is a lower bound.
    pub shared_prefix_reuse_is_lower_bound: bool,
    /// Share of requests that come from the same session as the request before.
    pub session_locality: Option<f64>,
    /// The popularity that the requests realised.
    pub popularity: Option<RealisedPopularity>,
}

/// Realised popularity of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RealisedPopularity {
    /// Tasks asked for at least once.
    pub distinct: u64,
    /// Share of the most popular task.
    pub top1_share: f64,
    /// Share of the ten most popular tasks.
    pub top10_share: f64,
    /// Effective number of tasks, one over the sum of squared shares.
    pub n_eff: f64,
    /// Entropy in bits.
    pub entropy_bits: f64,
    /// (task id, share) of the twenty most popular tasks, most popular first.
    pub shares: Vec<(u32, f64)>,
    /// Share of all other tasks together.
    pub rest_share: f64,
}

impl Structure {
    /// Counts a request; requests come in the order of their due times.
    pub fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.tasks.add(request.task.0);
        if let Some(adapter) = request.required_adapter {
            self.adapters.add(adapter.0);
        }
        let session = request.session.0;
        self.same_session += u64::from(self.last_session == Some(session));
        self.last_session = Some(session);
        let Some(first) = request.prompt.segments().first() else { return };
        if space_of(first.content) == Some(Space::Unique) {
            return;
        }
        if self.prefixes.contains(&first.content) {
            self.reused += 1;
        } else if self.prefixes.len() < MAX_PREFIXES {
            self.prefixes.insert(first.content);
        } else {
            self.prefixes_full = true;
        }
    }

    /// The report on what was counted so far.
    #[must_use]
    pub fn finish(&self) -> StructureReport {
        let steps = self.requests.saturating_sub(1);
        let named = if self.adapters.total > 0 { &self.adapters } else { &self.tasks };
        StructureReport {
            requests: self.requests,
            task_entropy: self.tasks.entropy(),
            task_gini_concentration: self.tasks.gini(),
            adapter_entropy: self.adapters.entropy(),
            adapter_gini_concentration: self.adapters.gini(),
            adapter_switch_rate: ratio(named.switches, named.total.saturating_sub(1)),
            mean_reuse_distance: ratio(named.distances, named.returns),
            shared_prefix_reuse_ratio: ratio(self.reused, self.requests),
            shared_prefix_reuse_is_lower_bound: self.prefixes_full,
            session_locality: ratio(self.same_session, steps),
            popularity: self.tasks.popularity(),
        }
    }
}

impl Tally {
    fn add(&mut self, thing: u32) {
        let index = thing as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.switches += u64::from(self.last.is_some_and(|last| last != thing));
        self.last = Some(thing);
        if let Some(before) = self.last_seen.insert(thing, self.total) {
            self.distances += self.total - before;
            self.returns += 1;
        }
        self.total += 1;
    }

    fn shares(&self) -> impl Iterator<Item = f64> {
        self.counts.iter().map(|&count| count as f64 / self.total as f64)
    }

    fn entropy(&self) -> Option<f64> {
        let bits = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
        (self.total > 0).then(|| self.shares().map(bits).sum())
    }

    fn gini(&self) -> Option<f64> {
        let n = self.counts.len() as f64;
        let mut sorted = self.counts.clone();
        sorted.sort_unstable();
        let weighted: f64 =
            sorted.iter().enumerate().map(|(i, &x)| (2.0 * (i as f64 + 1.0) - n - 1.0) * x as f64).sum();
        (self.total > 0).then(|| weighted / (n * self.total as f64))
    }

    fn popularity(&self) -> Option<RealisedPopularity> {
        let entropy_bits = self.entropy()?;
        let share = |count: u64| count as f64 / self.total as f64;
        let mut ranked: Vec<(u64, u32)> =
            self.counts.iter().copied().zip(0..).filter(|&(n, _)| n > 0).collect();
        ranked.sort_by_key(|&(count, task)| (std::cmp::Reverse(count), task));
        let of_first = |n: usize| share(ranked.iter().take(n).map(|&(count, _)| count).sum());
        Some(RealisedPopularity {
            distinct: ranked.len() as u64,
            top1_share: of_first(1),
            top10_share: of_first(10),
            n_eff: 1.0 / self.shares().map(|share| share * share).sum::<f64>(),
            entropy_bits,
            shares: ranked.iter().take(LISTED_SHARES).map(|&(count, task)| (task, share(count))).collect(),
            rest_share: share(ranked.iter().skip(LISTED_SHARES).map(|&(count, _)| count).sum()),
        })
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::content;
    use acb_types::{
        AdapterId, Nanos, Prompt, RequestId, Segment, SessionId, TaskId, TenantId, TrustGroupId,
    };

    fn request(id: u64, session: u64, task: u32, first: ContentId) -> Request {
        Request {
            id: RequestId(id),
            due: Nanos(id),
            session: SessionId(session),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(task),
            document: None,
            prompt: Prompt::new([Segment { content: first, tokens: 5 }]),
            max_output_tokens: 1,
            cache_salt: None,
            ask: id,
            required_adapter: None,
        }
    }

    #[test]
    fn a_list_worked_by_hand() {
        // Tasks 0 0 1 0, sessions 7 7 8 8, prefixes: document 1, document 2, document 1, one of its own.
        let doc = |n| content(Space::Document, n);
        let mut structure = Structure::default();
        for (id, session, task, first) in
            [(0, 7, 0, doc(1)), (1, 7, 0, doc(2)), (2, 8, 1, doc(1)), (3, 8, 0, content(Space::Unique, 9))]
        {
            structure.add(&request(id, session, task, first));
        }
        let report = structure.finish();
        let near = |seen: Option<f64>, wanted: f64| {
            assert!((seen.unwrap() - wanted).abs() < 1e-12, "{seen:?}, not {wanted}")
        };
        near(report.task_entropy, 0.75 * (4.0f64 / 3.0).log2() + 0.25 * 2.0);
        near(report.task_gini_concentration, 0.25);
        near(report.adapter_switch_rate, 2.0 / 3.0);
        near(report.mean_reuse_distance, 1.5);
        near(report.shared_prefix_reuse_ratio, 0.25);
        near(report.session_locality, 2.0 / 3.0);
        assert_eq!(report.adapter_entropy, None, "nobody named an adapter");
        let popularity = report.popularity.unwrap();
        assert_eq!((popularity.distinct, popularity.top1_share, popularity.rest_share), (2, 0.75, 0.0));
        assert_eq!(popularity.n_eff, 1.6);
        assert_eq!(popularity.shares, [(0, 0.75), (1, 0.25)]);
    }

    #[test]
    fn named_adapters_are_counted_and_an_empty_list_has_no_ratios() {
        let mut structure = Structure::default();
        assert_eq!(structure.finish().task_entropy, None);
        assert_eq!(structure.finish().session_locality, None);
        for (id, adapter) in [(0, 3), (1, 3), (2, 1)] {
            let request = request(id, 0, 0, content(Space::Document, 1));
            structure.add(&Request { required_adapter: Some(AdapterId(adapter)), ..request });
        }
        let report = structure.finish();
        assert_eq!(report.adapter_switch_rate, Some(0.5));
        assert_eq!(report.task_entropy, Some(0.0));
        assert!(report.adapter_entropy.unwrap() > 0.9);
    }
}
