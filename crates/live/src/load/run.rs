//! The course of a run: threads, the pacer's beat, one task per request in flight, and the end.

use super::desk::{Bounds, Cleared, Desk, Dispatched};
use super::{Bodies, Limits, Load, Phase, Retries, Served, Sink};
use crate::check::{Host, HostFacts, RoomError, RunCheck, Sends, Thresholds, make_room};
use crate::cpu::thread_cpu;
use crate::pacer::pace;
use crate::recorder::{Pen, Recorder, Written};
use crate::{Call, Client, ClientError, Clock, ConnectFault, Ending, Observation, Text};
use acb_routing::{Information, RouterEvent, RoutingRow};
use acb_types::Nanos;
use acb_workload::RequestSource;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::http::uri::PathAndQuery;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot, watch};

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// As many targets as replicas are needed.
    #[error("the router has {replicas} replicas and there are {targets} servers; give one URL for each")]
    Targets {
        /// Replicas that the router knows.
        replicas: usize,
        /// Servers given.
        targets: usize,
    },
    /// The policy sees what no real server shows.
    #[error("policy {policy} sees {information}, which a live run can't give it; choose another policy")]
    Information {
        /// The policy.
        policy: &'static str,
        /// What it is declared to see.
        information: Information,
    },
    /// The policy looks at servers and nobody scrapes them.
    #[error(
        "policy {policy} looks at server state ({information}) and no server is scraped; give scrapes or choose another policy"
    )]
    NoScrapes {
        /// The policy.
        policy: &'static str,
        /// What it is declared to see.
        information: Information,
    },
    /// So many connections are not allowed.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// A client can't be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system gives no thread or no event loop.
    #[error("the system gives no thread for the load generator: {0}; free some and run again")]
    System(io::Error),
}

/// What a run leaves.
pub struct LoadEnd<S, K> {
    /// The source, with what it knows of itself.
    pub source: S,
    /// The sink, with every row that could be written.
    pub sink: K,
    /// The client's check of itself.
    pub check: RunCheck,
    /// Requests sent; every one has ended.
    pub sent: u64,
}

/// A hand on a run from another thread.
#[derive(Clone, Default)]
pub struct Control(Arc<Wires>);

#[derive(Default)]
struct Wires {
    stop: AtomicBool,
    stopper: Mutex<Option<Box<dyn Fn() + Send>>>,
    sent: AtomicU64,
    ended: AtomicU64,
    ok: AtomicU64,
    tokens: AtomicU64,
    clock: watch::Sender<Option<Clock>>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Requests ended, well or badly.
    pub ended: u64,
    /// Requests ended well.
    pub ok: u64,
    /// Tokens received.
    pub tokens: u64,
}

