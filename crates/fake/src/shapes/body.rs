//! A body that is written as a plan says.

use super::plan::{End, Plan, repeat_every};
use super::server::Freeze;
use crate::clock::{Clock, Sleeper};
use crate::net::Cut;
use crate::trace::Ticket;
use acb_types::Nanos;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One answer's body.
pub(crate) struct PlannedBody {
    pub(crate) plan: Arc<Plan>,
    /// When the request's head was read, or when the server thawed.
    pub(crate) base: Nanos,
    pub(crate) freeze: Option<Freeze>,
    pub(crate) clock: Clock,
    pub(crate) sleeper: Sleeper,
    pub(crate) ticket: Ticket,
    /// Writes made.
    pub(crate) made: usize,
    /// Whether the last write has been given a chance to leave.
    pub(crate) flushed: bool,
}

/// What comes next.
enum Next {
    Write(Bytes, u32),
    End,
    Cut,
}

impl PlannedBody {
    /// What comes next and when; `None`: nothing, ever.
    fn next(&self) -> Option<(Nanos, Next)> {
        let plan = &self.plan;
        let (due, next) = match plan.writes.get(self.made) {
            Some(write) => (write.due, Next::Write(write.bytes.clone(), write.tokens)),
            None => match &plan.end {
                End::At(due) => (*due, Next::End),
                End::Cut(due) => (*due, Next::Cut),
                End::Never => return None,
                End::Repeat(write) => {
                    let times = (self.made - plan.writes.len()) as u64;
                    let due = write.due + Nanos(repeat_every().0 * times);
                    (due, Next::Write(write.bytes.clone(), 0))
                }
            },
        };
        let due = self.base + due;
        Some((self.freeze.map_or(due, |freeze| freeze.thawed(due)), next))
    }
}

impl Body for PlannedBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if !self.flushed {
            // The connection flushes what it has while it waits: without this, writes that are due would become one.
            self.flushed = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some((due, next)) = self.next() else { return Poll::Pending };
        self.sleeper.until(due);
        if Pin::new(&mut self.sleeper).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let now = self.clock.now();
        match next {
            Next::Write(bytes, tokens) => {
                (self.made, self.flushed) = (self.made + 1, false);
                self.ticket.wrote(now, tokens);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Next::End => {
                self.ticket.close(now);
                Poll::Ready(None)
            }
            Next::Cut => {
                self.ticket.close(now);
                Poll::Ready(Some(Err(Cut)))
            }
        }
    }
}
