//! Reads a record's line when it is written exactly as this program writes it, several times as fast as a JSON parser.
//!
//! The scanner takes a subset: fields in the order of [`Record`], no spaces, no escapes, no number in another form. Of
//! every other line it says nothing, and the JSON parser decides. What it takes, it takes as the parser does; tests hold
//! one against the other. A field that is added to `Record` makes every line fall through to the parser, and a test fail.

use crate::metrics::REASONS_ASKED;
use acb_types::{
    AbsentReason, AdapterLoad, Nanos, Outcome, Record, ReplicaId, RequestId, SessionId, Source, TenantId,
    TrustGroupId,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Which reasons of absences a record keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasons {
    /// All of them.
    All,
    /// Those that a metric asks for ([`REASONS_ASKED`]): a map per record is dear when a million are read in a second.
    Asked,
}

/// The record on a line, when it is in the usual form.
pub(crate) fn record(line: &[u8], reasons: Reasons) -> Option<Record<'_>> {
    let mut at = Cursor { rest: line, reasons };
    let who = Who::scan(&mut at)?;
    let when = When::scan(&mut at)?;
    let what = What::scan(&mut at)?;
    at.rest.is_empty().then_some(Record {
        v: who.v,
        request: RequestId(who.request),
        ask: who.ask,
        session: SessionId(who.session),
        turn: who.turn,
        tenant: TenantId(who.tenant),
        trust_group: TrustGroupId(who.trust_group),
        task: Cow::Borrowed(who.task),
        source: who.source,
        engine: Cow::Borrowed(who.engine),
        adapter: Cow::Borrowed(who.adapter),
        replica: who.replica,
        reason: Cow::Borrowed(who.reason),
        outcome: when.outcome,
        due_ns: when.due,
        sent_ns: when.sent,
        admitted_ns: when.admitted,
        first_token_ns: when.first_token,
        last_token_ns: when.last_token,
        ended_ns: when.ended,
        itl_max_ns: when.itl_max,
        prompt_tokens: what.prompt_tokens,
        output_tokens: what.output_tokens,
        simulated_prefix_hit_tokens: what.simulated_hits,
        server_prefix_hit_tokens: what.server_hits,
        adapter_load: what.adapter_load,
        preemptions: what.preemptions,
        overtaken: what.overtaken,
        quality: what.quality,
        quality_source: Cow::Borrowed(what.quality_source),
        absent: what.absent,
    })
}

/// From the version to the reason of the choice.
struct Who<'a> {
    v: u32,
    request: u64,
    ask: u64,
    session: u64,
    turn: u32,
    tenant: u32,
    trust_group: u32,
    task: &'a str,
    source: Source,
    engine: &'a str,
    adapter: &'a str,
    replica: Option<ReplicaId>,
    reason: &'a str,
}

impl<'a> Who<'a> {
    fn scan(at: &mut Cursor<'a>) -> Option<Self> {
        Some(Self {
            v: at.skip("{\"v\":")?.int32()?,
            request: at.skip(",\"request\":")?.int()?,
            ask: at.skip(",\"ask\":")?.int()?,
            session: at.skip(",\"session\":")?.int()?,
            turn: at.skip(",\"turn\":")?.int32()?,
            tenant: at.skip(",\"tenant\":")?.int32()?,
            trust_group: at.skip(",\"trust_group\":")?.int32()?,
            task: at.skip(",\"task\":\"")?.text()?,
            source: match at.skip(",\"source\":\"")?.word()? {
                b"simulated" => Source::Simulated,
                b"client" => Source::Client,
                b"server" => Source::Server,
                _ => return None,
            },
            engine: at.skip(",\"engine\":\"")?.text()?,
            adapter: at.skip(",\"adapter\":\"")?.text()?,
            replica: at.skip(",\"replica\":")?.or_null(Cursor::int32)?.map(ReplicaId),
            reason: at.skip(",\"reason\":\"")?.text()?,
        })
    }
}

