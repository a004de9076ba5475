//! Calibration: the constants of a latency profile from what a client sees of a server.
//!
//! Ten micro-benchmarks behind one interface ([`server::Server`]: a plan of requests in, observations out), non-negative
//! least squares in stages, and a run that was not fitted on. It neither looks into the server nor knows what it is: the
//! server in this process ([`hidden::Hidden`]) and one over a network are measured by the same code.

mod base_fit;
mod bench;
mod cache;
mod constants;
mod engine;
mod equation;
mod fit;
pub mod hidden;
mod holdout;
mod linear;
mod load_fit;
mod lora_fit;
mod profile_file;
mod scene;
pub mod server;
pub mod simulated;

pub use cache::CacheFinding;
pub use constants::{Constant, Status};
pub use equation::Stage;
pub use fit::{FrontEndFit, StageResidual};
pub use holdout::{Compared, HoldOut, MOST_ERROR, Statistic};
pub use profile_file::ProfileFile;

use acb_sim::{ClusterSpec, EngineSpec, KvSpec, Profile, ProfileSpec};
use acb_types::{Seed, Source};
use bench::Bench;
use engine::{BaseRows, EngineShape};
use equation::Equation;
use fit::Fit;
use hidden::FrontEnd;
use scene::Script;
use schemars::JsonSchema;
use serde::Serialize;
use server::{AdapterFile, Ask, Reply, Server, ServerError};
use simulated::{Noise, SimulatedServer};

/// Texts below this are not those of scenes.
const FIRST_TEXT: u64 = 1000;
/// Requests of the hold-out that are in the engine at once, on average.
const USUAL_ROWS: f64 = 12.0;

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A flag of the engine.
    #[error("{flag}: {why}; start the server without it, the constants are the same")]
    Flag {
        /// The flag.
        flag: String,
        /// What it does to the measurement.
        why: String,
    },
    /// A server.
    #[error("benchmark {benchmark}: {error}")]
    Server {
        /// What was measured.
        benchmark: &'static str,
        /// What went wrong.
        error: ServerError,
    },
    /// A server that does not say how much memory it has.
    #[error(
        "the server's metrics don't say how many tokens its KV memory holds; turn metrics on (it is never guessed)"
    )]
    NoKvTokens,
    /// Too few times were usable.
    #[error(
        "benchmark {benchmark}: only {found} usable times; the server must be idle and stream every token by itself"
    )]
    TooFew {
        /// What was measured.
        benchmark: &'static str,
        /// How many there were.
        found: usize,
    },
}

/// A started server and the flags that it was started with.
pub struct Started<'a> {
    /// The server.
    pub server: &'a mut dyn Server,
    /// Its flags.
    pub engine: EngineSpec,
}

/// What is known beside the server.
#[derive(Clone, Debug)]
pub struct Known {
    /// The adapters that it can be asked for.
    pub adapters: Vec<AdapterFile>,
    /// Bytes of the model's weights, from its configuration.
    pub weight_bytes: u64,
    /// Bytes of KV memory of one token, from its configuration.
    pub kv_bytes_per_token: u64,
    /// Bytes of one rank of a slot, by the model's shape: used when the server does not show it.
    pub lora_bytes_per_rank: u64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How often a probe is repeated.
    pub repeats: u32,
    /// Requests of the hold-out.
    pub hold_out: u32,
}

/// What was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Calibration {
    /// Runtime and version.
    pub engine: String,
    /// Who saw the times.
    pub source: Source,
    /// The flags of every start, the first one being the profile's.
    pub starts: Vec<EngineSpec>,
    /// Every constant of a profile.
    pub constants: Vec<Constant>,
    /// Network and front end, which no profile holds.
    pub front_end: FrontEndFit,
    /// The prefix cache.
    pub cache: CacheFinding,
    /// Tokens of KV memory that the server reports.
    pub kv_tokens: u64,
    /// Time that all servers were measured for, s.
    pub server_seconds: f64,
    /// How well each stage is explained.
    pub stages: Vec<StageResidual>,
    /// The run that was not fitted on.
    pub hold_out: HoldOut,
    /// Whether the mean error of the hold-out's times from sent to last token is below 15 %.
    pub calibrated: bool,
    /// The profile with these constants.
    pub profile: Profile,
}

