//! The router: keeps the state current, asks the policy, holds it to the laws, and logs what it was told and decided.

use crate::{
    Decision, DispatchState, Information, PolicySpec, ReplicaSnapshot, RouterContext, RouterEvent,
    RoutingError, RoutingPolicy, RoutingRow, Scraped, Views,
};
use acb_types::{AdapterId, Nanos, ReplicaId, Request, RequestId, Stream};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Takes each row as it happens.
pub type RowLog = Box<dyn FnMut(&RoutingRow) + Send>;

/// A policy with its state: the same in the simulator, under live load, and in replay.
///
/// The caller owns time. It scrapes servers at the interval that [`Router::information`] declares (for
/// [`Information::TrueState`]: every replica before each dispatch) and passes on what comes back; scrapes for a policy
/// that declares none are dropped here, so that it can't peek.
pub struct Router {
    policy: Box<dyn RoutingPolicy>,
    state: DispatchState,
    rng: Stream,
    in_flight: FxHashMap<RequestId, InFlight>,
    /// One per replica when the policy sees scrapes, else none.
    unscraped: Vec<Unscraped>,
    dispatched: u64,
    log: Option<RowLog>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    replica: ReplicaId,
    adapter: Option<AdapterId>,
    prefill_tokens: u64,
    first_token: FirstToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstToken {
    /// Its prompt tokens count as pending; `sent` numbers the router's dispatches.
    Awaited {
        sent: u64,
    },
    Came,
}

/// The dispatches to one replica that its last scrape can't show, oldest first.
#[derive(Clone, Debug, Default)]
struct Unscraped {
    /// Dispatches numbered below this were shown by a scrape.
    first_unseen: u64,
    sent: VecDeque<(Nanos, u64, RequestId)>,
}

impl Router {
    /// A router of this policy before anything happened.
    ///
    /// # Errors
    /// When a parameter is impossible, or the context lacks what the policy needs.
    pub fn new(spec: &PolicySpec, context: RouterContext) -> Result<Self, RoutingError> {
        context.check()?;
        let policy = spec.build(&context)?;
        let scraped = if policy.information().sees_scrapes() { context.replicas as usize } else { 0 };
        Ok(Self {
            state: DispatchState::new(&context, policy.prefixes()),
            rng: context.seed.child("routing").stream(policy.name()),
            policy,
            in_flight: FxHashMap::default(),
            unscraped: vec![Unscraped::default(); scraped],
            dispatched: 0,
            log: None,
        })
    }

    /// Passes every row to `log` from now on.
    #[must_use]
    pub fn with_log(mut self, log: RowLog) -> Self {
        self.log = Some(log);
        self
    }

    /// The policy's name.
    #[must_use]
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// What the policy is allowed to see: tells the caller when to scrape.
    #[must_use]
    pub fn information(&self) -> Information {
        self.policy.information()
    }

    /// What the policy would see now.
    #[must_use]
    pub fn state(&self) -> &DispatchState {
        &self.state
    }

    /// Decides for one request and counts it as in flight.
    ///
    /// # Panics
    /// When the policy breaks a law (a replica or adapter that does not exist, an adapter other than the required
    /// one) or the caller dispatches a request that is in flight.
    pub fn dispatch(&mut self, now: Nanos, request: &Request) -> Decision {
        self.state.now = now;
        let decision = self.policy.route(request, &self.state, &mut self.rng);
        self.assert_lawful(request, decision);
        if let Some(log) = &mut self.log {
            let views = Views::of(&self.state);
            log(&RoutingRow::Decision { at: now, request: request.id, views, decision });
        }
        self.account(now, request, decision);
        decision
    }

    /// Takes in what happened.
    ///
    /// # Panics
    /// When the event is about a request that is not in flight or a replica that does not exist: the caller's bug.
    pub fn apply(&mut self, event: &RouterEvent) {
        match *event {
            RouterEvent::FirstToken { request, .. } => self.first_token(request),
            RouterEvent::Finished { request, .. } => self.finished(request),
            RouterEvent::Scraped { at, replica, ref snapshot } => {
                if !self.information().sees_scrapes() {
                    return;
                }
                self.scraped(at, replica, snapshot);
            }
        }
        if let Some(log) = &mut self.log {
            log(&RoutingRow::from(event));
        }
        self.policy.observe(event);
    }

    pub(crate) fn is_in_flight(&self, request: RequestId) -> bool {
        self.in_flight.contains_key(&request)
    }

    fn assert_lawful(&self, request: &Request, decision: Decision) {
        let (policy, id) = (self.policy.name(), request.id);
        assert!(
            decision.replica.index() < self.state.replicas.len(),
            "policy {policy} sent request {id} to replica {}, which does not exist",
            decision.replica
        );
        assert!(
            decision.adapter.is_none_or(|a| a.index() < self.state.adapters.len()),
            "policy {policy} served request {id} with an adapter that does not exist"
        );
        assert!(
            request.required_adapter.is_none_or(|required| decision.adapter == Some(required)),
            "policy {policy} served request {id} with another adapter than the client named"
        );
    }

    fn account(&mut self, now: Nanos, request: &Request, decision: Decision) {
        let Decision { replica, adapter, .. } = decision;
        let mut prefill_tokens = request.prompt.tokens();
        if let Some(index) = &mut self.state.prefixes {
            prefill_tokens -= index.match_tokens(replica, adapter, request);
            index.insert(replica, adapter, request);
        }
        let prefill_tokens = u64::from(prefill_tokens);
        self.state.replicas[replica.index()].sent(adapter, prefill_tokens);
        let sent = self.dispatched;
        self.dispatched += 1;
        if let Some(unscraped) = self.unscraped.get_mut(replica.index()) {
            unscraped.push((now, sent, request.id), &self.in_flight);
        }
        let first_token = FirstToken::Awaited { sent };
        let entry = InFlight { replica, adapter, prefill_tokens, first_token };
        let before = self.in_flight.insert(request.id, entry);
        assert!(before.is_none(), "request {} is dispatched while in flight", request.id);
    }

