//! `seed_score`: the original harness's router, kept so that its preregistration can be judged by its own rule.
//!
//! It chooses an adapter name only: the first of the offered adapters, in catalogue order, with the highest
//! `prior + alpha * cached_tokens - beta * active_load(adapter) - gamma * [session has another adapter]
//! - delta * isolation_penalty - epsilon * [adapter never used]`. The penalty is 1 when the scope is tenant or trust
//! group, the request has no cache salt, and the adapter has been used, but not yet by this tenant or group: a
//! first-touch cost. The other modes are its other policies over the same state. The fixed prior table of the original
//! is the caller's [`RouterContext::prior`].
//!
//! Sees own history. All weights are in units of prior quality, per cached token (`alpha`) and per request in flight
//! (`beta`).
//!
//! Differs from the original in four things: cached tokens are whole blocks of tokens from the router's index at
//! dispatch (there: words, the partial block included, after completion); the place, which the original never chose, is
//! the replica with the fewest requests in flight, and cached tokens are those of that replica while loads count over
//! the cluster; `activated_lora` shares all of a prompt among adapters, which is the same as long as prompts differ
//! before the marker, as in E001; sessions are remembered up to `sessions_remembered`.

use crate::lru::Lru;
use crate::spec::Parameters;
use crate::{
    Decision, DispatchState, Information, PrefixKey, PrefixRules, PrefixUse, Reason, ReplicaView,
    RouterContext, RoutingError, RoutingPolicy,
};
use acb_types::{AdapterId, AdapterRole, Adapters, QualityTable, ReplicaId, Request, SessionId, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The original's belief: adapters share prefixes.
const SHARED_BY_ADAPTERS: PrefixUse = PrefixUse::Kept(PrefixRules::keyed_by(PrefixKey::Salt));

/// The original's policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeedMode {
    /// The score in full: its `specialists`, and with `beta` 0 its `cache_static`.
    #[default]
    CacheAware,
    /// The task's specialist, else multitask, else the first.
    Semantic,
    /// The session's adapter while its prior for the task is at least 0.70, else as `semantic`.
    StickySession,
    /// `prior + 0.2 * cached / prompt tokens`: a heuristic in spite of its name.
    Oracle,
    /// The multitask adapter.
    Multitask,
    /// The base model.
    Base,
}

/// Who shares cached prefixes in the original's simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeedCacheModel {
    /// Nobody: a namespace per adapter.
    #[default]
    StandardLora,
    /// All adapters.
    BaseShared,
    /// All adapters up to the invocation marker: see the module's head.
    ActivatedLora,
}

/// Which adapters are offered to the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeedCandidates {
    /// Those trained for one task: E001's four.
    #[default]
    Specialists,
    /// The multitask adapter too.
    WithMultitask,
}

/// Who counts as one party for the isolation penalty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationScope {
    /// Nobody: no penalty.
    None,
    /// The tenant.
    Tenant,
    /// The trust group.
    #[default]
    TrustGroup,
}

/// The original's weights and switches, with the original's defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SeedScoreSpec {
    /// Prior quality per cached token.
    pub alpha: f64,
    /// Prior quality per request in flight under the adapter.
    pub beta: f64,
    /// Prior quality lost when the session last had another adapter.
    pub gamma: f64,
    /// Prior quality lost at the first touch of a used adapter by another party.
    pub delta: f64,
    /// Prior quality lost when the adapter was never used.
    pub epsilon: f64,
    /// Which of the original's policies.
    pub mode: SeedMode,
    /// Who shares cached prefixes.
    pub cache_model: SeedCacheModel,
    /// Which adapters are offered.
    pub candidates: SeedCandidates,
    /// Who counts as one party.
    pub isolation_scope: IsolationScope,
    /// Sessions remembered; the one that was quiet longest is forgotten first.
    pub sessions_remembered: u64,
}

impl Default for SeedScoreSpec {
    fn default() -> Self {
        Self {
            alpha: 0.01,
            beta: 0.001,
            gamma: 0.10,
            delta: 0.25,
            epsilon: 0.05,
            mode: SeedMode::default(),
            cache_model: SeedCacheModel::default(),
            candidates: SeedCandidates::default(),
            isolation_scope: IsolationScope::default(),
            sessions_remembered: 100_000,
        }
    }
}

/// Prior at which `sticky_session` keeps the session's adapter.
const SUITS_AT_PRIOR: f64 = 0.70;
/// Weight of the cached share in the `oracle` mode.
const ORACLE_CACHED_WEIGHT: f64 = 0.2;

