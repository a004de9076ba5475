//! The 131 one-hour runs: their file, what was simulated for each, and their halves.

use super::bench::{Ask, Tally, serve};
use acb_sim::{CacheCondition, ClusterSpec, EngineSpec, KvSpec, Profile, ProfileSpec, VllmSpec};
use acb_types::Seed;

/// The seed by which the runs are halved and simulated.
pub const SEED: Seed = Seed(250_808_343);
/// Length of a run, s.
const HOUR_S: f64 = 3600.0;
/// The file.
pub const CSV: &str = include_str!("../../data/multi-lora-runs/vllm-0.8.5-llama-3.1-8b.csv");

/// One run as it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Requests a second of the adapters, in equal shares.
    pub rates: [f64; 3],
    /// Rank of adapters and slots.
    pub rank: u32,
    /// `max_loras`.
    pub slots: u32,
    /// Adapters.
    pub adapters: u32,
    /// Prompt tokens of completed requests, tokens/s.
    pub in_tok_s: f64,
    /// Answer tokens of completed requests, tokens/s.
    pub out_tok_s: f64,
    /// Completed requests, req/s.
    pub req_s: f64,
    /// Mean time to first token of completed requests, ms.
    pub ttft_ms: f64,
    /// Mean time between tokens, ms.
    pub itl_ms: f64,
}

impl Measured {
    /// Whether requests waited longer than they should: a mean time to first token of a second or more.
    pub fn is_overloaded(&self) -> bool {
        self.ttft_ms >= 1000.0
    }

    /// Whether it was asked the same as another run.
    fn is_asked_as(&self, other: &Self) -> bool {
        self.rates == other.rates && self.adapters == other.adapters
    }

    /// Request rate of an adapter, req/s.
    fn rate(&self, adapter: u32) -> f64 {
        self.rates[adapter as usize % self.rates.len()]
    }

    /// Request rate of all adapters, req/s.
    pub fn offered(&self) -> f64 {
        (0..self.adapters).map(|adapter| self.rate(adapter)).sum()
    }

    /// The rate of each adapter over that of all.
    pub fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        let all = self.offered();
        (0..self.adapters).map(move |adapter| self.rate(adapter) / all)
    }
}

/// Every run of the file.
///
/// # Panics
/// When the file that is part of the program is malformed.
pub fn measured() -> Vec<Measured> {
    CSV.lines().skip(1).filter(|line| !line.is_empty()).map(parse).collect()
}

fn parse(line: &str) -> Measured {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| -> f64 { fields[at].parse().expect("the data file holds numbers") };
    let (_, rates) = fields[1].split_once("_rates_").expect("the data file names the rates");
    let rates: Vec<f64> = rates.split('_').map(|rate| rate.parse().expect("rates are numbers")).collect();
    Measured {
        rates: rates.try_into().expect("a set has three rates"),
        rank: number(2) as u32,
        slots: number(3) as u32,
        adapters: number(4) as u32,
        in_tok_s: number(5),
        out_tok_s: number(6),
        req_s: number(7),
        ttft_ms: number(8),
        itl_ms: number(11),
    }
}

/// The runs in two halves, by the recorded seed: to fit on, and to be held against.
pub fn halves() -> (Vec<Measured>, Vec<Measured>) {
    let mut runs = measured();
    SEED.stream("halves").shuffle(&mut runs);
    let held_out = runs.split_off(runs.len().div_ceil(2));
    (runs, held_out)
}

/// What a run was asked. Runs with the same rates and adapters were given the same requests, whatever their slots and
/// ranks (their counts agree to the digit), so what one of them was asked is known from another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    /// Realised rate over the nominal one.
    rate: f64,
    /// Mean prompt tokens.
    prompt: f64,
    /// Mean answer tokens.
    answer: f64,
}

impl Asked {
    /// What the fitted half says of runs with these rates and adapters: lengths from all of them, the rate from those
    /// that were not overloaded. Where it has none: the nominal rate, the mean lengths of all runs.
    fn of(run: &Measured, fitted: &[Measured]) -> Self {
        let same: Vec<&Measured> = fitted.iter().filter(|other| other.is_asked_as(run)).collect();
        let light: Vec<&Measured> = same.iter().copied().filter(|other| !other.is_overloaded()).collect();
        let mean = |runs: &[&Measured], of: fn(&Measured) -> f64| {
            (!runs.is_empty()).then(|| runs.iter().map(|&run| of(run)).sum::<f64>() / runs.len() as f64)
        };
        Self {
            rate: mean(&light, |run| run.req_s / run.offered()).unwrap_or(1.0),
            prompt: mean(&same, |run| run.in_tok_s / run.req_s).unwrap_or(PROMPT_TOKENS),
            answer: mean(&same, |run| run.out_tok_s / run.req_s).unwrap_or(ANSWER_TOKENS),
        }
    }
}

/// Simulates a run with these costs; what it was asked is taken from the fitted half.
pub fn simulate(run: &Measured, fitted: &[Measured], profile: &Profile) -> Tally {
    let name = format!("{}/{}/{}/{}", run.rates[0], run.rank, run.slots, run.adapters);
    let asks = Poisson::new(run, Asked::of(run, fitted), SEED.child(&name));
    serve(&cluster(run, profile), run.adapters, asks)
}

