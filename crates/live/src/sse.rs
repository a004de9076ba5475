//! Event streams by the WHATWG grammar (HTML Living Standard, section 9.2): bytes in, events out, wherever the bytes are cut.
//!
//! `id` and `retry` steer a reconnection, and a load generator never reconnects: they are read and have no effect. An event that
//! no empty line ended is no event, as the grammar says.

use memchr::memchr2;

/// Bytes that one event may hold, field names included: 16 MiB. Beyond it the stream is an error, not an allocation.
pub const EVENT_LIMIT: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty for an ordinary message.
    pub name: &'a [u8],
    /// The `data` fields, joined by line feeds. UTF-8 is not checked here.
    pub data: &'a [u8],
}

/// An event outgrew [`EVENT_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event is longer than {} MiB", EVENT_LIMIT >> 20)]
pub struct EventTooLong;

/// A decoder of one stream: hand it each piece as it is read, take its events until there is none.
#[derive(Clone, Debug, Default)]
pub struct SseDecoder {
    /// Begin of a line whose end has not been read.
    line: Vec<u8>,
    fields: Fields,
    after_carriage_return: bool,
    past_first_line: bool,
}

/// The event that the lines so far make.
#[derive(Clone, Debug, Default)]
struct Fields {
    name: Vec<u8>,
    /// Each `data` line with a line feed after it.
    data: Vec<u8>,
    /// Handed out, and to be emptied before the next line.
    complete: bool,
}

impl SseDecoder {
    /// The next event that ends inside `piece`, which is moved past it; `None` when all of `piece` is used.
    ///
    /// # Errors
    /// When an event is longer than [`EVENT_LIMIT`]. The decoder is of no use after it.
    pub fn next<'a>(&'a mut self, piece: &mut &[u8]) -> Result<Option<SseEvent<'a>>, EventTooLong> {
        self.fields.empty_if_complete();
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && piece[0] == b'\n' {
                *piece = &piece[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', piece);
            let (part, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.line.len() + part.len() + self.fields.data.len() > EVENT_LIMIT {
                return Err(EventTooLong);
            }
            let Some((terminator, rest)) = rest.split_first() else {
                self.line.extend_from_slice(part);
                *piece = rest;
                break;
            };
            self.after_carriage_return = *terminator == b'\r';
            *piece = rest;
            self.end_line(part);
            if self.fields.complete {
                return Ok(Some(self.fields.event()));
            }
        }
        Ok(None)
    }

    /// Reads a line: what was kept of it and its last part.
    fn end_line(&mut self, part: &[u8]) {
        let kept = !self.line.is_empty();
        if kept {
            self.line.extend_from_slice(part);
        }
        let mut line = if kept { &self.line } else { part };
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        self.fields.read(line);
        self.line.clear();
    }
}

impl Fields {
    fn read(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.complete = !self.data.is_empty();
            if !self.complete {
                self.name.clear();
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, rest) = line.split_at(colon);
        let value = rest.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
    }

