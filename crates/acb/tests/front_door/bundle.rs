//! `acb bundle` and `acb verify`: what holds, what doesn't, and how that is said.

use crate::bench::{Bench, assert_same_files};
use std::fs;
use std::path::Path;

const RUN: &str = "run small.yaml --output-dir out";
/// Fewer and smaller runs, where one run is as good as thirty.
const FEW: [&str; 6] = ["--set", "seeds.count=1", "--set", "workload.requests=20", "--allow", "unit-floor"];

/// A bench with results, a key and a signed bundle of them.
fn bundled() -> Bench {
    let bench = Bench::new();
    bench.done(RUN, &FEW);
    bench.done("key new --out me.key", &[]);
    bench.done("bundle out --key me.key --out b", &[]);
    bench
}

/// A change in one file of the bundle's folder.
fn edit(bench: &Bench, file: &str, change: impl FnOnce(String) -> String) {
    let path = bench.path(file);
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
}

#[test]
fn a_bundle_holds_wherever_it_is_moved_as_a_folder_and_as_an_archive() {
    let bench = bundled();
    let key = ["--public-key", "me.key.pub"];
    let held = bench.done("verify b", &key);
    assert!(held.out.contains("100 decisions of 5 runs made again alike"), "{}", held.out);
    assert!(held.out.contains("by the key given"), "{}", held.out);
    fs::create_dir(bench.path("elsewhere")).unwrap();
    fs::rename(bench.path("b"), bench.path("elsewhere/renamed")).unwrap();
    fs::rename(bench.path("b.tar.zst"), bench.path("elsewhere/c")).unwrap();
    fs::remove_dir_all(bench.path("out")).unwrap();
    bench.done("verify elsewhere/renamed", &key);
    bench.done("verify elsewhere/c", &key);
    let document = bench.done("verify elsewhere/c --json", &[]).json();
    assert_eq!((document["holds"].as_bool(), document["faults"].as_array().unwrap().len()), (Some(true), 0));
    assert_eq!(document["bundle"]["runs"]["complete"], 5);
}

#[test]
fn equal_results_give_equal_bundles_and_nothing_is_overwritten() {
    let bench = bundled();
    bench.acb("bundle out --key me.key --out b", &[]).says(2, &["exists already and is not overwritten"]);
    fs::create_dir(bench.path("again")).unwrap();
    bench.done("bundle out --key me.key --out again/b", &[]);
    assert_same_files(&bench.files("b"), &bench.files("again/b"));
    assert_eq!(fs::read(bench.path("b.tar.zst")).unwrap(), fs::read(bench.path("again/b.tar.zst")).unwrap());
    bench.acb("bundle out --out out/b", &[]).says(2, &["lies within the results"]);
}

#[test]
fn a_number_that_was_edited_is_named_with_its_place_whether_or_not_the_sums_were_made_again() {
    let bench = bundled();
    edit(&bench, "b/tables/report.json", |text| text.replacen("\"alpha\": 0.05", "\"alpha\": 0.06", 1));
    bench
        .acb("verify b", &[])
        .says(1, &["sums: tables/report.json", "documents: tables/report.json", "0.06"]);
    let bench = bundled();
    edit(&bench, "b/results/small-base-s1/summary.json", |text| {
        text.replacen("\"requests\": 20", "\"requests\": 21", 1)
    });
    let place = "summaries: results/small-base-s1/summary.json /requests: 21; expected 20";
    bench.acb("verify b", &[]).says(1, &[place, "sums: results/small-base-s1/summary.json"]);
}

#[test]
fn what_is_missing_added_or_signed_by_another_is_named() {
    let bench = bundled();
    bench.done("key new --out other.key", &[]);
    bench.acb("verify b --public-key other.key.pub", &[]).says(1, &["signature: attestations/", "names key"]);
    bench.write("b/results/notes.txt", "x");
    fs::remove_file(bench.path("b/junit.xml")).unwrap();
    bench
        .acb("verify b", &[])
        .says(1, &["results/notes.txt: a file that SHA256SUMS does not have", "junit.xml: no such file"]);
    bench.done("bundle out --out unsigned", &[]);
    bench.done("verify unsigned", &[]);
    bench.acb("verify unsigned --public-key me.key.pub", &[]).says(1, &["signature: attestations/"]);
    bench.acb("verify nowhere", &[]).says(2, &["nowhere"]);
    bench.write("b.tar.zst", "no archive");
    bench.acb("verify b.tar.zst", &[]).says(1, &["form: b.tar.zst", "can't be unpacked"]);
}

#[test]
fn strict_refuses_what_is_incomplete_and_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.done(RUN, &FEW);
    fs::remove_dir_all(bench.path("out/small-base-s1")).unwrap();
    bench.acb("bundle out", &[]).says(1, &["small-base-s1: ended complete, and its folder is gone"]);
    bench.done(&format!("{RUN} --resume"), &FEW);
    let refused = bench.acb("bundle out --strict", &[]);
    refused.says(1, &["gate unit-floor was overruled", "without the lock of a preregistration"]);
    let names: Vec<_> =
        fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    bench.done("bundle out", &[]);
    let held = bench.done("verify out-bundle", &[]);
    assert!(held.out.contains("missing: sweep small: gate unit-floor was overruled"), "{}", held.out);
}

