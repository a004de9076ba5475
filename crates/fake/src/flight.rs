//! A request on its way through the engine: its events, its row of the trace, and its end when the client goes away.

use crate::engine::Engine;
use crate::trace::{EngineTruth, Ticket};
use acb_sim::{Served, StepEvent};
use acb_types::RequestId;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;

/// One request. Dropping it before its end takes it out of the engine, as a disconnect does.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: RequestId,
    pub(crate) events: UnboundedReceiver<StepEvent>,
    pub(crate) ticket: Ticket,
    pub(crate) ended: bool,
    /// Prompt tokens found in the cache, once admitted.
    pub(crate) hit_tokens: u32,
}

impl Flight {
    /// What happens next to it; `None` after its end.
    pub(crate) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<StepEvent>> {
        let event = std::task::ready!(self.events.poll_recv(cx));
        if let Some(event) = &event {
            self.note(event);
        }
        Poll::Ready(event)
    }

    /// As [`Self::poll_event`].
    pub(crate) async fn next_event(&mut self) -> Option<StepEvent> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn note(&mut self, event: &StepEvent) {
        match *event {
            StepEvent::Admitted { at, hit_tokens, .. } => {
                self.hit_tokens = hit_tokens.unwrap_or(0);
                self.update(|truth| (truth.admitted_ns, truth.hit_tokens) = (Some(at), hit_tokens));
            }
            StepEvent::Token { at, index, .. } => self.update(|truth| {
                truth.first_token_ns.get_or_insert(at);
                (truth.last_token_ns, truth.output_tokens) = (Some(at), index + 1);
            }),
            StepEvent::Finished { served, .. } => {
                self.ended = true;
                self.served(&served);
            }
        }
    }

    fn served(&self, served: &Served) {
        self.update(|truth| {
            truth.outcome = Some(served.outcome);
            (truth.admitted_ns, truth.hit_tokens) = (served.admitted, served.prefix_hit_tokens);
            (truth.first_token_ns, truth.last_token_ns) = (served.first_token, served.last_token);
            truth.output_tokens = served.output_tokens;
        });
    }

    fn update(&self, change: impl FnOnce(&mut EngineTruth)) {
        self.ticket.update(|row| change(row.engine.get_or_insert_default()));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended
            && let Some(served) = self.engine.cancel(self.request)
        {
            self.served(&served);
        }
    }
}
