//! Readers of `requests.jsonl` and `server.jsonl`: one line in memory at a time, every fault with its file and line.

use crate::error::{EvidenceError, LineFault};
use crate::lines::Lines;
use crate::scan::{self, Reasons};
use crate::seen::Seen;
use acb_types::{Digest, Nanos, Outcome, RECORD_VERSION, Record, ReplicaId, ServerRow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The records of a run, in the order of the file. Of ids already seen a bit each is kept.
pub struct Records {
    lines: Lines,
    seen: Seen,
}

impl Records {
    /// Opens a `requests.jsonl`.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(path: &Path) -> Result<Self, EvidenceError> {
        Ok(Self { lines: Lines::open(path)?, seen: Seen::default() })
    }

    /// The same, of which [`Self::digest`] gives the hash, so that a file is read once and not twice.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub(crate) fn hashed(path: &Path) -> Result<Self, EvidenceError> {
        Ok(Self { lines: Lines::hashed(path)?, seen: Seen::default() })
    }

    /// The hash of the whole file, also of what was not read; `None` when it was not opened for that.
    ///
    /// # Errors
    /// When the rest of the file can't be read.
    pub(crate) fn digest(self) -> Result<Option<Digest>, EvidenceError> {
        self.lines.digest()
    }

    /// The next record, borrowed from the line buffer; `None` at the end.
    ///
    /// # Errors
    /// When the line can't be read, is no record of a known version, repeats an id, or contradicts itself.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, EvidenceError> {
        self.next(Reasons::All)
    }

    /// The same, with no more reasons of absences than metrics ask for.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_for_metrics(&mut self) -> Result<Option<Record<'_>>, EvidenceError> {
        self.next(Reasons::Asked)
    }

    fn next(&mut self, reasons: Reasons) -> Result<Option<Record<'_>>, EvidenceError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let lines = &self.lines;
        let record = match parse_record(lines.bytes(), reasons) {
            Ok(record) => record,
            Err(fault) => return Err(lines.fault(fault)),
        };
        check_version(record.v).and_then(|()| check_record(&record)).map_err(|fault| lines.fault(fault))?;
        if !self.seen.insert(record.request.0) {
            return Err(lines.fault(LineFault::Duplicate { request: record.request.0 }));
        }
        Ok(Some(record))
    }

    /// The error that names the line last read.
    #[must_use]
    pub fn fault(&self, fault: LineFault) -> EvidenceError {
        self.lines.fault(fault)
    }
}

/// The server rows of a run, in the order of the file.
pub struct ServerRows {
    lines: Lines,
    latest: BTreeMap<ReplicaId, Nanos>,
}

impl ServerRows {
    /// Opens a `server.jsonl`.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(path: &Path) -> Result<Self, EvidenceError> {
        Ok(Self { lines: Lines::open(path)?, latest: BTreeMap::new() })
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// When the line can't be read, is no row of a known version, or goes back in time for its replica.
    pub fn read(&mut self) -> Result<Option<ServerRow>, EvidenceError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let latest = &mut self.latest;
        let checked = parse::<ServerRow>(self.lines.bytes()).and_then(|row| {
            check_version(row.v)?;
            match latest.insert(row.replica, row.at_ns) {
                Some(before) if before > row.at_ns => Err(broken(format!(
                    "time runs backward for replica {}: {} ns after {} ns",
                    row.replica, row.at_ns.0, before.0
                ))),
                _ => Ok(row),
            }
        });
        match checked {
            Ok(row) => Ok(Some(row)),
            Err(fault) => Err(self.lines.fault(fault)),
        }
    }
}

fn broken(rule: String) -> LineFault {
    LineFault::Inconsistent { rule }
}

/// A record: scanned where it is in the form that this program writes, parsed otherwise.
fn parse_record(line: &[u8], reasons: Reasons) -> Result<Record<'_>, LineFault> {
    match scan::record(line, reasons) {
        Some(record) => Ok(record),
        None => parse(line),
    }
}

/// Parses a line; when that fails and the row says that it is of another version, that is the fault to name.
fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineFault> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let text = std::str::from_utf8(line).map_err(|error| LineFault::NotUtf8 { byte: error.valid_up_to() })?;
    if text.trim_ascii().is_empty() {
        return Err(LineFault::Empty);
    }
    // serde would also take the fields of a struct from an array.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(LineFault::Malformed { message: "a row is a JSON object".to_owned() });
    }
    serde_json::from_str(text).map_err(|error| {
        let version = serde_json::from_str::<Version>(text).map(|version| check_version(version.v));
        match version {
            Ok(Err(unknown)) => unknown,
            _ => LineFault::Malformed { message: error.to_string() },
        }
    })
}

