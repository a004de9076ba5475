//! Event streams: any bytes, however they are cut, give the same events and the same figures, without a panic, and nothing is
//! kept that did not come.
#![no_main]
#![allow(
    dead_code,
    reason = "the files of the decoder are compiled here alone, without what uses the rest of them"
)]

#[path = "../../src/delta.rs"]
mod delta;
#[path = "../../src/observation.rs"]
mod observation;
#[path = "../../src/sse.rs"]
mod sse;
#[path = "../../src/stream.rs"]
mod stream;
#[path = "../../src/template.rs"]
mod template;

use acb_types::Nanos;
use libfuzzer_sys::fuzz_target;
use observation::Observation;
use sse::SseDecoder;
use stream::{BodyEnd, StreamReader, Text, Wanted};

fuzz_target!(|stream: &[u8]| {
    let (whole, cut) = ([stream], cut(stream));
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    let (events, seen) = (events(&whole), seen(&whole));
    for pieces in [&bytes, &cut] {
        assert_eq!(self::events(pieces), events);
        assert_eq!(self::seen(pieces), seen);
    }
    let kept: usize = events.iter().map(|(name, data)| name.len() + data.len()).sum();
    assert!(kept <= stream.len(), "{kept} bytes were kept of {}", stream.len());
    assert!(seen.token_events.len() <= events.len());
    assert!(
        seen.text.is_none_or(|text| text.len() <= 3 * stream.len()),
        "a byte becomes one character at most"
    );
});

/// Pieces of 1 to 16 bytes, whose lengths follow from the bytes.
fn cut(stream: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut rest, mut state) = (Vec::new(), stream, 0x9e37_79b9_7f4a_7c15_u64);
    while let Some(byte) = rest.first() {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let (piece, left) = rest.split_at(rest.len().min(1 + (state >> 60) as usize));
        pieces.push(piece);
        rest = left;
    }
    pieces
}

fn events(pieces: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut decoder, mut events) = (SseDecoder::default(), Vec::new());
    for piece in pieces {
        let mut left = *piece;
        while let Ok(Some(event)) = decoder.next(&mut left) {
            events.push((event.name.to_vec(), event.data.to_vec()));
        }
        assert!(left.is_empty(), "a decoder without an event has used its whole piece");
    }
    events
}

fn seen(pieces: &[&[u8]]) -> Observation {
    let mut reader = StreamReader::new(Text::Kept);
    for piece in pieces {
        if reader.read(Nanos(7), piece) == Wanted::Nothing {
            break;
        }
    }
    let mut observation = Observation::begun(Nanos::ZERO);
    reader.finish(BodyEnd::Closed(Nanos(7)), &mut observation);
    // After something unreadable the rest is not read: how much of it had come depends on the pieces.
    observation.bytes = 0;
    observation
}
