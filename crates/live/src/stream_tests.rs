//! Exact figures: the base stream of the tests (first token at 100 ms, 16 tokens, 20 ms apart) and each way to disguise it.

use crate::observation::{Channel, Ending, Observation, Usage};
use crate::stream::{BodyEnd, StreamReader, Text, Wanted};
use acb_types::Nanos;
use proptest::prelude::*;
use std::num::NonZeroU32;

const SENT: Nanos = Nanos::from_millis(1000);

/// Bytes that come `ms` after the send.
type Piece = (u64, Vec<u8>);

fn at(ms: u64) -> Nanos {
    SENT + Nanos::from_millis(ms)
}

fn ms(ms: u64) -> Option<Nanos> {
    Some(Nanos::from_millis(ms))
}

fn event(json: &str) -> Vec<u8> {
    format!("data: {json}\n\n").into_bytes()
}

fn delta(fields: &str) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{{"index":0,"delta":{{{fields}}},"finish_reason":null}}]}}"#
    ))
}

fn content() -> Vec<u8> {
    delta(r#""content":" tok""#)
}

fn role() -> Vec<u8> {
    delta(r#""role":"assistant","content":"""#)
}

/// The last three events: the finish reason, the counts, the mark of the end.
fn tail(completion_tokens: u32) -> Vec<u8> {
    let finish = event(r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}]}"#);
    [finish, usage(completion_tokens), b"data: [DONE]\n\n".to_vec()].concat()
}

fn usage(completion_tokens: u32) -> Vec<u8> {
    event(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":{completion_tokens},"prompt_tokens_details":{{"cached_tokens":4}}}}}}"#
    ))
}

/// The base stream with its token events made by `token`, its number told.
fn base(token: impl Fn(u64) -> Vec<u8>) -> Vec<Piece> {
    (0..16).map(|n| (100 + 20 * n, token(n))).collect()
}

fn with_tail(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.push((400, tail(16)));
    pieces
}

fn read(pieces: &[Piece], end: BodyEnd) -> Observation {
    let mut reader = StreamReader::new(Text::Kept);
    for (ms, bytes) in pieces {
        if reader.read(at(*ms), bytes) == Wanted::Nothing {
            break;
        }
    }
    let mut observation = Observation { sent_ns: Some(SENT), ..Observation::begun(SENT) };
    reader.finish(end, &mut observation);
    observation
}

fn whole(pieces: &[Piece]) -> Observation {
    let last = pieces.last().map_or(0, |(ms, _)| *ms);
    read(pieces, BodyEnd::Closed(at(last)))
}

/// The base stream's figures, which no disguise may change.
fn check_base(seen: &Observation) {
    assert_eq!(seen.ending, Ending::Ok);
    assert_eq!((seen.ttft(), seen.e2e()), (ms(100), ms(400)));
    assert_eq!(seen.token_events.len(), 16);
    let gaps: Vec<Nanos> = seen.gaps().map(|gap| gap.gap_ns).collect();
    assert_eq!(gaps, vec![Nanos::from_millis(20); 15]);
    assert_eq!(seen.output_tokens(), Some(16));
    assert_eq!(seen.tpot_ns(), Some(20e6));
}

#[test]
fn the_base_stream_has_its_figures_and_counts() {
    let seen = whole(&with_tail(base(|_| content())));
    check_base(&seen);
    assert_eq!(seen.ttft_from(Nanos::from_millis(990)), ms(110), "10 ms late is part of the time from due");
    assert_eq!(seen.e2e_from(Nanos::from_millis(990)), ms(410));
    let counts = Usage { prompt_tokens: Some(7), completion_tokens: Some(16), cached_tokens: Some(4) };
    assert_eq!(seen.usage, Some(counts));
    assert_eq!((seen.model.as_deref(), seen.finish_reason.as_deref()), (Some("m"), Some("length")));
    assert_eq!(seen.text.as_deref(), Some(" tok".repeat(16).as_str()));
    assert_eq!(seen.wasted_tokens(), 0);
}

