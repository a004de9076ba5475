//! Progress with an estimate of the time left, on stderr, silent when that is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar over this many cells.
#[must_use]
pub fn cells(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} elapsed, {eta} left");
    bar.with_style(style.expect("the template is valid"))
}
