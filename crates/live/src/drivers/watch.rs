//! The server record of a run: every server looked at in an interval of choice, from before the first request to the drain.

use super::ledger::{Ledger, SeriesLedger, SeriesRow};
use super::{Driver, DriverError, Scrape};
use crate::Clock;
use acb_routing::RouterEvent;
use acb_types::{Adapters, Nanos, ReplicaId, ServerRow, Source};
use serde::Serialize;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

/// Looks that wait to be written. A sink that is behind makes the looks rarer, never the memory larger.
const WAITING: usize = 64;

/// What is watched, and how often.
pub struct Watch {
    /// A driver per replica, in id order.
    pub drivers: Vec<Arc<Driver>>,
    /// The catalogue, for names in a router's view.
    pub adapters: Arc<Adapters>,
    /// The clock of the run.
    pub clock: Clock,
    /// From one look to the next; a look that takes longer skips the next ones.
    pub interval: Duration,
    /// Who routes by what is seen, if anybody.
    pub events: Option<mpsc::UnboundedSender<RouterEvent>>,
}

/// A document of a server, as it came: a line of a file of raw scrapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RawRow<'a> {
    /// When it was asked for.
    pub at_ns: Nanos,
    /// Whose it is.
    pub replica: ReplicaId,
    /// The path that brought it.
    pub path: &'a str,
    /// The document.
    pub body: &'a str,
}

/// Where rows go.
pub trait WatchSink {
    /// A row of `server.jsonl`.
    ///
    /// # Errors
    /// When it can't be written, which ends the watch.
    fn row(&mut self, row: &ServerRow) -> io::Result<()>;

    /// A raw document.
    ///
    /// # Errors
    /// When it can't be written, which ends the watch.
    fn raw(&mut self, row: &RawRow<'_>) -> io::Result<()>;
}

/// What became of the looks at one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaWatch {
    /// Looks that brought something.
    pub looks: u64,
    /// Looks that failed.
    pub failed: u64,
    /// Why the first of these failed.
    pub first_failure: Option<DriverError>,
    /// Looks at which a counter had gone back: the server was restarted before each.
    pub restarts: u64,
}

/// The end of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEnd {
    /// By replica, in id order.
    pub replicas: Vec<ReplicaWatch>,
    /// Every series over the window.
    pub series: Vec<SeriesRow>,
}

/// One look, on its way to the books.
struct Look {
    replica: ReplicaId,
    at: Nanos,
    scrape: Result<Scrape, DriverError>,
}

/// The books of one replica.
#[derive(Default)]
struct Book {
    watch: ReplicaWatch,
    counters: Ledger,
    series: SeriesLedger,
}

impl Watch {
    /// Watches until `drained` is ready, and looks once more then. A look is of the time at which it was asked for: what was
    /// sent since may or may not be in it.
    ///
    /// # Errors
    /// When a row can't be written. A server that doesn't answer is counted and no error.
    pub async fn run(
        self,
        sink: &mut impl WatchSink,
        drained: impl Future<Output = ()>,
    ) -> io::Result<WatchEnd> {
        let (stop, stopped) = watch::channel(false);
        let (send, mut looks) = mpsc::channel(WAITING);
        let mut books: Vec<Book> = self.drivers.iter().map(|_| Book::default()).collect();
        for (replica, driver) in (0..).map(ReplicaId).zip(&self.drivers) {
            let eye = Eye { replica, driver: driver.clone(), clock: self.clock, looks: send.clone() };
            tokio::spawn(eye.watch(self.interval, stopped.clone()));
        }
        drop(send);
        let mut drained = std::pin::pin!(drained);
        let mut open = true;
        loop {
            tokio::select! {
                () = &mut drained, if open => {
                    open = false;
                    // Who has already ended needs no telling.
                    let _ = stop.send(true);
                }
                look = looks.recv() => match look {
                    Some(look) => self.enter(&mut books, look, sink)?,
                    None => break,
                },
            }
        }
        let series =
            books.iter().zip((0..).map(ReplicaId)).flat_map(|(book, id)| book.series.rows(id)).collect();
        Ok(WatchEnd { replicas: books.into_iter().map(|book| book.watch).collect(), series })
    }

    fn enter(&self, books: &mut [Book], look: Look, sink: &mut impl WatchSink) -> io::Result<()> {
        let Look { replica, at, scrape } = look;
        let book = &mut books[replica.index()];
        let scrape = match scrape {
            Ok(scrape) => scrape,
            Err(error) => {
                book.watch.failed += 1;
                book.watch.first_failure.get_or_insert(error);
                return Ok(());
            }
        };
        if let Some(events) = &self.events {
            let snapshot = scrape.state.snapshot(&self.adapters);
            // A run that has ended routes nothing more.
            let _ = events.send(RouterEvent::Scraped { at, replica, snapshot });
        }
        let taken = book.counters.take(scrape.state.counters.clone());
        book.series.take(&scrape.series);
        book.watch.looks += 1;
        book.watch.restarts += u64::from(taken.restarted);
        for document in &scrape.raw {
            sink.raw(&RawRow { at_ns: at, replica, path: document.path, body: &document.body })?;
        }
        let source = if scrape.simulated { Source::Simulated } else { Source::Server };
        sink.row(&scrape.state.row((at, replica), source, taken.since))
    }
}

/// What looks at one server.
struct Eye {
    replica: ReplicaId,
    driver: Arc<Driver>,
    clock: Clock,
    looks: mpsc::Sender<Look>,
}

impl Eye {
    async fn watch(self, interval: Duration, mut stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let last = tokio::select! {
                biased;
                // An error means that nobody is left to be looked for.
                _ = stopped.wait_for(|stopped| *stopped) => true,
                _ = ticks.tick() => false,
            };
            let at = self.clock.now();
            let scrape = self.driver.scrape().await;
            let look = Look { replica: self.replica, at, scrape };
            if self.looks.send(look).await.is_err() || last {
                return;
            }
        }
    }
}