#[test]
fn t1_a_role_chunk_is_an_event_and_no_token() {
    let mut pieces = vec![(0, role())];
    pieces.extend(with_tail(base(|_| content())));
    let seen = whole(&pieces);
    check_base(&seen);
    assert_eq!(seen.first_event(), ms(0));
}

#[test]
fn t2_a_role_chunk_in_the_same_write_adds_no_gap() {
    let pieces = with_tail(base(|n| if n == 0 { [role(), content()].concat() } else { content() }));
    check_base(&whole(&pieces));
}

#[test]
fn t2_completions_have_the_same_figures_as_chat() {
    check_base(&whole(&with_tail(base(|_| {
        event(r#"{"choices":[{"index":0,"text":" tok","finish_reason":null}]}"#)
    }))));
}

#[test]
fn t3_time_per_token_is_not_the_time_per_event() {
    let speculative = |counted: bool| {
        let mut pieces: Vec<Piece> =
            (0..4).map(|n| (100 + 80 * n, event(&four_tokens(n, counted)))).collect();
        pieces.push((340, tail(16)));
        whole(&pieces)
    };
    let (counted, plain) = (speculative(true), speculative(false));
    for seen in [&counted, &plain] {
        assert_eq!((seen.ttft(), seen.e2e(), seen.legacy_tpot_ns()), (ms(100), ms(340), Some(16e6)));
        assert!(seen.gaps().all(|gap| gap.gap_ns == Nanos::from_millis(80)));
    }
    assert_eq!(counted.tpot_ns(), Some(20e6), "four tokens of the first event are known");
    assert!(counted.gaps().all(|gap| gap.tokens == NonZeroU32::new(4)));
    assert_eq!(plain.tpot_ns(), Some(16e6), "nobody says how many the first event held");
    assert!(plain.gaps().all(|gap| gap.tokens.is_none()));
}

fn four_tokens(n: u64, counted: bool) -> String {
    let usage =
        if counted { format!(r#"{{"completion_tokens":{}}}"#, 4 * (n + 1)) } else { "null".to_owned() };
    format!(r#"{{"choices":[{{"delta":{{"content":" a b c d"}},"finish_reason":null}}],"usage":{usage}}}"#)
}

#[test]
fn t3_listed_token_identities_count_too() {
    let token = |_| event(r#"{"choices":[{"text":" a b","token_ids":[5,6]}]}"#);
    let pieces: Vec<Piece> = (0..8).map(|n| (100 + 40 * n, token(n))).chain([(380, tail(16))]).collect();
    let seen = whole(&pieces);
    assert_eq!(seen.tpot_ns(), Some(20e6));
    assert!(seen.gaps().all(|gap| gap.tokens == NonZeroU32::new(2)));
}

#[test]
fn t5_reasoning_counts_for_the_first_token_and_not_for_the_first_visible_one() {
    for field in ["reasoning_content", "reasoning"] {
        let token = |n| if n < 8 { delta(&format!(r#""{field}":" hm""#)) } else { content() };
        let seen = whole(&with_tail(base(token)));
        check_base(&seen);
        assert_eq!(seen.first_visible(), ms(260));
        assert_eq!((seen.events_in(Channel::Reasoning), seen.events_in(Channel::Content)), (8, 8));
    }
}

#[test]
fn t6_an_answer_of_reasoning_alone_is_ok_and_shows_nothing() {
    let seen = whole(&with_tail(base(|_| delta(r#""reasoning_content":" hm""#))));
    check_base(&seen);
    assert_eq!((seen.first_visible(), seen.events_in(Channel::Content)), (None, 0));
}

#[test]
fn t7_arguments_of_a_tool_call_are_tokens() {
    let seen =
        whole(&with_tail(base(|_| delta(r#""tool_calls":[{"index":0,"function":{"arguments":"x"}}]"#))));
    check_base(&seen);
    assert_eq!(seen.events_in(Channel::ToolCall), 16);
}

#[test]
fn t9_an_error_inside_the_stream_is_no_success() {
    let error = event(r#"{"error":{"message":"out of memory","type":"internal","code":500}}"#);
    let named = b"event: error\ndata: {\"message\":\"out of memory\"}\n\n".to_vec();
    for (error, code, message) in [
        (error, Some("500"), "out of memory"),
        (named, None, r#"{"message":"out of memory"}"#),
        (b"event: error\ndata: out of memory\n\n".to_vec(), None, "out of memory"),
    ] {
        let mut pieces: Vec<Piece> = base(|_| content()).into_iter().take(8).collect();
        pieces.push((250, [error, b"data: [DONE]\n\n".to_vec()].concat()));
        let seen = whole(&pieces);
        let expected = Ending::InbandError { code: code.map(Into::into), message: message.into() };
        assert_eq!(seen.ending, expected);
        assert_eq!(seen.wasted_tokens(), 8);
        assert_eq!((seen.ttft(), seen.e2e(), seen.tpot_ns(), seen.gaps().count()), (None, None, None, 0));
        assert_eq!(seen.first_token_ns(), Some(at(100)), "the stamp is kept, the measure is not made");
    }
}

#[test]
fn t10_a_stream_without_a_token_is_empty() {
    for bytes in [b"data: [DONE]\n\n".as_slice(), b"", b": ping\n\n", &role(), &[role(), tail(0)].concat()] {
        let seen = whole(&[(100, bytes.to_vec())]);
        assert_eq!(seen.ending, Ending::Empty, "{}", String::from_utf8_lossy(bytes));
        assert_eq!((seen.ttft(), seen.e2e(), seen.token_events.len()), (None, None, 0));
    }
}

#[test]
fn t11_a_stream_that_breaks_off_is_truncated_however_it_ends() {
    let pieces: Vec<Piece> = base(|_| content()).into_iter().take(8).collect();
    let broken = read(&pieces, BodyEnd::Broken("connection reset".into()));
    assert_eq!(broken.ending, Ending::Truncated { cause: "connection reset".into() });
    assert!(matches!(whole(&pieces).ending, Ending::Truncated { .. }), "a clean end without a finish reason");
    for seen in [broken, whole(&pieces)] {
        assert_eq!((seen.wasted_tokens(), seen.ttft()), (8, None));
    }
}

#[test]
fn without_a_done_mark_a_finish_reason_and_a_clean_end_are_enough() {
    let mut pieces = base(|_| content());
    pieces.push((400, event(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#)));
    assert_eq!(whole(&pieces).ending, Ending::Ok);
    assert!(matches!(read(&pieces, BodyEnd::Broken("reset".into())).ending, Ending::Truncated { .. }));
}

#[test]
fn after_the_done_mark_nothing_changes_the_ending() {
    let pieces = with_tail(base(|_| content()));
    for end in [BodyEnd::Broken("reset".into()), BodyEnd::TimedOut, BodyEnd::Cancelled] {
        let seen = read(&pieces, end);
        check_base(&seen);
        assert_eq!(seen.closed_ns, None);
    }
    let mut more = pieces;
    more.push((500, content()));
    check_base(&whole(&more));
}

#[test]
fn t13_a_large_event_is_one_token_event() {
    let large = format!(r#""content":"{}""#, "x".repeat(4_000_000));
    let mut pieces: Vec<Piece> = Vec::new();
    let bytes = delta(&large);
    pieces.extend(bytes.chunks(65_536).map(|piece| (100, piece.to_vec())));
    pieces.extend(with_tail(base(|_| content()).into_iter().skip(1).collect()));
    check_base(&whole(&pieces));
}

#[test]
fn t13_an_event_over_the_limit_is_a_parse_error_at_once() {
    let endless = vec![b'x'; 1 << 20];
    let pieces: Vec<Piece> = (0..20).map(|n| (n, endless.clone())).collect();
    let seen = whole(&pieces);
    assert!(
        matches!(&seen.ending, Ending::ParseError { message } if message.contains("16 MiB")),
        "{:?}",
        seen.ending
    );
    assert_eq!(seen.bytes, 17 << 20, "the rest was not read");
}

#[test]
fn t14_every_form_of_the_grammar_gives_the_same_figures() {
    let plain = |token: &str| {
        let rewrite = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            match token {
                "crlf" => text.replace('\n', "\r\n"),
                "cr" => text.replace('\n', "\r"),
                "nospace" => text.replace("data: ", "data:"),
                "fields" => text.replace("data: ", "event: message\nid: 7\nretry: 10\ndata: "),
                "comments" => text.replace("data: ", ": ping\n\ndata: "),
                "two lines" => text.replace("\"choices\"", "\ndata: \"choices\""),
                _ => format!("\u{feff}{text}"),
            }
        };
        let first =
            |n: usize, bytes| if token == "bom" && n > 0 { bytes } else { rewrite(bytes).into_bytes() };
        let pieces = with_tail(base(|_| content()));
        pieces.into_iter().enumerate().map(|(n, (ms, bytes))| (ms, first(n, bytes))).collect::<Vec<_>>()
    };
    for form in ["crlf", "cr", "nospace", "fields", "comments", "two lines", "bom"] {
        check_base(&whole(&plain(form)));
    }
}

#[test]
fn t15_an_event_is_stamped_when_its_last_byte_comes_and_no_character_is_broken() {
    let token = delta(r#""content":"中""#);
    let cut = token.iter().position(|byte| *byte > 0x7f).expect("a wide character") + 1;
    let (begin, end) = token.split_at(cut);
    let seen = whole(&[(100, begin.to_vec()), (102, end.to_vec()), (102, tail(1))]);
    assert_eq!((seen.ttft(), seen.text.as_deref()), (ms(102), Some("中")));
}

#[test]
fn t17_what_follows_the_last_token_is_not_part_of_its_time() {
    for close in [600, 700] {
        let mut pieces = base(|_| content());
        pieces.push((close, tail(16)));
        let seen = whole(&pieces);
        check_base(&seen);
        assert_eq!(seen.closed_ns, Some(at(close)));
    }
}

#[test]
fn t18_counts_come_null_absent_or_last_and_disturb_nothing() {
    let null = r#"{"choices":[{"delta":{"content":" tok"}}],"usage":null}"#;
    check_base(&whole(&with_tail(base(|_| event(null)))));
    let mut pieces = base(|_| content());
    pieces.push((
        400,
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_vec(),
    ));
    let seen = whole(&pieces);
    assert_eq!(
        (seen.ttft(), seen.e2e(), seen.output_tokens(), seen.tpot_ns()),
        (ms(100), ms(400), None, None)
    );
}

#[test]
fn a_running_count_tells_the_tokens_of_each_event_and_one_that_does_not_run_tells_none() {
    let counted = |of: fn(u64) -> u64| {
        let token = move |n| {
            event(&format!(r#"{{"choices":[{{"text":"a"}}],"usage":{{"completion_tokens":{}}}}}"#, of(n)))
        };
        whole(&with_tail(base(token)))
    };
    let running = counted(|n| n + 1);
    check_base(&running);
    assert!(running.token_events.iter().all(|event| event.tokens == NonZeroU32::new(1)));
    let opened = |count: u64| {
        let role = event(&format!(
            r#"{{"choices":[{{"delta":{{"role":"assistant","content":""}}}}],"usage":{{"completion_tokens":{count}}}}}"#
        ));
        let token = |n| {
            format!(
                r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{"completion_tokens":{}}}}}"#,
                n + 1
            )
        };
        whole(&with_tail(base(|n| {
            if n == 0 { [role.clone(), event(&token(0))].concat() } else { event(&token(n)) }
        })))
    };
    for seen in [opened(0), opened(1)] {
        check_base(&seen);
        assert!(seen.token_events.iter().all(|event| event.tokens == NonZeroU32::new(1)), "{seen:?}");
    }
    let total = counted(|_| 16);
    check_base(&total);
    assert!(total.token_events.iter().all(|event| event.tokens.is_none()));
}

#[test]
fn a_token_that_decodes_to_nothing_is_a_token() {
    let silent =
        |json: &'static str| with_tail(base(move |n| if n % 5 == 0 { event(json) } else { content() }));
    for json in [
        r#"{"choices":[{"text":"","finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{},"token_ids":[7]}]}"#,
    ] {
        let seen = whole(&silent(json));
        assert_eq!((seen.ttft(), seen.token_events.len()), (ms(100), 16), "{json}");
        assert_eq!(seen.events_in(Channel::Silent), 4, "{json}");
    }
}

#[test]
fn t22_a_timeout_before_the_first_token_leaves_no_figure() {
    let seen = read(&[(5, role())], BodyEnd::TimedOut);
    assert_eq!(seen.ending, Ending::TimedOut);
    assert_eq!((seen.ttft(), seen.e2e(), seen.first_visible(), seen.wasted_tokens()), (None, None, None, 0));
}

#[test]
fn t32_partial_tokens_of_a_stall_are_kept() {
    let pieces: Vec<Piece> = base(|_| content()).into_iter().take(8).collect();
    for (end, expected) in [(BodyEnd::TimedOut, Ending::TimedOut), (BodyEnd::Cancelled, Ending::Cancelled)] {
        let seen = read(&pieces, end);
        assert_eq!((seen.ending, seen.token_events.len()), (expected, 8));
    }
}

#[test]
fn data_that_is_no_json_is_a_parse_error_that_quotes_it() {
    let seen = whole(&[(100, content()), (120, b"data: <html>\x07oops\n\n".to_vec()), (140, content())]);
    let Ending::ParseError { message } = &seen.ending else { panic!("{:?}", seen.ending) };
    assert!(message.contains("<html> oops"), "{message}");
    assert_eq!(seen.wasted_tokens(), 1);
}

#[test]
fn bytes_that_are_no_utf8_become_replacement_characters() {
    let mut bytes = content();
    let place = bytes.windows(4).position(|window| window == b" tok").expect("the text");
    bytes[place] = 0xff;
    assert_eq!(whole(&[(100, bytes), (100, tail(1))]).text.as_deref(), Some("\u{fffd}tok"));
}

#[test]
fn an_answer_of_one_token_has_no_time_per_token() {
    let seen = whole(&[(100, content()), (100, tail(1))]);
    assert_eq!((seen.ttft(), seen.tpot_ns(), seen.legacy_tpot_ns()), (ms(100), None, None));
}

/// What is between the quotes of a text, well formed or not.
fn inside() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ -~]{1,3}".prop_map(String::into_bytes),
        "[\u{e9}\u{4e2d}\u{1f600}]".prop_map(String::into_bytes),
        prop::sample::select(vec![
            &b"\\"[..],
            b"\"",
            b"\\n",
            b"\\u4e2d",
            b"\t",
            b"\x00",
            b"\xff",
            b"\xe4\xb8"
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_answer(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let tokens = with_tail(base(|n| match n % 4 {
            0 => delta(r#""content":"é中\n""#),
            1 => b"event: message\r\ndata: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n".to_vec(),
            2 => b": ping\n\n".to_vec(),
            _ => content(),
        }));
        let bytes = tokens.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>().concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<Piece> = cuts.windows(2).map(|cut| (7, bytes[cut[0]..cut[1]].to_vec())).collect();
        prop_assert_eq!(whole(&pieces), whole(&[(7, bytes)]));
    }

    #[test]
    fn a_text_is_read_alike_whether_or_not_the_chunk_before_had_the_same_bytes_around_it(
        inside in inside(), channel in 0..4usize,
    ) {
        let (before, after) = [
            (r#"{"choices":[{"text":""#, r#""}]}"#),
            (r#"{"choices":[{"delta":{"content":""#, r#""},"finish_reason":null}],"usage":null}"#),
            (r#"{"choices":[{"delta":{"content":null,"reasoning":""#, r#""}}]}"#),
            (r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":""#, r#""}}]}}]}"#),
        ][channel];
        let chunk = |text: &[u8]| [b"data: ", before.as_bytes(), text, after.as_bytes(), b"\n\n"].concat();
        let another = event(r#"{"choices":[{"delta":{"reasoning_content":"y"}}]}"#);
        let same = whole(&[(100, chunk(b"x")), (120, chunk(&inside))]);
        let other = whole(&[(100, chunk(b"x")), (110, another), (120, chunk(&inside))]);
        prop_assert_eq!((&same.ending, &same.text), (&other.ending, &other.text));
        prop_assert_eq!(same.token_events.get(1), other.token_events.get(2));
    }
}