    fn event(&self) -> SseEvent<'_> {
        SseEvent { name: &self.name, data: &self.data[..self.data.len() - 1] }
    }

    fn empty_if_complete(&mut self) {
        if std::mem::take(&mut self.complete) {
            self.name.clear();
            self.data.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<(String, String)>, EventTooLong> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for mut piece in pieces {
            while let Some(event) = decoder.next(&mut piece)? {
                events.push((text(event.name), text(event.data)));
            }
            assert!(piece.is_empty(), "a decoder without an event has used its whole piece");
        }
        Ok(events)
    }

    fn check(stream: &str, expected: &[&str]) {
        let data =
            |events: Vec<(String, String)>| events.into_iter().map(|(_, data)| data).collect::<Vec<_>>();
        assert_eq!(decode([stream.as_bytes()]).map(data).expect("short"), expected, "whole: {stream:?}");
        let bytes = stream.as_bytes().chunks(1);
        assert_eq!(decode(bytes).map(data).expect("short"), expected, "byte by byte: {stream:?}");
    }

    #[test]
    fn lines_end_with_any_of_the_three_terminators() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\n\r\ndata: b\r\n\r", &["a", "b"]);
        check("data: a\n\rdata: b\r\n\n", &["a", "b"]);
    }

    #[test]
    fn one_space_after_the_colon_is_not_part_of_the_value() {
        check("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\n", &["a", "a", " a", "\ta"]);
    }

    #[test]
    fn data_lines_of_one_event_are_joined_by_line_feeds() {
        check("data: {\"a\":\r\ndata: 1}\r\n\r\n", &["{\"a\":\n1}"]);
        check("data\ndata\n\n", &["\n"]);
        check("data\n\ndata:\n\n", &["", ""]);
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_nothing() {
        check(
            ": ping\n\n:\n\nid: 1\nretry: 2\nother: 3\nData: 4\n data: 5\n\nevent: x\n\ndata: a\n\n",
            &["a"],
        );
        check("data: a\n: between\nid\ndata: b\n\n", &["a\nb"]);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_very_begin() {
        check("\u{feff}data: a\n\n", &["a"]);
        check("\u{feff}\n\u{feff}data: a\n\ndata: b\n\n", &["b"]);
        check("\u{feff}\u{feff}data: a\n\n", &[]);
    }

    #[test]
    fn an_event_without_its_empty_line_is_discarded() {
        check("data: a\n\ndata: b\n", &["a"]);
        check("data: a", &[]);
    }

    #[test]
    fn the_name_belongs_to_its_event_alone() {
        let events =
            decode([b"event: old\nevent: error\ndata: a\n\ndata: b\n\nevent: c\n\ndata: d\n\n".as_slice()]);
        let expected =
            [("error", "a"), ("", "b"), ("", "d")].map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(events.expect("short"), expected);
    }

    #[test]
    fn an_event_of_sixteen_mebibytes_is_read_and_a_longer_one_refused_however_it_is_cut() {
        for cut in [EVENT_LIMIT * 2, 65_537] {
            let of = |length: usize| [b"data: ".as_slice(), &vec![b'x'; length - 6], b"\n\n"].concat();
            let events = decode(of(EVENT_LIMIT).chunks(cut)).expect("within the limit");
            assert_eq!(events[0].1.len(), EVENT_LIMIT - 6);
            assert_eq!(decode(of(EVENT_LIMIT + 1).chunks(cut)), Err(EventTooLong));
            let line = [b"data: ".as_slice(), &[b'x'; 1000], b"\n"].concat();
            let lines = line.repeat(EVENT_LIMIT / 1001 + 1);
            assert_eq!(decode(lines.chunks(cut)), Err(EventTooLong), "many lines");
        }
    }

    fn line() -> impl Strategy<Value = String> {
        let field = prop_oneof![
            Just("data"),
            Just("data:"),
            Just("data: "),
            Just("event:"),
            Just(":"),
            Just("id: 1"),
            Just("")
        ];
        (field, "[ -~\u{e9}\u{4e2d}\u{feff}]{0,12}", prop_oneof![Just("\n"), Just("\r\n"), Just("\r")])
            .prop_map(|(field, value, end)| format!("{field}{value}{end}"))
    }

    proptest! {
        #[test]
        fn any_split_of_any_stream_gives_the_same_events(
            lines in prop::collection::vec(line(), 0..24),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let stream = lines.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream.as_bytes()[cut[0]..cut[1]]);
            let whole = decode([stream.as_bytes()]).expect("short");
            prop_assert_eq!(decode(pieces).expect("short"), whole.clone());
            prop_assert_eq!(decode(stream.as_bytes().chunks(1)).expect("short"), whole);
        }

        #[test]
        fn what_was_written_as_events_is_read_back(
            events in prop::collection::vec("[ -~\u{4e2d}]{0,20}(\n[a-z]{0,5}){0,3}", 0..12),
            end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        ) {
            let written: String = events
                .iter()
                .map(|data| data.split('\n').map(|line| format!("data: {line}{end}")).collect::<String>() + end)
                .collect();
            let read = decode([written.as_bytes()]).expect("short");
            prop_assert_eq!(read.into_iter().map(|(_, data)| data).collect::<Vec<_>>(), events);
        }
    }
}
