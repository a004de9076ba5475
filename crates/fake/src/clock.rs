//! The one place of this crate where a clock is read, and a timer that is not a millisecond late.

use acb_types::Nanos;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time since a server started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    origin_unix_ns: u64,
}

impl Clock {
    /// A clock that starts at zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the edge where this crate reads the clock")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), origin_unix_ns: since_epoch.as_nanos() as u64 }
    }

    /// Time since the start.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the edge where this crate reads the clock")]
    pub fn now(&self) -> Nanos {
        Nanos(Instant::now().duration_since(self.origin).as_nanos() as u64)
    }

    /// The start on the monotonic clock of this process: what a client in the same process subtracts from its own stamps.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The start as nanoseconds since 1970, by a clock that may step.
    #[must_use]
    pub fn origin_unix_ns(&self) -> u64 {
        self.origin_unix_ns
    }
}

/// Wakes tasks at absolute times from a thread of its own: a condition variable is late by the kernel's timer slack (about
/// 50 us), where the runtime's wheel is late by a millisecond.
#[derive(Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    wakers: BTreeMap<(Nanos, u64), Waker>,
    sequence: u64,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let now = self.clock.now();
            let mut due = Vec::new();
            while let Some(entry) = state.wakers.first_entry().filter(|entry| entry.key().0 <= now) {
                due.push(entry.remove());
            }
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = self.lock();
                continue;
            }
            let next = state.wakers.keys().next().map(|&(at, _)| Duration::from_nanos(at.since(now).0));
            state = match next {
                Some(wait) => {
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Alarm {
    /// A running alarm; its thread ends when it is dropped.
    pub(crate) fn start(clock: Clock) -> std::io::Result<Self> {
        let shared =
            Arc::new(Shared { clock, state: Mutex::new(Sleepers::default()), changed: Condvar::new() });
        let its = shared.clone();
        let thread = std::thread::Builder::new().name("alarm".to_owned()).spawn(move || its.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The clock that it goes by.
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Waits for nothing until it is told when.
    pub(crate) fn sleeper(&self) -> Sleeper {
        Sleeper { shared: self.shared.clone(), due: Nanos::ZERO, place: None }
    }

    /// Ends when it is `due`.
    pub(crate) async fn sleep_until(&self, due: Nanos) {
        let mut sleeper = self.sleeper();
        sleeper.until(due);
        sleeper.await;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// A future that is ready at an absolute time.
#[derive(Debug)]
pub(crate) struct Sleeper {
    shared: Arc<Shared>,
    due: Nanos,
    place: Option<(Nanos, u64)>,
}

impl Sleeper {
    /// From now on it waits until `due`.
    pub(crate) fn until(&mut self, due: Nanos) {
        if due != self.due {
            self.forget();
            self.due = due;
        }
    }

    fn forget(&mut self) {
        if let Some(place) = self.place.take() {
            self.shared.lock().wakers.remove(&place);
        }
    }
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.now() >= self.due {
            self.forget();
            return Poll::Ready(());
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let place = self.place.unwrap_or_else(|| {
            state.sequence += 1;
            (self.due, state.sequence)
        });
        self.place = Some(place);
        state.wakers.insert(place, cx.waker().clone());
        if state.wakers.keys().next() == Some(&place) {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_order_and_never_early() {
        let alarm = Alarm::start(Clock::start()).unwrap();
        let start = alarm.clock().now();
        let wake = async |after_us: u64| {
            let due = start + Nanos(after_us * 1000);
            alarm.sleep_until(due).await;
            let now = alarm.clock().now();
            assert!(now >= due);
            now
        };
        let (late, early, past) = tokio::join!(wake(4000), wake(1500), wake(0));
        assert!(past <= early && early <= late);
    }

    #[tokio::test]
    async fn a_sleeper_that_is_dropped_leaves_nothing_behind() {
        let alarm = Alarm::start(Clock::start()).unwrap();
        let far = alarm.clock().now() + Nanos::from_millis(3_600_000);
        let mut sleeper = Box::pin(alarm.sleep_until(far));
        assert!(std::future::poll_fn(|cx| Poll::Ready(sleeper.as_mut().poll(cx))).await.is_pending());
        assert_eq!(alarm.shared.lock().wakers.len(), 1);
        drop(sleeper);
        assert_eq!(alarm.shared.lock().wakers.len(), 0);
    }
}
