//! The end of a step: tokens come out, prompts are published, complete answers leave.

use super::plan::note_load;
use super::{Activity, Doing, Replica};
use crate::exact::Stretch;
use crate::jobs::{JobKey, Stage};
use crate::replica::{Engine, Outputs};

/// Kept step lengths beyond which those that nobody needs are forgotten.
const MOST_LENGTHS: usize = 1024;

impl Replica {
    /// Ends what is in progress. Who ended is in `outputs`, which is appended to.
    pub(crate) fn end(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        let Activity { doing, stretch } = self.activity.take().expect("a step ends once");
        self.now = stretch.end();
        match doing {
            Doing::Extend { mixed } => self.end_extend(engine, outputs, (stretch, mixed)),
            Doing::Decode { looking, retracted } => {
                self.count_steps(stretch);
                self.ratio.decay(stretch.steps - u64::from(retracted));
                // Each step but the first was preceded by a pass that is not made here: it would have changed nothing.
                let skipped = if looking { stretch.steps - 1 } else { 0 };
                self.refreshes += if self.refreshing { skipped } else { 0 };
                self.end_decode(engine, stretch);
            }
            Doing::Read { key, adapter, from } => {
                self.counters.busy += stretch.end() - stretch.from;
                if let (Some(lora), Some(rules)) = (&mut self.lora, &engine.rules.sglang().lora) {
                    lora.registry.read(adapter, rules);
                    lora.unused[adapter.index()] = Some(from);
                    lora.loads.stall += stretch.first;
                    let still_waits = lora.registry.waiting().front() == Some(&key);
                    if still_waits && engine.jobs[key].adapter() == Some(adapter) {
                        note_load(&mut engine.jobs[key].adapter_load, from, stretch.first.floor());
                    }
                }
            }
            Doing::Idle => {}
        }
        self.drop_given_up(engine, outputs);
        self.leave_complete(engine, outputs);
        self.forget_lengths(engine);
        #[cfg(test)]
        self.assert_sound(engine);
    }

    fn count_steps(&mut self, stretch: Stretch) {
        self.steps += stretch.steps;
        self.counters.busy += stretch.end() - stretch.from;
    }

    /// Every running request wrote a token per step.
    fn end_decode(&mut self, engine: &mut Engine<'_>, stretch: Stretch) {
        self.counters.decode_tokens += self.decoding.rows() * stretch.steps;
        let first = self.decodes;
        for key in self.fresh.drain(..) {
            let job = &mut engine.jobs[key];
            // The place of one that left may be taken, by a request of any replica.
            let is_here = job.stage == Stage::Decoding && job.decision.replica == self.id;
            if is_here && job.joined == first {
                job.itl_max = job.itl_max.max(stretch.after(1) - job.last_token);
            }
        }
        if self.decoding.rows() > 0 {
            self.decoding.note_longest(first, stretch.after(1) - self.decoded.min(stretch.from));
            if stretch.steps > 1 {
                self.decoding.note_longest(first + stretch.steps - 1, stretch.longest());
            }
        }
        self.decodes += stretch.steps;
        self.decoded = stretch.end();
        self.settle(self.decodes);
        self.collect_complete(engine);
    }

    /// Those of the company whose answer is complete.
    fn collect_complete(&mut self, engine: &mut Engine<'_>) {
        while self.next_completion(engine) == Some(self.decodes) {
            let key = self.decoding.pop_completion();
            self.finished.push((engine.jobs[key].admission, key));
            self.leave_company(engine, key);
        }
    }

    fn end_extend(
        &mut self,
        engine: &mut Engine<'_>,
        outputs: &mut Outputs,
        (stretch, mixed): (Stretch, bool),
    ) {
        self.count_steps(stretch);
        if mixed {
            self.end_decode(engine, stretch);
        }
        let before = self.running.len();
        let mut extending = std::mem::take(&mut self.extending);
        for &(key, tokens) in &extending {
            let job = &mut engine.jobs[key];
            job.computed += tokens;
            self.counters.prefill_tokens += u64::from(tokens);
            if job.stage != Stage::GivenUp && self.chunked != Some(key) {
                self.emit(engine, key, outputs);
            }
        }
        if let Some(key) = self.chunked.filter(|_| extending.iter().any(|&(k, _)| Some(k) == self.chunked)) {
            let job = &mut engine.jobs[key];
            let computed = job.computed;
            self.memory.publish(job, computed);
            self.full = false;
        }
        // The server merges the older batch into an empty or mixed one: the newer requests then come first, and what was
        // noted on the older batch is forgotten.
        if (before == 0 || mixed) && self.running.len() > before {
            self.running.rotate_left(before);
            self.full = false;
        }
        extending.clear();
        self.extending = extending;
    }