impl Parameters for SeedScoreSpec {
    fn name(&self) -> &'static str {
        "seed_score"
    }
    fn summary(&self) -> &'static str {
        "the original harness's score over adapters; replica with the fewest requests in flight"
    }
    fn information(&self) -> Information {
        Information::OwnHistory
    }
    fn check(&self) -> Result<(), RoutingError> {
        let weights = [
            ("alpha", self.alpha),
            ("beta", self.beta),
            ("gamma", self.gamma),
            ("delta", self.delta),
            ("epsilon", self.epsilon),
        ];
        if let Some((parameter, value)) = weights.into_iter().find(|(_, value)| !value.is_finite()) {
            let (owner, allowed) = (self.name(), "a finite number");
            return Err(RoutingError::Parameter { owner, parameter, value, allowed });
        }
        Ok(())
    }
    fn build(&self, context: &RouterContext) -> Result<Box<dyn RoutingPolicy>, RoutingError> {
        self.check_offer(&context.adapters)?;
        Ok(Box::new(SeedScore::new(self, context)))
    }
}

impl SeedScoreSpec {
    fn check_offer(&self, adapters: &Adapters) -> Result<(), RoutingError> {
        let policy = self.name();
        match self.mode {
            SeedMode::Base => Ok(()),
            SeedMode::Multitask if adapters.multitask().is_none() => {
                Err(RoutingError::NoMultitask { policy })
            }
            SeedMode::Multitask => Ok(()),
            _ if self.offered(adapters).is_empty() => Err(RoutingError::NoAdapters { policy }),
            _ => Ok(()),
        }
    }

    fn offered(&self, adapters: &Adapters) -> Vec<AdapterId> {
        let offers = |role| match role {
            AdapterRole::Specialist(_) => true,
            AdapterRole::Multitask => self.candidates == SeedCandidates::WithMultitask,
            AdapterRole::Placebo => false,
        };
        adapters.offered().filter(|a| offers(a.role)).map(|a| a.id).collect()
    }
}

struct SeedScore {
    spec: SeedScoreSpec,
    prior: Arc<QualityTable>,
    offered: Vec<AdapterId>,
    sessions: Lru<SessionId, AdapterId>,
    used: BTreeSet<AdapterId>,
    parties: BTreeSet<(AdapterId, u32)>,
    /// Requests in flight by adapter, over the cluster; counted anew for each decision.
    loads: Vec<u32>,
}

impl RoutingPolicy for SeedScore {
    fn name(&self) -> &'static str {
        self.spec.name()
    }
    fn information(&self) -> Information {
        self.spec.information()
    }
    fn prefixes(&self) -> PrefixUse {
        match (self.spec.mode, self.spec.cache_model) {
            (SeedMode::CacheAware | SeedMode::Oracle, SeedCacheModel::StandardLora) => PrefixUse::PER_ADAPTER,
            (SeedMode::CacheAware | SeedMode::Oracle, _) => SHARED_BY_ADAPTERS,
            _ => PrefixUse::Unused,
        }
    }
    fn route(&mut self, request: &Request, state: &DispatchState, _: &mut Stream) -> Decision {
        let replica = state.least_in_flight();
        let adapter = match request.required_adapter {
            Some(required) => Some(required),
            None => self.choose(request, replica, state),
        };
        if let Some(adapter) = adapter {
            self.remember(request, adapter);
        }
        Decision { replica, adapter, reason: Reason::SeedScore }
    }
}

impl SeedScore {
    fn new(spec: &SeedScoreSpec, context: &RouterContext) -> Self {
        Self {
            offered: spec.offered(&context.adapters),
            prior: context.prior.clone(),
            sessions: Lru::new(spec.sessions_remembered),
            used: BTreeSet::new(),
            parties: BTreeSet::new(),
            loads: vec![0; context.adapters.len()],
            spec: spec.clone(),
        }
    }

