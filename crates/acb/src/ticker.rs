//! How a live run goes, on stderr: a bar on a terminal, else a line now and then.

use acb_live::load::Progress;
use acb_types::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Seconds between two lines where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Tells how a live run goes: a bar on a terminal, else a line every five seconds.
pub struct Ticker {
    bar: Option<ProgressBar>,
    next_line: Duration,
    before: (Duration, Progress),
}

impl Ticker {
    /// A ticker of a run that sends for this long, if that is known.
    #[must_use]
    pub fn start(duration: Option<Nanos>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, form) = match duration {
                Some(time) => (ProgressBar::new(time.0 / 1_000_000), "{bar:30} {elapsed} {msg}"),
                None => (ProgressBar::new_spinner(), "{spinner} {elapsed} {msg}"),
            };
            bar.with_style(ProgressStyle::with_template(form).expect("the template is valid"))
        });
        Self { bar, next_line: LINE_EVERY, before: (Duration::ZERO, Progress::default()) }
    }

    /// Takes in how far the run is.
    pub fn tick(&mut self, elapsed: Duration, now: Progress) {
        let flying = now.sent - now.ended.min(now.sent);
        let failed = now.ended - now.ok.min(now.ended);
        if let Some(bar) = &self.bar {
            bar.set_position(elapsed.as_millis() as u64);
            bar.set_message(format!("{} sent, {flying} in flight, {} ok, {failed} failed", now.sent, now.ok));
        }
        if elapsed < self.next_line {
            return;
        }
        let (since, last) = self.before;
        let seconds = (elapsed - since).as_secs_f64();
        let (rate, tokens) =
            ((now.sent - last.sent) as f64 / seconds, (now.tokens - last.tokens) as f64 / seconds);
        if self.bar.is_none() {
            crate::commands::say(&format!(
                "{:>5.0} s  {} sent ({rate:.1}/s), {flying} in flight, {} ok, {failed} failed, {tokens:.0} tokens/s",
                elapsed.as_secs_f64(),
                now.sent,
                now.ok
            ));
        }
        self.next_line = elapsed + LINE_EVERY;
        self.before = (elapsed, now);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