    /// The first token after a prompt; the request goes on in company.
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
        job.admission = self.admissions;
        self.admissions += 1;
        if job.produced == job.answer {
            // It leaves before the next of the step is published.
            self.publish_and_leave(engine, key);
            self.full = false;
            outputs.complete.push(key);
            return;
        }
        let computed = job.computed;
        self.memory.publish(job, computed);
        job.stage = Stage::Decoding;
        self.decoding.join(job, key, self.decodes);
        self.remaining.join(job, key, self.decodes);
        self.users.add(job.adapter());
        self.running.push(key);
        self.fresh.push(key);
    }

    /// Takes a request out of the company: from now on its own counts are right.
    pub(super) fn leave_company(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        self.settle(self.decodes);
        let job = &mut engine.jobs[key];
        self.remaining.leave(job, key);
        if self.decodes > job.joined {
            job.last_token = self.decoded;
            job.itl_max = job.itl_max.max(self.decoding.longest_since(job.joined + 1));
        }
        self.decoding.part(job, self.decodes);
        self.users.remove(job.adapter());
        job.stage = Stage::Stepwise;
    }

    /// A request leaves; what it computed stays in the tree.
    fn publish_and_leave(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        let job = &mut engine.jobs[key];
        let computed = job.computed;
        self.memory.publish(job, computed);
        self.memory.release(job, computed);
        self.leave_engine(engine, key);
    }

    /// Complete answers leave in the order of the batch.
    fn leave_complete(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        if self.finished.is_empty() {
            return;
        }
        if self.finished.len() > 1 {
            let running = &self.running;
            self.finished.sort_by_key(|&(_, key)| running.iter().position(|&k| k == key));
        }
        let mut finished = std::mem::take(&mut self.finished);
        for (_, key) in finished.drain(..) {
            self.publish_and_leave(engine, key);
            self.running.retain(|&k| k != key);
            outputs.complete.push(key);
        }
        self.finished = finished;
        self.full = false;
    }

    /// Those whose clients went away leave.
    fn drop_given_up(&mut self, engine: &mut Engine<'_>, outputs: &mut Outputs) {
        for at in 0..self.given_up.len() {
            let key = self.given_up[at];
            self.finished.retain(|&(_, k)| k != key);
            self.drop_running(engine, key);
            outputs.dropped.push(key);
        }
        self.given_up.clear();
    }

    /// A running request leaves between two steps without its answer; what it computed stays in the tree.
    pub(super) fn drop_running(&mut self, engine: &mut Engine<'_>, key: JobKey) {
        if engine.jobs[key].stage == Stage::Decoding {
            self.leave_company(engine, key);
        }
        if self.chunked == Some(key) {
            self.chunked = None;
        }
        self.publish_and_leave(engine, key);
        self.running.retain(|&k| k != key);
        self.full = false;
    }

    fn forget_lengths(&mut self, engine: &Engine<'_>) {
        if self.decoding.rows() == 0 {
            self.decoding.forget_lengths_before(self.decodes);
        } else if self.decoding.kept_lengths() > MOST_LENGTHS {
            let joined = self.running.iter().map(|&key| engine.jobs[key].joined + 1);
            self.decoding.forget_lengths_before(joined.min().unwrap_or(self.decodes));
        }
    }

    /// Panics unless memory adds up.
    #[cfg(test)]
    fn assert_sound(&self, engine: &Engine<'_>) {
        let held = |key: u32| {
            let job = &engine.jobs[key];
            let steps = if job.stage == Stage::Decoding { self.decodes - job.joined } else { 0 };
            u64::from(self.memory.ceil(job.computed + steps as u32) - job.shared.tokens)
        };
        let held: u64 = self.running.iter().chain(&self.chunked).map(|&key| held(key)).sum();
        self.memory.assert_sound(held);
    }
}
