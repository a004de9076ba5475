//! From a simulated request back to the text that it stands for.

use crate::content::{Space, fact_of, space_of};
use acb_tasks::{Layout, Part, Passage, Sample, TasksError};
use acb_types::Request;

/// The layout of a request about a document: told from the order of its parts. None for requests without an
/// instruction.
#[must_use]
pub fn layout_of(request: &Request) -> Option<Layout> {
    let spaces: Vec<Space> = request.prompt.segments().iter().filter_map(|s| space_of(s.content)).collect();
    let instruction = spaces.iter().position(|&space| space == Space::Instruction)?;
    request.document?;
    Some(if instruction == 0 { Layout::InstructionFirst } else { Layout::DocumentFirst })
}

/// The prompt, question and right answer that a request about a document stands for; of a later turn of a
/// conversation, the last question about the document. None for requests that this crate did not make up (traces,
/// files, `multi_lora`).
///
/// # Errors
/// When the document is too short to state what the question asks for.
#[must_use]
pub fn sample_of(request: &Request) -> Option<Result<Sample, TasksError>> {
    let layout = layout_of(request)?;
    let segments = request.prompt.segments();
    let (family, fact) = segments.iter().rev().find_map(|s| fact_of(s.content))?;
    let passages: Vec<Passage> = segments
        .iter()
        .filter_map(|s| {
            let part = match space_of(s.content)? {
                Space::Document => Part::First,
                // A document that the request has to itself is numbered as a first part, unless a shared part precedes it.
                Space::Unique if segments.iter().any(|s| space_of(s.content) == Some(Space::Document)) => {
                    Part::Second
                }
                Space::Unique => Part::First,
                _ => return None,
            };
            Some(Passage { content: s.content, tokens: s.tokens, part })
        })
        .collect();
    Some(Sample::new(family, &passages, fact, layout))
}
