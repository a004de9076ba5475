//! The end of a step: tokens come out, complete answers give their memory back.

use super::{Engine, Outputs, Replica};
use crate::jobs::{JobKey, Stage};

/// Kept step lengths beyond which those that nobody needs are forgotten.
const MOST_LENGTHS: usize = 1024;

impl Replica {
    /// Ends the steps in progress. Who ended is in `outputs`, which is appended to.
    pub(crate) fn end(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        let stretch = self.stretch.expect("a step ends once");
        let end = stretch.end();
        self.settle_adapters(engine.rules, end);
        self.stretch = None;
        self.counters.decode_tokens += self.decoding.rows() * stretch.steps;
        self.counters.busy += end - stretch.from;
        self.step += stretch.steps;
        self.now = end;
        self.decoding.note_longest(self.step - 1, stretch.longest());
        self.emit_stepwise(engine, outputs);
        self.drop_given_up(engine, outputs);
        self.collect_complete(engine);
        self.finished.sort_unstable();
        let mut finished = std::mem::take(&mut self.finished);
        for (_, key) in finished.drain(..) {
            self.leave(engine, key);
            outputs.complete.push(key);
        }
        self.finished = finished;
        self.forget_lengths(engine);
        #[cfg(test)]
        self.assert_sound(engine.rules, engine.jobs);
    }

    /// What the requests that were planned one by one computed.
    fn emit_stepwise(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        if self.planned.is_empty() {
            return;
        }
        self.decoding.settle(self.step, &mut self.pool);
        let mut planned = std::mem::take(&mut self.planned);
        for (key, tokens) in planned.drain(..) {
            let job = &mut engine.jobs[key];
            let decodes = job.is_decode();
            let counter =
                if decodes { &mut self.counters.decode_tokens } else { &mut self.counters.prefill_tokens };
            *counter += u64::from(tokens);
            job.computed += tokens;
            if job.computed == job.tokens() && job.stage != Stage::GivenUp {
                self.emit(engine, key, outputs);
            }
        }
        self.planned = planned;
        self.stepwise.retain(|&key| engine.jobs[key].stage != Stage::Decoding);
    }

    /// One token of a request that was planned one by one; it goes on in company.
    fn emit(&mut self, engine: &mut Engine<'_>, key: JobKey, outputs: &mut Outputs) {
        let job = &mut engine.jobs[key];
        if job.first_token.is_none() {
            job.first_token = Some(self.now.floor());
            outputs.first_tokens.push(key);
        } else {
            job.itl_max = job.itl_max.max(self.now - job.last_token);
        }
        job.last_token = self.now;
        job.produced += 1;
        if job.produced == job.answer {
            self.finished.push((job.admission, key));
        } else {
            job.stage = Stage::Decoding;
            self.decoding.join(job, key, self.step);
        }
    }

    /// Those of the company whose answer is complete.
    fn collect_complete(&mut self, engine: &mut Engine<'_>) {
        while self.next_completion(engine) == Some(self.step) {
            let key = self.decoding.pop_completion();
            self.decoding.settle(self.step, &mut self.pool);
            self.finished.push((engine.jobs[key].admission, key));
            self.leave_company(engine, key);
        }
    }

    /// Takes a request out of the company: from now on its own counts are right.
    pub(super) fn leave_company(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        let job = &mut engine.jobs[key];
        let from = job.computed;
        self.decoding.leave(job, self.step, engine.rules.block);
        (job.stage, job.last_token) = (Stage::Stepwise, self.now);
        let to = job.computed;
        self.register(engine.rules, job, (from, to));
    }

    /// A request gives back everything that it holds.
    fn leave(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        let job = &mut engine.jobs[key];
        self.pool.release(&mut job.blocks);
        if let Some(adapter) = job.adapter() {
            self.adapters.release(adapter, self.step.saturating_sub(1));
        }
        let at = self.running.iter().position(|&k| k == key).expect("who leaves was running");
        self.running.remove(at);
        self.stepwise.retain(|&k| k != key);
    }

    /// Those whose clients went away leave before anybody's answer is complete.
    fn drop_given_up(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        for at in 0..self.given_up.len() {
            let key = self.given_up[at];
            self.drop_running(engine, key);
            outputs.dropped.push(key);
        }
        self.given_up.clear();
    }

    /// A running request leaves between two steps without its answer.
    pub(super) fn drop_running(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        if engine.jobs[key].stage == Stage::Decoding {
            self.decoding.settle(self.step, &mut self.pool);
            self.leave_company(engine, key);
        }
        self.leave(engine, key);
    }

    fn forget_lengths(&mut self, engine: &Engine<'_>) {
        if self.decoding.rows() == 0 {
            self.decoding.forget_lengths_before(self.step);
        } else if self.decoding.kept_lengths() > MOST_LENGTHS {
            let company = self.running.iter().map(|&key| &engine.jobs[key]);
            let joined = company.filter(|job| job.stage == Stage::Decoding).map(|job| job.joined);
            self.decoding.forget_lengths_before(joined.min().unwrap_or(self.step));
        }
    }
}
