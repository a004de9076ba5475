//! The Azure LLM inference traces: CSV with wall-clock times.

use super::TraceRow;
use super::input::Lines;
use crate::WorkloadError;
use acb_types::Nanos;
use std::path::Path;

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// Rows of a file; times are since the year 0.
pub(super) struct Reader {
    lines: Lines,
    /// Where each of [`COLUMNS`] is.
    places: [usize; 3],
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut lines = Lines::open(path)?;
        let header = lines.next()?.map(|(line, text)| (line, fields(text).map(str::to_owned).collect()));
        let (line, header): (u64, Vec<String>) = header.unwrap_or_default();
        let mut places = [0; 3];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = header.iter().position(|found| found == column).ok_or_else(|| {
                let found = if header.is_empty() { "an empty file".to_owned() } else { header.join(",") };
                lines.fault_at(
                    line.max(1),
                    format!("the header lacks the column {column} (found {found}); is this an Azure trace?"),
                )
            })?;
        }
        Ok(Self { lines, places })
    }

    pub fn next(&mut self) -> Option<Result<TraceRow, WorkloadError>> {
        let parsed = match self.lines.next() {
            Err(error) => return Some(Err(error)),
            Ok(None) => return None,
            Ok(Some((line, text))) => parse(text, self.places).map(|row| TraceRow { line, ..row }),
        };
        Some(parsed.map_err(|message| self.lines.fault(message)))
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"'))
}

fn parse(line: &str, places: [usize; 3]) -> Result<TraceRow, String> {
    let mut found = [None; 3];
    for (at, field) in fields(line).enumerate() {
        if let Some(column) = places.iter().position(|&place| place == at) {
            found[column] = Some(field);
        }
    }
    let get = |column: usize| found[column].ok_or_else(|| format!("has no {}", COLUMNS[column]));
    let tokens = |column: usize| {
        let text = get(column)?;
        text.parse::<u32>().map_err(|_| {
            format!("{} is \"{text}\", which is not a whole number of tokens from 0", COLUMNS[column])
        })
    };
    let stamp = get(0)?;
    let at = timestamp(stamp).ok_or_else(|| {
        format!("TIMESTAMP is \"{stamp}\"; it should look like 2023-11-16 18:17:03.9799600")
    })?;
    Ok(TraceRow { line: 0, at, input_tokens: tokens(1)?, output_tokens: tokens(2)?, blocks: Vec::new() })
}

/// Nanoseconds since the start of 1970 of `YYYY-MM-DD hh:mm:ss[.f{1,9}]`, a trailing zone of UTC allowed.
fn timestamp(text: &str) -> Option<Nanos> {
    let text = text.trim_end_matches("+00:00").trim_end_matches('Z');
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(|part| digits(part, part.len()));
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| digits(part, 2));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let valid = (1970..2500).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    let nanos = digits(fraction, fraction.len())? * 10u64.pow(9 - fraction.len() as u32);
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(Nanos(seconds * 1_000_000_000 + nanos))
}

fn digits(text: &str, width: usize) -> Option<u64> {
    let plain = !text.is_empty() && text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 in the Gregorian calendar, with years that start in March so that leap days come last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = y / 4 - y / 100 + y / 400;
    y * 365 + leap_days + (m * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_last_digit() {
        let check = |text, nanos| assert_eq!(timestamp(text), nanos, "{text}");
        check("1970-01-01 00:00:00", Some(Nanos(0)));
        check("2023-11-16 18:17:03.9799600", Some(Nanos(1_700_158_623_979_960_000)));
        check("2024-02-29T00:00:00.5Z", Some(Nanos(1_709_164_800_500_000_000)));
        check("2024-05-12 00:00:00.001+00:00", Some(Nanos(1_715_472_000_001_000_000)));
        for bad in [
            "",
            "1700158623",
            "2023-13-01 00:00:00",
            "2023-11-16 18:17",
            "2023-11-16 18:17:3.9",
            "2023-11-16 18:17:03.x",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn a_faulty_field_is_named() {
        let check = |line, part: &str| {
            let error = parse(line, [0, 1, 2]).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check("2023-11-16 18:17:03.97,-5,10", "ContextTokens is \"-5\"");
        check("2023-11-16 18:17:03.97,5", "no GeneratedTokens");
        check("2023-11-16 18:17:03.97,5,NaN", "GeneratedTokens is \"NaN\"");
        check("3.97,5,5", "TIMESTAMP is \"3.97\"");
    }
}
