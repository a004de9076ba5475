//! The simulator on a list of requests that is a file, so that other simulators can be given the same one.
//! `scripts/bench.sh` runs it: `write` makes the lists, `serve` measures one, `times` serves it so often and measures
//! nothing, for an instruction counter to look at.

use acb_routing::{PolicySpec, RoundRobinSpec, Router, RouterContext};
use acb_sim::{Cluster, ClusterSpec, Completion, Run, RunTotals, Service, Sink};
use acb_types::{
    Adapters, ContentId, Nanos, Prompt, QualityTable, Request, RequestId, Seed, Segment, SessionId, Slo,
    Stream, TaskId, TenantId, TrustGroupId, Truth,
};
use acb_workload::trace::{TraceFormat, TraceReader, TraceRow, TraceSpec};
use acb_workload::{Arrival, RequestSource};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const USAGE: &str = "usage: listed write FOLDER
       listed serve LIST REPLICAS SECONDS
       listed times LIST REPLICAS RUNS";
const PROFILE: &str = "llama-3.1-8b-vllm-0.8.5";
/// KV blocks of a replica.
const BLOCKS: u64 = 18_000;
/// Requests per second of each replica.
const RATE_RPS: f64 = 6.45;
/// Name, requests and replicas of each list.
const LISTS: [(&str, u64, u32); 2] = [("sim-1", 1000, 1), ("sim-8", 20_000, 8)];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["write", folder] => write(Path::new(folder)),
        ["serve", list, replicas, seconds] => serve(Path::new(list), replicas.parse()?, seconds.parse()?),
        ["times", list, replicas, runs] => times(Path::new(list), replicas.parse()?, runs.parse()?),
        _ => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

/// Writes the lists, in the format of the Azure traces, and the constants of servers that others need to do the same.
fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    for (name, requests, replicas) in LISTS {
        fs::write(folder.join(name).with_extension("csv"), list(requests, replicas)?)?;
    }
    let spec = spec(1);
    let (vllm, profile) = (spec.vllm(), spec.latency_profile().ok_or("the profile is gone")?);
    assert!(profile.prefill_pair_ns == 0.0 && profile.context_token_ns == 0.0, "a cost that no peer is told");
    let servers = serde_json::json!({
        "blocks": BLOCKS,
        "block_tokens": vllm.block_size,
        "max_num_seqs": vllm.max_num_seqs,
        "max_num_batched_tokens": vllm.max_num_batched_tokens,
        "step_ms": profile.step_ms,
        "prefill_token_us": profile.prefill_token_us,
        "decode_row_us": profile.decode_row_us,
    });
    Ok(fs::write(folder.join("servers.json"), serde_json::to_string_pretty(&servers)?)?)
}

/// Lognormal lengths with the means of Splitwise's conversation trace, about 1155 tokens in and 211 out; Poisson
/// arrivals.
fn list(requests: u64, replicas: u32) -> Result<String, std::fmt::Error> {
    let mut stream = Seed(11).stream("listed");
    let mut text = "TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned();
    let mut due = 0.0;
    for _ in 0..requests {
        let at = Nanos::from_secs_f64(due).0 / 100;
        let (seconds, tenths_us) = (at / 10_000_000, at % 10_000_000);
        assert!(seconds < 86_400, "a list ends on its first day");
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let (prompt, answer) = (length(&mut stream, 1155.0, 16_000), length(&mut stream, 211.0, 4_000));
        writeln!(text, "2026-01-01 {hour:02}:{minute:02}:{second:02}.{tenths_us:07},{prompt},{answer}")?;
        due += stream.exp1() / (RATE_RPS * f64::from(replicas));
    }
    Ok(text)
}

/// Lognormal with this mean and sigma 1, from 1 to `most`.
fn length(stream: &mut Stream, mean: f64, most: u32) -> u32 {
    ((mean.ln() - 0.5 + stream.normal()).exp() as u32).clamp(1, most)
}

