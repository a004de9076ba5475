//! One prompt with its known answer.

use crate::passage::KEYS;
use crate::reader::Facts;
use crate::{Family, Passage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order of a prompt's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Document, instruction, question: requests about one document share its tokens as a prefix.
    DocumentFirst,
    /// Instruction, question, document: only the instruction is shared.
    InstructionFirst,
}

/// Which fact of which passage a question asks for. Ignored by summaries, which ask for all titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Index of the passage within the document.
    pub passage: usize,
    /// Index of the station or program within the passage.
    pub index: u32,
    /// Which of the three keys is asked for (qa) or left out (json), 0 to 2.
    pub key: u8,
}

/// A prompt, its parts, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What is asked for.
    pub family: Family,
    /// The document's text.
    pub document: String,
    /// The question.
    pub question: String,
    /// The prompt as sent: the parts in the order of the layout, without anything between them.
    pub prompt: String,
    /// The right answer in the form that the instruction asks for.
    pub gold: String,
}

/// Why a sample can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TasksError {
    /// The document does not state what the question would ask for.
    #[error(
        "a {family} question asks for fact {index} of passage {passage}, which has {facts}; make the document longer"
    )]
    NoSuchFact {
        /// The family.
        family: Family,
        /// The passage asked about.
        passage: usize,
        /// The fact asked for.
        index: u32,
        /// Facts of the passage that the family can ask for.
        facts: u32,
    },
}

impl Sample {
    /// A sample about these passages, which follow each other as one document.
    ///
    /// # Errors
    /// When the fact asked for is not completely stated in its passage.
    pub fn new(family: Family, passages: &[Passage], fact: Fact, layout: Layout) -> Result<Self, TasksError> {
        let texts: Vec<String> = passages.iter().map(|passage| passage.text()).collect();
        let (question, gold) = match family {
            Family::Summary => summary(&texts, fact)?,
            _ => about_one_fact(family, texts.get(fact.passage).map_or("", |t| t), fact)?,
        };
        let document = texts.concat();
        let instruction = family.instruction();
        let prompt = match layout {
            Layout::DocumentFirst => format!("{document}{instruction}{question}"),
            Layout::InstructionFirst => format!("{instruction}{question}{document}"),
        };
        Ok(Self { family, document, question, prompt, gold })
    }
}

/// Facts that a family can ask for in a passage.
#[must_use]
pub fn facts(family: Family, passage: Passage) -> u32 {
    match family {
        Family::Qa | Family::Json => passage.stations(),
        Family::Summary => passage.titles(),
        Family::Code => passage.programs(),
    }
}

fn summary(texts: &[String], fact: Fact) -> Result<(String, String), TasksError> {
    let titles: Vec<String> = texts.iter().flat_map(|text| Facts::read(text).titles).collect();
    if titles.is_empty() {
        let Fact { passage, index, .. } = fact;
        return Err(TasksError::NoSuchFact { family: Family::Summary, passage, index, facts: 0 });
    }
    Ok(("\nList all section titles of two words in order.".to_owned(), titles.join("\n")))
}

fn about_one_fact(family: Family, text: &str, fact: Fact) -> Result<(String, String), TasksError> {
    let facts = Facts::read(text);
    let index = fact.index as usize;
    let key = usize::from(fact.key) % KEYS.len();
    let found = match family {
        Family::Code => facts.programs.get(index).map(|program| {
            (format!("\nWhat is the result of Program {:04}?", program.id), program.result.to_string())
        }),
        Family::Json => facts.stations.get(index).map(|station| {
            let (a, b) = ((key + 1) % 3, (key + 2) % 3);
            let question =
                format!("\nGive the keys \"{}\" and \"{}\" of Station {:04}.", KEYS[a], KEYS[b], station.id);
            let values = station.values;
            (question, format!("{{\"{}\": {}, \"{}\": {}}}", KEYS[a], values[a], KEYS[b], values[b]))
        }),
        Family::Qa | Family::Summary => facts.stations.get(index).map(|station| {
            (
                format!("\nWhat is the {} of Station {:04}?", KEYS[key], station.id),
                station.values[key].to_string(),
            )
        }),
    };
    let known = if family == Family::Code { facts.programs.len() } else { facts.stations.len() };
    let Fact { passage, index, .. } = fact;
    found.ok_or(TasksError::NoSuchFact { family, passage, index, facts: known as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::Part;
    use crate::tokenizer;
    use acb_types::ContentId;

    fn passages(shared: u32, own: u32) -> [Passage; 2] {
        [
            Passage { content: ContentId(4), tokens: shared, part: Part::First },
            Passage { content: ContentId(5), tokens: own, part: Part::Second },
        ]
    }

    #[test]
    fn the_parts_of_a_prompt_have_the_token_counts_that_a_simulation_assumes() {
        for family in Family::ALL {
            for layout in [Layout::DocumentFirst, Layout::InstructionFirst] {
                for (shared, index, key) in [(60, 0, 0), (217, 3, 1), (400, 2, 2)] {
                    let fact = Fact { passage: 0, index: index % 2, key };
                    let Ok(sample) = Sample::new(family, &passages(shared, 43), fact, layout) else {
                        assert_eq!((family, shared), (Family::Code, 60), "one program only");
                        continue;
                    };
                    let parts = shared + 43 + family.instruction_tokens() + family.question_tokens();
                    assert_eq!(tokenizer::encode(&sample.prompt).unwrap().len(), parts as usize, "{family}");
                    let question = tokenizer::encode(&sample.question).unwrap().len();
                    assert_eq!(question, family.question_tokens() as usize, "question of {family}");
                }
            }
        }
    }

    #[test]
    fn a_fact_that_the_document_does_not_state_is_not_asked_for() {
        let fact = Fact { passage: 0, index: 0, key: 0 };
        let error = Sample::new(Family::Qa, &passages(20, 60), fact, Layout::DocumentFirst).unwrap_err();
        assert_eq!(error, TasksError::NoSuchFact { family: Family::Qa, passage: 0, index: 0, facts: 0 });
    }
}
