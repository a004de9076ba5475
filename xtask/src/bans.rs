//! Words that may not stand in Rust code, and where.

use crate::fault::Fault;
use crate::source::{Kind, Source};

/// Crates that are told time and chance and do no I/O.
const CORE: [&str; 6] = ["types", "tasks", "workload", "routing", "sim", "stats"];
/// Modules of `std` that a core crate may not use, and what it does instead.
const OUTSIDE: [(&str, &str); 4] = [
    ("time", "the caller passes `Nanos`"),
    ("env", "the binary reads the environment and passes what it found"),
    ("fs", "take `impl Read`, the binary opens files"),
    ("net", "sockets live outside the core crates"),
];

/// Checks one file.
pub fn check(source: &Source) -> Vec<Fault> {
    let core = is_core(&source.path);
    let mut faults = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let mut fault = |message: String| faults.push(Fault::at(&source.path, token.line, message));
        if let Some(message) = banned_everywhere(source, at) {
            fault(message);
        }
        if token.test {
            continue;
        }
        if source.has(at, &[".", "unwrap", "("]) {
            fault("`unwrap()` outside tests: return the error, or `expect` with the broken rule".into());
        }
        if core {
            outside_world(source, at).into_iter().for_each(fault);
        }
    }
    faults
}

fn is_core(path: &str) -> bool {
    let mut parts = path.split('/');
    let (Some("crates"), Some(name)) = (parts.next(), parts.next()) else { return false };
    // The trace and JSONL readers of the workload crate are handed files by their very purpose.
    let reader =
        name == "workload" && parts.any(|part| part.starts_with("trace") || part.starts_with("jsonl"));
    CORE.contains(&name) && !reader
}

fn banned_everywhere(source: &Source, at: usize) -> Option<String> {
    let Kind::Ident(word) = &source.tokens[at].kind else { return None };
    let is_macro = source.has(at + 1, &["!"]) && source.close_of(at + 2).is_some();
    match word.as_str() {
        "HashMap" | "HashSet" => Some(format!(
            "`{word}` iterates in a random order: use a BTree collection, or `rustc_hash` for look-up only"
        )),
        "todo" | "unimplemented" | "dbg" if is_macro => {
            Some(format!("`{word}!` is no finished code: write it or remove it"))
        }
        "ignore"
            if source.close_of(at.wrapping_sub(1)).is_some() && source.has(at.wrapping_sub(2), &["#"]) =>
        {
            Some("an ignored test tests nothing: fix or remove it".into())
        }
        _ => None,
    }
}

/// Uses of the outside world that start at this token.
fn outside_world(source: &Source, at: usize) -> Vec<String> {
    if source.has(at, &["tokio"]) {
        return vec!["`tokio` in a core crate: the caller owns time and I/O".into()];
    }
    if !source.has(at, &["std", ":", ":"]) {
        return Vec::new();
    }
    let named = match source.close_of(at + 3) {
        Some(close) => first_segments(source, at + 3, close),
        None => vec![at + 3],
    };
    let modules = named.into_iter().filter_map(|at| match &source.tokens.get(at)?.kind {
        Kind::Ident(word) => OUTSIDE.iter().find(|(module, _)| module == word),
        _ => None,
    });
    modules.map(|(module, remedy)| format!("`std::{module}` in a core crate: {remedy}")).collect()
}

/// Indices of the words that follow `{` or `,` directly inside a group: the first segments of its paths.
fn first_segments(source: &Source, open: usize, close: usize) -> Vec<usize> {
    let (mut found, mut at) = (vec![open + 1], open + 1);
    while at < close {
        if let Some(inner) = source.close_of(at) {
            at = inner;
        } else if source.has(at, &[","]) {
            found.push(at + 1);
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_at(path: &str, text: &str, expected: &[&str]) {
        let source = Source::parse(path, text).expect("the fixture is Rust");
        let found: Vec<String> = check(&source).into_iter().map(|fault| fault.message).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (message, word) in found.iter().zip(expected) {
            assert!(message.contains(word), "{message} does not name {word}");
        }
    }

    #[test]
    fn unwrap_is_banned_outside_tests_even_inside_a_macro_call() {
        check_at(
            "crates/acb/src/a.rs",
            "fn a() { b().unwrap(); assert!(c.unwrap()); }",
            &["unwrap", "unwrap"],
        );
        check_at("crates/acb/src/a.rs", "#[test]\nfn a() { b().unwrap(); }", &[]);
        check_at("crates/acb/src/a.rs", "fn a() { b().unwrap_or(1); \"x.unwrap()\"; }", &[]);
    }

    #[test]
    fn unfinished_code_and_hash_collections_are_banned_in_tests_too() {
        check_at(
            "crates/acb/tests/a.rs",
            "fn a() { todo!(); dbg!(1); unimplemented!() }",
            &["todo", "dbg", "unimplemented"],
        );
        check_at("crates/acb/tests/a.rs", "use std::collections::{BTreeMap, HashMap};", &["HashMap"]);
        check_at("crates/acb/src/a.rs", "use rustc_hash::FxHashMap; fn todo() {}", &[]);
        check_at("crates/acb/src/a.rs", "#[test]\n#[ignore]\nfn a() {}", &["ignored"]);
    }

    #[test]
    fn a_core_crate_reads_no_clock_environment_file_or_network() {
        check_at("crates/sim/src/a.rs", "fn a() { std::time::Instant::now(); }", &["std::time"]);
        check_at(
            "crates/types/src/a.rs",
            "use std::{fmt::{self, Write}, env, net::TcpStream};",
            &["std::env", "std::net"],
        );
        check_at("crates/stats/src/a.rs", "use tokio::time;", &["tokio"]);
        check_at("crates/routing/src/a.rs", "use std::fs;", &["std::fs"]);
        check_at("crates/workload/src/popularity.rs", "use std::fs;", &["std::fs"]);
    }

    #[test]
    fn the_binary_the_tests_and_the_trace_readers_may_use_files() {
        check_at("crates/acb/src/a.rs", "use std::fs; use std::time::Instant;", &[]);
        check_at("crates/workload/src/trace/azure.rs", "use std::fs;", &[]);
        check_at("crates/workload/src/jsonl.rs", "use std::fs;", &[]);
        check_at("crates/sim/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs; }", &[]);
        check_at("crates/sim/src/a.rs", "use std::fmt; fn a() { let time = std::mem::take(b); }", &[]);
    }
}
