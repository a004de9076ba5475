//! Progress with an estimate of the time left, on stderr: a bar on a terminal, else a line now and then.

use crate::clock::Stopwatch;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Least time between two lines.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// How far a sweep is, as its user sees it.
pub struct Progress {
    started: Stopwatch,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
}

impl Progress {
    /// Nothing of so many runs is done.
    #[must_use]
    pub fn of_runs(count: u64) -> Self {
        let shown = match std::io::stderr().is_terminal() {
            true => Shown::Bar(bar(count)),
            false => Shown::Lines(Mutex::new(Lines { count, done: 0, said: Duration::ZERO })),
        };
        Self { started: Stopwatch::start(), shown }
    }

    /// One more is done.
    ///
    /// # Panics
    /// When another worker panicked here.
    pub fn one_done(&self) {
        match &self.shown {
            Shown::Bar(bar) => bar.inc(1),
            Shown::Lines(lines) => {
                let line = lines.lock().expect("a worker panicked").one_done(self.started.elapsed());
                if let Some(line) = line {
                    // Nobody is there to be told that stderr is closed.
                    let _ = writeln!(std::io::stderr().lock(), "{line}");
                }
            }
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} elapsed, {eta} left");
    ProgressBar::new(count).with_style(style.expect("the template is valid"))
}

/// What was said in lines, and when last.
struct Lines {
    count: u64,
    done: u64,
    said: Duration,
}

impl Lines {
    /// One more is done after this time; the line that is due. The time left is what the runs so far took, for each that
    /// is left.
    fn one_done(&mut self, elapsed: Duration) -> Option<String> {
        self.done += 1;
        if elapsed < self.said + BETWEEN_LINES {
            return None;
        }
        self.said = elapsed;
        let (done, count) = (self.done, self.count);
        let left = elapsed.mul_f64(count.saturating_sub(done) as f64 / done as f64);
        let (elapsed, left) = (HumanDuration(elapsed), HumanDuration(left));
        Some(format!("{done}/{count} runs  {elapsed:#} elapsed, {left:#} left"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_five_seconds_and_says_what_is_left_at_the_pace_so_far() {
        let mut lines = Lines { count: 1000, done: 0, said: Duration::ZERO };
        let at = Duration::from_millis;
        assert_eq!(lines.one_done(at(4_999)), None);
        // 2 runs in 5 s leave 998 runs of 2.5 s.
        assert_eq!(lines.one_done(at(5_000)).as_deref(), Some("2/1000 runs  5s elapsed, 42m left"));
        assert_eq!(lines.one_done(at(9_000)), None);
        // 4 runs in 10 s: 996 * 2.5 s = 2490 s.
        assert_eq!(lines.one_done(at(10_000)).as_deref(), Some("4/1000 runs  10s elapsed, 42m left"));
    }
}
