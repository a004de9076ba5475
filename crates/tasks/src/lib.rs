//! Prompts with known answers: documents that state facts, questions that ask for one of them, and scorers that
//! give credit to the right answer alone.
//!
//! Tokens here are those of the built-in closed-vocabulary [`tokenizer`]: the unit in which simulated prompts are
//! measured. A real server counts with its own tokenizer, and its count is the one that real runs record.
//!
//! This crate knows no adapters, no servers and no time, and it never executes code.

mod answerability;
mod family;
mod passage;
mod reader;
mod sample;
mod score;
mod self_test;
pub mod tokenizer;

pub use answerability::{Answerability, answerability};
pub use family::{Family, UnknownFamily};
pub use passage::{MAX_PASSAGE_TOKENS, MIN_PASSAGE_TOKENS, Part, Passage};
pub use sample::{Fact, Layout, Sample, TasksError, facts};
pub use score::{Score, score};
pub use self_test::{Failure, scorer_self_test};
