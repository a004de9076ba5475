//! `acb selftest`: what this machine's client can do, against a scripted server in the same process.
//!
//! Server and client share the processors, so that the rates are lower bounds of what the client alone could do.

use super::{Exit, print, print_json, say};
use crate::bench::plan::{BenchPlan, plan};
use crate::bench::sink::BenchSink;
use crate::bench::summary::{Summary, SummaryDocument};
use crate::bench::table::figure;
use crate::cli::{Cli, Command, SelftestArgs};
use acb_fake::shapes::{Flush, Script, ShapeOptions, ShapeServer};
use acb_live::check::RunCheck;
use acb_live::load::{Control, LoadEnd, run};
use acb_stats::Histogram;
use acb_types::Nanos;
use clap::Parser;
use miette::{IntoDiagnostic, miette};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// Tokens of an answer of the throughput parts.
const TOKENS: u32 = 32;
/// Answers in flight in the throughput parts.
const IN_FLIGHT: u32 = 64;
/// Rates of the timing parts, requests per second.
const RATES: [u32; 2] = [200, 1000];

/// `acb selftest --json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SelftestDocument {
    /// Threads that sent and received.
    pub threads: u32,
    /// The most that could be sent and received, 64 in flight, 32 tokens an answer.
    pub throughput: Vec<Throughput>,
    /// How right its times are, under Poisson arrivals of answers of 50 ms and 15 times 10 ms.
    pub timing: Vec<Timing>,
}

/// One throughput part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Throughput {
    /// `each`: a write per token; `coalesced`: one write per answer.
    pub writes: String,
    /// Requests per second.
    pub rps: Option<f64>,
    /// Token events per second.
    pub events_per_s: Option<f64>,
    /// Processor seconds of the client's threads per 10,000 requests.
    pub cpu_s_per_10k: Option<f64>,
}

/// One timing part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Timing {
    /// Requests per second asked for.
    pub rate_rps: u32,
    /// Median of times to first token as the server stamped them, ms.
    pub server_ttft_p50_ms: Option<f64>,
    /// Their 99th percentile.
    pub server_ttft_p99_ms: Option<f64>,
    /// How much more the client's median is.
    pub error_p50_ms: Option<f64>,
    /// How much more the client's 99th percentile is.
    pub error_p99_ms: Option<f64>,
    /// Share of the client's threads' time that they computed.
    pub cpu_share: Option<f64>,
    /// The client's check of itself.
    pub check: RunCheck,
}

