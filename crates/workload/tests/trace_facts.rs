//! Trace importers against facts: published traces where they are at hand, and small samples of our own always.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use acb_workload::trace::{
    LruPoint, TraceFormat, TraceInfo, TraceReader, TraceSpec, Unsorted, ZeroTokens, info,
};
use std::path::{Path, PathBuf};

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Facts of a published trace; says so when it is not there.
fn published(name: &str, format: TraceFormat) -> Option<TraceInfo> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces").join(name);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here; the facts of this trace were not checked", path.display());
        return None;
    }
    Some(info(&TraceSpec::strict(path, format)).unwrap())
}

fn near(what: &str, seen: Option<f64>, wanted: f64, digits: i32) {
    let seen = seen.unwrap_or_else(|| panic!("{what} is absent"));
    assert!((seen - wanted).abs() <= 0.5001 * 10f64.powi(-digits), "{what}: {seen}, not {wanted}");
}

#[test]
fn the_azure_code_trace_has_its_measured_facts() {
    let Some(info) = published("azure-2023-code.csv", TraceFormat::Azure) else { return };
    assert_eq!(info.rows, 8_819);
    near("span", Some(info.span_s), 3435.948, 3);
    near("rate", info.rate_rps, 2.5667, 4);
    near("cv", info.interarrival_cv, 13.152, 3);
    near("idc 1 s", info.idc_1s, 13.186, 3);
    near("idc 60 s", info.idc_60s, 163.36, 2);
    near("peak", info.peak_minute_over_mean, 4.156, 3);
    let (input, output) = (&info.input_tokens, &info.output_tokens);
    near("context mean", input.mean, 2047.848, 3);
    near("generated mean", output.mean, 27.883, 3);
    let tail = |l: &acb_workload::trace::Lengths| [l.p50, l.p90, l.p95, l.p99, l.max].map(Option::unwrap);
    assert_eq!((tail(input), input.sum), ([1469, 5194, 7315, 7436, 7437], 18_059_974));
    assert_eq!((tail(output), output.sum), ([13, 55, 90, 252, 1899], 245_896));
    assert_eq!(info.blocks, None);
}

#[test]
fn the_first_thousand_rows_of_the_mooncake_conversation_trace_have_their_measured_facts() {
    let Some(info) = published("mooncake-conversation-first1000.jsonl", TraceFormat::Mooncake) else {
        return;
    };
    let blocks = info.blocks.unwrap();
    assert_eq!(info.rows, 1_000);
    assert_eq!((blocks.unlimited_hits, blocks.total), (5_791, 27_305));
    let at = |capacity| blocks.lru.iter().find(|point| point.capacity_blocks == capacity).unwrap().hits;
    assert_eq!(at(2_000), 1_145);
    assert_eq!(
        at(100_000),
        blocks.unlimited_hits,
        "a cache that holds everything is as good as an endless one"
    );
    assert!(blocks.lru.windows(2).all(|w| w[0].hits <= w[1].hits), "a larger LRU cache never hits less");
}

#[test]
fn our_azure_sample_has_the_facts_that_we_put_into_it() {
    // Six rows at 0, 0.5, 0.5, 2, 61 and 62.25 s. Gaps 0.5, 0, 1.5, 59, 1.25: mean 12.45.
    let info = info(&TraceSpec::strict(own("azure-sample.csv"), TraceFormat::Azure)).unwrap();
    assert_eq!((info.rows, info.distinct_times), (6, 5));
    near("span", Some(info.span_s), 62.25, 9);
    near("rate", info.rate_rps, 6.0 / 62.25, 9);
    let gaps = [0.5, 0.0, 1.5, 59.0, 1.25];
    let squares: f64 = gaps.iter().map(|gap: &f64| (gap - 12.45).powi(2)).sum();
    near("cv", info.interarrival_cv, (squares / 4.0).sqrt() / 12.45, 9);
    near("peak", info.peak_minute_over_mean, 4.0 / 3.0, 9);
    near("idc 60 s", info.idc_60s, 2.0 / 3.0, 9);
    assert_eq!(
        (info.input_tokens.sum, info.input_tokens.p50, info.input_tokens.max),
        (2_100, Some(300), Some(600))
    );
    assert_eq!((info.output_tokens.p90, info.output_tokens.mean), (Some(60), Some(35.0)));
}

