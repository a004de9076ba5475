//! The scorers' test of themselves, usable as a gate before a run.

use crate::passage::{Part, Passage};
use crate::sample::Fact;
use crate::{Family, Layout, Sample, score};
use acb_types::ContentId;
use serde::Serialize;

const SAMPLES_PER_FAMILY: u64 = 25;
const JUNK: [&str; 8] =
    ["I don't know", "0", "{}", "[]", "null", "yes yes yes", "lorem ipsum\ndolor sit", "```\n```"];

/// A scorer that gave what it must not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// Whose scorer.
    pub family: Family,
    /// What was answered: `gold`, `fenced gold`, `empty`, `junk`, `prompt` or `document`.
    pub case: &'static str,
    /// The answer.
    pub answer: String,
    /// What the scorer gave.
    pub got: f64,
    /// What it must give.
    pub wanted: f64,
}

/// Tries every scorer on generated samples: the right answer, fenced or not, is worth 1; nothing, junk, the copied
/// prompt and the copied document are worth 0. No failure means that the scorers can be used.
#[must_use]
pub fn scorer_self_test() -> Vec<Failure> {
    let mut failures = Vec::new();
    for family in Family::ALL {
        for index in 0..SAMPLES_PER_FAMILY {
            try_sample(&sample(family, index), &mut failures);
        }
    }
    failures
}

fn sample(family: Family, index: u64) -> Sample {
    let passage = Passage { content: ContentId(index), tokens: 200, part: Part::First };
    let fact = Fact { passage: 0, index: (index % 2) as u32, key: (index % 3) as u8 };
    let layout = if index.is_multiple_of(2) { Layout::DocumentFirst } else { Layout::InstructionFirst };
    Sample::new(family, &[passage], fact, layout).expect("200 tokens state two facts of each kind")
}

fn try_sample(sample: &Sample, failures: &mut Vec<Failure>) {
    let mut expect = |case, answer: String, wanted| {
        let got = score(sample.family, &sample.gold, &answer).value;
        if got != wanted {
            failures.push(Failure { family: sample.family, case, answer, got, wanted });
        }
    };
    expect("gold", sample.gold.clone(), 1.0);
    expect("fenced gold", format!("```\n{}\n```", sample.gold), 1.0);
    expect("empty", String::new(), 0.0);
    expect("empty", " \n\t".to_owned(), 0.0);
    for junk in JUNK {
        expect("junk", junk.to_owned(), 0.0);
    }
    expect("prompt", sample.prompt.clone(), 0.0);
    expect("document", sample.document.clone(), 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answerability;

    #[test]
    fn the_scorers_pass_their_own_test() {
        assert_eq!(scorer_self_test(), []);
    }

    #[test]
    fn every_generated_sample_can_be_answered_from_its_prompt() {
        for family in Family::ALL {
            for index in 0..200 {
                let sample = sample(family, index);
                let report = answerability(&sample);
                assert!(report.answerable, "{family} {index}: {report:?} against {:?}", sample.gold);
            }
        }
    }

    #[test]
    fn an_answer_that_is_not_in_the_prompt_is_found_out() {
        let mut sample = sample(Family::Qa, 1);
        sample.prompt = sample.question.clone();
        assert_eq!(answerability(&sample).derived, None);
        let mut other = super::sample(Family::Code, 1);
        other.gold = "fact_7_7".to_owned();
        assert!(!answerability(&other).answerable);
    }
}
