//! Documents: endless text that states facts, cut to an exact number of tokens.

use crate::tokenizer::{self, TITLE_WORDS};
use acb_types::{ContentId, Seed, Stream};
use std::fmt::Write;

/// The keys of a station, in the order in which the text gives them.
pub(crate) const KEYS: [&str; 3] = ["depth", "mass", "speed"];
const STATIONS_PER_SECTION: u64 = 3;
/// Tokens of the title line with the line feed before it: a mark, two words.
const TITLE_TOKENS: u32 = 4;
/// Tokens of a station's line with its line feed.
const STATION_TOKENS: u32 = 22;
/// Tokens of a program's line with its line feed.
const PROGRAM_TOKENS: u32 = 15;
/// Tokens of a whole section: a title, a station, a program, the other stations.
const SECTION_TOKENS: u32 = TITLE_TOKENS + 3 * STATION_TOKENS + PROGRAM_TOKENS;
/// The shortest passage of which every family can ask something.
pub const MIN_PASSAGE_TOKENS: u32 = TITLE_TOKENS + STATION_TOKENS + PROGRAM_TOKENS;

/// The longest passage: beyond it station numbers would repeat.
pub const MAX_PASSAGE_TOKENS: u32 = NUMBERS / STATIONS_PER_SECTION as u32 * SECTION_TOKENS;
/// Four-digit numbers that one part of a document has to itself.
const NUMBERS: u32 = 5_000;

/// Which part of a document a passage is. The parts number their facts differently, so that no fact of one can
/// contradict a fact of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole document, or the part that it shares with others: even numbers.
    First,
    /// The part that it has to itself: odd numbers.
    Second,
}

/// The first `tokens` tokens of the text that a content id and a part determine. A shorter passage of a content is a
/// prefix of a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passage {
    /// What the text is.
    pub content: ContentId,
    /// How much of it there is, at most [`MAX_PASSAGE_TOKENS`].
    pub tokens: u32,
    /// Which part of the document it is.
    pub part: Part,
}

impl Passage {
    /// The text, exactly `tokens` tokens long.
    ///
    /// # Panics
    /// When it is longer than [`MAX_PASSAGE_TOKENS`], which a checked spec rules out.
    #[must_use]
    pub fn text(self) -> String {
        assert!(self.tokens <= MAX_PASSAGE_TOKENS, "station numbers of a passage may not repeat");
        let mut writer = Writer::new(self);
        for _ in 0..self.tokens.div_ceil(SECTION_TOKENS) {
            writer.section();
        }
        let mut tokens = tokenizer::encode(&writer.text).expect("generated text keeps to the vocabulary");
        tokens.truncate(self.tokens as usize);
        tokenizer::decode(&tokens)
    }

    /// Stations that the passage states completely.
    #[must_use]
    pub fn stations(self) -> u32 {
        let rest = self.tokens % SECTION_TOKENS;
        let first = u32::from(rest >= TITLE_TOKENS + STATION_TOKENS);
        let later = rest.saturating_sub(MIN_PASSAGE_TOKENS) / STATION_TOKENS;
        3 * (self.tokens / SECTION_TOKENS) + first + later
    }

    /// Programs that the passage lists completely.
    #[must_use]
    pub fn programs(self) -> u32 {
        self.tokens / SECTION_TOKENS + u32::from(self.tokens % SECTION_TOKENS >= MIN_PASSAGE_TOKENS)
    }

    /// Section titles that the passage shows completely.
    #[must_use]
    pub fn titles(self) -> u32 {
        self.tokens / SECTION_TOKENS + u32::from(self.tokens % SECTION_TOKENS >= TITLE_TOKENS)
    }
}

/// Writes sections one after the other. Station and program numbers differ within a passage.
struct Writer {
    stream: Stream,
    text: String,
    offset: u64,
    parity: u64,
    stations: u64,
    programs: u64,
}

impl Writer {
    fn new(passage: Passage) -> Self {
        let mut stream = Seed(passage.content.0).stream("passage");
        let offset = stream.below(u64::from(NUMBERS));
        let parity = u64::from(passage.part == Part::Second);
        Self { stream, text: String::new(), offset, parity, stations: 0, programs: 0 }
    }

    fn number(&self, index: u64) -> u64 {
        (self.offset + index) % u64::from(NUMBERS) * 2 + self.parity
    }

    fn section(&mut self) {
        let words = TITLE_WORDS.len() as u64;
        let (a, b) = (self.stream.below(words) as usize, self.stream.below(words) as usize);
        self.put(format_args!("\n# {} {}", TITLE_WORDS[a], TITLE_WORDS[b]));
        self.station();
        self.program();
        for _ in 1..STATIONS_PER_SECTION {
            self.station();
        }
    }

    fn station(&mut self) {
        let id = self.number(self.stations);
        let [a, b, c] = [(); 3].map(|()| 100 + self.stream.below(900));
        let [x, y, z] = KEYS;
        self.put(format_args!("\nStation {id:04} has {x} {a}, {y} {b} and {z} {c}."));
        self.stations += 1;
    }

    fn program(&mut self) {
        let id = self.number(self.programs);
        let (a, b, c) = (10 + self.stream.below(90), 2 + self.stream.below(8), 100 + self.stream.below(900));
        self.put(format_args!("\nProgram {id:04}: {a} * {b} + {c}"));
        self.programs += 1;
    }

    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("writing to a string can't fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Facts;

    fn whole(content: u64, tokens: u32) -> Passage {
        Passage { content: ContentId(content), tokens, part: Part::First }
    }

    #[test]
    fn a_passage_has_exactly_the_tokens_asked_for_and_extends_shorter_ones() {
        let long = whole(9, 1000).text();
        for tokens in 0..300 {
            let text = whole(9, tokens).text();
            assert_eq!(tokenizer::count(&text), u64::from(tokens));
            assert!(long.starts_with(&text), "{tokens} tokens are a prefix of 1000");
        }
    }

    #[test]
    fn the_number_of_whole_facts_follows_from_the_length() {
        for tokens in 0..400 {
            let passage = whole(3, tokens);
            let facts = Facts::read(&passage.text());
            assert_eq!(facts.stations.len() as u32, passage.stations(), "stations of {tokens} tokens");
            assert_eq!(facts.programs.len() as u32, passage.programs(), "programs of {tokens} tokens");
            assert_eq!(facts.titles.len() as u32, passage.titles(), "titles of {tokens} tokens");
        }
    }

    #[test]
    fn numbers_never_repeat_within_a_document_even_of_the_greatest_length() {
        let half = MAX_PASSAGE_TOKENS;
        let parts = [whole(5, half), Passage { part: Part::Second, ..whole(6, half) }];
        let facts = Facts::read(&parts.map(Passage::text).concat());
        let ids: std::collections::BTreeSet<u32> = facts.stations.iter().map(|s| s.id).collect();
        assert_eq!(ids.len(), facts.stations.len());
        assert_eq!(ids.len() as u32, 2 * parts[0].stations());
    }

    #[test]
    fn the_shortest_useful_passage_states_one_fact_of_each_kind() {
        let passage = whole(1, MIN_PASSAGE_TOKENS);
        assert_eq!((passage.stations(), passage.programs(), passage.titles()), (1, 1, 1));
        let shorter = whole(1, MIN_PASSAGE_TOKENS - 1);
        assert_eq!(shorter.programs(), 0);
    }
}
