//! The command line. Its help is the reference: `docs/cli.md` is generated from it.

mod bench;
mod bundle;
mod claims;
mod legacy;
#[cfg(feature = "local")]
mod local;
mod prereg;
mod runtime;

pub use bench::{
    ApiName, AskedArgs, BenchArgs, Dataset, Form, Gaps, Goodput, Runtime, SelftestArgs, ServerArgs, Stages,
    TimingArgs,
};

pub use bundle::{BundleArgs, KeyCommand, KeyNewArgs, VerifyArgs, WithholdArg};

pub use claims::{ClaimsArgs, PowerArgs};
pub use legacy::{EvidenceCommand, ImportCommand, ImportLegacyArgs, ReviewArgs};
#[cfg(feature = "local")]
pub use local::ServeLocalArgs;
pub use prereg::{PreregArgs, PreregCommand, PreregLockArgs, PreregShowArgs};
pub use runtime::{KeepArgs, RuntimeArgs, RuntimeCommand};

use crate::presets::Preset;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Is a specialist LoRA adapter worth the cache it splits, the memory it takes and the tail latency it costs?
///
/// `acb` runs preregistered experiments over routing arms on a deterministic simulator of multi-LoRA serving, records
/// every request, and compares the arms paired by block, with intervals and the rung of evidence that they stand on.
///
/// Data goes to stdout, talk to stderr. Exit status: 0 done, 1 a check or a run failed, 2 usage or environment.
#[derive(Debug, Parser)]
#[command(name = "acb", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what an experiment would do, and whether it can answer its question, without running it.
    ///
    /// Prints cells, blocks, requests, tokens, estimates of simulated and wall time, disk and GPU hours, and the
    /// verdict of every gate. Writes nothing. Exit status 1 when a gate refuses.
    Plan(PlanArgs),
    /// Plan, then run every cell and report.
    ///
    /// Each cell writes its own run folder below the output folder; a run folder is never overwritten. Ctrl-C leaves
    /// the running cells `interrupted`; `--resume` goes on from there.
    Run(RunArgs),
    /// Compare the arms of finished runs, from their folders alone.
    Report(ReportArgs),
    /// Fix an experiment before its first run: question, arms, metrics, decision rule, sample size.
    ///
    /// `acb run` finds the lock beside the experiment file, refuses a changed experiment, and writes the lock's hash into the
    /// log of runs ahead of the first of them and into every run. `sha256sum` of the lock file is that hash.
    #[command(subcommand)]
    Prereg(PreregCommand),
    /// What finished runs allow to be said: each claim with its rung and verdict, and what every higher rung lacks.
    ///
    /// The rung is computed from what the runs are and never declared. Exit status 1 when `--want` is above it.
    Claims(ClaimsArgs),
    /// How many blocks an effect needs, or how small an effect blocks can show, from a pilot's spread.
    Power(PowerArgs),
    /// Check an experiment and this machine before a run.
    Doctor(DoctorArgs),
    /// Print the JSON schema of the experiment file or of a command's `--json` output.
    Schema(SchemaArgs),
    /// List what experiment files can name.
    List(ListArgs),
    /// How a card's memory is divided between weights, adapter slots and KV cache, and whether the engine starts.
    ///
    /// The division is the simulator's own, with vLLM's rules: every slot is sized for the highest rank, and includes
    /// matrices for embedding and output layer. Exit status 1 when the engine would not start.
    Memory(MemoryArgs),
    /// Hold the simulator against published results.
    ///
    /// Prints for every case what was published, what the simulator gives, the error and the verdict, as Markdown. Exit
    /// status 1 when a number is outside its tolerance. `docs/fidelity.md` is the last recorded run.
    Validate(ValidateArgs),
    /// Put load on servers of the OpenAI dialect, and say how they and this client did.
    ///
    /// Open loop (`--rate`, `--stages`, a trace) or closed (`--concurrency`), over base model or adapters. Latencies count from
    /// when a request was due and from when it was sent. Exit status 1 when the client's check of itself finds the run
    /// invalid, or no request ended well.
    Bench(Box<BenchArgs>),
    /// Measure what this machine's client can do, against a null server in the same process.
    ///
    /// Prints the most requests per second, processor time, and the error of times to first token against the server's own
    /// stamps. Exit status 1 when the client's check finds its timing spoiled at 200 requests per second.
    Selftest(SelftestArgs),
    /// Serve the simulator's engine model over HTTP, as vLLM or SGLang would answer, for tests and rehearsals.
    ///
    /// One server per replica, on 127.0.0.1. Prints a URL a line, then serves until Ctrl-C. Nothing that it answers is a
    /// model's output; `/__trace` gives what the servers themselves know of each request. `docs/fake_server.md` says how
    /// prompts are tokenised and what each dialect can do.
    ServeFake(ServeFakeArgs),
    /// Serve a real model on the CPU in the OpenAI dialect, with LoRA adapters (built with `--features local`).
    ///
    /// Reads a Hugging Face folder of the Qwen2 or Llama architecture and adapters in PEFT's layout; f32, greedy, one request at
    /// a time on each port, no chat. Prints a URL a line, then serves until Ctrl-C. For answers that matter and times that do
    /// not. `docs/local_models.md`.
    #[cfg(feature = "local")]
    ServeLocal(ServeLocalArgs),
    /// Find the constants of a latency profile from what a client sees of a server.
    ///
    /// Ten micro-benchmarks, non-negative least squares in stages, and a run that is not fitted on. The server is one
    /// in this process whose constants are hidden from the fit and shown beside it afterwards. Exit status 1 when the
    /// mean E2E error of the hold-out is 15 % or more: such a profile is not called calibrated.
    Calibrate(CalibrateArgs),
    /// Start, stop and look at the servers of an experiment whose file says how to start them.
    ///
    /// `acb run` does this by itself. Servers that are up serve every run until `down`.
    #[command(subcommand)]
    Runtime(RuntimeCommand),
    /// Look into a request trace.
    #[command(subcommand)]
    Trace(TraceCommand),
    /// The log of every run that was ever begun in an output folder.
    ///
    /// `run_log.jsonl` is a hash chain: a run that was begun and thrown away, a line that was changed, moved or taken out
    /// shows. Lines taken off its end show only where a run folder or a copy of the log knows better.
    #[command(subcommand)]
    Log(LogCommand),
    /// Put a results folder into a bundle that anybody can check: raw rows, configurations, log of runs, tables, sums,
    /// signed statements.
    ///
    /// Writes a folder and the same as `.tar.zst`. Everything is checked first; results that contradict themselves are
    /// refused (exit status 1), and with `--strict` incomplete ones, too. Equal results give equal bundles, byte for byte.
    /// `docs/bundles.md` says what lies where. Run it where the experiment ran: data files are found by their paths there.
    Bundle(BundleArgs),
    /// Check a bundle offline, from nothing but itself.
    ///
    /// Sums, hash tree, signature, log of runs, locks before data; every number of every table is computed again from the
    /// raw rows, and every logged routing decision is made again. Each fault is named with file, place, what was expected
    /// and what is there. Exit status 1 when something does not hold.
    Verify(VerifyArgs),
    /// Keys to sign bundles with.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Bring in runs that this program did not make.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Look over evidence.
    #[command(subcommand)]
    Evidence(EvidenceCommand),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which experiment, with which changes.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("experiment").args(["files", "preset"]).required(true).multiple(true))]