    fn choose(&mut self, request: &Request, replica: ReplicaId, state: &DispatchState) -> Option<AdapterId> {
        if self.spec.mode == SeedMode::CacheAware {
            self.count_loads(&state.replicas);
        }
        let prior = |adapter| self.prior.expected(request.task, Some(adapter));
        let of = |adapter| f64::from(state.prefix_match_tokens(replica, Some(adapter), request));
        let shared = (self.prefixes() == SHARED_BY_ADAPTERS).then(|| of(self.offered[0]));
        let cached = |adapter| shared.unwrap_or_else(|| of(adapter));
        match self.spec.mode {
            SeedMode::Base => None,
            SeedMode::Multitask => state.adapters.multitask(),
            SeedMode::Semantic => Some(self.expected(request, state)),
            SeedMode::StickySession => {
                let kept = self.sessions.get(request.session).copied();
                let kept = kept.filter(|a| self.offered.contains(a) && prior(*a) >= SUITS_AT_PRIOR);
                Some(kept.unwrap_or_else(|| self.expected(request, state)))
            }
            SeedMode::Oracle => {
                let tokens = f64::from(request.prompt.tokens().max(1));
                self.first_highest(|a| prior(a) + ORACLE_CACHED_WEIGHT * cached(a) / tokens)
            }
            SeedMode::CacheAware => {
                self.first_highest(|a| prior(a) + self.spec.alpha * cached(a) - self.penalties(request, a))
            }
        }
    }

    fn count_loads(&mut self, replicas: &[ReplicaView]) {
        self.loads.fill(0);
        for &(adapter, in_flight) in replicas.iter().flat_map(|view| &view.in_flight_by_adapter) {
            if let Some(adapter) = adapter {
                self.loads[adapter.index()] += in_flight;
            }
        }
    }

    fn penalties(&self, request: &Request, adapter: AdapterId) -> f64 {
        let one_if = |holds: bool| f64::from(u8::from(holds));
        let spec = &self.spec;
        let switches = self.sessions.get(request.session).is_some_and(|&had| had != adapter);
        let used = self.used.contains(&adapter);
        let foreign = self.party(request).is_some_and(|party| !self.parties.contains(&(adapter, party)));
        spec.beta * f64::from(self.loads[adapter.index()])
            + spec.gamma * one_if(switches)
            + spec.delta * one_if(used && foreign)
            + spec.epsilon * one_if(!used)
    }

    /// Whom the isolation penalty asks about; nobody under a cache salt.
    fn party(&self, request: &Request) -> Option<u32> {
        match self.spec.isolation_scope {
            _ if request.cache_salt.is_some() => None,
            IsolationScope::None => None,
            IsolationScope::Tenant => Some(request.tenant.0),
            IsolationScope::TrustGroup => Some(request.trust_group.0),
        }
    }

    fn expected(&self, request: &Request, state: &DispatchState) -> AdapterId {
        let offered = |adapter: &AdapterId| self.offered.contains(adapter);
        let specialist = state.adapters.specialist(request.task).filter(offered);
        specialist.or(state.adapters.multitask().filter(offered)).unwrap_or(self.offered[0])
    }

    fn first_highest(&self, score: impl Fn(AdapterId) -> f64) -> Option<AdapterId> {
        let mut best = (f64::NEG_INFINITY, None);
        for &adapter in &self.offered {
            let score = score(adapter);
            if score > best.0 {
                best = (score, Some(adapter));
            }
        }
        best.1
    }

    fn remember(&mut self, request: &Request, adapter: AdapterId) {
        self.sessions.touch(request.session, adapter);
        self.used.insert(adapter);
        let party = match self.spec.isolation_scope {
            IsolationScope::None => return,
            IsolationScope::Tenant => request.tenant.0,
            IsolationScope::TrustGroup => request.trust_group.0,
        };
        self.parties.insert((adapter, party));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, finished, prompt, request};
    use crate::{PolicySpec, Router};
    use acb_types::{Nanos, RequestId, TenantId, TrustGroupId};

    /// The weights that E001 registered.
    fn e001(mode: SeedMode) -> SeedScoreSpec {
        let (alpha, beta, gamma, delta, epsilon) = (0.015, 0.001, 0.08, 0.25, 0.04);
        let cache_model = SeedCacheModel::ActivatedLora;
        SeedScoreSpec { alpha, beta, gamma, delta, epsilon, mode, cache_model, ..Default::default() }
    }

    /// The original's table: qa, json, summary, code by their specialists; multitask; everything else.
    fn seed_prior() -> QualityTable {
        let (own, multitask) = ([0.92, 0.94, 0.90, 0.88], [0.82, 0.80, 0.82, 0.76]);
        QualityTable::from_fn(4, 5, |task, adapter| match adapter {
            Some(AdapterId(4)) => multitask[task.index()],
            Some(adapter) if adapter.0 == task.0 => own[task.index()],
            _ => 0.46,
        })
        .unwrap()
    }

    fn router(spec: SeedScoreSpec) -> Router {
        let context = RouterContext { prior: Arc::new(seed_prior()), ..context(1) };
        Router::new(&PolicySpec::SeedScore(spec), context).unwrap()
    }

