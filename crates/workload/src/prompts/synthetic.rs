//! Prompts of `multi_lora`: a system prompt of the task, then text that the request alone has.

use super::{Place, Said};
use crate::content::{Space, content};
use crate::draw::key;
use crate::spec::{CountLaw, Plan};
use acb_types::{Prompt, Seed, Segment, TaskId};

/// Makes prompts from a length law.
pub(crate) struct Synthetic {
    lengths: CountLaw,
    shared_fraction: f64,
    seed: Seed,
}

impl Synthetic {
    pub fn new(plan: &Plan, seed: Seed) -> Self {
        Self {
            lengths: plan.prompt_tokens,
            shared_fraction: plan.shared_fraction,
            seed: seed.child("prompts"),
        }
    }

    pub fn at(&self, place: Place) -> Said {
        let own = key(place.start, place.turn);
        let tokens = self.lengths.draw(self.seed, own);
        let prompt = split(place.task, tokens, self.shared_fraction, own);
        Said { document: None, prompt, max_output: None, recorded_output: None }
    }
}

/// A prompt of so many tokens, of which a fraction is the task's and the rest the request's own.
pub(super) fn split(task: TaskId, tokens: u32, shared_fraction: f64, own: u64) -> Prompt {
    let shared = (f64::from(tokens) * shared_fraction).round() as u32;
    Prompt::new([
        Segment { content: content(Space::Instruction, u64::from(task.0)), tokens: shared },
        Segment { content: content(Space::Unique, own), tokens: tokens - shared },
    ])
}
