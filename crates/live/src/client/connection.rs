//! One HTTP connection with the task that keeps it going, driven by the exchange that holds it and by nobody else.
//!
//! A connection in a task of its own would read ahead of the answer's reader, and its stamps with it. Driven here, no piece is read
//! before the one before it was taken, and an idle connection costs no wake-up.

use super::wire::{Stamps, Wire};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Body = Full<Bytes>;

enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// A connection that carries one request at a time.
pub(super) struct Connection {
    sender: Sender,
    /// What reads and writes; `None` when the connection is over.
    driver: Option<Task>,
    /// When its socket was read and written.
    pub stamps: Arc<Stamps>,
}

impl Connection {
    /// Speaks HTTP/1.1 over a wire.
    pub async fn http1(wire: Wire, stamps: Arc<Stamps>) -> hyper::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(wire)).await?;
        let driver = async move {
            // A connection's own error comes back through its request or its answer.
            drop(connection.await);
        };
        Ok(Self { sender: Sender::Http1(sender), driver: Some(Box::pin(driver)), stamps })
    }

    /// Speaks HTTP/2 over a wire, to a server that is known to.
    pub async fn http2(wire: Wire, stamps: Arc<Stamps>) -> hyper::Result<Self> {
        let spawned = Spawned::default();
        let (sender, connection) = http2::handshake(spawned.clone(), TokioIo::new(wire)).await?;
        let connection: Task = Box::pin(async move { drop(connection.await) });
        let driver = Together { tasks: vec![connection], spawned };
        Ok(Self { sender: Sender::Http2(sender), driver: Some(Box::pin(driver)), stamps })
    }

    /// Whether it can take a request: the peer may have closed it meanwhile.
    pub async fn is_usable(&mut self) -> bool {
        let driver = &mut self.driver;
        poll_fn(|cx| {
            poll_driver(driver, cx);
            Poll::Ready(())
        })
        .await;
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Sends a request and waits for the head of its answer. A request that never left comes back in the error.
    pub async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        self.stamps.begin_request();
        match &mut self.sender {
            Sender::Http1(sender) => drive(&mut self.driver, sender.try_send_request(request)).await,
            Sender::Http2(sender) => drive(&mut self.driver, sender.try_send_request(request)).await,
        }
    }

    /// Waits for what only this connection can bring.
    pub async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        drive(&mut self.driver, future).await
    }
}

async fn drive<F: Future>(driver: &mut Option<Task>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        poll_driver(driver, cx);
        future.as_mut().poll(cx)
    })
    .await
}

fn poll_driver(driver: &mut Option<Task>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|task| task.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

/// Tasks that HTTP/2 wants to be run: they are run by the exchange, beside the connection.
#[derive(Clone, Default)]
struct Spawned(Arc<Mutex<Vec<Task>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Spawned {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
    }
}

struct Together {
    tasks: Vec<Task>,
    spawned: Spawned,
}

impl Future for Together {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { tasks, spawned } = &mut *self;
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        loop {
            let fresh = mem::take(&mut *spawned.0.lock().unwrap_or_else(PoisonError::into_inner));
            if fresh.is_empty() {
                break;
            }
            tasks.extend(
                fresh.into_iter().filter_map(|mut task| task.as_mut().poll(cx).is_pending().then_some(task)),
            );
        }
        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}
