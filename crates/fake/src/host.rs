//! A server on a thread and a runtime of its own, so that whoever embeds it neither slows it down nor is slowed down.

use std::future::Future;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A running thread; it ends, with all tasks and connections on it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Hosted {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    /// Runs `serve` until it ends or this is dropped.
    ///
    /// # Errors
    /// When the system refuses a thread or the runtime its resources.
    pub(crate) fn start(
        name: &str,
        serve: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}