pub struct ExperimentArgs {
    /// Experiment files (YAML). Several merge left to right: maps deeply, lists and scalars replace.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A published case that ships with the program (`acb list presets`). Files and `--set` change it.
    #[arg(long, value_name = "NAME", value_parser = Preset::parser(), hide_possible_values = true)]
    pub preset: Option<&'static Preset>,
    /// Override one value, such as `workload.requests=500` or `arms.0.policy=random`. May be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub sets: Vec<String>,
    /// Folder for run folders; the experiment file's `output_dir` when absent.
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Name of the sweep; the experiment's name when absent. Run folders begin with it.
    #[arg(long, value_name = "NAME")]
    pub sweep_name: Option<String>,
    /// Go on although a gate refuses. The finding is then printed above every table of the runs. May be repeated.
    #[arg(long, value_name = "GATE")]
    pub allow: Vec<GateName>,
    /// Limits.
    #[command(flatten)]
    pub budget: BudgetArgs,
}

/// Limits that refuse a plan before anything starts; each tightens or replaces the experiment file's own.
#[derive(Clone, Debug, Default, Args)]
pub struct BudgetArgs {
    /// Most runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_runs: Option<u64>,
    /// Most requests over all runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_requests: Option<u64>,
    /// Expected seconds of one run on a real server, for the GPU-hour estimate.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub estimated_seconds_per_run: Option<f64>,
    /// Most GPU hours over all runs, by the estimate above.
    #[arg(long, value_name = "HOURS", value_parser = positive)]
    pub max_estimated_gpu_hours: Option<f64>,
}

