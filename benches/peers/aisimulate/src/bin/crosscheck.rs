//! aisimulate-core's scheduler on a case of `benches/peers/crosscheck.py`, one pass after the other, each of the same
//! length whatever is in it. Prints the lines that `cargo bench -p acb-sim --bench crosscheck` prints.

use aisimulate_core::engine::generalized::{EngineIdentity, SchedulerCommand};
use aisimulate_core::engine::{
    Backend, Command, Engine, EngineConfig, EngineFactory, Request, TimingModelConfig,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use uuid::Uuid;

/// Length of a pass by its own clock, ms: passes are completed later than this, at the case's step.
const MODELED_MS: f64 = 1e-6;
/// Contents of prompts are told apart by tokens this far from each other.
const CONTENT_TOKENS: u64 = 1 << 15;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: crosscheck CASE")?;
    let case: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let step_ms = case["step_ms"].as_f64().context("step_ms")?;
    let engine = EngineFactory::new(config(&case)?)?.build(EngineIdentity::new(0), NonZeroU32::MIN)?;
    let arrivals = case["requests"].as_array().context("requests")?;
    let arrivals =
        arrivals.iter().enumerate().map(|(at, asked)| request(at, asked)).collect::<Result<_>>()?;
    println!("request,admitted_ms,hit_tokens,first_ms,last_ms,preemptions");
    Driver { engine, arrivals, next: 0, step_ms, seen: BTreeMap::new(), steps: 0 }.run()
}

/// The case's engine under the names that are used here.
fn config(case: &Value) -> Result<EngineConfig> {
    let engine = &case["engine"];
    let whole = |name: &str| engine[name].as_u64().map(|n| n as usize).with_context(|| name.to_owned());
    let blocks = case["blocks"].as_u64().context("blocks")? as usize;
    let timing_model = TimingModelConfig::Fixed { prefill_ms: MODELED_MS, decode_ms: MODELED_MS };
    match engine["kind"].as_str() {
        Some("vllm") => Ok(EngineConfig {
            num_gpu_blocks: blocks,
            block_size: whole("block_size")?,
            max_num_seqs: whole("max_num_seqs")?,
            max_num_batched_tokens: whole("max_num_batched_tokens")?,
            timing_model,
            ..EngineConfig::for_backend(Backend::Vllm)
        }),
        Some("sglang") => {
            let mut config = EngineConfig {
                num_gpu_blocks: blocks,
                block_size: whole("page_size")?,
                max_num_seqs: whole("max_running_requests")?,
                timing_model,
                ..EngineConfig::for_backend(Backend::Sglang)
            };
            config.sglang.chunked_prefill_size = whole("chunked_prefill_size")?;
            config.sglang.max_prefill_tokens = whole("max_prefill_tokens")?;
            Ok(config)
        }
        other => bail!("an engine of kind {other:?} has no counterpart here"),
    }
}

fn request(at: usize, asked: &Value) -> Result<(f64, Request)> {
    let mut tokens = Vec::new();
    for run in asked["prompt"].as_array().context("prompt")? {
        let (content, length) = (run[0].as_u64().context("content")?, run[1].as_u64().context("length")?);
        let first = content * CONTENT_TOKENS;
        tokens.extend((first..first + length).map(|token| token as u32));
    }
    let request = Request {
        request_id: Uuid::from_u128(at as u128),
        tokens,
        max_output_tokens: asked["output"].as_u64().context("output")? as usize,
        output_token_ids: None,
    };
    Ok((asked["at_ns"].as_u64().context("at_ns")? as f64 * 1e-6, request))
}

/// What was seen of one request.
#[derive(Default)]
struct Seen {
    admitted_ms: Option<f64>,
    hit_tokens: usize,
    first_ms: Option<f64>,
    preemptions: u32,
}

struct Driver {
    engine: Engine,
    arrivals: Vec<(f64, Request)>,
    next: usize,
    step_ms: f64,
    seen: BTreeMap<Uuid, Seen>,
    steps: u64,
}

impl Driver {
    fn run(mut self) -> Result<()> {
        let mut now = 0.0;
        let mut idle_passes = 0;
        loop {
            self.submit(now)?;
            match self.pass(now)? {
                Pass::Worked => {
                    now += self.step_ms;
                    idle_passes = 0;
                }
                Pass::Empty if idle_passes < 1000 => idle_passes += 1,
                Pass::Empty => bail!("the engine makes no progress at {now} ms"),
                Pass::Idle => match self.arrivals.get(self.next) {
                    Some(&(at, _)) => now = at,
                    None => break,
                },
            }
        }
        println!("steps,{}", self.steps);
        Ok(())
    }

    fn submit(&mut self, now: f64) -> Result<()> {
        while let Some((at, request)) = self.arrivals.get(self.next)
            && *at <= now
        {
            let command = SchedulerCommand::new(0, Command::Submit(request.clone()));
            self.engine.apply_command_effects(command, *at)?;
            self.next += 1;
        }
        Ok(())
    }

    /// One pass from `now`, completed a step later.
    fn pass(&mut self, now: f64) -> Result<Pass> {
        let Some(started) = self.engine.execute_pass(now)? else { return Ok(Pass::Idle) };
        let worked = started.by_rank.iter().any(|rank| !rank.effects.committed_requests.is_empty());
        for effects in started.by_rank.into_iter().map(|rank| rank.effects) {
            for admission in effects.admissions {
                let seen = self.seen.entry(admission.request_id).or_default();
                if seen.admitted_ms.is_none() {
                    (seen.admitted_ms, seen.hit_tokens) = (Some(now), admission.reused_input_tokens);
                }
            }
            for event in effects.pressure_events {
                self.seen.entry(event.request_id).or_default().preemptions += 1;
            }
        }
        let end = if worked { now + self.step_ms } else { started.end_ms };
        let completed = self.engine.complete_pass(started.pass_id, end)?;
        for output in completed.effects.by_rank.into_iter().flat_map(|rank| rank.effects.outputs) {
            let seen = self.seen.entry(output.request_id).or_default();
            let first = *seen.first_ms.get_or_insert(end);
            if output.completed {
                let (at, admitted) = (output.request_id.as_u128(), seen.admitted_ms.unwrap_or(f64::NAN));
                println!("{at},{admitted:.6},{},{first:.6},{end:.6},{}", seen.hit_tokens, seen.preemptions);
            }
        }
        self.steps += u64::from(worked);
        Ok(if worked { Pass::Worked } else { Pass::Empty })
    }
}

enum Pass {
    Worked,
    /// A pass in which nothing ran.
    Empty,
    /// Nothing to do before something arrives.
    Idle,
}
