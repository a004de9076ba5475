//! `acb calibrate`: the constants of a latency profile from what a client sees of a server.

use super::{Exit, memory, print, print_json, say};
use crate::calibrate::hidden::{FrontEnd, Hidden};
use crate::calibrate::server::AdapterFile;
use crate::calibrate::{
    Calibration, Constant, Effort, Known, MOST_ERROR, ProfileFile, Started, Status, calibrate,
};
use crate::cli::{CalibrateArgs, EngineName};
use acb_sim::{EngineSpec, KvMemory, Profile, SglangSpec, VllmSpec};
use acb_types::Seed;
use miette::miette;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// What a calibration found, and what was hidden.
#[derive(Serialize, JsonSchema)]
pub struct CalibrateDocument {
    /// What was found.
    #[serde(flatten)]
    pub calibration: Calibration,
    /// What was hidden, by name of the constant, opened after the fit.
    pub hidden: Profile,
    /// What network and front end really add to a request, ms, and to it for each prompt token, us.
    pub hidden_front_end: (f64, f64),
}

/// Runs the command.
///
/// # Errors
/// When an option is impossible, the server can't be measured, or the output file can't be written.
pub fn command(args: &CalibrateArgs) -> miette::Result<Exit> {
    let (hidden, known) = (hidden(args)?, known(args)?);
    let output = args.output.as_deref().map(Output::new).transpose()?;
    let started = |(slots, rank): (u32, u32)| {
        let engine = engine(args, slots, rank, known.adapters.len() as u32);
        let server =
            hidden.start(&engine, &known.adapters).map_err(|error| miette!("the server: {error}"))?;
        Ok((engine, server))
    };
    let mut servers = starts(args).into_iter().map(started).collect::<miette::Result<Vec<_>>>()?;
    let mut starts: Vec<Started<'_>> =
        servers.iter_mut().map(|(engine, server)| Started { server, engine: engine.clone() }).collect();
    let effort = Effort { repeats: args.repeats, hold_out: args.hold_out };
    let calibration =
        calibrate(&mut starts, &known, effort, &|what| say(what)).map_err(|error| miette!("{error}"))?;
    if let Some(output) = output {
        output.write(args, &calibration)?;
    }
    let calibrated = calibration.calibrated;
    let (profile, FrontEnd { request_ms, token_us }) = hidden.open();
    let document =
        CalibrateDocument { calibration, hidden: profile, hidden_front_end: (request_ms, token_us) };
    match args.json {
        true => print_json(&document)?,
        false => print(&text(&document))?,
    }
    Ok(if calibrated { Exit::Done } else { Exit::Failed })
}

/// Slots and ranks of every start.
fn starts(args: &CalibrateArgs) -> Vec<(u32, u32)> {
    let first = (args.slots, args.max_rank);
    match args.one_start {
        true => vec![first],
        false => vec![first, (args.slots * 2, args.max_rank), (args.slots, args.max_rank * 4)],
    }
}

fn known(args: &CalibrateArgs) -> miette::Result<Known> {
    let profile = named(&args.hidden)?;
    let model = args.model.as_deref().or_else(|| model_in(&args.hidden)).ok_or_else(|| {
        miette!("--hidden {}: its name does not say the base model; give --model", args.hidden)
    })?;
    let shape = memory::model(model)?;
    let (asked, has) = (shape.kv_bytes_per_token(), profile.kv_bytes_per_token);
    if asked != has {
        return Err(miette!(
            "--model {model}: {asked} bytes of keys and values a token, and the server of --hidden {} has {has}; name \
             its model",
            args.hidden
        ));
    }
    let per_rank = shape.lora_bytes_per_rank(crate::spec::model::LoraTargets::AllLinear);
    // Four sizes in turn: the cost of a load has a fixed part and one by size.
    let file = |i: u32| {
        let rank = (args.max_rank >> (i % 4)).max(1);
        AdapterFile { name: format!("adapter-{i}"), rank, bytes: per_rank * u64::from(rank) }
    };
    Ok(Known {
        adapters: (0..args.adapters).map(file).collect(),
        weight_bytes: shape.weight_bytes(),
        kv_bytes_per_token: shape.kv_bytes_per_token(),
        lora_bytes_per_rank: memory::slot_bytes(&shape, 1),
    })
}

