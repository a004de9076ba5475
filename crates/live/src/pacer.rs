//! Sends things when they are due: a thread of its own, absolute times, and a tail shorter than a tick.
//!
//! A timer wheel with 1 ms ticks is 1 ms late every time, and sleeping for gaps adds every lateness to all later sends.
//! Here the thread waits for the absolute time, on a bell that what happened meanwhile can ring, and sleeps the last stretch
//! by the system's clock with a timer slack of 1 ns.

use crate::Clock;
use crate::cpu::thread_cpu;
use acb_types::Nanos;
use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::Timespec;
use std::num::NonZeroU64;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The last stretch of a wait, which a bell does not interrupt: a wait on a bell is about this late at worst.
const TAIL: Nanos = Nanos(100_000);

/// What there is to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// Send this.
    Send(T),
    /// Nothing before this time, unless the bell rings.
    Until(Nanos),
    /// Nothing before the bell rings.
    Wait,
    /// Nothing any more.
    Done,
}

/// Tells a pacer that what there is to do may have changed.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// Wakes the pacer.
    pub fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }

    fn rings(&self) -> u64 {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the bell has rung more than `heard` times, or `at` is near; whether it rang.
    fn wait(&self, heard: u64, clock: &Clock, at: Option<Nanos>) -> bool {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        while *rings == heard {
            rings = match at {
                None => self.rung.wait(rings).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.since(clock.now() + TAIL);
                    if left == Nanos::ZERO {
                        return false;
                    }
                    let waited = self.rung.wait_timeout(rings, Duration::from_nanos(left.0));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }
}

/// Runs on the calling thread until `next` is done, and returns the processor time that it took.
///
/// `next` must not block; `bell` is rung whenever its answer may have become earlier than the one given.
pub(crate) fn pace<T>(
    clock: &Clock,
    bell: &Bell,
    mut next: impl FnMut() -> Step<T>,
    mut send: impl FnMut(T),
) -> Nanos {
    // A kernel that refuses leaves the slack at 50 us, which the check of the run sees as lag.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let before = thread_cpu();
    loop {
        let heard = bell.rings();
        match next() {
            Step::Send(due) => send(due),
            Step::Until(at) => {
                if !bell.wait(heard, clock, Some(at)) {
                    sleep_until(clock, at);
                }
            }
            Step::Wait => {
                bell.wait(heard, clock, None);
            }
            Step::Done => return thread_cpu().since(before),
        }
    }
}

/// Sleeps until `at` on the system's monotonic clock.
pub(crate) fn sleep_until(clock: &Clock, at: Nanos) {
    let system_ns = clock.system_ns(at);
    let until =
        Timespec { tv_sec: (system_ns / 1_000_000_000) as i64, tv_nsec: (system_ns % 1_000_000_000) as _ };
    // A signal ends the sleep early: the absolute time makes another call the rest of the same sleep.
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn nothing_is_sent_before_it_is_due_and_lateness_does_not_add_up() {
        let clock = Clock::start();
        let due: Vec<Nanos> = (1..=40).map(|i| Nanos(i * 2_500_000)).collect();
        let (mut at, mut sent) = (0, Vec::new());
        let next = || match due.get(at) {
            None => Step::Done,
            Some(&when) if when > clock.now() => Step::Until(when),
            Some(&when) => {
                at += 1;
                Step::Send(when)
            }
        };
        let cpu = pace(&clock, &Bell::default(), next, |when| sent.push((when, clock.now())));
        assert_eq!(sent.iter().map(|&(when, _)| when).collect::<Vec<_>>(), due);
        assert!(sent.iter().all(|&(when, now)| now >= when));
        // Sleeps of 2.5 ms with a tick of 1 ms would be 40 ms late at the end. A busy machine may delay single sends.
        let mut late: Vec<u64> = sent.iter().map(|&(when, now)| now.since(when).0).collect();
        late.sort_unstable();
        assert!(late[10] < 20_000_000, "{late:?}");
        assert!(cpu < Nanos::from_secs_f64(1.0), "{cpu}");
    }

    #[test]
    fn a_bell_interrupts_a_long_wait() {
        let clock = Clock::start();
        let (bell, open) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let (ringer, opened) = (Arc::clone(&bell), Arc::clone(&open));
        let ringing = std::thread::spawn(move || {
            opened.store(true, Ordering::SeqCst);
            ringer.ring();
        });
        let next = || match open.load(Ordering::SeqCst) {
            true => Step::Done,
            false => Step::<()>::Until(Nanos::from_secs_f64(3600.0)),
        };
        pace(&clock, &bell, next, |()| ());
        assert!(clock.now() < Nanos::from_secs_f64(3000.0));
        ringing.join().unwrap();
    }
}