/// Everything measured on one start.
struct Measured {
    equations: Vec<Equation>,
    kv_tokens: u64,
    /// Plans in the order in which they were sent.
    plans: Vec<Vec<Ask>>,
    /// Time that the server was measured for, s.
    seconds: f64,
}

/// Measures the servers and fits. The first is the one that the profile is of; others, with other numbers of slots or ranks,
/// tell apart what those numbers cost.
///
/// # Errors
/// When a flag, a server, or what it gives back is not usable.
///
/// # Panics
/// When there is no server.
pub fn calibrate(
    starts: &mut [Started<'_>],
    known: &Known,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Calibration, CalibrateError> {
    let (first, others) = starts.split_first_mut().expect("there is a server to calibrate");
    let shape = EngineShape::of(&first.engine)?;
    let mut measured = measure(first, known, effort, progress)?;
    let cache = cache_finding(first, known, &mut measured)?;
    let mut equations = measured.equations.clone();
    let mut pools = vec![(shape, measured.kv_tokens)];
    let mut seconds = 0.0;
    for other in others.iter_mut() {
        let shape = EngineShape::of(&other.engine)?;
        let measured = measure(other, known, effort, progress)?;
        equations.extend(measured.equations);
        pools.push((shape, measured.kv_tokens));
        seconds += measured.seconds;
    }
    progress("fit");
    let fit = Fit::new(&equations)?;
    let constants = fit.constants(known, &pools);
    let profile = fit::profile(&constants);
    progress("hold-out run");
    let hold_out = hold_out(first, (&shape, &fit, &profile), &mut measured, (known, effort))?;
    Ok(Calibration {
        engine: cluster(&first.engine, &profile, measured.kv_tokens).engine_label(),
        source: first.server.source(),
        starts: std::iter::once(&first.engine).chain(others.iter().map(|o| &o.engine)).cloned().collect(),
        constants,
        front_end: fit.front_end(),
        cache,
        kv_tokens: measured.kv_tokens,
        server_seconds: seconds + measured.seconds,
        stages: fit.residuals(&equations),
        calibrated: hold_out.mean_e2e_error < MOST_ERROR,
        hold_out,
        profile,
    })
}

/// The cache is looked at when the loads have been measured, since it asks for adapters.
fn cache_finding(
    started: &mut Started<'_>,
    known: &Known,
    measured: &mut Measured,
) -> Result<CacheFinding, CalibrateError> {
    let slots = EngineShape::of(&started.engine)?.slots as usize;
    let plan = cache::plan(known.adapters.len().min(slots) as u32);
    let replies = measured.serve(started, "cache", plan.clone())?;
    Ok(cache::read(&plan, &replies))
}

impl Measured {
    fn serve(
        &mut self,
        started: &mut Started<'_>,
        benchmark: &'static str,
        plan: Vec<Ask>,
    ) -> Result<Vec<Reply>, CalibrateError> {
        let replies =
            started.server.serve(&plan).map_err(|error| CalibrateError::Server { benchmark, error })?;
        self.seconds = replies.iter().map(|reply| reply.last.as_secs_f64()).fold(self.seconds, f64::max);
        self.plans.push(plan);
        Ok(replies)
    }
}

/// Writes scenes into a script.
type Write<'a> = &'a dyn Fn(&mut Script);

/// Loads first, while no adapter is where it was not at start; then the rest.
fn measure(
    started: &mut Started<'_>,
    known: &Known,
    effort: Effort,
    progress: &dyn Fn(&str),
) -> Result<Measured, CalibrateError> {
    let engine = EngineShape::of(&started.engine)?;
    let scrape =
        started.server.scrape().map_err(|error| CalibrateError::Server { benchmark: "kv", error })?;
    let kv_tokens = scrape.kv_tokens.ok_or(CalibrateError::NoKvTokens)?;
    let bench = Bench { engine, kv_tokens, repeats: effort.repeats };
    let with_adapters = engine.slots > 0 && !known.adapters.is_empty();
    let slots = known.adapters.len().min(engine.slots as usize) as u32;
    let lora = Bench { engine: EngineShape { slots, ..engine }, ..bench };
    let scripts: [(&'static str, bool, Write<'_>); 3] = [
        ("adapter loads", with_adapters, &|script| bench.loads(script, &known.adapters)),
        ("base model", true, &|script| bench.base(script)),
        ("adapters", with_adapters, &|script| {
            lora.lora(script);
            bench.waiting(script, known.adapters.len() as u32);
        }),
    ];
    let mut measured = Measured { equations: Vec::new(), kv_tokens, plans: Vec::new(), seconds: 0.0 };
    let mut texts = FIRST_TEXT;
    for (benchmark, _, write) in scripts.into_iter().filter(|(_, wanted, _)| *wanted) {
        progress(&format!("{} slots of rank {}: {benchmark}", engine.slots, engine.max_rank));
        let mut script = Script::new(engine, texts);
        write(&mut script);
        let replies = measured.serve(started, benchmark, script.asks().to_vec())?;
        let equations = script.read(&replies);
        if equations.is_empty() {
            return Err(CalibrateError::TooFew { benchmark, found: 0 });
        }
        texts += script.asks().len() as u64 + 1;
        measured.equations.extend(equations);
    }
    Ok(measured)
}

/// The server's replica as the simulator has it.
fn cluster(engine: &EngineSpec, profile: &Profile, kv_tokens: u64) -> ClusterSpec {
    let mut spec = ClusterSpec::new(1, 1, "");
    spec.engine = engine.clone();
    spec.profile = ProfileSpec::Inline(Box::new(profile.clone()));
    spec.kv = KvSpec::Blocks(kv_tokens / u64::from(spec.block_tokens()));
    spec
}

/// The simulator goes through all that the server went through, since adapters and prefixes stay where they were.
fn hold_out(
    started: &mut Started<'_>,
    (shape, fit, profile): (&EngineShape, &Fit, &Profile),
    measured: &mut Measured,
    (known, effort): (&Known, Effort),
) -> Result<HoldOut, CalibrateError> {
    let adapters = known.adapters.len().min(shape.adapters_at_once(BaseRows::Some) as usize) as u32;
    let rate_rps = fit.rate_for(USUAL_ROWS, holdout::MEAN_TOKENS);
    let texts = 1 + measured.plans.iter().flatten().map(|ask| ask.text).max().unwrap_or(FIRST_TEXT);
    let plan = holdout::plan(effort.hold_out, rate_rps, adapters, texts);
    let replies = measured.serve(started, "hold-out", plan.clone())?;
    let spec = cluster(&started.engine, profile, measured.kv_tokens);
    let FrontEndFit { request_ms, token_us } = fit.front_end();
    let front_end = FrontEnd { request_ms, token_us };
    let quiet = Noise { sigma: 0.0, seed: Seed(0) };
    let simulated = |error| CalibrateError::Server { benchmark: "simulated hold-out", error };
    let mut simulator = SimulatedServer::new(spec, &known.adapters, front_end, quiet).map_err(simulated)?;
    let mut predicted = Vec::new();
    for plan in &measured.plans {
        predicted = simulator.serve(plan).map_err(simulated)?;
    }
    Ok(holdout::compare(rate_rps, &replies, &predicted, &plan))
}

#[cfg(test)]
mod tests;