fn hidden(args: &CalibrateArgs) -> miette::Result<Hidden> {
    if !(0.0..=0.2).contains(&args.noise) {
        return Err(miette!("--noise {} is impossible; give 0 to 0.2", args.noise));
    }
    let profile = named(&args.hidden)?;
    let gpu = args.gpu.as_deref().or_else(|| card_in(&args.hidden)).unwrap_or(USUAL_CARD);
    let card = acb_sim::card(gpu).ok_or_else(|| {
        let known: Vec<&str> = acb_sim::cards().iter().map(|card| card.name.as_str()).collect();
        miette!("--gpu {gpu}: not known; give {}", known.join(", "))
    })?;
    let gpu_gib = card.memory_mib as f64 / 1024.0;
    let hidden = Hidden::new(profile, KvMemory { gpu_gib, utilization: 0.9, overhead_gib: 2.0 }, args.noise);
    Ok(match args.seed {
        Some(seed) => hidden.perturbed(Seed(seed)),
        None => hidden,
    })
}

fn named(profile: &str) -> miette::Result<Profile> {
    acb_sim::profile(profile).ok_or_else(|| {
        let known: Vec<&str> = acb_sim::profiles().iter().map(|profile| profile.name).collect();
        miette!("--hidden {profile}: no such profile; there are {}", known.join(", "))
    })
}

/// The card of the profiles whose name has none: those measured with vLLM 0.8.5 ran on one of 64 GB, which has no name here.
const USUAL_CARD: &str = "a100-80";

/// The base model that a profile's name begins with.
fn model_in(profile: &str) -> Option<&'static str> {
    let models = ["llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "qwen2.5-1.5b"];
    models.into_iter().find(|model| profile.starts_with(&format!("{model}-")))
}

/// The card that a profile's name ends with.
fn card_in(profile: &str) -> Option<&'static str> {
    let names = acb_sim::cards().iter().map(|card| card.name.as_str());
    names.filter(|card| profile.ends_with(&format!("-{card}"))).max_by_key(|card| card.len())
}

/// Host memory holds more adapters than the slots of any start, and fewer than there are: loads of both kinds can be seen.
fn engine(args: &CalibrateArgs, slots: u32, max_rank: u32, adapters: u32) -> EngineSpec {
    let host = adapters.saturating_sub(4).max(slots);
    match args.engine {
        EngineName::Vllm => EngineSpec::Vllm(VllmSpec {
            max_loras: slots,
            max_lora_rank: max_rank,
            max_cpu_loras: Some(host),
            ..VllmSpec::default()
        }),
        EngineName::Sglang => EngineSpec::Sglang(SglangSpec {
            max_loras_per_batch: slots,
            max_lora_rank: max_rank,
            max_loaded_loras: Some(host),
            ..SglangSpec::default()
        }),
    }
}

/// The file of the profile: made before anything is measured, so that no measurement is lost to a bad path.
struct Output<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Output<'a> {
    fn new(path: &'a Path) -> miette::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                miette!(
                    "--output {}: exists already and is never overwritten; name a new one",
                    path.display()
                )
            }
            _ => miette!("--output {}: {error}; name a file in a folder that can be written", path.display()),
        })?;
        Ok(Self { path, file: Some(file) })
    }

    fn write(mut self, args: &CalibrateArgs, calibration: &Calibration) -> miette::Result<()> {
        let name = self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(&args.hidden);
        let text = super::json_text(&ProfileFile::new(name, calibration));
        let mut file = self.file.take().expect("it is written once");
        file.write_all(text.as_bytes()).map_err(|error| miette!("{}: {error}", self.path.display()))
    }
}

