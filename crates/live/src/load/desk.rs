//! The one place that knows source, router and requests in flight: decides what is sent now, and is told what happened.
//!
//! Everything happens under one lock, with the time read inside it: the router's log is in the order of its times, so that
//! a replay sees what the router saw.

use crate::Clock;
use crate::check::Held;
use crate::pacer::{Bell, Step};
use acb_routing::{Decision, Router, RouterEvent};
use acb_types::{Nanos, Request, RequestId, Truth};
use acb_workload::RequestSource;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bounds of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Requests due from here on are not sent.
    pub end: Nanos,
    /// Requests in all.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: Option<u32>,
}

/// A request with its decision, to be sent now.
#[derive(Debug)]
pub(crate) struct Dispatched {
    pub request: Request,
    pub truth: Truth,
    pub decision: Decision,
    pub at: Nanos,
    pub held: Held,
}

/// Source, router and bounds.
pub(crate) struct Desk<S> {
    state: Mutex<State<S>>,
    pub clock: Clock,
    pub bell: Bell,
    stop: AtomicBool,
}

struct State<S> {
    source: S,
    router: Router,
    bounds: Bounds,
    in_flight: u32,
    peak: u32,
    taken: u64,
    never_sent: u64,
    closed: bool,
    /// The last time at which a full house lost a request: what was due before it has waited.
    full_until: Option<Nanos>,
    /// When the pacer looks again by itself.
    planned: Option<Nanos>,
}

/// What a desk gives back in the end.
pub(crate) struct Cleared<S> {
    pub source: S,
    pub taken: u64,
    pub never_sent: u64,
    pub peak: u32,
}

impl<S: RequestSource> Desk<S> {
    pub fn new(clock: Clock, source: S, router: Router, bounds: Bounds) -> Self {
        let state = State {
            source,
            router,
            bounds,
            in_flight: 0,
            peak: 0,
            taken: 0,
            never_sent: 0,
            closed: false,
            full_until: None,
            planned: None,
        };
        Self { state: Mutex::new(state), clock, bell: Bell::default(), stop: AtomicBool::new(false) }
    }

    /// What the pacer does next.
    pub fn step(&self) -> Step<Dispatched> {
        let mut state = self.lock();
        let step = state.step(self);
        state.planned = match step {
            Step::Until(at) => Some(at),
            Step::Wait => None,
            Step::Send(_) | Step::Done => Some(Nanos::ZERO),
        };
        step
    }

    /// The first token of a request came.
    pub fn first_token(&self, request: RequestId) {
        let mut state = self.lock();
        let at = self.clock.now();
        state.router.apply(&RouterEvent::FirstToken { at, request });
    }

    /// A server was scraped.
    pub fn scraped(&self, event: &RouterEvent) {
        self.lock().router.apply(event);
    }

    /// A request ended, at `ended` for its client; what is due now and can be sent in its place.
    pub fn ended(&self, request: RequestId, ended: Nanos) -> Option<Dispatched> {
        let mut state = self.lock();
        let at = self.clock.now();
        state.router.apply(&RouterEvent::Finished { at, request });
        if state.bounds.in_flight == Some(state.in_flight) {
            state.full_until = Some(at);
        }
        state.in_flight -= 1;
        state.source.ended(request, ended);
        let step = state.step(self);
        let earlier = match step {
            Step::Send(_) => false,
            Step::Until(due) => state.planned.is_none_or(|planned| due < planned),
            Step::Wait => false,
            Step::Done => true,
        };
        drop(state);
        if earlier {
            self.bell.ring();
        }
        match step {
            Step::Send(next) => Some(next),
            _ => None,
        }
    }

    /// Sends nothing more.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Whether it was stopped before its end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The source again, and what was done with it.
    pub fn clear(self) -> Cleared<S> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let State { source, taken, never_sent, peak, .. } = state;
        Cleared { source, taken, never_sent, peak }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().expect("a policy or a source panicked")
    }
}

impl<S: RequestSource> State<S> {
    fn step(&mut self, desk: &Desk<S>) -> Step<Dispatched> {
        let now = desk.clock.now();
        let end = self.bounds.end;
        let full = self.bounds.in_flight == Some(self.in_flight);
        self.closed |= desk.stopped() || self.taken >= self.bounds.requests;
        if self.closed {
            return Step::Done;
        }
        // A bell rings before the end of time.
        let until_end = if end < Nanos::MAX { Step::Until(end) } else { Step::Wait };
        match self.source.next_due().filter(|due| *due < end) {
            None if self.in_flight == 0 || now >= end => self.close(),
            // An answer may still bring a turn that is due before the end.
            None => until_end,
            Some(due) if due > now => Step::Until(due),
            Some(_) if full && now >= end => self.give_up(),
            Some(_) if full => until_end,
            // Also after the end: what was due before it and is only late is sent.
            Some(_) => self.take(now),
        }
    }

    /// What was due before the end and had no place until then is not sent any more, and counted.
    fn give_up(&mut self) -> Step<Dispatched> {
        while self.source.next_due().is_some_and(|due| due < self.bounds.end) && self.source.take().is_some()
        {
            self.never_sent += 1;
        }
        self.close()
    }

    fn close(&mut self) -> Step<Dispatched> {
        self.closed = true;
        Step::Done
    }

    fn take(&mut self, now: Nanos) -> Step<Dispatched> {
        // A source that announced a request and has none is at fault, and says so itself.
        let Some(arrival) = self.source.take() else { return self.close() };
        let decision = self.router.dispatch(now, &arrival.request);
        self.taken += 1;
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        let waited = self.full_until.is_some_and(|until| arrival.request.due < until);
        Step::Send(Dispatched {
            request: arrival.request,
            truth: arrival.truth,
            decision,
            at: now,
            held: if waited { Held::Yes } else { Held::No },
        })
    }
}