#[test]
fn our_mooncake_sample_has_the_facts_that_we_put_into_it() {
    // Rows [1 2] [1 2 3] [9] [1 2 3]: hits 0, 2, 0, 3 of 9 blocks, 4 unique; the last block of row 4 has 76 tokens.
    let info = info(&TraceSpec::strict(own("mooncake-sample.jsonl"), TraceFormat::Mooncake)).unwrap();
    assert_eq!(info.rows, 4);
    near("span", Some(info.span_s), 3.0, 9);
    let blocks = info.blocks.unwrap();
    assert_eq!((blocks.total, blocks.unique, blocks.unlimited_hits), (9, 4, 5));
    assert_eq!(blocks.unlimited_hit_tokens, 2 * 512 + 1_100);
    assert_eq!(blocks.lru[0], LruPoint { capacity_blocks: 1_000, hits: 5 });
}

fn written(name: &str, text: &[u8]) -> (tempfile::TempDir, TraceSpec) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let format = TraceFormat::guess(&path).unwrap();
    (folder, TraceSpec::strict(path, format))
}

fn fails(name: &str, text: &[u8], parts: &[&str]) {
    let (_folder, spec) = written(name, text);
    let error = info(&spec).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";

#[test]
fn faulty_traces_are_refused_by_line_and_remedy() {
    fails("a.csv", b"", &["a.csv:1", "lacks the column TIMESTAMP", "an empty file"]);
    fails("a.csv", b"time,in,out\n1,2,3\n", &["a.csv:1", "found time,in,out"]);
    fails("a.csv", HEADER.as_bytes(), &["a.csv:1", "no requests"]);
    let row = |text: &str| format!("{HEADER}2023-11-16 18:17:03.97,5,5\r\n{text}");
    fails(
        "a.csv",
        row("2023-11-16 18:17:04,0,5").as_bytes(),
        &["a.csv:3", "prompt of 0", "zero_tokens to skip"],
    );
    fails(
        "a.csv",
        row("2023-11-16 18:17:02,5,5").as_bytes(),
        &["a.csv:3", "earlier than line 2", "unsorted to sort"],
    );
    fails("a.csv", row("2023-11-16 18:17:04,-1,5").as_bytes(), &["a.csv:3", "ContextTokens is \"-1\""]);
    fails(
        "a.csv",
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n\xff\xfe",
        &["a.csv:2", "not UTF-8 from byte 1"],
    );
    fails(
        "a.jsonl",
        b"{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1]}",
        &["a.jsonl:1", "are 2 blocks", "set block_tokens"],
    );
    fails("a.jsonl", b"{\"timestamp\": 0.5, \"input_length\": 6}", &["a.jsonl:1", "whole ms"]);
    let missing = TraceSpec::strict(PathBuf::from("nowhere/a.csv"), TraceFormat::Azure);
    assert!(info(&missing).unwrap_err().to_string().contains("check the path"));
    let folder = TraceSpec::strict(own(""), TraceFormat::Azure);
    assert!(info(&folder).is_err());
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let mut text = HEADER.as_bytes().to_vec();
    text.resize(17 << 20, b'7');
    fails("a.csv", &text, &["a.csv:2", "longer than 16 MiB"]);
}

#[test]
fn oddities_can_be_allowed_one_by_one() {
    let text = format!(
        "{HEADER}2023-11-16 00:00:02,7,1\n\n2023-11-16 00:00:01,5,1\r\n2023-11-16 00:00:01,6,1\n2023-11-16 00:00:09,0,4"
    );
    let (_folder, spec) = written("a.csv", text.as_bytes());
    let spec = TraceSpec { zero_tokens: ZeroTokens::Skip, unsorted: Unsorted::Sort, ..spec };
    let mut reader = TraceReader::open(&spec).unwrap();
    let rows: Vec<_> = reader.by_ref().map(|row| row.unwrap()).collect();
    let seen: Vec<_> = rows.iter().map(|row| (row.line, row.at.as_secs_f64(), row.input_tokens)).collect();
    assert_eq!(seen, [(4, 0.0, 5), (5, 0.0, 6), (2, 1.0, 7)], "ties keep the order of the file");
    assert_eq!(reader.skipped(), 1);
}
