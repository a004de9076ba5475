//! One replica of the engine model in real or scaled time.
//!
//! A task advances the replica when something is due; requests are submitted at the time that they come. Whoever waits for
//! a request's tokens gets them as they are computed.

use crate::clock::Alarm;
use crate::dialect::Dialect;
use crate::metrics::{Ended, Meters, Shown, Track};
use crate::roster::{Roster, SPARE_PLACES};
use crate::tokens::Answers;
use acb_sim::{Cluster, ClusterSpec, Refusal, Served, StepEvent, Stepped, Submission};
use acb_types::{AdapterId, Nanos, ReplicaId, RequestId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Who waits for a request's events, and how its answer ends.
#[derive(Debug)]
struct Listener {
    events: UnboundedSender<StepEvent>,
    ended: Ended,
}

/// The engine and all that changes with it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) stepped: Stepped,
    pub(crate) meters: Meters,
    pub(crate) roster: Roster,
    pub(crate) answers: Answers,
    listeners: BTreeMap<RequestId, Listener>,
    events: Vec<StepEvent>,
    submitted: u64,
}

/// A replica and the clock that it runs by.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) spec: ClusterSpec,
    pub(crate) alarm: Arc<Alarm>,
    /// Engine time in a unit of real time.
    scale: f64,
    replica: ReplicaId,
    state: Mutex<State>,
    changed: Notify,
}

/// A request to submit.
pub(crate) struct Order {
    pub(crate) submission: Submission,
    pub(crate) ended: Ended,
    pub(crate) streamed: &'static str,
}

impl Engine {
    /// An idle replica.
    pub(crate) fn new(
        (cluster, spec): (&Cluster, &ClusterSpec),
        replica: ReplicaId,
        roster: Roster,
        (model, scale): (&str, f64),
        alarm: Arc<Alarm>,
    ) -> Self {
        let created_s = alarm.clock().origin_unix_ns() as f64 * 1e-9;
        let state = State {
            stepped: Stepped::new(cluster, replica),
            meters: Meters::new(Dialect::of(spec), (model, spec), scale, created_s),
            roster,
            answers: Answers::default(),
            listeners: BTreeMap::new(),
            events: Vec::new(),
            submitted: 0,
        };
        let state = Mutex::new(state);
        Self { spec: spec.clone(), alarm, scale, replica, state, changed: Notify::new() }
    }

    /// Engine time.
    pub(crate) fn now(&self) -> Nanos {
        Nanos((self.alarm.clock().now().0 as f64 * self.scale) as u64)
    }

    /// When the engine's clock has reached `at`, in real time.
    fn real(&self, at: Nanos) -> Nanos {
        Nanos((at.0 as f64 / self.scale).ceil() as u64)
    }

    /// The state, for a moment: nobody waits while holding it.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for the next request: unique over the replicas of a process.
    pub(crate) fn next_id(&self, state: &mut State) -> RequestId {
        state.submitted += 1;
        RequestId(u64::from(self.replica.0) << 40 | state.submitted)
    }

    /// Submits a request now; its events come through the receiver.
    ///
    /// # Errors
    /// When the engine refuses it.
    pub(crate) fn submit(
        &self,
        state: &mut State,
        order: Order,
    ) -> Result<UnboundedReceiver<StepEvent>, Refusal> {
        let now = self.now();
        let (id, adapter) = (order.submission.request.id, order.submission.adapter);
        let track = Track {
            adapter,
            prompt_tokens: order.submission.request.prompt.tokens(),
            max_tokens: order.submission.request.max_output_tokens,
            streamed: order.streamed,
            submitted: now,
            admitted: None,
            hit_tokens: 0,
            last_token: None,
        };
        let mut events = std::mem::take(&mut state.events);
        let taken = state.stepped.submit(now, order.submission, &mut events);
        state.events = events;
        taken?;
        let (sender, receiver) = unbounded_channel();
        state.meters.tracks.insert(id, track);
        state.listeners.insert(id, Listener { events: sender, ended: order.ended });
        self.tell(state);
        self.changed.notify_one();
        Ok(receiver)
    }

    /// A client went away.
    pub(crate) fn cancel(&self, request: RequestId) -> Option<Served> {
        let state = &mut *self.state();
        let mut events = std::mem::take(&mut state.events);
        let served = state.stepped.cancel(self.now(), request, &mut events);
        state.events = events;
        if let Some(served) = &served {
            state.meters.finished(request, served, Ended::Abort);
            state.listeners.remove(&request);
        }
        self.tell(state);
        self.changed.notify_one();
        served
    }

    /// Advances the replica whenever something is due, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let next = self.state().stepped.next_event();
            match next {
                Some(at) => {
                    tokio::select! {
                        () = self.alarm.sleep_until(self.real(at)) => {}
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
            self.catch_up(&mut self.state());
        }
    }

    /// Lets everything happen that is due.
    pub(crate) fn catch_up(&self, state: &mut State) {
        let mut events = std::mem::take(&mut state.events);
        state.stepped.advance(self.now(), &mut events);
        state.events = events;
        self.tell(state);
    }

    /// Hands events to meters and to who waits for them.
    fn tell(&self, state: &mut State) {
        let mut events = std::mem::take(&mut state.events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            let request = match event {
                StepEvent::Admitted { request, .. }
                | StepEvent::Token { request, .. }
                | StepEvent::Finished { request, .. } => request,
            };
            let Some(listener) = state.listeners.get(&request) else { continue };
            state.meters.note(&event, listener.ended);
            // Whoever stopped listening cancels by itself.
            let _ = listener.events.send(event);
            if matches!(event, StepEvent::Finished { .. }) {
                state.listeners.remove(&request);
            }
        }
        state.events = events;
        if any {
            self.note_activity(state);
        }
    }

    fn note_activity(&self, state: &mut State) {
        let mut adapters: Vec<AdapterId> =
            state.meters.tracks.values().filter_map(|track| track.adapter).collect();
        adapters.sort_unstable();
        adapters.dedup();
        let names: Vec<&str> =
            adapters.iter().filter_map(|&a| state.roster.identity(a)).map(|(name, _)| name).collect();
        let clock = self.alarm.clock();
        let unix_s = (clock.origin_unix_ns() + clock.now().0) as f64 * 1e-9;
        state.meters.note_activity(&names, unix_s);
    }

    /// The text of `/metrics` now.
    pub(crate) fn metrics(&self) -> String {
        let state = &mut *self.state();
        self.catch_up(state);
        self.note_activity(state);
        let row = state.stepped.row();
        let total = row.kv_total_bytes.unwrap_or(0).max(1) as f64;
        let blocks = self.spec.kv_blocks().unwrap_or(0) as f64;
        let shown = Shown {
            running: f64::from(row.running.unwrap_or(0)),
            waiting: f64::from(row.queued.unwrap_or(0)),
            usage: row.kv_active_bytes.unwrap_or(0) as f64 / total,
            total_tokens: blocks * f64::from(self.spec.block_tokens()),
            row: &row,
        };
        state.meters.render(&shown)
    }
}

/// The catalogue's entry for a place that is empty at start.
pub(crate) fn spare_name(place: u32) -> String {
    assert!(place < SPARE_PLACES, "there are so many spare places");
    format!("spare-{place}")
}