/// From the outcome to the longest gap.
struct When {
    outcome: Outcome,
    due: Nanos,
    sent: Nanos,
    admitted: Option<Nanos>,
    first_token: Option<Nanos>,
    last_token: Option<Nanos>,
    ended: Nanos,
    itl_max: Option<Nanos>,
}

impl When {
    fn scan(at: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            outcome: match at.skip(",\"outcome\":\"")?.word()? {
                b"ok" => Outcome::Ok,
                b"rejected" => Outcome::Rejected,
                b"shed" => Outcome::Shed,
                b"timed_out" => Outcome::TimedOut,
                b"failed" => Outcome::Failed,
                b"unfinished" => Outcome::Unfinished,
                _ => return None,
            },
            due: at.skip(",\"due_ns\":")?.nanos()?,
            sent: at.skip(",\"sent_ns\":")?.nanos()?,
            admitted: at.skip(",\"admitted_ns\":")?.or_null(Cursor::nanos)?,
            first_token: at.skip(",\"first_token_ns\":")?.or_null(Cursor::nanos)?,
            last_token: at.skip(",\"last_token_ns\":")?.or_null(Cursor::nanos)?,
            ended: at.skip(",\"ended_ns\":")?.nanos()?,
            itl_max: at.skip(",\"itl_max_ns\":")?.or_null(Cursor::nanos)?,
        })
    }
}

/// From the tokens to the end.
struct What<'a> {
    prompt_tokens: u32,
    output_tokens: u32,
    simulated_hits: Option<u32>,
    server_hits: Option<u32>,
    adapter_load: Option<AdapterLoad>,
    preemptions: u32,
    overtaken: u32,
    quality: Option<f64>,
    quality_source: &'a str,
    absent: BTreeMap<Cow<'a, str>, AbsentReason>,
}

impl<'a> What<'a> {
    fn scan(at: &mut Cursor<'a>) -> Option<Self> {
        Some(Self {
            prompt_tokens: at.skip(",\"prompt_tokens\":")?.int32()?,
            output_tokens: at.skip(",\"output_tokens\":")?.int32()?,
            simulated_hits: at.skip(",\"simulated_prefix_hit_tokens\":")?.or_null(Cursor::int32)?,
            server_hits: at.skip(",\"server_prefix_hit_tokens\":")?.or_null(Cursor::int32)?,
            adapter_load: at.skip(",\"adapter_load\":")?.or_null(Cursor::load)?,
            preemptions: at.skip(",\"preemptions\":")?.int32()?,
            overtaken: at.skip(",\"overtaken\":")?.int32()?,
            quality: at.skip(",\"quality\":")?.or_null(Cursor::float)?,
            quality_source: at.skip(",\"quality_source\":\"")?.text()?,
            absent: at.absences()?,
        })
    }
}

