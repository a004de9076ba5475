//! `acb bench`: load on servers that are already there, and what came of it.

use super::{Exit, print, print_json, say};
use crate::bench::plan::{BenchDocument, BenchPlan, Sharing, plan};
use crate::bench::recount;
use crate::bench::sink::{BenchFiles, BenchSink};
use crate::bench::summary::Summary;
use crate::bench::table::text;
use crate::cli::BenchArgs;
use crate::clock::{Stopwatch, unix_ms};
use crate::interrupt::Interrupt;
use crate::plan::program_version;
use crate::ticker::Ticker;
use acb_live::load::{Control, LoadEnd, run};
use acb_types::Nanos;
use clap::ValueEnum;
use miette::{IntoDiagnostic, miette};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Between two looks at the run.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command. Exit status 1 when the client's check of itself finds the run invalid, or no request ended well.
///
/// # Errors
/// When the arguments make no load, the output folder is in use, or the machine gives no thread.
pub fn command(args: &BenchArgs) -> miette::Result<Exit> {
    let started_unix_ms = unix_ms();
    let BenchPlan { load, tasks, adapters, words, nonce, duration, sharing } = plan(args, started_unix_ms)?;
    let files = args.out.as_deref().map(start_folder).transpose()?;
    let runtime = args.server.runtime.to_possible_value();
    let engine = runtime.map(|value| value.get_name().to_owned()).unwrap_or_default();
    let summary = Summary::new(args.goodput);
    let (tokenizer, spool) = args.asked.tokenizer.as_deref().map(recount::prepare).transpose()?.unzip();
    let sink = BenchSink { tasks, adapters, engine, summary, spool, files };
    let servers = load.targets.iter().map(ToString::to_string).collect();
    let control = Control::default();
    let interrupt = Interrupt::on_signals().into_diagnostic()?;
    let ended = watched(&control, &interrupt, duration, || run(load, sink, &control));
    let LoadEnd { source, sink, check, .. } = ended.into_diagnostic()?;
    if let Some(fault) = source.fault() {
        return Err(miette!("--dataset: {fault}; the file changed while it was read"));
    }
    let summary = sink.summary.document();
    let document = BenchDocument {
        program_version: program_version().to_owned(),
        load: words,
        servers,
        policy: args.server.policy.clone(),
        seed: args.seed,
        nonce,
        started_unix_ms,
        unexpected_cached_share: summary.cached_share.filter(|_| sharing == Sharing::Nothing),
        summary,
        recount: tokenizer.zip(sink.spool).map(|(tokenizer, spool)| spool.recount(&tokenizer)).transpose()?,
        check,
    };
    finish_folder(args.out.as_deref(), sink.files, &document)?;
    match args.json {
        true => print_json(&document)?,
        false => print(&text(&document))?,
    }
    let sound = document.check.is_valid() && document.summary.all.ok > 0;
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

/// Runs `work` while this thread's signals stop it and its progress is told.
fn watched<T: Send>(
    control: &Control,
    interrupt: &Interrupt,
    duration: Option<Nanos>,
    work: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = channel();
        let working = scope.spawn(move || {
            let result = work();
            // The watcher waits for it, and also sees a panic, by the sender that goes.
            let _ = done.send(());
            result
        });
        let (watch, mut ticker) = (Stopwatch::start(), Ticker::start(duration));
        let mut stopping = false;
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            ticker.tick(watch.elapsed(), control.progress());
            if interrupt.requested() && !stopping {
                stopping = true;
                say(
                    "stopping: nothing more is sent; answers have the grace to end (Ctrl-C again ends at once)",
                );
                control.stop();
            }
        }
        ticker.finish();
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn start_folder(folder: &Path) -> miette::Result<BenchFiles> {
    let fault = |error| miette!("--out {}: {error}; choose another folder", folder.display());
    std::fs::create_dir_all(folder).map_err(fault)?;
    if std::fs::read_dir(folder).map_err(fault)?.next().is_some() {
        return Err(miette!("--out {}: is not empty; choose another folder", folder.display()));
    }
    BenchFiles::create(folder).map_err(fault)
}

fn finish_folder(
    folder: Option<&Path>,
    files: Option<BenchFiles>,
    document: &BenchDocument,
) -> miette::Result<()> {
    let (Some(folder), Some(files)) = (folder, files) else { return Ok(()) };
    let fault = |error| miette!("--out {}: {error}; what was written ends in .partial", folder.display());
    if document.check.host.record_error.is_none() {
        files.finish().map_err(fault)?;
    }
    let text = serde_json::to_vec_pretty(document).into_diagnostic()?;
    std::fs::write(folder.join("bench.json"), text).map_err(fault)
}
