//! Retraction (`ScheduleBatch.retract_decode`): running requests lose their memory so that the others can go on.

use super::Replica;
use crate::jobs::{JobKey, Stage};
use crate::replica::Engine;
use std::cmp::Reverse;

/// Decode steps that each request which stays is given memory for (`SGLANG_RETRACT_DECODE_STEPS`).
const STEPS_AHEAD: u64 = 20;

impl Replica {
    /// Takes memory from those with the fewest tokens written, then the longest prompt, then the last in the batch, until
    /// the rest can decode. They go to the end of the queue; what of their prompts is in the tree stays there.
    pub(super) fn retract(&mut self, engine: &mut Engine<'_>) {
        // The check that failed has given up what it could.
        self.memory.make_free(self.needed_to_decode());
        let written = |key: JobKey| {
            let job = &engine.jobs[key];
            u64::from(job.produced) + self.decodes - job.joined
        };
        let mut kept: Vec<(Reverse<u64>, u32, usize)> = (0..)
            .zip(&self.running)
            .map(|(at, &key)| (Reverse(written(key)), engine.jobs[key].request.prompt.tokens(), at))
            .collect();
        kept.sort_unstable();
        let batch = self.running.clone();
        while let Some((.., at)) = kept.pop() {
            self.retract_one(engine, batch[at], kept.len() as u64);
            if kept.is_empty() || self.has_memory_to_decode() {
                break;
            }
            self.memory.make_free(self.needed_to_decode());
        }
        self.full = false;
        self.estimate_ratio(engine);
    }

    fn retract_one(&mut self, engine: &mut Engine<'_>, key: JobKey, left: u64) {
        self.leave_company(engine, key);
        let job = &mut engine.jobs[key];
        self.memory.release(job, job.computed);
        self.memory.make_free(left * STEPS_AHEAD);
        job.computed = 0;
        job.preemptions += 1;
        job.stage = Stage::Waiting;
        job.shared.waits_since = self.now;
        self.counters.preemptions += 1;
        self.running.retain(|&k| k != key);
        self.queue.push_back_again(engine.jobs, key);
    }

    fn estimate_ratio(&mut self, engine: &Engine<'_>) {
        let (mut written, mut allowed) = (0, 0);
        for &key in &self.running {
            let job = &engine.jobs[key];
            written += u64::from(job.produced) + self.decodes - job.joined;
            allowed += u64::from(job.request.max_output_tokens);
        }
        self.ratio.estimate(self.running.len() as u64, written, allowed);
    }
}