/// The part of a line that is not read yet.
struct Cursor<'a> {
    rest: &'a [u8],
    reasons: Reasons,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn skip(&mut self, literal: &str) -> Option<&mut Self> {
        self.rest = self.rest.strip_prefix(literal.as_bytes())?;
        Some(self)
    }

    /// An integer of at most 19 digits without leading zeros: below 2^64 in any case.
    #[inline]
    fn int(&mut self) -> Option<u64> {
        let bytes = self.rest;
        let (mut value, mut digits) = (0_u64, 0);
        for byte in bytes {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        if digits == 0 || digits > 19 || (digits > 1 && bytes[0] == b'0') {
            return None;
        }
        self.rest = &self.rest[digits..];
        Some(value)
    }

    #[inline]
    fn int32(&mut self) -> Option<u32> {
        self.int().and_then(|value| u32::try_from(value).ok())
    }

    #[inline]
    fn nanos(&mut self) -> Option<Nanos> {
        self.int().map(Nanos)
    }

    /// A number as the parser reads it, to the last bit.
    fn float(&mut self) -> Option<f64> {
        let end = self.rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        match number {
            b"0.0" => Some(0.0),
            b"1.0" => Some(1.0),
            _ => serde_json::from_slice(number).ok(),
        }
    }

    /// Text up to its closing quote, which is skipped; none that isn't plain ASCII without escapes.
    #[inline]
    fn word(&mut self) -> Option<&'a [u8]> {
        let end =
            self.rest.iter().position(|byte| !matches!(byte, 0x20..0x7f) || matches!(byte, b'"' | b'\\'))?;
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"\"")?;
        Some(word)
    }

    /// The same as text.
    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        self.word().and_then(|word| std::str::from_utf8(word).ok())
    }

    #[inline]
    fn or_null<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.rest.strip_prefix(b"null") {
            Some(rest) => {
                self.rest = rest;
                Some(None)
            }
            None => read(self).map(Some),
        }
    }

    fn load(&mut self) -> Option<AdapterLoad> {
        let end = self.rest.iter().position(|byte| *byte == b'}')?;
        let (load, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        load.starts_with(b"{").then(|| serde_json::from_slice(load).ok())?
    }

    /// The reasons of absences and the end of the record.
    fn absences(&mut self) -> Option<BTreeMap<Cow<'a, str>, AbsentReason>> {
        let mut absent = BTreeMap::new();
        if self.rest == b"}" {
            self.rest = b"";
            return Some(absent);
        }
        self.skip(",\"absent\":{\"")?;
        loop {
            let name = self.word()?;
            let why = match self.skip(":\"")?.word()? {
                b"request_failed" => AbsentReason::RequestFailed,
                b"not_applicable" => AbsentReason::NotApplicable,
                b"not_measured" => AbsentReason::NotMeasured,
                b"not_reported" => AbsentReason::NotReported,
                _ => return None,
            };
            if self.reasons == Reasons::All || REASONS_ASKED.iter().any(|asked| asked.as_bytes() == name) {
                absent.insert(Cow::Borrowed(std::str::from_utf8(name).ok()?), why);
            }
            if self.rest == b"}}" {
                self.rest = b"";
                return Some(absent);
            }
            self.skip(",\"")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failure, record as answered, record_line};
    use acb_types::Tier;
    use proptest::prelude::*;

    fn all(line: &str) -> Option<Record<'_>> {
        record(line.as_bytes(), Reasons::All)
    }

    fn parsed(line: &str) -> Option<Record<'_>> {
        serde_json::from_str(line).ok()
    }

    /// A record with something in every field that is open to it.
    fn any_record() -> impl Strategy<Value = Record<'static>> {
        let numbers = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u32>());
        let options = (any::<[bool; 6]>(), 0usize..6, 0usize..4);
        (numbers, options, any::<f64>(), "[a-z0-9 .()_-]{0,20}").prop_map(
            |((long, short, other, count), (given, outcome, why), quality, name)| {
                let outcomes = [
                    Outcome::Ok,
                    Outcome::Rejected,
                    Outcome::Shed,
                    Outcome::TimedOut,
                    Outcome::Failed,
                    Outcome::Unfinished,
                ];
                let whys = [
                    AbsentReason::RequestFailed,
                    AbsentReason::NotApplicable,
                    AbsentReason::NotMeasured,
                    AbsentReason::NotReported,
                ];
                let sources = [Source::Simulated, Source::Client, Source::Server];
                let absent = ["adapter_load", "admitted_ns", "replica"].into_iter().take(why);
                Record {
                    ask: long,
                    turn: short,
                    due_ns: Nanos(other),
                    outcome: outcomes[outcome],
                    source: sources[outcome % 3],
                    engine: Cow::Owned(name),
                    replica: given[0].then_some(ReplicaId(count)),
                    itl_max_ns: given[1].then_some(Nanos(long)),
                    server_prefix_hit_tokens: given[2].then_some(short),
                    adapter_load: given[3]
                        .then_some(AdapterLoad { from: Tier::Disk, stall_ns: Nanos(other) }),
                    quality: given[4].then_some(quality).filter(|quality| quality.is_finite()),
                    absent: absent.map(|name| (Cow::Borrowed(name), whys[why])).collect(),
                    ..if given[5] { answered(long >> 40) } else { failure(long >> 40, Outcome::Failed) }
                }
            },
        )
    }

    #[test]
    fn what_the_program_writes_is_scanned() {
        for record_of in [answered(7), failure(8, Outcome::Shed)] {
            let line = record_line(&record_of);
            assert_eq!(all(line.trim_end()), Some(record_of));
        }
    }

    #[test]
    fn another_form_is_left_to_the_parser() {
        let line = record_line(&answered(7));
        let line = line.trim_end();
        for (from, to) in [
            ("\"v\":1", "\"v\": 1"),
            ("\"v\":1", "\"v\":01"),
            ("\"turn\":0", "\"turn\":4294967296"),
            ("\"turn\":0", "\"turn\":-1"),
            ("\"ask\":7", "\"ask\":18446744073709551615"),
            ("\"task\":\"qa\"", "\"task\":\"q\\u0061\""),
            ("\"quality\":1.0", "\"quality\":.5"),
            ("\"quality\":1.0", "\"quality\":NaN"),
            ("\"outcome\":\"ok\"", "\"outcome\":\"okay\""),
        ] {
            assert!(line.contains(from), "{from} is not in {line}");
            assert_eq!(all(&line.replacen(from, to, 1)), None, "{to}");
        }
        assert_eq!(all(&format!("{line}}}")), None);
        assert_eq!(all(&line[..line.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn every_record_is_scanned_as_it_is_parsed(of in any_record()) {
            let line = record_line(&of);
            let line = line.trim_end();
            let numbers_are_short = [of.ask, of.due_ns.0].iter().all(|number| *number < 10_000_000_000_000_000_000);
            let scanned = all(line);
            prop_assert_eq!(scanned.is_some(), numbers_are_short);
            prop_assert!(scanned.is_none() || scanned == parsed(line));
            let asked = record(line.as_bytes(), Reasons::Asked);
            prop_assert_eq!(asked.map(|asked| Record { absent: BTreeMap::new(), ..asked }),
                scanned.map(|scanned| Record { absent: BTreeMap::new(), ..scanned }));
        }

        #[test]
        fn no_metric_asks_for_a_reason_that_is_left_out(mut records in prop::collection::vec(any_record(), 0..30)) {
            let manifest = crate::testing::manifest("a", crate::ArmRole::Baseline, 0);
            let usable = |record: &mut Record<'static>| {
                record.quality = record.quality.map(|quality| (quality.abs() / f64::MAX).min(1.0));
                record.due_ns = Nanos(record.due_ns.0 >> 8);
            };
            records.iter_mut().for_each(usable);
            let kept = |record: &Record<'static>| {
                let absent = record.absent.clone().into_iter().filter(|(name, _)| REASONS_ASKED.contains(&&**name));
                Record { absent: absent.collect(), ..record.clone() }
            };
            let of = |records: Vec<Record<'static>>| crate::summarise(&manifest, records.into_iter().map(Ok), []).unwrap();
            prop_assert_eq!(of(records.iter().map(kept).collect()), of(records));
        }

        #[test]
        fn no_changed_byte_makes_the_scanner_see_what_the_parser_does_not(
            of in any_record(), at in any::<prop::sample::Index>(), byte in 0x20u8..0x7f,
        ) {
            let mut line = record_line(&of).trim_end().to_owned().into_bytes();
            let at = at.index(line.len());
            line[at] = byte;
            let line = String::from_utf8(line).unwrap();
            let scanned = all(&line);
            prop_assert!(scanned.is_none() || scanned == parsed(&line), "{}", line);
        }
    }
}