/// Serves a list again and again for so many CPU seconds, and prints one line for the table.
fn serve(list: &Path, replicas: u32, seconds: f64) -> Result<(), Box<dyn Error>> {
    let rows = read(list)?;
    let start = cpu_seconds()?;
    let mut runs = 0_u32;
    let (totals, seen, used) = loop {
        let (totals, seen) = once(&rows, replicas)?;
        let used = cpu_seconds()? - start;
        runs += 1;
        if used >= seconds {
            break (totals, seen, used);
        }
    };
    let (each, end) = (used / f64::from(runs), totals.end.as_secs_f64());
    println!("{}\t{each:.6}\t{}\t{end:.3}\t{}\t{runs}", seen.completions, seen.output_tokens, totals.steps);
    Ok(())
}

/// Serves a list so often.
fn times(list: &Path, replicas: u32, runs: u32) -> Result<(), Box<dyn Error>> {
    let rows = read(list)?;
    for _ in 0..runs {
        once(&rows, replicas)?;
    }
    Ok(())
}

fn read(list: &Path) -> Result<Vec<TraceRow>, Box<dyn Error>> {
    let trace = TraceSpec::strict(list.to_owned(), TraceFormat::Azure);
    Ok(TraceReader::open(&trace)?.collect::<Result<_, _>>()?)
}

fn spec(replicas: u32) -> ClusterSpec {
    ClusterSpec::new(replicas, BLOCKS, PROFILE)
}

fn once(rows: &[TraceRow], replicas: u32) -> Result<(RunTotals, Count), Box<dyn Error>> {
    let adapters = Arc::new(Adapters::new(std::iter::empty())?);
    let spec = spec(replicas);
    let cluster = Cluster::new(&spec, adapters.clone())?;
    let context = RouterContext {
        merged: Default::default(),
        replicas,
        adapters: adapters.clone(),
        prior: Arc::new(QualityTable::from_fn(1, 0, |_, _| 0.5)?),
        slo: Slo { ttft_ns: Some(Nanos::from_millis(1000)), tpot_ns: None, e2e_ns: None },
        costs: spec.costs(&adapters),
        prefix: spec.prefix_index(),
        seed: Seed(1),
        truth: None,
    };
    let mut router = Router::new(&PolicySpec::RoundRobin(RoundRobinSpec::default()), context)?;
    let (mut source, mut sink) = (Listed { rows, next: 0 }, Count::default());
    let (source, router, seen) = (&mut source, &mut router, &mut sink);
    let totals = Run { cluster: &cluster, source, router, sink: seen, mode: Service::Contended }.run()?;
    Ok((totals, sink))
}

/// Counts what comes.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    completions: u64,
    output_tokens: u64,
}

impl Sink for Count {
    fn completed(&mut self, completion: &Completion<'_>) -> ControlFlow<()> {
        self.completions += 1;
        self.output_tokens += u64::from(completion.output_tokens);
        ControlFlow::Continue(())
    }
}

/// The rows of a list, each a prompt that shares nothing.
struct Listed<'a> {
    rows: &'a [TraceRow],
    next: usize,
}

impl RequestSource for Listed<'_> {
    fn next_due(&self) -> Option<Nanos> {
        self.rows.get(self.next).map(|row| row.at)
    }

    fn take(&mut self) -> Option<Arrival> {
        let row = self.rows.get(self.next)?;
        let id = RequestId(self.next as u64);
        self.next += 1;
        let request = Request {
            id,
            due: row.at,
            session: SessionId(id.0),
            turn: 0,
            tenant: TenantId(0),
            trust_group: TrustGroupId(0),
            task: TaskId(0),
            document: None,
            prompt: Prompt::new([Segment { content: ContentId(id.0), tokens: row.input_tokens }]),
            max_output_tokens: row.output_tokens,
            cache_salt: None,
            ask: id.0,
            required_adapter: None,
        };
        Some(Arrival { request, truth: Truth { request: id, output_tokens: row.output_tokens } })
    }

    fn ended(&mut self, _: RequestId, _: Nanos) {}
}

/// CPU time of this program's only thread so far.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    let nanos = stat.split_whitespace().next().ok_or("the kernel keeps no schedstat")?;
    Ok(nanos.parse::<f64>()? * 1e-9)
}