#[test]
fn results_that_contradict_themselves_or_lead_elsewhere_are_refused() {
    let bench = Bench::new();
    bench.done(RUN, &FEW);
    let rows = bench.path("out/small-base-s1/requests.jsonl");
    let text = fs::read_to_string(&rows).unwrap();
    let first = text.lines().next().unwrap();
    let quality = first.split("\"quality\":").nth(1).unwrap().split(',').next().unwrap();
    let cases = [
        (text.replacen(&format!("\"quality\":{quality}"), "\"quality\":NaN", 1), "requests.jsonl:1: "),
        (format!("{text}{first}\n"), "has a second row"),
        (format!("{}\n", "x".repeat(2 << 20)), "longer than 1048576 bytes"),
    ];
    for (broken, words) in cases {
        fs::write(&rows, broken).unwrap();
        bench
            .acb("bundle out", &[])
            .says(1, &[words, "its records are not those that the log has the hash of"]);
    }
    fs::write(&rows, text).unwrap();
    edit(&bench, "out/small-base-s1/routing.jsonl", |text| {
        text.replacen("\"replica\":0", "\"replica\":1", 1)
    });
    bench.acb("bundle out", &[]).says(1, &["results/small-base-s1/routing.jsonl line"]);
    assert!(!bench.path("out-bundle").exists());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc", bench.path("out/small-base-s1/link")).unwrap();
        bench.acb("bundle out", &[]).says(2, &["\"small-base-s1/link\" is a symbolic link"]);
    }
}

#[test]
fn prompts_can_be_withheld_and_the_rest_still_holds_under_the_same_root() {
    let bench = Bench::new();
    let row = |n: u64| {
        format!(
            "{{\"timestamp\":{},\"input_length\":600,\"output_length\":20,\"hash_ids\":[1,{n}]}}\n",
            100 * n
        )
    };
    bench.write("trace.jsonl", (0..20).map(row).collect::<String>());
    let trace = "workload={kind: trace, requests: 20, trace: {path: trace.jsonl, format: mooncake}}";
    bench.done(RUN, &[&FEW[..2], &FEW[4..], &["--set", trace]].concat());
    bench.done("bundle out --out whole", &[]);
    bench.done("bundle out --out less --withhold prompts", &[]);
    assert!(bench.path("whole/data/0-trace.jsonl.zst").is_file());
    assert!(!bench.path("less/data").exists());
    fs::remove_file(bench.path("trace.jsonl")).unwrap();
    let whole = bench.done("verify whole", &[]);
    assert!(whole.out.contains("decisions of 5 runs made again alike"), "{}", whole.out);
    let less = bench.done("verify less", &[]);
    assert!(less.out.contains("withheld: trace.jsonl, whose leaf is in the tree"), "{}", less.out);
    assert!(less.out.contains("5 runs not replayed"), "{}", less.out);
    assert_eq!(bench.json("whole/merkle.json")["root"], bench.json("less/merkle.json")["root"]);
    fs::create_dir(bench.path("less/data")).unwrap();
    fs::copy(bench.path("whole/data/0-trace.jsonl.zst"), bench.path("less/data/0-trace.jsonl.zst")).unwrap();
    bench.acb("verify less", &[]).says(1, &["data/0-trace.jsonl.zst"]);
}

#[test]
fn a_closed_loop_is_replayed_too() {
    let bench = Bench::new();
    let turns =
        "workload={kind: agent_session, requests: 40, think_ms: 10, arrivals: {kind: closed, users: 3}}";
    let allowed = ["--allow", "indistinct-arms", "--allow", "aliased-factors", "--set", turns];
    bench.done(RUN, &[&FEW[..2], &FEW[4..], &allowed].concat());
    bench.done("bundle out --out b", &[]);
    let held = bench.done("verify b", &[]);
    assert!(held.out.contains("200 decisions of 5 runs made again alike"), "{}", held.out);
}

#[test]
fn a_bundle_that_lies_about_its_files_touches_nothing_outside() {
    let bench = bundled();
    let outside = Path::new("../../../outside");
    edit(&bench, "b/merkle.json", |text| {
        text.replacen("results/run_log.jsonl", &outside.display().to_string(), 1)
    });
    bench.acb("verify b", &[]).says(1, &["merkle: merkle.json /leaves/", "expected a raw file of a bundle"]);
    let bench = bundled();
    edit(&bench, "b/merkle.json", |text| {
        let leaf = text.find("requests.jsonl").unwrap();
        let at = leaf + text[leaf..].find("\"bytes\": ").unwrap() + 9;
        format!("{}9000000000000{}", &text[..at], &text[at..])
    });
    bench.acb("verify b", &[]).says(1, &["raise the limit if you trust where it comes from"]);
    #[cfg(unix)]
    {
        let bench = bundled();
        fs::remove_file(bench.path("b/junit.xml")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", bench.path("b/junit.xml")).unwrap();
        bench.acb("verify b", &[]).says(1, &["\"junit.xml\" is a symbolic link"]);
    }
}
