//! aisimulate-core on a request list of `listed write`: the list and the servers of ours, step times included.
//! Prints one line: requests, CPU seconds of one run, output tokens, simulated end in s, steps (not told: -), runs.

use aisimulate_core::engine::{Backend, EngineConfig, TimingModel};
use aisimulate_core::replay::{
    CURRENT_REPLAY_SPEC_VERSION, DirectRequest, ReplayEngineConfig, ReplayEngineFactory, ReplayReport,
    ReplayRuntimeInput, ReplaySpec, ReplayTopology, Replayer,
};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use uuid::Uuid;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [list, servers, replicas, seconds] = &words[..] else {
        bail!("usage: aisimulate-peer LIST SERVERS REPLICAS SECONDS");
    };
    let servers: serde_json::Value = serde_json::from_str(&fs::read_to_string(servers)?)?;
    let requests = requests(&fs::read_to_string(list)?)?;
    let (replicas, seconds): (usize, f64) = (replicas.parse()?, seconds.parse()?);
    let (mut used, mut runs) = (0.0, 0_u32);
    let report = loop {
        let input = requests.clone();
        let before = cpu_seconds()?;
        let report = once(&servers, replicas, input)?;
        used += cpu_seconds()? - before;
        runs += 1;
        if used >= seconds {
            break report;
        }
    };
    println!(
        "{}\t{:.6}\t{}\t{:.3}\t-\t{runs}",
        report.request_counts.completed_requests,
        used / f64::from(runs),
        report.request_counts.total_output_tokens,
        report.throughput.duration_ms * 1e-3,
    );
    Ok(())
}

fn once(
    servers: &serde_json::Value,
    replicas: usize,
    requests: VecDeque<DirectRequest>,
) -> Result<ReplayReport> {
    let whole = |name: &str| servers[name].as_u64().map(|n| n as usize).with_context(|| name.to_owned());
    let rank = EngineConfig {
        block_size: whole("block_tokens")?,
        num_gpu_blocks: whole("blocks")?,
        max_num_seqs: whole("max_num_seqs")?,
        max_num_batched_tokens: whole("max_num_batched_tokens")?,
        ..EngineConfig::for_backend(Backend::Vllm)
    };
    let engine = ReplayEngineConfig { rank, ..Default::default() };
    let spec = ReplaySpec {
        version: CURRENT_REPLAY_SPEC_VERSION,
        topology: ReplayTopology::aggregated(replicas),
        engine: serde_json::to_value(engine)?,
        adapters: Default::default(),
        max_sim_time_ms: None,
        max_in_flight: None,
        record_per_request: true,
        sla: Default::default(),
        requests: Vec::new(),
    };
    let factory = ReplayEngineFactory::with_timing_model(Arc::new(Steps::new(servers)?));
    let replayer = Replayer::new(spec, factory)?.with_runtime_input(ReplayRuntimeInput::Requests(requests));
    Ok(replayer.run()?)
}

/// The step time of the servers. A pass without any decoding request lacks the fixed part: the prefill call can't tell.
struct Steps {
    step_ms: f64,
    prefill_token_ms: f64,
    decode_row_ms: f64,
}

impl Steps {
    fn new(servers: &serde_json::Value) -> Result<Self> {
        let number = |name: &str| servers[name].as_f64().with_context(|| name.to_owned());
        Ok(Self {
            step_ms: number("step_ms")?,
            prefill_token_ms: number("prefill_token_us")? * 1e-3,
            decode_row_ms: number("decode_row_us")? * 1e-3,
        })
    }
}

impl TimingModel for Steps {
    fn prefill_batch_validation_can_fail(&self) -> bool {
        false
    }

    fn prefill_prediction_can_fail(&self) -> bool {
        false
    }

    fn predict_prefill_ms(&self, batch: usize, mean_input: usize, mean_prefix: usize) -> Result<f64> {
        Ok(self.prefill_token_ms * (batch * (mean_input - mean_prefix)) as f64)
    }

    fn predict_decode_ms(&self, batch: usize, _: usize, _: usize, _: usize) -> Result<f64> {
        Ok(self.step_ms + self.decode_row_ms * batch as f64)
    }
}

/// Rows of a list. Every prompt's tokens are its own, so that no two share a prefix.
fn requests(list: &str) -> Result<VecDeque<DirectRequest>> {
    let mut token = 0_u32;
    let mut request = |(at, line): (usize, &str)| {
        let mut fields = line.split(',');
        let mut field = || fields.next().with_context(|| format!("row {at} is short"));
        let (stamp, input, output) = (field()?, field()?.parse::<u32>()?, field()?.parse()?);
        let first = token;
        token = token.wrapping_add(input);
        Ok(DirectRequest {
            tokens: (first..first + input).collect(),
            max_output_tokens: output,
            uuid: Some(Uuid::from_u128(at as u128 + 1)),
            arrival_timestamp_ms: Some(time_of_day_ms(stamp).with_context(|| format!("time of row {at}"))?),
            ..Default::default()
        })
    };
    list.lines().skip(1).enumerate().map(&mut request).collect()
}

fn time_of_day_ms(stamp: &str) -> Option<f64> {
    let mut parts = stamp.split_once(' ')?.1.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some(((hours * 60.0 + minutes) * 60.0 + seconds) * 1e3)
}

/// CPU time of all threads that live.
fn cpu_seconds() -> Result<f64> {
    let mut nanos = 0.0;
    for task in fs::read_dir("/proc/self/task")? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split_whitespace().next().context("the kernel keeps no schedstat")?.parse::<f64>()?;
    }
    Ok(nanos * 1e-9)
}
