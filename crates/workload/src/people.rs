//! Who sends a request: session, tenant, trust group. None of it depends on what is asked for.

use crate::draw::key;
use crate::popularity::Sampler;
use crate::spec::{Isolation, Plan, Sessions};
use acb_types::{Seed, SessionId, TenantId, TrustGroupId};

/// Step of the additive recurrence that deals sessions to tenants: the golden ratio, which spreads best.
const GOLDEN: f64 = 0.618_033_988_749_894_8;

/// Maps starts to sessions, sessions to tenants, tenants to trust groups.
pub(crate) struct People {
    labels: Option<Labels>,
    tenants: Sampler,
    offset: f64,
    group_of: Vec<u32>,
    isolation: Isolation,
}

struct Labels {
    sampler: Sampler,
    seed: Seed,
    turns: Vec<u32>,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub session: SessionId,
    pub tenant: TenantId,
    pub trust_group: TrustGroupId,
    pub cache_salt: Option<u64>,
}

impl People {
    pub fn new(plan: &Plan, seed: Seed) -> Self {
        let labels = match plan.sessions {
            Sessions::Turns(_) => None,
            Sessions::Labels(n) => Some(Labels {
                sampler: Sampler::of(&plan.session_popularity, n as usize),
                seed: seed.child("sessions"),
                turns: vec![0; n as usize],
            }),
        };
        let mut dealt: Vec<u32> = (0..plan.tenants).collect();
        seed.stream("trust_groups").shuffle(&mut dealt);
        let mut group_of = vec![0; dealt.len()];
        for (place, &tenant) in dealt.iter().enumerate() {
            group_of[tenant as usize] = place as u32 % plan.trust_groups;
        }
        Self {
            labels,
            tenants: Sampler::of(&plan.tenant_popularity, plan.tenants as usize),
            offset: seed.child("tenants").unit(0),
            group_of,
            isolation: plan.isolation,
        }
    }

    /// Who sends what starts as number `start`, and the position in the session's list of its first turn.
    pub fn start(&mut self, start: u64) -> (Sender, u32) {
        let Some(labels) = &mut self.labels else { return (self.sender(start), 0) };
        let session = labels.sampler.at(labels.seed.unit(key(start, 0)));
        let turn = labels.turns[session as usize];
        labels.turns[session as usize] += 1;
        (self.sender(u64::from(session)), turn)
    }

    /// The people of a session. Every tenant has its share of any run of sessions, to within one or two.
    pub fn sender(&self, session: u64) -> Sender {
        let unit = (self.offset + session as f64 * GOLDEN).fract();
        let tenant = self.tenants.at(unit);
        let group = self.group_of[tenant as usize];
        self.sender_of(session, tenant, group)
    }

    /// A session whose tenant and group are given.
    pub fn sender_of(&self, session: u64, tenant: u32, group: u32) -> Sender {
        let cache_salt = match self.isolation {
            Isolation::None => None,
            Isolation::Tenant => Some(u64::from(tenant)),
            Isolation::TrustGroup => Some(u64::from(group)),
        };
        Sender {
            session: SessionId(session),
            tenant: TenantId(tenant),
            trust_group: TrustGroupId(group),
            cache_salt,
        }
    }
}