impl Drop for Output<'_> {
    /// A calibration that failed leaves no empty file behind.
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(self.path);
        }
    }
}

fn text(document: &CalibrateDocument) -> String {
    let found = &document.calibration;
    let hidden = serde_json::to_value(&document.hidden).expect("a profile has a form in JSON");
    let mut out =
        format!("{:<24} {:>14} {:>14} {:>9}  {}\n", "constant", "fitted", "hidden", "error", "how sure");
    // Writing to a String can't fail.
    for constant in &found.constants {
        let truth = hidden[&constant.name].as_f64().unwrap_or(f64::NAN);
        let error = if truth == 0.0 { "-".to_owned() } else { percent(constant.value / truth - 1.0) };
        let _ = writeln!(
            out,
            "{:<24} {:>14.5} {:>14.5} {:>9}  {}",
            constant.name,
            constant.value,
            truth,
            error,
            sure(constant)
        );
    }
    let (request_ms, token_us) = document.hidden_front_end;
    let front_end = found.front_end;
    let _ = writeln!(
        out,
        "\nnetwork and front end: {:.3} ms a request (hidden {request_ms:.3}), {:.3} us a prompt token (hidden {token_us:.3})",
        front_end.request_ms, front_end.token_us
    );
    let _ = writeln!(out, "KV memory: {} tokens", found.kv_tokens);
    let block = found.cache.block_tokens.map_or("not reported".to_owned(), |block| block.to_string());
    let _ = writeln!(
        out,
        "prefix cache: blocks of {block} tokens; TTFT {:.1} ms cold, {:.1} ms warm",
        found.cache.cold_ttft_ms, found.cache.warm_ttft_ms
    );
    let _ = writeln!(out, "\n{:<16} {:>9} {:>7} {:>9} {:>9}", "stage", "equations", "times", "rms", "worst");
    for stage in &found.stages {
        let name = serde_json::to_value(stage.stage).expect("a stage has a name");
        let name = name.as_str().unwrap_or_default();
        let (rms, worst) = (percent(stage.rms_error), percent(stage.max_error));
        let _ = writeln!(out, "{name:<16} {:>9} {:>7} {rms:>9} {worst:>9}", stage.equations, stage.times);
    }
    out + &hold_out(found)
}

fn hold_out(found: &Calibration) -> String {
    let run = &found.hold_out;
    let mut out = format!("\nhold-out: {} requests, Poisson, {:.2}/s\n", run.requests, run.rate_rps);
    for time in &run.times {
        let _ = write!(out, "{:<5}", time.time);
        for statistic in &time.statistics {
            let error = statistic.error.map_or("not estimable".to_owned(), percent);
            let _ = write!(out, " {} {error},", statistic.name);
        }
        let _ =
            writeln!(out, " per request {}, KS distance {:.3}", percent(time.request_mape), time.ks_distance);
    }
    let verdict = if found.calibrated { "calibrated" } else { "NOT calibrated" };
    let is_found =
        |constant: &Constant| constant.name.starts_with("lora_") && constant.status == Status::Identified;
    let scope = match found.constants.iter().any(is_found) {
        true => "",
        false => ", for the base model only, since no cost of an adapter was identified",
    };
    let _ = writeln!(
        out,
        "{verdict} on this server{scope}: mean E2E error {} (limit {})",
        percent(run.mean_e2e_error),
        percent(MOST_ERROR)
    );
    out
}

fn sure(constant: &Constant) -> String {
    let why = constant.why.as_deref().unwrap_or_default();
    match (constant.status, constant.half_width) {
        (Status::Identified, Some(half)) => format!("+- {}", percent(half / constant.value)),
        (Status::Identified, None) => String::new(),
        (Status::Negligible, _) => format!("negligible: {why}"),
        (Status::Uncertain, _) => format!("uncertain: {why}"),
        (Status::NotIdentifiable, _) => format!("not identifiable: {why}"),
        (Status::Given, _) => format!("given: {why}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