/// A number that a limit or an estimate can be.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err("give a number above 0 and at most 1e9".to_owned()),
    }
}

/// Gates that `--allow` can overrule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateName {
    /// A treatment that decides like a baseline on every request.
    IndistinctArms,
    /// Workload properties that determine each other, so that their effects can't be told apart.
    AliasedFactors,
    /// Too few blocks for the test that the decision rule asks for.
    UnitFloor,
    /// A workload of which the servers' limits leave nothing.
    UnservedRequests,
}

/// Arguments of `acb plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Print the plan as JSON (`acb schema plan`).
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `acb run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Show the plan and stop, as `acb plan` does.
    #[arg(long)]
    pub dry_run: bool,
    /// Skip cells that are complete under the same configuration, data and program version; run the others again.
    #[arg(long)]
    pub resume: bool,
    /// Run the other cells although one failed; the exit status is still 1.
    #[arg(long)]
    pub continue_on_error: bool,
    /// Run without the experiment's lock, as an exploration: no run carries its hash, and none can support a confirmation.
    #[arg(long)]
    pub exploratory: bool,
    /// Cells run side by side; the number of processors when absent. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print the outcome as JSON (`acb schema run`) in place of the tables.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `acb report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Output folders, sweep folders or run folders.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = ReportFormat::Terminal)]
    pub format: ReportFormat,
    /// Print JSON (`acb schema report`); the same as `--format json`.
    #[arg(long)]
    pub json: bool,
    /// Write to this file in place of stdout. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables for a terminal.
    Terminal,
    /// Markdown.
    Markdown,
    /// JSON.
    Json,
}

/// Arguments of `acb doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Which experiment.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Print the findings as JSON (`acb schema doctor`).
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `acb schema`.
#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {
    /// Which document.
    #[arg(value_enum, default_value_t = SchemaOf::Experiment)]
    pub of: SchemaOf,
}

/// Documents with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// The experiment file.
    Experiment,
    /// `acb plan --json`.
    Plan,
    /// `acb run --json`.
    Run,
    /// `acb report --json`.
    Report,
    /// `acb claims --json`, and `claims.json` in a sweep's folder.
    Claims,
    /// `acb power --json`.
    Power,
    /// A lock file, as `acb prereg lock` writes it.
    Preregistration,
    /// `acb doctor --json`.
    Doctor,
    /// `acb list ... --json`.
    List,
    /// `acb trace info --json`.
    Trace,
    /// `acb memory --json`.
    Memory,
    /// `acb bench --json`.
    Bench,
    /// `acb selftest --json`.
    Selftest,
    /// `acb runtime status --json`.
    Runtime,
    /// `acb validate --json`.
    Validate,
    /// `acb calibrate --json`.
    Calibrate,
    /// `bundle.json` in a bundle.
    Bundle,
    /// `merkle.json` in a bundle.
    Merkle,
    /// `acb verify --json`.
    Verify,
    /// `acb import legacy --json`.
    Import,
    /// `acb evidence review --json`.
    Review,
    /// A rejected experiment file with `--json`.
    Faults,
}

