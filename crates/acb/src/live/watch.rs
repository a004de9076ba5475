//! The servers' own record of a live cell: they are looked at from its first request to its last, beside it.

use crate::rows::RowFile;
use acb_live::drivers::Driver;
use acb_live::drivers::{RawRow, Watch, WatchEnd, WatchSink};
use acb_live::load::Control;
use acb_routing::RouterEvent;
use acb_types::{Adapters, ServerRow};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

/// Whom to look at, and how often.
pub struct Looks {
    /// A driver per replica, in order.
    pub drivers: Vec<Arc<Driver>>,
    /// The catalogue.
    pub adapters: Arc<Adapters>,
    /// From one look to the next.
    pub interval: Duration,
    /// Who routes by what is seen, if anybody.
    pub events: Option<UnboundedSender<RouterEvent>>,
}

/// The files of a watch.
pub struct Files {
    /// `server.jsonl`.
    pub rows: RowFile,
    /// `scrapes.jsonl`: what the servers said, word for word.
    pub raw: RowFile,
}

impl WatchSink for Files {
    fn row(&mut self, row: &ServerRow) -> io::Result<()> {
        self.rows.push(row)
    }

    fn raw(&mut self, row: &RawRow<'_>) -> io::Result<()> {
        self.raw.push(row)
    }
}

/// Looks at servers until `drained` comes, on the clock of the run behind `control`. Blocks.
///
/// # Errors
/// When a row can't be written, or the system gives no event loop.
pub fn watch(
    looks: Looks,
    mut files: Files,
    control: &Control,
    drained: oneshot::Receiver<()>,
) -> io::Result<(Files, WatchEnd)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let Looks { drivers, adapters, interval, events } = looks;
    let mut drained = drained;
    let end = runtime.block_on(async {
        let clock = tokio::select! {
            clock = control.started() => clock,
            // The run never started.
            _ = &mut drained => return Ok(WatchEnd { replicas: Vec::new(), series: Vec::new() }),
        };
        let watch = Watch { drivers, adapters, clock, interval, events };
        let drained = async {
            let _ = drained.await;
        };
        watch.run(&mut files, drained).await
    })?;
    Ok((files, end))
}

/// What went wrong with the looks, in words.
#[must_use]
pub fn faults(end: &WatchEnd) -> Vec<String> {
    let mut faults = Vec::new();
    for (replica, seen) in end.replicas.iter().enumerate() {
        if let Some(first) = &seen.first_failure {
            let of = seen.looks + seen.failed;
            faults.push(format!(
                "replica {replica}: {} of {of} looks failed, the first since {first}",
                seen.failed
            ));
        }
        if seen.restarts > 0 {
            faults
                .push(format!("replica {replica} was started again {} times during the run", seen.restarts));
        }
    }
    faults
}