/// Requests that wait at most; the clients of the runs sent no more. The logs don't say so: it is read off Little's law,
/// since completed requests times their time in the system is about 20,000 in every run far above capacity, with 64
/// adapters (60 req/s offered) as with 384 (358 req/s).
const MOST_WAITING: u32 = 20_000;

/// Settings of the runs. The pool is what was measured: 308,300 tokens less 810 (rank 16) or 1451 (rank 32) a slot.
fn cluster(run: &Measured, profile: &Profile) -> ClusterSpec {
    let slot_tokens = if run.rank <= 16 { 810 } else { 1451 };
    let tokens = 308_300 - slot_tokens * u64::from(run.slots);
    let mut spec = ClusterSpec::new(1, tokens / 16, "");
    spec.engine = EngineSpec::Vllm(VllmSpec {
        max_num_seqs: 2048,
        max_num_batched_tokens: 2048,
        max_loras: run.slots,
        max_cpu_loras: Some(run.adapters.max(run.slots)),
        max_lora_rank: run.rank,
        scheduler_reserve_full_isl: false,
        context_tokens: 8192,
        ..VllmSpec::default()
    });
    spec.kv = KvSpec::Blocks(tokens / 16);
    // Adapters were in host memory before the clock ran.
    let warm = Profile { load_cpu_ms: 0.0, load_cpu_ms_per_mb: 0.0, ..profile.clone() };
    spec.profile = ProfileSpec::Inline(Box::new(warm));
    spec.cache_condition = CacheCondition::PrefixDisabled;
    spec.limits.max_sim_seconds = HOUR_S;
    spec.server_interval_ms = HOUR_S as u64 * 1000;
    spec.limits.max_queue = Some(MOST_WAITING);
    spec
}

/// Poisson arrivals of all adapters together, lengths lognormal around the means of completed requests.
struct Poisson {
    shares: Vec<f64>,
    asked: Asked,
    rate: f64,
    now_s: f64,
    gaps: acb_types::Stream,
    adapters: acb_types::Stream,
    lengths: acb_types::Stream,
}

impl Poisson {
    fn new(run: &Measured, asked: Asked, seed: Seed) -> Self {
        let cumulative = run.shares().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Self {
            shares: cumulative.collect(),
            asked,
            rate: run.offered() * asked.rate,
            now_s: 0.0,
            gaps: seed.stream("gaps"),
            adapters: seed.stream("adapters"),
            lengths: seed.stream("lengths"),
        }
    }
}

/// Mean tokens over all runs.
const PROMPT_TOKENS: f64 = 223.0;
const ANSWER_TOKENS: f64 = 192.5;
/// Standard deviation of the logarithm of the tokens. That of answers is what fills the pool of the overloaded runs with
/// as many requests as it did.
const PROMPT_SPREAD: f64 = 1.1;
const ANSWER_SPREAD: f64 = 0.6;
/// Longest prompt and answer.
const LONGEST: f64 = 2048.0;

impl Iterator for Poisson {
    type Item = Ask;

    fn next(&mut self) -> Option<Ask> {
        self.now_s += self.gaps.exp1() / self.rate;
        let draw = self.adapters.unit();
        let adapter = self.shares.partition_point(|&share| share <= draw).min(self.shares.len() - 1);
        let mut length = |mean: f64, spread: f64| {
            let log = mean.ln() - spread * spread / 2.0 + spread * self.lengths.normal();
            log.exp().round().clamp(1.0, LONGEST) as u32
        };
        let prompt = length(self.asked.prompt, PROMPT_SPREAD);
        let answer = length(self.asked.answer, ANSWER_SPREAD);
        (self.now_s < HOUR_S).then_some(Ask {
            due_s: self.now_s,
            prompt,
            answer,
            adapter: Some(adapter as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_131_runs_and_halves_are_disjoint_and_the_same_every_time() {
        let runs = measured();
        assert_eq!((runs.len(), runs[0].slots, runs[0].rates), (131, 8, [0.1, 0.05, 0.025]));
        assert!((runs[0].offered() - 0.5).abs() < 1e-12);
        let (fit, held_out) = halves();
        assert_eq!((fit.len(), held_out.len()), (66, 65));
        assert!(fit.iter().all(|run| !held_out.contains(run)));
        assert_eq!(halves().1, held_out);
    }

    #[test]
    fn what_a_run_was_asked_comes_from_others_with_the_same_rates_and_adapters() {
        let (fit, held_out) = halves();
        let run = held_out.iter().find(|run| (run.adapters, run.rates[0]) == (32, 0.1)).unwrap();
        let asked = Asked::of(run, &fit);
        assert!((asked.rate - 1.011).abs() < 0.002 && (asked.answer - 194.2).abs() < 0.5, "{asked:?}");
        let none = Asked { rate: 1.0, prompt: PROMPT_TOKENS, answer: ANSWER_TOKENS };
        assert_eq!(Asked::of(run, &[]), none);
    }
}