/// Runs the command. Exit status 1 when the run at 200 requests per second is invalid.
///
/// # Errors
/// When the machine gives no port or thread.
pub fn command(args: &SelftestArgs) -> miette::Result<Exit> {
    let mut throughput = Vec::new();
    for (writes, flush) in [("each", Flush::Each), ("coalesced", Flush::Coalesced)] {
        say(&format!("throughput, writes {writes} ..."));
        throughput.push(most(args, writes, flush)?);
    }
    let mut timing = Vec::new();
    for rate_rps in RATES {
        say(&format!("timing at {rate_rps} requests/s ..."));
        timing.push(timed(args, rate_rps)?);
    }
    let document = SelftestDocument { threads: args.threads, throughput, timing };
    match args.json {
        true => print_json(&document)?,
        false => print(&text(&document))?,
    }
    let sound = document.timing.first().is_some_and(|timing| timing.check.is_valid());
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

fn most(args: &SelftestArgs, writes: &str, flush: Flush) -> miette::Result<Throughput> {
    let null =
        Script { ttft_ns: Nanos::ZERO, itl_ns: Nanos::ZERO, tokens: TOKENS, flush, ..Script::default() };
    let server = ShapeServer::launch(ShapeOptions::from(null)).into_diagnostic()?;
    let (summary, check) = bench(args, &server, &["--concurrency", &IN_FLIGHT.to_string()])?;
    let cpu = check.host.cpu_ns + check.host.pacer_cpu_ns + check.host.recorder_cpu_ns;
    let ok = summary.all.ok;
    Ok(Throughput {
        writes: writes.to_owned(),
        rps: summary.ok_rps,
        events_per_s: summary.ok_rps.map(|rps| rps * f64::from(TOKENS)),
        cpu_s_per_10k: (ok > 0).then(|| cpu.as_secs_f64() * 10_000.0 / ok as f64),
    })
}

fn timed(args: &SelftestArgs, rate_rps: u32) -> miette::Result<Timing> {
    let ms = Nanos::from_millis;
    let script = Script { ttft_ns: ms(50), itl_ns: ms(10), tokens: 16, ..Script::default() };
    let server = ShapeServer::launch(ShapeOptions::from(script)).into_diagnostic()?;
    let (summary, check) = bench(args, &server, &["--rate", &rate_rps.to_string()])?;
    let mut truth = Histogram::default();
    for row in server.trace().requests {
        if let Some(first) = row.first_token_ns {
            truth.add(first.since(row.received_ns).0);
        }
    }
    let server_ms = |q| truth.estimable(q).map(|ns| ns as f64 * 1e-6);
    let seen = summary.all.latencies.ttft_from_send_ms;
    let error = |seen: Option<f64>, truth: Option<f64>| Some(seen? - truth?);
    Ok(Timing {
        rate_rps,
        server_ttft_p50_ms: server_ms(0.5),
        server_ttft_p99_ms: server_ms(0.99),
        error_p50_ms: error(seen.p50, server_ms(0.5)),
        error_p99_ms: error(seen.p99, server_ms(0.99)),
        cpu_share: check.host.cpu_share(),
        check,
    })
}

/// A bench of short prompts, as a user would give it.
fn bench(
    args: &SelftestArgs,
    server: &ShapeServer,
    load: &[&str],
) -> miette::Result<(SummaryDocument, RunCheck)> {
    let (url, tokens) = (server.url(), TOKENS.to_string());
    let (duration, threads) = (format!("{}ms", args.duration.0 / 1_000_000), args.threads.to_string());
    let fixed = [
        "acb",
        "bench",
        "--url",
        &url,
        "--model",
        "base",
        "--input-tokens",
        "16",
        "--output-tokens",
        &tokens,
    ];
    let timing = ["--duration", &duration, "--threads", &threads];
    let words = fixed.iter().chain(&timing).chain(load);
    let Command::Bench(bench) = Cli::try_parse_from(words).into_diagnostic()?.command else {
        return Err(miette!("the words of a bench were read as another command; report this"));
    };
    let BenchPlan { load, tasks, adapters, .. } = plan(&bench, 0)?;
    let sink = BenchSink {
        tasks,
        adapters,
        engine: "scripted".to_owned(),
        summary: Summary::new(None),
        spool: None,
        files: None,
    };
    let LoadEnd { sink, check, .. } = run(load, sink, &Control::default()).into_diagnostic()?;
    Ok((sink.summary.document(), check))
}

fn text(document: &SelftestDocument) -> String {
    let mut out = format!("client threads: {}; the server runs in the same process\n\n", document.threads);
    for part in &document.throughput {
        // Writing to a String can't fail.
        let _ = writeln!(
            out,
            "writes {:<10} {:>8} requests/s  {:>8} token events/s  {:>6} client CPU-s per 10,000 requests",
            part.writes,
            figure(part.rps),
            figure(part.events_per_s),
            figure(part.cpu_s_per_10k),
        );
    }
    out.push('\n');
    for part in &document.timing {
        let sends = &part.check.sends;
        let ms = |ns: Option<Nanos>| figure(ns.map(Nanos::as_millis_f64));
        let _ = writeln!(
            out,
            "{:>5} requests/s: TTFT error p50 {} p99 {} ms (server's own {} / {}), send lag p50 {} p99 {} ms, {} sent/s of {}, {}",
            part.rate_rps,
            figure(part.error_p50_ms),
            figure(part.error_p99_ms),
            figure(part.server_ttft_p50_ms),
            figure(part.server_ttft_p99_ms),
            ms(sends.lag_p50_ns),
            ms(sends.lag_p99_ns),
            figure(sends.sent_rps),
            figure(sends.due_rps),
            if part.check.is_valid() { "valid" } else { "INVALID" },
        );
        for fault in &part.check.faults {
            let _ = writeln!(out, "  - {fault}");
        }
    }
    out
}
