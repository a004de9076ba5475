//! One line of `routing.jsonl`: everything that a router was told and decided, in order.

use crate::{Decision, DispatchState, ReplicaSnapshot, RouterEvent};
use acb_types::{Nanos, ReplicaId, RequestId};
use serde::{Deserialize, Serialize};

/// A decision or an event. The rows of a run, its spec and its workload are enough to decide everything again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum RoutingRow {
    /// A request was dispatched.
    Decision {
        /// When.
        at: Nanos,
        /// Which.
        request: RequestId,
        /// The cluster as the policy saw it, before this request was counted.
        views: Views,
        /// What and where.
        decision: Decision,
    },
    /// The first token of a request came back.
    FirstToken {
        /// When.
        at: Nanos,
        /// Whose.
        request: RequestId,
    },
    /// A request ended.
    Finished {
        /// When.
        at: Nanos,
        /// Which.
        request: RequestId,
    },
    /// A server was scraped. Not logged when the policy does not look.
    Scraped {
        /// When the numbers were true.
        at: Nanos,
        /// Which server.
        replica: ReplicaId,
        /// The numbers.
        snapshot: ReplicaSnapshot,
    },
}

/// The views in columns, one entry per replica in id order. What was scraped is in the rows before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Views {
    /// Requests in flight.
    pub in_flight: Vec<u32>,
    /// Prompt tokens that wait for a first token.
    pub pending_prefill_tokens: Vec<u64>,
    /// When each replica's last scrape was true; empty when none was ever scraped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_at: Vec<Option<Nanos>>,
}

impl Views {
    /// The views of a state.
    #[must_use]
    pub fn of(state: &DispatchState) -> Self {
        let observed = |v: &crate::ReplicaView| v.scraped.as_ref().map(|s| s.observed_at);
        let any = state.replicas.iter().any(|v| v.scraped.is_some());
        Self {
            in_flight: state.replicas.iter().map(|v| v.in_flight).collect(),
            pending_prefill_tokens: state.replicas.iter().map(|v| v.pending_prefill_tokens).collect(),
            observed_at: if any { state.replicas.iter().map(observed).collect() } else { Vec::new() },
        }
    }
}

impl From<&RouterEvent> for RoutingRow {
    fn from(event: &RouterEvent) -> Self {
        match event {
            &RouterEvent::FirstToken { at, request } => Self::FirstToken { at, request },
            &RouterEvent::Finished { at, request } => Self::Finished { at, request },
            RouterEvent::Scraped { at, replica, snapshot } => {
                Self::Scraped { at: *at, replica: *replica, snapshot: snapshot.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{router, scraped};
    use crate::{PolicySpec, Reason};

    #[test]
    fn a_row_is_one_line_that_says_how_old_each_scrape_is() {
        let mut router = router(PolicySpec::Specialists(Default::default()), 2);
        let row = |router: &crate::Router| RoutingRow::Decision {
            at: Nanos(9),
            request: RequestId(4),
            views: Views::of(router.state()),
            decision: Decision { replica: ReplicaId(1), adapter: None, reason: Reason::BestValue },
        };
        let line = |row| serde_json::to_string(&row).unwrap();
        let (views, decision) = (
            r#""in_flight":[0,0],"pending_prefill_tokens":[0,0]"#,
            r#""decision":{"replica":1,"adapter":null,"reason":"best_value"}"#,
        );
        let unscraped = format!(r#"{{"row":"decision","at":9,"request":4,"views":{{{views}}},{decision}}}"#);
        assert_eq!(line(row(&router)), unscraped);
        router.apply(&scraped(Nanos(7), 1, ReplicaSnapshot::default()));
        let observed = unscraped.replace(views, &format!(r#"{views},"observed_at":[null,7]"#));
        assert_eq!(line(row(&router)), observed);
    }
}