fn check_version(found: u32) -> Result<(), LineFault> {
    if found == RECORD_VERSION { Ok(()) } else { Err(LineFault::Version { found, known: RECORD_VERSION }) }
}

fn check_record(record: &Record<'_>) -> Result<(), LineFault> {
    let request = record.request;
    if let Some(quality) = record.quality {
        if !(0.0..=1.0).contains(&quality) {
            return Err(broken(format!("request {request}: quality {quality} is not in 0 to 1")));
        }
        if record.outcome != Outcome::Ok && quality > 0.0 {
            return Err(broken(format!(
                "request {request} was not answered, so its quality is 0, not {quality}"
            )));
        }
    }
    if record.outcome == Outcome::Ok && record.output_tokens > 0 && record.last_token_ns.is_none() {
        return Err(broken(format!("request {request} is ok but has no time of its last token")));
    }
    let steps = [
        ("due_ns", Some(record.due_ns)),
        ("sent_ns", Some(record.sent_ns)),
        ("admitted_ns", record.admitted_ns),
        ("first_token_ns", record.first_token_ns),
        ("last_token_ns", record.last_token_ns),
        ("ended_ns", Some(record.ended_ns)),
    ];
    let mut before = ("due_ns", Nanos::ZERO);
    for (name, at) in steps.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        if at < before.1 {
            let (name_before, at_before) = (before.0, before.1.0);
            return Err(broken(format!(
                "request {request}: {name} {} lies before {name_before} {at_before}",
                at.0
            )));
        }
        before = (name, at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_LINE_BYTES;
    use crate::testing::{record, record_line};
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let mut records = Records::open(&path).unwrap();
        let mut count = 0;
        while records.read().map_err(|error| error.to_string())?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn fails(bytes: &[u8], place: &str, words: &str) {
        let error = read(bytes).unwrap_err();
        assert!(error.contains(&format!("requests.jsonl:{place}: ")) && error.contains(words), "{error}");
    }

    #[test]
    fn whole_lines_are_read_and_an_empty_file_has_none() {
        assert_eq!(read(b""), Ok(0));
        let two = record_line(&record(0)) + &record_line(&record(1)).replace('\n', "\r\n");
        assert_eq!(read(two.as_bytes()), Ok(2));
    }

    #[test]
    fn every_fault_is_named_with_file_and_line() {
        let good = record_line(&record(0));
        let after_good = |line: &str| (good.clone() + line).into_bytes();
        fails(&after_good(&good), "2", "request 0 has a second row");
        fails(&after_good(good.trim_end()), "2", "cut off");
        fails(&after_good("\n"), "2", "empty");
        fails(&after_good("{\"v\":1}\n"), "2", "missing field");
        fails(&after_good("{\"v\":9,\"new\":0}\n"), "2", "version 9 is not known");
        fails(&after_good(&good.replace("\"v\":1", "\"v\":2")), "2", "version 2 is not known");
        fails(&after_good(&good.replace("\"quality\":1.0", "\"quality\":NaN")), "2", "column");
        fails(&after_good(&good.replace("\"quality\":1.0", "\"quality\":1e999")), "2", "number out of range");
        fails(&after_good(&good.replace("\"quality\":1.0", "\"quality\":-0.5")), "2", "not in 0 to 1");
        fails(&[good.as_bytes(), b"{\"\xff\"}\n"].concat(), "2", "not UTF-8 from byte 2");
        fails(&vec![b'['; MAX_LINE_BYTES + 7], "1", "longer than 1048576 bytes");
        fails(&vec![b'['; MAX_LINE_BYTES - 7], "1", "cut off");
        fails(
            b"[1, 2]
",
            "1",
            "a row is a JSON object",
        );
    }

    #[test]
    fn a_row_that_contradicts_itself_is_refused() {
        let mut backward = record(0);
        (backward.first_token_ns, backward.last_token_ns) = (Some(Nanos(9)), Some(Nanos(8)));
        (backward.due_ns, backward.sent_ns, backward.admitted_ns) = (Nanos(1), Nanos(2), Some(Nanos(3)));
        fails(record_line(&backward).as_bytes(), "1", "last_token_ns 8 lies before first_token_ns 9");
        let mut failed = record(0);
        failed.outcome = Outcome::Failed;
        fails(record_line(&failed).as_bytes(), "1", "not answered");
        let mut unfinished = record(0);
        unfinished.last_token_ns = None;
        fails(record_line(&unfinished).as_bytes(), "1", "no time of its last token");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_single_changed_byte_makes_the_reader_panic(at in 0usize..600, byte in any::<u8>()) {
            let mut line = record_line(&record(0)).into_bytes();
            let at = at % line.len();
            line[at] = byte;
            let _ = read(&line);
        }
    }
}
