//! The token unit of simulated requests: a small exact tokenizer with a closed vocabulary.
//!
//! A token is one word of [`WORDS`], one digit, or one punctuation mark, each with or without one space before it, or
//! a line feed, or a lone space. Encoding takes the longest token at every place, so it is lossless: the tokens of a
//! text, written one after the other, are the text. Text outside the vocabulary can't be encoded, only
//! [estimated](count).

mod words;

pub use words::{TITLE_WORDS, WORDS};

const PUNCTUATION: &[u8] = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const DIGITS: u16 = 10;
const LINE_FEED: u16 = 0;
const SPACE: u16 = 1;
const FIRST_UNIT: u16 = 2;
/// Letters of a word outside the vocabulary that are taken for one token: the usual rule of thumb for English.
const LETTERS_PER_TOKEN: usize = 4;

/// One token of the closed vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u16);

/// A piece of text that the closed vocabulary can't express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{piece}\" at byte {offset} is not in the built-in vocabulary; use an estimate for free text")]
pub struct UnknownText {
    /// What was found.
    pub piece: String,
    /// Where, in bytes from the start of the text.
    pub offset: usize,
}

/// Tokens of a text of the closed vocabulary.
///
/// # Errors
/// At the first piece of text that is not in the vocabulary.
pub fn encode(text: &str) -> Result<Vec<Token>, UnknownText> {
    let mut tokens = Vec::with_capacity(text.len() / 3);
    let mut offset = 0;
    while offset < text.len() {
        let piece = next_piece(&text[offset..]);
        let token = token_of(piece)
            .ok_or_else(|| UnknownText { piece: piece.trim_start_matches(' ').to_owned(), offset })?;
        tokens.push(token);
        offset += piece.len();
    }
    Ok(tokens)
}

/// The text of these tokens.
#[must_use]
pub fn decode(tokens: &[Token]) -> String {
    let mut text = String::with_capacity(tokens.len() * 4);
    for &token in tokens {
        push_token(&mut text, token);
    }
    text
}

/// Tokens of any text: exact for text of the closed vocabulary, otherwise an estimate in which an unknown word
/// counts one token per started four letters and any other character counts one.
#[must_use]
pub fn count(text: &str) -> u64 {
    let (mut offset, mut tokens) = (0, 0);
    while offset < text.len() {
        let piece = next_piece(&text[offset..]);
        let word = piece.trim_start_matches(' ');
        let known = token_of(piece).is_some() || !word.starts_with(char::is_alphabetic);
        tokens += if known { 1 } else { word.chars().count().div_ceil(LETTERS_PER_TOKEN) as u64 };
        offset += piece.len();
    }
    tokens
}

/// The longest piece at the start of a text: an optional space and a run of letters, or an optional space and one
/// other character. A space before white space stands alone.
fn next_piece(text: &str) -> &str {
    let start = usize::from(text.starts_with(' '));
    let Some(first) = text[start..].chars().next() else { return text };
    if first.is_alphabetic() {
        let letters = text[start..].find(|c: char| !c.is_alphabetic());
        return &text[..letters.map_or(text.len(), |n| start + n)];
    }
    if start == 1 && first.is_whitespace() {
        return &text[..1];
    }
    &text[..start + first.len_utf8()]
}

fn token_of(piece: &str) -> Option<Token> {
    match piece {
        "\n" => return Some(Token(LINE_FEED)),
        " " => return Some(Token(SPACE)),
        _ => {}
    }
    let (spaced, unit) = match piece.strip_prefix(' ') {
        Some(rest) => (1, rest),
        None => (0, piece),
    };
    Some(Token(FIRST_UNIT + 2 * unit_of(unit)? + spaced))
}

/// Units are numbered digits first, then punctuation, then words.
fn unit_of(unit: &str) -> Option<u16> {
    if let [byte] = unit.as_bytes() {
        if byte.is_ascii_digit() {
            return Some(u16::from(byte - b'0'));
        }
        if let Some(at) = PUNCTUATION.iter().position(|p| p == byte) {
            return Some(DIGITS + at as u16);
        }
    }
    let word = WORDS.binary_search(&unit).ok()?;
    Some(DIGITS + (PUNCTUATION.len() + word) as u16)
}

fn push_token(text: &mut String, token: Token) {
    match token.0 {
        LINE_FEED => text.push('\n'),
        SPACE => text.push(' '),
        other => {
            let (unit, spaced) = ((other - FIRST_UNIT) / 2, (other - FIRST_UNIT) % 2);
            if spaced == 1 {
                text.push(' ');
            }
            push_unit(text, usize::from(unit));
        }
    }
}

fn push_unit(text: &mut String, unit: usize) {
    let digits = usize::from(DIGITS);
    match unit.checked_sub(digits) {
        None => text.push(char::from(b'0' + unit as u8)),
        Some(mark) if mark < PUNCTUATION.len() => text.push(char::from(PUNCTUATION[mark])),
        Some(rest) => text.push_str(WORDS[rest - PUNCTUATION.len()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vocabulary_is_sorted_and_without_repetition() {
        assert!(WORDS.windows(2).all(|w| w[0] < w[1]), "binary search needs strict order");
    }

    #[test]
    fn words_digits_and_marks_are_separate_tokens() {
        let tokens = encode("Station 0417 has depth 382.\n").unwrap();
        assert_eq!(tokens.len(), 12, "Station, 4 digits, has, depth, 3 digits, full stop, line feed");
        assert_eq!(decode(&tokens), "Station 0417 has depth 382.\n");
    }

    #[test]
    fn text_outside_the_vocabulary_is_refused_by_name_and_place() {
        let error = encode("depth of xylophones").unwrap_err();
        assert_eq!((error.piece.as_str(), error.offset), ("xylophones", 8));
    }

    #[test]
    fn unknown_words_are_estimated_at_four_letters_a_token() {
        assert_eq!(count("depth xylophones"), 1 + 3, "ten letters start three groups of four");
        assert_eq!(count("naïve 東京"), 2 + 1, "letters of any script count alike");
        assert_eq!(count(""), 0);
        assert_eq!(count("\u{1F600}\r\n"), 3);
    }

    proptest! {
        #[test]
        fn encoding_any_run_of_tokens_gives_their_text_back(raw in prop::collection::vec(0u16..(FIRST_UNIT + 2 * 42), 0..60)) {
            let text = decode(&raw.into_iter().map(Token).collect::<Vec<_>>());
            let tokens = encode(&text).unwrap();
            prop_assert_eq!(decode(&tokens), text.clone());
            prop_assert_eq!(count(&text), tokens.len() as u64);
        }

        #[test]
        fn counting_never_panics(text in "\\PC*[ \n\t]*\\PC*") {
            prop_assert!(count(&text) <= text.chars().count() as u64);
        }
    }
}