    fn first_token(&mut self, request: RequestId) {
        let entry = self.in_flight.get_mut(&request);
        let entry =
            entry.unwrap_or_else(|| panic!("request {request} is not in flight and had a first token"));
        let before = *entry;
        entry.first_token = FirstToken::Came;
        self.computed(&before);
    }

    fn finished(&mut self, request: RequestId) {
        let entry = self.in_flight.remove(&request);
        let entry = entry.unwrap_or_else(|| panic!("request {request} is not in flight and finished"));
        self.computed(&entry);
        self.state.replicas[entry.replica.index()].ended(entry.adapter);
    }

    /// The prompt of a request is no longer pending, if it was until now.
    fn computed(&mut self, entry: &InFlight) {
        let FirstToken::Awaited { sent } = entry.first_token else { return };
        let view = &mut self.state.replicas[entry.replica.index()];
        view.pending_prefill_tokens -= entry.prefill_tokens;
        let unseen = self.unscraped.get(entry.replica.index());
        if unseen.is_none_or(|u| sent >= u.first_unseen) {
            view.unscraped_prefill_tokens -= entry.prefill_tokens;
        }
    }

    fn scraped(&mut self, at: Nanos, replica: ReplicaId, snapshot: &ReplicaSnapshot) {
        let view = self.state.replicas.get_mut(replica.index());
        let view = view.unwrap_or_else(|| panic!("replica {replica} was scraped and does not exist"));
        match &mut view.scraped {
            Some(scraped) => {
                scraped.observed_at = at;
                scraped.snapshot.clone_from(snapshot);
            }
            None => view.scraped = Some(Scraped { observed_at: at, snapshot: snapshot.clone() }),
        }
        view.unscraped_prefill_tokens =
            self.unscraped[replica.index()].seen(at, self.dispatched, &self.in_flight);
    }
}

impl Unscraped {
    /// Notes a dispatch; those that ended are dropped from the front, so that the list is bounded without scrapes too.
    fn push(&mut self, dispatch: (Nanos, u64, RequestId), in_flight: &FxHashMap<RequestId, InFlight>) {
        while self.sent.front().is_some_and(|(_, _, r)| !in_flight.contains_key(r)) {
            self.sent.pop_front();
        }
        self.sent.push_back(dispatch);
    }

    /// Forgets what a scrape at `at` shows, and returns the pending tokens of what was sent later.
    fn seen(&mut self, at: Nanos, dispatched: u64, in_flight: &FxHashMap<RequestId, InFlight>) -> u64 {
        while self.sent.front().is_some_and(|&(sent_at, _, _)| sent_at <= at) {
            self.sent.pop_front();
        }
        self.first_unseen = self.sent.front().map_or(dispatched, |&(_, sent, _)| sent);
        let pending = |&(_, sent, request)| match in_flight.get(&request) {
            Some(entry) if entry.first_token == FirstToken::Awaited { sent } => entry.prefill_tokens,
            _ => 0,
        };
        self.sent.iter().map(pending).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpecialistsSpec;
    use crate::testing::{context, request, scraped};

    fn unscraped(router: &Router) -> (u64, u64) {
        let view = &router.state().replicas[0];
        (view.pending_prefill_tokens, view.unscraped_prefill_tokens)
    }

    #[test]
    fn tokens_sent_after_a_scrape_was_true_are_credited_until_a_later_scrape_or_their_first_token() {
        let ms = Nanos::from_millis;
        let spec = PolicySpec::Specialists(SpecialistsSpec::default());
        let mut router = Router::new(&spec, context(1)).unwrap();
        router.dispatch(ms(1), &request(1, 0, 100));
        assert_eq!(unscraped(&router), (100, 100), "no scrape yet");
        router.apply(&scraped(Nanos(500_000), 0, ReplicaSnapshot::default()));
        assert_eq!(unscraped(&router), (100, 100), "the scrape was true before the dispatch");
        router.apply(&scraped(ms(2), 0, ReplicaSnapshot::default()));
        assert_eq!(unscraped(&router), (100, 0), "the scrape shows it");
        router.dispatch(ms(2), &request(2, 0, 10));
        assert_eq!(unscraped(&router), (110, 10), "dispatched at the time of the scrape, after it");
        router.apply(&RouterEvent::FirstToken { at: ms(3), request: RequestId(1) });
        assert_eq!(unscraped(&router), (10, 10));
        router.apply(&RouterEvent::Finished { at: ms(4), request: RequestId(2) });
        assert_eq!(unscraped(&router), (0, 0), "it ended without a first token");
        router.dispatch(ms(5), &request(3, 0, 20));
        router.apply(&scraped(ms(5), 0, ReplicaSnapshot::default()));
        assert_eq!(unscraped(&router), (20, 0), "scraped at the time of the dispatch, after it");
    }

    #[test]
    fn tokens_believed_cached_do_not_count_as_pending() {
        let mut router = Router::new(&PolicySpec::CacheStatic(Default::default()), context(1)).unwrap();
        router.dispatch(Nanos::ZERO, &request(1, 0, 100));
        let again = Request { id: RequestId(2), ..request(1, 0, 100) };
        router.dispatch(Nanos::ZERO, &again);
        assert_eq!(unscraped(&router).0, 100 + 4, "six blocks of sixteen are cached");
    }
}
