//! A chunk that differs from an earlier one of its stream in its text alone, read without parsing it again.
//!
//! Servers write the same bytes around the text of every chunk of an answer. What stands between the quotes of a JSON string
//! can be exchanged for any other inside of a string without a change of the rest: so where the bytes before and after are
//! those of a chunk that was parsed, and the bytes between are the inside of a string, the meaning is that chunk's, with this text.

use crate::delta::Chunk;
use crate::observation::Channel;

/// The bytes around the text of a chunk that carried tokens and nothing else of note.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Those before the text, then those after it.
    around: Vec<u8>,
    before: usize,
    channel: Channel,
}

impl Template {
    /// The template of a chunk that was read from `data`, with whatever buffer `old` leaves.
    pub fn of(chunk: &Chunk<'_>, data: &[u8], old: Option<Self>) -> Option<Self> {
        let (channel, text) = chunk.only_text()?;
        let before = (text.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
        let after = before + text.len();
        // A text that is not part of `data` was unescaped, and lies elsewhere.
        if data.get(before..after)? != text.as_bytes() {
            return None;
        }
        let mut around = old.map_or_else(Vec::new, |old| old.around);
        around.clear();
        around.extend_from_slice(&data[..before]);
        around.extend_from_slice(&data[after..]);
        Some(Self { around, before, channel })
    }

    /// The text of `data` and where it stands, when `data` is this chunk with another text that is not empty.
    pub fn text<'a>(&self, data: &'a [u8]) -> Option<(Channel, &'a str)> {
        let (before, after) = self.around.split_at(self.before);
        let text = data.strip_prefix(before)?.strip_suffix(after)?;
        let ends_or_escapes = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
        if text.is_empty() || text.iter().any(ends_or_escapes) {
            return None;
        }
        Some((self.channel, std::str::from_utf8(text).ok()?))
    }
}