/// Arguments of `acb list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// What to list.
    #[arg(value_enum)]
    pub what: Listed,
    /// Print JSON (`acb schema list`).
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// Things that experiment files name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Routing policies, with what each may see.
    Policies,
    /// Workload kinds.
    Workloads,
    /// Metrics, with unit and definition.
    Metrics,
    /// Latency profiles of the simulator.
    Profiles,
    /// Published cases that `--preset` takes, with their source.
    Presets,
}

/// Arguments of `acb validate`.
#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    /// Cases; all of them when absent, which takes about two minutes on two cores.
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// Print JSON (`acb schema validate`).
    #[arg(long)]
    pub json: bool,
    /// Print Markdown, which is also the default.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the last recorded run of all cases instead of running them; always succeeds.
    #[arg(long, conflicts_with = "cases")]
    pub recorded: bool,
    /// Fit the constants of the two profiles for vLLM 0.8.5 again, by the recorded seed, and print them as JSON.
    #[arg(long, conflicts_with_all = ["json", "markdown", "recorded", "cases"])]
    pub fit: bool,
}

/// Arguments of `acb memory`.
#[derive(Clone, Debug, Args)]
pub struct MemoryArgs {
    /// The base model: a known name, or its shape as `layers=28,hidden=3584,q_heads=28,kv_heads=4,head_dim=128,ffn=18944,vocab=152064`.
    #[arg(long, value_name = "NAME|SHAPE")]
    pub model: String,
    /// The card: a known name, or its memory in GiB, such as `l4` or `22.5`.
    #[arg(long, value_name = "NAME|GIB", allow_negative_numbers = true)]
    pub gpu: String,
    /// Share of the card that the engine may use (`gpu_memory_utilization`).
    #[arg(long, value_name = "SHARE", default_value_t = 0.92, allow_negative_numbers = true)]
    pub utilization: f64,
    /// Adapter slots on the card (`max_loras`); 0: LoRA is off.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slots: u32,
    /// Rank that each slot is sized for (`max_lora_rank`).
    #[arg(long, value_name = "RANK", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub max_rank: u32,
    /// Activations, graphs and the like, GiB. Nobody can know it without the server: read it off the server's log.
    #[arg(long, value_name = "GIB", default_value_t = 2.0, allow_negative_numbers = true)]
    pub overhead_gib: f64,
    /// Longest prompt and answer together (`max_model_len`), tokens.
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub context: u32,
    /// Tokens in one KV block.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub block_size: u32,
    /// Print JSON (`acb schema memory`).
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `acb serve-fake`.
#[derive(Clone, Debug, Args)]
pub struct ServeFakeArgs {
    /// Experiment files whose `cluster` and `adapters` are served. Several merge left to right.
    #[arg(value_name = "FILE", conflicts_with = "shape")]
    pub files: Vec<PathBuf>,
    /// Override one value of the experiment, such as `cluster.replicas=2`. May be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE", requires = "files")]
    pub sets: Vec<String>,
    /// The engine, with its default settings; vllm when there is no experiment.
    #[arg(long, value_enum, conflicts_with = "files")]
    pub engine: Option<EngineName>,
    /// Latency profile (`acb list profiles`); llama-3.1-8b-l4 when there is no experiment.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Usable KV blocks (SGLang: pages) of each replica; 4096 when there is no experiment.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub kv_blocks: Option<u64>,
    /// Adapters by name, of rank 16, in place of the experiment's.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub adapters: Vec<String>,
    /// Adapter slots (`max_loras`; SGLang: `max_loras_per_batch`).
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// Servers; as many as there are ports, or as the experiment says, when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub replicas: Option<u32>,
    /// Ports, one per server in order; any free one where there is none or 0.
    #[arg(long, value_name = "PORT,PORT", value_delimiter = ',')]
    pub ports: Vec<u16>,
    /// Name of the base model.
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub model: String,
    /// How many times faster than real time the engine runs.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,
    /// A share of requests that something befalls: error, too-many (429), unavailable (503), error-mid, truncate, stall.
    /// May be repeated.
    #[arg(long = "fault", value_name = "NAME=SHARE", conflicts_with = "shape")]
    pub faults: Vec<String>,
    /// Seed of the faults.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// How long each connection waits to be accepted, ms.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub accept_delay_ms: f64,
    /// Serve a script in place of an engine: shapes and settings such as `role-early,tokens=8,ttft-ms=50`.
    #[arg(long, value_name = "SHAPE,SHAPE", conflicts_with_all = ["engine", "profile", "kv_blocks", "adapters", "slots", "replicas"])]
    pub shape: Option<String>,
}

/// Modelled engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// vLLM 0.33.0.
    Vllm,
    /// SGLang 0.5.23.
    Sglang,
}

