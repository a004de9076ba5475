//! What a workload will ask of the servers, for the plan.

use super::{Kind, Plan, Sessions, TaskLaw, WorkloadSpec};
use crate::draw::MAX_TURNS;
use crate::jsonl;
use crate::trace::TraceReader;
use acb_tasks::Family;
use acb_types::Seed;

impl WorkloadSpec {
    /// Expected prompt and output tokens per request. Traces and files are read for it (the first `requests` rows);
    /// NaN when they can't be, which [`crate::Workload::new`] reports in full.
    #[must_use]
    pub fn mean_tokens(&self) -> (f64, f64) {
        if !self.check().is_empty() {
            return (f64::NAN, f64::NAN);
        }
        let plan = self.plan();
        let max = plan.max_output_tokens.unwrap_or(u32::MAX);
        let output = plan.output_tokens.map(|law| law.mean_cut_at(max));
        match plan.kind {
            Kind::Trace => {
                let (prompt, recorded) = self.trace_means(max);
                (prompt, output.unwrap_or(recorded))
            }
            Kind::JsonlEval => {
                let (prompt, mean_max) = jsonl::means(self).unwrap_or((f64::NAN, f64::NAN));
                (prompt, output.map_or(mean_max, |output| output.min(mean_max)))
            }
            Kind::MultiLora => (plan.prompt_tokens.mean_cut_at(u32::MAX), output.unwrap_or(f64::NAN)),
            _ => (document_prompt(&plan, output.unwrap_or(f64::NAN)), output.unwrap_or(f64::NAN)),
        }
    }

    fn trace_means(&self, max_output: u32) -> (f64, f64) {
        let Ok(rows) = TraceReader::needed(self.trace.as_ref()) else { return (f64::NAN, f64::NAN) };
        let (mut n, mut input, mut output) = (0.0, 0.0, 0.0);
        for row in rows.take(usize::try_from(self.requests).unwrap_or(usize::MAX)) {
            let Ok(row) = row else { return (f64::NAN, f64::NAN) };
            n += 1.0;
            input += f64::from(row.input_tokens);
            output += f64::from(row.output_tokens.min(max_output));
        }
        (input / n, output / n)
    }
}

/// Document, instruction and question; for growing conversations also what was said before (the context's cut aside).
fn document_prompt(plan: &Plan, output: f64) -> f64 {
    let ask: f64 = shares(&plan.tasks)
        .iter()
        .zip(Family::ALL)
        .map(|(share, family)| share * f64::from(family.instruction_tokens() + family.question_tokens()))
        .sum();
    let document = f64::from(plan.document_tokens);
    let (Kind::AgentSession, Sessions::Turns(law)) = (plan.kind, plan.sessions) else {
        return document + ask;
    };
    let (mut turns, mut earlier) = (0.0, 0.0);
    for key in 0..10_000 {
        let drawn = f64::from(law.draw(Seed(1), key).min(MAX_TURNS));
        turns += drawn;
        earlier += drawn * (drawn - 1.0) / 2.0;
    }
    document + ask + earlier / turns * (ask + output)
}

fn shares(law: &TaskLaw) -> Vec<f64> {
    match law {
        TaskLaw::Steady(law) => law.shares(Family::ALL.len()),
        TaskLaw::Halves(halves) => {
            let [a, b] = halves.each_ref().map(|law| law.shares(Family::ALL.len()));
            a.iter().zip(&b).map(|(x, y)| (x + y) / 2.0).collect()
        }
        TaskLaw::Churn => vec![0.25; Family::ALL.len()],
    }
}
