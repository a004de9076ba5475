//! Ctrl-C and termination: a flag that running cells look at between requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag set by SIGINT, SIGTERM and SIGHUP. A second signal ends the process at once.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub fn on_signals() -> Result<Self, ctrlc::Error> {
        let flag = Self::default();
        let set = flag.clone();
        ctrlc::set_handler(move || {
            if set.0.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        })?;
        Ok(flag)
    }

    /// Whether to stop.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