impl Control {
    /// Sends nothing more; what is in flight has the grace to end.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        if let Some(stopper) = &*self.0.stopper.lock().unwrap_or_else(PoisonError::into_inner) {
            stopper();
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let wires = &self.0;
        Progress {
            sent: read(&wires.sent),
            ended: read(&wires.ended),
            ok: read(&wires.ok),
            tokens: read(&wires.tokens),
        }
    }

    /// Waits for the run's start and gives its clock, for whoever watches servers beside it.
    ///
    /// # Panics
    /// Never: this hand holds the other end.
    pub async fn started(&self) -> Clock {
        let mut clock = self.0.clock.subscribe();
        let started = clock.wait_for(Option::is_some).await.ok().and_then(|clock| *clock);
        started.expect("the sender lives in this hand")
    }

    fn connect(&self, stopper: impl Fn() + Send + 'static) {
        *self.0.stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(stopper));
        if self.0.stop.load(Ordering::SeqCst) {
            self.stop();
        }
    }

    fn disconnect(&self) {
        *self.0.stopper.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A row on its way to the sink.
enum Row {
    Served(Box<Served>),
    Routed(Box<RoutingRow>),
}

/// The sink with the accounts that the check needs.
struct Book<K> {
    sink: K,
    sends: Sends,
    refused: u64,
}

/// What every task of a run shares.
struct Shared<S> {
    desk: Desk<S>,
    clients: Vec<Client>,
    bodies: Bodies,
    limits: Limits,
    retries: Retries,
    text: Text,
    pen: Pen<Row>,
    cancel: watch::Receiver<bool>,
    control: Control,
}

/// Sends the load and waits for its end. Blocks; the run's zero is the call.
///
/// # Errors
/// When it can't start. Whatever servers do is recorded and no error.
pub fn run<S, K>(load: Load<S>, sink: K, control: &Control) -> Result<LoadEnd<S, K>, LoadError>
where
    S: RequestSource + Send + 'static,
    K: Sink,
{
    check(&load)?;
    let threads = load.threads.max(1);
    let cpu = Arc::new(AtomicU64::new(0));
    let runtime = runtime(threads, &cpu).map_err(LoadError::System)?;
    let thresholds = load.thresholds;
    let book = Book { sink, sends: Sends::new(load.law.clone()), refused: 0 };
    let recorder = Recorder::start(book, keep).map_err(LoadError::System)?;
    let clock = Clock::start();
    control.0.clock.send_replace(Some(clock));
    let host = Host::start(&clock);
    let (cancel, cancelled) = watch::channel(false);
    let max_in_flight = load.limits.max_in_flight;
    let (shared, scrapes) = share(load, clock, recorder.pen(), (cancelled, control.clone()))?;
    let stopping = Arc::downgrade(&shared);
    control.connect(move || {
        if let Some(shared) = stopping.upgrade() {
            shared.desk.stop();
        }
    });
    let before = thread_cpu();
    let pacer_cpu = runtime.block_on(course(&shared, scrapes, cancel)).map_err(LoadError::System)?;
    let on_this_thread = if threads == 1 { thread_cpu().since(before) } else { Nanos::ZERO };
    control.disconnect();
    drop(runtime);
    let mut facts = HostFacts { threads, pacer_cpu_ns: pacer_cpu, max_in_flight, ..HostFacts::default() };
    host.finish(&clock, &mut facts);
    facts.cpu_ns = on_this_thread + Nanos(cpu.load(Ordering::SeqCst));
    facts.stopped = shared.desk.stopped();
    let shared = Arc::into_inner(shared).expect("every task has ended with the runtime");
    let Shared { desk, pen, .. } = shared;
    let Cleared { source, taken, never_sent, peak } = desk.clear();
    drop(pen);
    facts.peak_in_flight = peak;
    facts.never_sent = never_sent;
    Ok(conclude(source, taken, recorder.finish(), facts, &thresholds))
}

fn conclude<S, K>(
    source: S,
    taken: u64,
    written: Written<Book<K>>,
    mut facts: HostFacts,
    thresholds: &Thresholds,
) -> LoadEnd<S, K> {
    let Written { sink: Book { sink, sends, refused }, error, lost, waits, cpu } = written;
    facts.recorder_cpu_ns = cpu;
    facts.recorder_waits = waits;
    facts.rows_lost = lost;
    facts.record_error = error.map(|error| error.to_string());
    facts.descriptors_refused = refused;
    let seen = sends.facts();
    let recorded = facts.record_error.is_none();
    assert!(!recorded || seen.sends == taken, "{taken} requests were sent and {} ended", seen.sends);
    LoadEnd { source, sink, check: RunCheck::judge(seen, facts, thresholds), sent: taken }
}

fn check<S>(load: &Load<S>) -> Result<(), LoadError> {
    let (replicas, targets) = (load.router.state().replicas.len(), load.targets.len());
    if replicas != targets {
        return Err(LoadError::Targets { replicas, targets });
    }
    let (policy, information) = (load.router.policy_name(), load.router.information());
    match information {
        Information::TrueState | Information::Truth => Err(LoadError::Information { policy, information }),
        Information::Scraped { .. } if load.scrapes.is_none() => {
            Err(LoadError::NoScrapes { policy, information })
        }
        _ => Ok(make_room(load.limits.max_in_flight.unwrap_or(0))?),
    }
}

fn runtime(threads: u32, cpu: &Arc<AtomicU64>) -> io::Result<Runtime> {
    if threads == 1 {
        return Builder::new_current_thread().enable_all().build();
    }
    let sum = Arc::clone(cpu);
    Builder::new_multi_thread()
        .worker_threads(threads as usize)
        .thread_name("acb-load")
        .on_thread_stop(move || {
            sum.fetch_add(thread_cpu().0, Ordering::SeqCst);
        })
        .enable_all()
        .build()
}

type Scrapes = Option<mpsc::UnboundedReceiver<RouterEvent>>;

fn share<S: RequestSource>(
    load: Load<S>,
    clock: Clock,
    pen: Pen<Row>,
    (cancel, control): (watch::Receiver<bool>, Control),
) -> Result<(Arc<Shared<S>>, Scrapes), LoadError> {
    let Load { source, router, targets, client, bodies, limits, retries, text, scrapes, .. } = load;
    let log = pen.clone();
    let router = router.with_log(Box::new(move |row| log.write(Row::Routed(Box::new(row.clone())))));
    let bounds = Bounds {
        end: limits.duration.unwrap_or(Nanos::MAX),
        requests: limits.requests.unwrap_or(u64::MAX),
        in_flight: limits.max_in_flight,
    };
    let clients: Result<Vec<Client>, ClientError> =
        targets.into_iter().map(|target| Client::new(target, client, clock)).collect();
    let desk = Desk::new(clock, source, router, bounds);
    let shared = Shared { desk, clients: clients?, bodies, limits, retries, text, pen, cancel, control };
    Ok((Arc::new(shared), scrapes))
}

/// Everything between the first request and the last answer; the pacer's processor time.
async fn course<S: RequestSource + Send + 'static>(
    shared: &Arc<Shared<S>>,
    scrapes: Scrapes,
    cancel: watch::Sender<bool>,
) -> io::Result<Nanos> {
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let (paced, pacer_done) = oneshot::channel();
    let (at_pacer, runtime) = (Arc::clone(shared), Handle::current());
    let thread = std::thread::Builder::new().name("acb-pacer".to_owned());
    thread.spawn(move || {
        let Desk { clock, bell, .. } = &at_pacer.desk;
        let send = |next: Dispatched| {
            runtime.spawn(serve(Arc::clone(&at_pacer), alive.clone(), next));
        };
        let cpu = pace(clock, bell, || at_pacer.desk.step(), send);
        drop(alive);
        drop(at_pacer);
        // Nobody waits for it when the run has already failed.
        let _ = paced.send(cpu);
    })?;
    let scraping = scrapes.map(|scrapes| tokio::spawn(scrape(Arc::clone(shared), scrapes)));
    let cpu = pacer_done.await.map_err(io::Error::other)?;
    let grace = Duration::from_nanos(shared.limits.grace.0);
    if tokio::time::timeout(grace, all_gone.recv()).await.is_err() {
        // The receivers are in the tasks that are still running.
        let _ = cancel.send(true);
        all_gone.recv().await;
    }
    if let Some(scraping) = scraping {
        scraping.abort();
    }
    Ok(cpu)
}