/// Arguments of `acb calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Profile that the server in this process hides (`acb list profiles`).
    #[arg(long, value_name = "PROFILE")]
    pub hidden: String,
    /// Multiply every hidden constant by a factor of its own between 1/1.6 and 1.6, drawn by this seed.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Standard deviation of the logarithm of each step's length: 0.02 for about 2 % of noise.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    pub noise: f64,
    /// Engine of the server.
    #[arg(long, value_enum, default_value_t = EngineName::Vllm)]
    pub engine: EngineName,
    /// The base model, whose configuration gives byte sizes: a known name or a shape, as in `acb memory`. The one in the
    /// profile's name when absent.
    #[arg(long, value_name = "NAME|SHAPE")]
    pub model: Option<String>,
    /// Card of the server. The one in the profile's name when absent.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Adapter slots of the first start; a second start has twice as many.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub slots: u32,
    /// Rank of a slot in the first start; a third start has four times as much.
    #[arg(long, value_name = "RANK", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub max_rank: u32,
    /// Measure the first start only. What depends on the number of slots and on their rank is then not told apart.
    #[arg(long)]
    pub one_start: bool,
    /// Adapters of the server, of four sizes.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub adapters: u32,
    /// How often a probe is repeated: more for a noisy server.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Requests of the hold-out run; a p99 takes 299.
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(30..=100_000))]
    pub hold_out: u32,
    /// Write the profile, with the whole fit, to this file. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print JSON (`acb schema calibrate`).
    #[arg(long)]
    pub json: bool,
}

/// Commands on traces.
#[derive(Clone, Debug, Subcommand)]
pub enum TraceCommand {
    /// Rows, span, rate, dispersion, lengths, block reuse and LRU hit curve of a trace file.
    Info(TraceInfoArgs),
}

/// What to do with a log of runs.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Check the chain, and hold it against the run folders. Exit status 1 when they disagree.
    Check(LogArgs),
    /// Set an unfinished last line aside, which a killed writer leaves, and note that in the log.
    Mend(LogArgs),
}

/// Arguments of `acb log`.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// The output folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Arguments of `acb trace info`.
#[derive(Clone, Debug, Args)]
pub struct TraceInfoArgs {
    /// The trace file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Its format; told from the file's name (.csv, .jsonl) when absent.
    #[arg(long, value_enum)]
    pub format: Option<TraceFormatArg>,
    /// Print JSON (`acb schema trace`).
    #[arg(long)]
    pub json: bool,
}

/// Trace formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormatArg {
    /// Azure LLM inference trace 2023: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.
    Azure,
    /// Mooncake: JSON lines with timestamp (ms), input_length, output_length, hash_ids.
    Mooncake,
}
