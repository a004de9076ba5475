//! Content ids of prompts: disjoint spaces, all with the top bit clear (outputs set it), from which the parts of a
//! request can be told again.

use acb_tasks::{Fact, Family};
use acb_types::ContentId;

const SHIFT: u32 = 59;
const VALUE: u64 = (1 << SHIFT) - 1;
/// Low bits of a question's value: fact index (14), key (2), passage (1), family (2).
const FACT_BITS: u32 = 19;

/// What a run of tokens is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// A document, or the part of it that requests share.
    Document = 1,
    /// An instruction or system prompt of a task.
    Instruction = 2,
    /// A question about a document.
    Question = 3,
    /// Text that one request alone has.
    Unique = 4,
    /// A block of a recorded trace.
    Block = 5,
    /// Text of a row of a file, by its hash.
    Row = 6,
}

const SPACES: [Space; 6] =
    [Space::Document, Space::Instruction, Space::Question, Space::Unique, Space::Block, Space::Row];

/// The content of this number in this space; only the low 59 bits of the number count.
pub(crate) fn content(space: Space, value: u64) -> ContentId {
    ContentId((space as u64) << SHIFT | value & VALUE)
}

/// The space of a content; none for outputs.
pub(crate) fn space_of(content: ContentId) -> Option<Space> {
    SPACES.into_iter().find(|&space| space as u64 == content.0 >> SHIFT)
}

/// The content of a question about a fact of a passage. A summary's question has the same text everywhere.
pub(crate) fn question(family: Family, passage: ContentId, fact: Fact) -> ContentId {
    let code = family_code(family);
    if family == Family::Summary {
        return content(Space::Question, code);
    }
    let fact_bits = u64::from(fact.index) << 5 | u64::from(fact.key) << 3 | (fact.passage as u64) << 2 | code;
    content(Space::Question, scramble(passage.0) << FACT_BITS | fact_bits)
}

/// Family and fact of a question; none for other contents.
pub(crate) fn fact_of(content: ContentId) -> Option<(Family, Fact)> {
    if space_of(content) != Some(Space::Question) {
        return None;
    }
    let bits = content.0;
    let fact = Fact {
        passage: (bits >> 2 & 1) as usize,
        index: (bits >> 5 & 0x3fff) as u32,
        key: (bits >> 3 & 3) as u8,
    };
    Some((Family::ALL[(bits & 3) as usize], fact))
}

fn family_code(family: Family) -> u64 {
    Family::ALL.iter().position(|&known| known == family).expect("every family is in the list") as u64
}

/// A one-to-one scramble of 64 bits, so that the kept low bits depend on all of them.
pub(crate) fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_disjoint_and_never_outputs() {
        for space in SPACES {
            for value in [0, 1, VALUE] {
                let id = content(space, value);
                assert_eq!(space_of(id), Some(space));
                assert_eq!(id.0 >> 63, 0, "the top bit is for outputs");
            }
        }
        assert_eq!(space_of(ContentId::of_output(acb_types::RequestId(3))), None);
    }

    #[test]
    fn a_question_tells_its_family_and_fact() {
        let fact = Fact { passage: 1, index: 4_999, key: 2 };
        let id = question(Family::Json, content(Space::Unique, 77), fact);
        assert_eq!(fact_of(id), Some((Family::Json, fact)));
        assert_ne!(id, question(Family::Json, content(Space::Unique, 78), fact));
        assert_eq!(fact_of(content(Space::Document, 1)), None);
    }
}
