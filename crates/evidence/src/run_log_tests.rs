use super::*;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

fn started(run: &str) -> LogEvent {
    LogEvent::Started {
        run_id: run.to_owned(),
        experiment_digest: Digest::of(b"experiment"),
        cell_digest: Digest::of(run.as_bytes()),
        preregistration: None,
    }
}

fn ended(run: &str, state: RunState) -> LogEvent {
    LogEvent::Ended { run_id: run.to_owned(), state, record_digest: None, message: None }
}

/// A log of three runs: one complete, one failed, one never ended.
fn written() -> (TempDir, RunLog) {
    let folder = tempfile::tempdir().unwrap();
    let log = RunLog::of(folder.path());
    let events = [
        started("a"),
        ended("a", RunState::Complete),
        started("b"),
        ended("b", RunState::Failed),
        started("c"),
    ];
    for (at, event) in (1..).zip(events) {
        log.append(at, event).unwrap();
    }
    (folder, log)
}

#[test]
fn what_was_appended_is_read_in_order_and_counted() {
    let (_folder, log) = written();
    let entries = log.read().unwrap();
    assert_eq!(entries.iter().map(|e| e.n).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(entries[2].event, started("b"));
    let counts = RunCounts { started: 3, complete: 1, failed: 1, interrupted: 0, never_ended: 1 };
    assert_eq!(run_counts(&entries), counts);
}

#[test]
fn no_file_is_an_empty_log() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(RunLog::of(folder.path()).read().unwrap(), []);
}

#[test]
fn a_line_taken_out_moved_or_put_in_is_named() {
    let (_folder, log) = written();
    let text = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let edits: [(&str, Vec<&str>, u64); 3] = [
        ("out", [&lines[..2], &lines[3..]].concat(), 3),
        ("moved", vec![lines[0], lines[2], lines[1], lines[3], lines[4]], 2),
        ("in", vec![lines[0], lines[1], lines[1], lines[2], lines[3], lines[4]], 3),
    ];
    for (name, edited, at) in edits {
        fs::write(log.path(), edited.join("\n") + "\n").unwrap();
        let error = log.read().unwrap_err();
        assert!(matches!(error, RunLogError::Broken { line, .. } if line == at), "{name}: {error}");
    }
}

#[test]
fn an_unfinished_line_stops_everything_until_it_is_mended_and_is_then_on_record() {
    let (_folder, log) = written();
    let mut text = fs::read_to_string(log.path()).unwrap();
    text.push_str("{\"v\":1,\"n\":6");
    fs::write(log.path(), &text).unwrap();
    assert!(matches!(log.read().unwrap_err(), RunLogError::Torn { bytes: 12, .. }));
    assert!(matches!(log.append(9, started("d")).unwrap_err(), RunLogError::Torn { bytes: 12, .. }));
    assert_eq!(log.mend(9).unwrap(), Some(12));
    let dropped = Digest::of(b"{\"v\":1,\"n\":6");
    assert_eq!(log.read().unwrap()[5].event, LogEvent::Mended { bytes: 12, dropped });
    assert_eq!(log.mend(10).unwrap(), None);
}

#[test]
fn two_writers_make_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in ["a", "b", "c", "d"] {
            let log = RunLog::of(folder.path());
            scope.spawn(move || {
                for at in 0..25 {
                    log.append(at, started(&format!("{writer}{at}"))).unwrap();
                }
            });
        }
    });
    let entries = RunLog::of(folder.path()).read().unwrap();
    assert_eq!(entries.len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever byte is changed, and to whatever, reading says so.
    #[test]
    fn one_changed_byte_is_found(place in 0.0f64..1.0, change in 1u8..=255) {
        let (_folder, log) = written();
        let mut bytes = fs::read(log.path()).unwrap();
        let at = (place * bytes.len() as f64) as usize;
        bytes[at] ^= change;
        fs::write(log.path(), &bytes).unwrap();
        prop_assert!(log.read().is_err(), "byte {at}");
    }
}