    /// Tasks in turn over shared documents, sessions, two groups; sixteen in flight.
    fn balanced(id: u64) -> Request {
        Request {
            session: SessionId(id % 10),
            tenant: TenantId((id % 3) as u32),
            trust_group: TrustGroupId((id % 2) as u32),
            prompt: prompt(&[(id % 5, 300), (1000 + id, 30)]),
            ..request(id, (id % 4) as u32, 1)
        }
    }

    #[test]
    fn five_arms_of_e001_choose_the_same_adapter_for_every_request_of_a_balanced_load() {
        let static_ = SeedScoreSpec { beta: 0.0, ..e001(SeedMode::CacheAware) };
        let arms = [
            e001(SeedMode::CacheAware),
            static_,
            e001(SeedMode::Semantic),
            e001(SeedMode::StickySession),
            e001(SeedMode::Oracle),
        ];
        let chosen = arms.map(|spec| {
            let mut router = router(spec);
            let route = |id| {
                if id >= 16 {
                    router.apply(&finished(id - 16));
                }
                router.dispatch(Nanos::ZERO, &balanced(id)).adapter
            };
            (0..120).map(route).collect::<Vec<_>>()
        });
        assert!(chosen.iter().all(|arm| arm == &chosen[0]));
        assert!((0..120).all(|id| chosen[0][id] == Some(AdapterId(id as u32 % 4))), "always the specialist");
    }

    #[test]
    fn base_and_multitask_are_the_only_arms_that_differ() {
        let adapter = |mode| router(e001(mode)).dispatch(Nanos::ZERO, &balanced(1)).adapter;
        assert_eq!(adapter(SeedMode::Base), None);
        assert_eq!(adapter(SeedMode::Multitask), Some(AdapterId(4)));
        assert_eq!(adapter(SeedMode::CacheAware), Some(AdapterId(1)));
    }

    #[test]
    fn each_term_of_the_score_moves_it_by_its_weight() {
        let spec = SeedScoreSpec::default();
        let mut router = router(spec.clone());
        router.dispatch(Nanos::ZERO, &Request { session: SessionId(5), ..request(0, 0, 1) });
        let context = RouterContext { prior: Arc::new(seed_prior()), ..context(1) };
        let mut policy = SeedScore::new(&spec, &context);
        policy.count_loads(&router.state().replicas);
        let (qa, json) = (AdapterId(0), AdapterId(1));
        let mut stranger = request(1, 0, 1);
        stranger.session = SessionId(5);
        stranger.trust_group = TrustGroupId(9);
        let close = |seen: f64, expected: f64| assert!((seen - expected).abs() < 1e-12, "{seen} {expected}");
        close(policy.penalties(&stranger, qa), 0.001 + 0.05);
        policy.remember(&Request { session: SessionId(5), ..request(0, 0, 1) }, qa);
        close(policy.penalties(&stranger, qa), 0.001 + 0.25);
        close(policy.penalties(&stranger, json), 0.10 + 0.05);
        let salted = Request { cache_salt: Some(1), ..stranger.clone() };
        close(policy.penalties(&salted, qa), 0.001);
        policy.remember(&stranger, qa);
        close(policy.penalties(&stranger, qa), 0.001);
    }

    #[test]
    fn a_flat_prior_lets_the_cached_prefix_decide_and_ties_go_to_the_first_adapter() {
        for mode in [SeedMode::CacheAware, SeedMode::Oracle] {
            cached_prefix_decides(mode);
        }
    }

    fn cached_prefix_decides(mode: SeedMode) {
        let flat =
            RouterContext { prior: Arc::new(QualityTable::from_fn(4, 5, |_, _| 0.5).unwrap()), ..context(1) };
        let spec = PolicySpec::SeedScore(SeedScoreSpec { mode, ..Default::default() });
        let mut router = Router::new(&spec, flat).unwrap();
        assert_eq!(router.dispatch(Nanos::ZERO, &request(0, 3, 64)).adapter, Some(AdapterId(0)));
        let mut named = request(1, 3, 64);
        named.required_adapter = Some(AdapterId(2));
        router.dispatch(Nanos::ZERO, &named);
        let again = Request { id: RequestId(2), ..named.clone() };
        let again = Request { required_adapter: None, session: SessionId(99), ..again };
        assert_eq!(router.dispatch(Nanos::ZERO, &again).adapter, Some(AdapterId(2)));
    }
}
