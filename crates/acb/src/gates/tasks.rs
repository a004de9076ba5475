//! *answerable tasks*: every question's answer follows from its prompt, and the scorers reward nothing else.

use super::{Verdict, pass, refuse};
use crate::experiment::{Experiment, SetUpError};
use acb_tasks::{answerability, scorer_self_test};
use acb_workload::{RequestSource, sample_of};

const GATE: &str = "answerable-tasks";

/// Prompts per level that are written out and answered from their own text.
const SAMPLE: u64 = 64;

pub(super) fn verdict(experiment: &Experiment) -> Result<Verdict, SetUpError> {
    let failures = scorer_self_test();
    if let Some(first) = failures.first() {
        let (family, case) = (first.family.name(), first.case);
        return Ok(refuse(
            GATE,
            format!(
                "the {family} scorer gives {} for a {case} answer and must give {}",
                first.got, first.wanted
            ),
            "use another version of this program; this one scores wrongly",
        ));
    }
    let (mut read, mut unanswerable) = (0, Vec::new());
    for level in &experiment.levels {
        let mut source = level.workload_of(experiment.blocks[0], SAMPLE)?;
        while let Some(arrival) = source.take() {
            match sample_of(&arrival.request) {
                Some(Ok(sample)) if answerability(&sample).answerable => read += 1,
                Some(Ok(sample)) => unanswerable.push(sample.question),
                Some(Err(error)) => unanswerable.push(error.to_string()),
                None => {}
            }
            source.ended(arrival.request.id, arrival.request.due);
        }
    }
    Ok(match (unanswerable.first(), read) {
        (Some(first), _) => refuse(
            GATE,
            format!(
                "{} of {} sampled questions can't be answered from their prompts: {first}",
                unanswerable.len(),
                read + unanswerable.len()
            ),
            "lengthen workload.document_tokens, so that the document states what is asked",
        ),
        (None, 0) => pass(
            GATE,
            "nothing to check: this workload's prompts are lengths without text; scorers pass their self-test",
        ),
        (None, read) => pass(
            GATE,
            format!("{read} sampled questions answered from their prompts; scorers pass their self-test"),
        ),
    })
}