async fn scrape<S: RequestSource>(shared: Arc<Shared<S>>, mut scrapes: mpsc::UnboundedReceiver<RouterEvent>) {
    while let Some(event) = scrapes.recv().await {
        shared.desk.scraped(&event);
    }
}

/// Serves a request, and then whatever is due when it has ended: a closed loop stays on one task.
async fn serve<S: RequestSource>(shared: Arc<Shared<S>>, _alive: mpsc::Sender<()>, first: Dispatched) {
    let mut next = Some(first);
    while let Some(dispatched) = next.take() {
        shared.control.0.sent.fetch_add(1, Ordering::Relaxed);
        let attempts = attempts(&shared, &dispatched).await;
        let Dispatched { request, truth, decision, at, held } = dispatched;
        let ended = attempts.last().map_or(at, |seen| seen.ended_ns);
        if shared.pen.failed() {
            shared.desk.stop();
        }
        next = shared.desk.ended(request.id, ended);
        let phase = if request.due < shared.limits.warmup { Phase::Warmup } else { Phase::Measured };
        let served = Served { request, truth, decision, dispatched_ns: at, held, phase, attempts };
        shared.control.count(&served);
        shared.pen.write(Row::Served(Box::new(served)));
    }
}

impl Control {
    fn count(&self, served: &Served) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
        if served.last().is_ok() {
            self.0.ok.fetch_add(1, Ordering::Relaxed);
        }
        self.0.tokens.fetch_add(u64::from(served.output_tokens()), Ordering::Relaxed);
    }
}

async fn attempts<S: RequestSource>(shared: &Shared<S>, dispatched: &Dispatched) -> Vec<Observation> {
    let mut done = Vec::with_capacity(1);
    loop {
        let seen = exchange(shared, dispatched).await;
        let wait = shared.retries.after(done.len() as u32 + 1, &seen);
        done.push(seen);
        let (Some(wait), false) = (wait, shared.desk.stopped()) else { return done };
        let mut cancel = shared.cancel.clone();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_nanos(wait.0)) => {}
            _ = cancel.wait_for(|cancelled| *cancelled) => return done,
        }
    }
}

async fn exchange<S: RequestSource>(shared: &Shared<S>, dispatched: &Dispatched) -> Observation {
    let Dispatched { request, truth, decision, .. } = dispatched;
    let call = Call {
        path: PathAndQuery::from_static(shared.bodies.api.path()),
        body: Bytes::from(shared.bodies.body(request, truth, *decision)),
        headers: HeaderMap::new(),
        timeout_ns: shared.limits.timeout,
        text: shared.text,
    };
    let mut cancel = shared.cancel.clone();
    let given_up = async {
        let _ = cancel.wait_for(|cancelled| *cancelled).await;
    };
    let client = &shared.clients[decision.replica.index()];
    client.exchange_telling(call, given_up, || shared.desk.first_token(request.id)).await
}

/// Puts a row into the sink and its part into the accounts.
fn keep<K: Sink>(book: &mut Book<K>, row: Row) -> io::Result<()> {
    match row {
        Row::Routed(row) => book.sink.routed(&row),
        Row::Served(served) => {
            book.sends.add(&served.send());
            let full = |seen: &&Observation| {
                matches!(seen.ending, Ending::ConnectError { fault: ConnectFault::TooManyFiles, .. })
            };
            book.refused += served.attempts.iter().filter(full).count() as u64;
            book.sink.served(&served)
        }
    }
}
