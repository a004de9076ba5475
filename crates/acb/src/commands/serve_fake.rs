//! `acb serve-fake`: servers that speak as vLLM or SGLang do, in front of the simulator's engine model or of a script.

use super::{Exit, print, say};
use crate::cli::{EngineName, ServeFakeArgs};
use crate::spec::{ExperimentSpec, Report};
use acb_fake::shapes::{Script, ShapeOptions, ShapeServer};
use acb_fake::{FakeAdapter, FakeOptions, FakeServer, Faults};
use acb_sim::{ClusterSpec, EngineSpec, SglangSpec, VllmSpec};
use acb_types::{Nanos, Seed};
use miette::{IntoDiagnostic, miette};
use std::net::SocketAddr;
use tokio::signal::unix::{SignalKind, signal};

const BANNER: &str = "\
************************************************************************
*  SIMULATED: nothing that these servers answer is a model's output,   *
*  and no time that is measured on them is a measurement of an engine. *
************************************************************************";

/// Rank of an adapter that the command line names.
const RANK: u32 = 16;

/// Runs the command: prints one URL per server, and serves until it is told to stop.
///
/// # Errors
/// When an argument is not possible, the experiment has faults, or a port can't be had.
pub fn command(args: &ServeFakeArgs) -> miette::Result<Exit> {
    match &args.shape {
        Some(words) => serve_shapes(args, words),
        None => serve_engine(args),
    }
}

fn serve_shapes(args: &ServeFakeArgs, words: &str) -> miette::Result<Exit> {
    let mut script = Script::default();
    script.apply(words).map_err(|fault| miette!("--shape {words}: {fault}"))?;
    let ports = if args.ports.is_empty() { &[0][..] } else { &args.ports };
    let launch = |&port: &u16| {
        let accept_delay_ns = accept_delay(args)?;
        let options = ShapeOptions { port, accept_delay_ns, ..script.clone().into() };
        ShapeServer::launch(options).map_err(|fault| miette!("{fault}"))
    };
    let servers: Vec<ShapeServer> = ports.iter().map(launch).collect::<miette::Result<_>>()?;
    let addrs: Vec<SocketAddr> = servers.iter().map(ShapeServer::addr).collect();
    serve(&addrs, "a script, without an engine")
}

fn serve_engine(args: &ServeFakeArgs) -> miette::Result<Exit> {
    let options = options(args)?;
    let (profile, _) = options.cluster.profile_label();
    let what = format!(
        "the engine model of {} with profile {profile}, {} times real time",
        options.cluster.engine_label(),
        options.time_scale
    );
    let server = FakeServer::launch(options).map_err(|fault| miette!("{fault}"))?;
    serve(&server.addrs(), &what)
}

fn serve(addrs: &[SocketAddr], what: &str) -> miette::Result<Exit> {
    until_told(addrs, BANNER, what)
}

/// Says what is served and where, and waits for a signal.
pub(super) fn until_told(addrs: &[SocketAddr], banner: &str, what: &str) -> miette::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().into_diagnostic()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).into_diagnostic()?;
        let mut terminate = signal(SignalKind::terminate()).into_diagnostic()?;
        say(banner);
        say(&format!("serving {what}; stop with Ctrl-C"));
        print(&addrs.iter().map(|addr| format!("http://{addr}\n")).collect::<String>())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(Exit::Done)
    })
}

/// What the arguments ask for.
fn options(args: &ServeFakeArgs) -> miette::Result<FakeOptions> {
    let (mut cluster, mut adapters) = match args.files.is_empty() {
        true => (ClusterSpec::new(1, 4096, "llama-3.1-8b-l4"), Vec::new()),
        false => of_experiment(args)?,
    };
    if let Some(engine) = args.engine {
        cluster.engine = match engine {
            EngineName::Vllm => EngineSpec::Vllm(VllmSpec::default()),
            EngineName::Sglang => EngineSpec::Sglang(SglangSpec::default()),
        };
    }
    if let Some(profile) = &args.profile {
        cluster.profile = acb_sim::ProfileSpec::Name(profile.clone());
    }
    if let Some(blocks) = args.kv_blocks {
        cluster.kv = acb_sim::KvSpec::Blocks(blocks);
    }
    cluster.replicas = args.replicas.unwrap_or(cluster.replicas.max(args.ports.len() as u32));
    set_slots(&mut cluster, args.slots);
    if !args.adapters.is_empty() {
        let per_rank = cluster.latency_profile().map_or(0, |profile| profile.lora_bytes_per_rank);
        let bytes = (per_rank * u64::from(RANK)).max(1);
        let adapter = |name: &String| FakeAdapter { name: name.clone(), rank: RANK, bytes };
        adapters = args.adapters.iter().map(adapter).collect();
    }
    Ok(FakeOptions {
        model: args.model.clone(),
        adapters,
        ports: args.ports.clone(),
        time_scale: args.time_scale,
        faults: faults(&args.faults)?,
        seed: Seed(args.seed),
        accept_delay_ns: accept_delay(args)?,
        ..FakeOptions::new(cluster)
    })
}

fn of_experiment(args: &ServeFakeArgs) -> miette::Result<(ClusterSpec, Vec<FakeAdapter>)> {
    let (spec, _) = ExperimentSpec::load(None, &args.files, &args.sets).map_err(Report::from)?;
    let adapters = spec.adapters.list(&spec.model.shape());
    let adapter = |a: &crate::spec::catalogue::NamedAdapter| FakeAdapter {
        name: a.name.clone(),
        rank: a.rank,
        bytes: a.bytes,
    };
    Ok((spec.cluster, adapters.iter().map(adapter).collect()))
}

fn set_slots(cluster: &mut ClusterSpec, slots: Option<u32>) {
    let Some(slots) = slots else { return };
    match &mut cluster.engine {
        EngineSpec::Vllm(vllm) => vllm.max_loras = slots,
        EngineSpec::Sglang(sglang) => sglang.max_loras_per_batch = slots,
    }
}

fn accept_delay(args: &ServeFakeArgs) -> miette::Result<Nanos> {
    match args.accept_delay_ms {
        ms if (0.0..=60_000.0).contains(&ms) => Ok(Nanos::from_millis_f64(ms)),
        ms => Err(miette!("--accept-delay-ms {ms} is impossible; give 0 to 60000")),
    }
}

/// `error=0.01` and the like.
fn faults(arguments: &[String]) -> miette::Result<Faults> {
    let mut shares = serde_json::Map::new();
    for argument in arguments {
        let share =
            argument.split_once('=').and_then(|(name, share)| Some((name, share.parse::<f64>().ok()?)));
        let (name, share) =
            share.ok_or_else(|| miette!("--fault {argument}: give NAME=SHARE, such as error=0.01"))?;
        shares.insert(name.replace('-', "_"), share.into());
    }
    serde_json::from_value(shares.into()).map_err(|fault| {
        miette!("--fault: {fault}; there are error, too-many, unavailable, error-mid, truncate and stall")
    })
}
