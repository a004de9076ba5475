//! Queues with known answers: a replica whose steps take the same time whatever is in them is a queue with as many
//! servers as requests may run at once.

use super::bench::{Ask, Tally, serve, side_by_side};
use super::{Case, Row};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// Waiting times of three queues.
pub const CASE: Case = Case {
    name: "queues",
    source: "M/M/1, M/D/1 (Pollaczek and Khinchine) and M/M/4 (Erlang C) at load 0.8, service of 1 s in the mean",
    run,
};

const REQUESTS: u32 = 400_000;
const LOAD: f64 = 0.8;
/// Tokens of a usual answer: a step takes a thousandth of a second, and an answer a second.
const TOKENS: f64 = 1000.0;

#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Exponential,
    Equal,
}

fn run() -> Vec<Row> {
    let queues = [(1, Answers::Exponential), (1, Answers::Equal), (4, Answers::Exponential)];
    let tallies = side_by_side(&queues, |&(servers, answers)| queue(servers, answers));
    let [m_m_1, m_d_1, m_m_4] = [0, 1, 2].map(|at: usize| tallies[at]);
    vec![
        Row::compare("M/M/1: mean time in the system, s", m_m_1.mean(m_m_1.e2e_s), 5.0, 0.05),
        Row::compare("M/D/1: mean wait, s", m_d_1.mean(m_d_1.wait_s), 2.0, 0.05),
        Row::compare("M/M/4: mean wait, s", m_m_4.mean(m_m_4.wait_s), 0.745_540_589_7, 0.05),
    ]
}

fn queue(servers: u32, answers: Answers) -> Tally {
    let none = acb_sim::profile("qwen2.5-7b-vllm-0.8.5").expect("the profile ships");
    let profile = Profile { step_ms: 1e3 / TOKENS, prefill_token_us: 0.0, decode_row_us: 0.0, ..none };
    let mut spec = ClusterSpec::new(1, 1_000_000, "");
    spec.profile = ProfileSpec::Inline(Box::new(profile));
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_num_seqs: servers,
        context_tokens: 1 << 20,
        scheduler_reserve_full_isl: false,
        ..VllmSpec::default()
    });
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.server_interval_ms = 1_000_000_000;
    spec.limits.max_sim_seconds = 1e9;
    let seed = Seed(u64::from(servers));
    let (mut gaps, mut services, mut now_s) = (seed.stream("gaps"), seed.stream("services"), 0.0);
    let asks = (0..REQUESTS).map(|_| {
        now_s += gaps.exp1() / (LOAD * f64::from(servers));
        let answer = match answers {
            Answers::Exponential => (services.exp1() * TOKENS).ceil().max(1.0) as u32,
            Answers::Equal => TOKENS as u32,
        };
        Ask { due_s: now_s, prompt: 1, answer, adapter: None }
    });
    serve(&spec, 0, asks)
}
