//! What a user or a machine can get wrong: the error names the thing, the place and the remedy.

use crate::bench::{Bench, CELLS, SMALL, assert_same_files};
use std::path::PathBuf;
use std::process::Command;

/// Runs and plans of the small experiment with this value are refused in these words, and nothing is written.
fn check(set: &str, words: &[&str]) {
    let bench = Bench::new();
    for command in ["plan small.yaml --output-dir out --set", "run small.yaml --output-dir out --set"] {
        bench.acb(command, &[set]).says(2, words);
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn an_experiment_file_that_is_none_is_refused_with_its_name() {
    let bench = Bench::new();
    let huge = [b"question: ".as_slice(), &vec![b'a'; 5_000_000]].concat();
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty.yaml", b"", "is empty"),
        ("comment.yaml", b"# nothing here\n", "empty"),
        ("bytes.yaml", b"name: \xff\xfe\n", "not UTF-8"),
        ("huge.yaml", &huge, "larger than"),
        ("list.yaml", b"- 1\n- 2\n", "map"),
        ("broken.yaml", b"name: [unclosed\n", "broken.yaml:"),
    ];
    for (name, bytes, word) in cases {
        bench.write(name, bytes);
        bench.acb(&format!("run {name} --output-dir out"), &[]).says(2, &[name, word]);
    }
    bench.acb("run missing.yaml --output-dir out", &[]).says(2, &["missing.yaml", "No such file"]);
    assert!(!bench.path("out").exists());
}

#[test]
fn numbers_that_are_none_or_negative_are_refused_in_their_place() {
    check("workload.arrivals.rate_rps=-1", &["--set:1:28", "rate_rps", "-1"]);
    check("workload.arrivals.rate_rps=.nan", &["--set:1:28", ".nan", "finite"]);
    check("slo.ttft_ms=.inf", &["--set:1:13", ".inf", "finite"]);
    check("slo.ttft_ms=-5", &["--set:1:13", "ttft_ms", "-5"]);
    check("quality.source.base=1.5", &["--set:1:21", "from 0 to 1", "1.5"]);
    check("cluster.kv.blocks=-4", &["--set:1:19", "-4"]);
}

#[test]
fn a_cluster_that_can_not_be_is_refused_in_its_place() {
    check("cluster.replicas=0", &["--set:1:18", "from 1 to 4096"]);
    check("cluster.kv={memory: {gpu_gib: 2.0}}", &["no KV block is left", "more memory or fewer slots"]);
    check("cluster.engine.max_lora_rank=8", &["rank 16", "raise it"]);
    check("cluster.profile=qwen9", &["no profile", "qwen2.5-1.5b-l4"]);
}

#[test]
fn an_adapter_that_no_memory_holds_is_refused() {
    check("adapters.0.bytes=99999999999999", &["qa", "99999999999999"]);
}

#[test]
fn a_workload_that_can_not_be_served_is_refused_in_its_place() {
    check("workload.requests=0", &["--set:1:19", "from 1"]);
    check("workload.document_tokens=9000", &["context of 4096", "raise cluster.engine.context_tokens"]);
}

#[test]
fn names_that_clash_or_lead_nowhere_are_refused_in_their_place() {
    check("adapters.1.name=qa", &["`qa` is already item 0", "its own name"]);
    check("arms.1.name=base", &["`base` is already item 0", "its own name"]);
    check("arms.2.adapters=[math]", &["no adapter is named `math`", "`qa`, `json`, `multitask`"]);
    check("decision_rule.contrasts.0.against=[basis]", &["`basis`", "`base`"]);
    check("seeds=[1, 1]", &["seed 1 is given twice"]);
    check("primary_metric=goodputt", &["goodputt", "`goodput`"]);
    check("quality.source={kind: table, file: absent.json}", &["absent.json", "No such file"]);
    check("workload.reqests=3", &["unknown key `workload.reqests`", "did you mean `requests`?"]);
    check("no equals sign", &["no equals sign"]);
}

#[test]
fn prompts_that_never_fit_the_memory_are_recorded_as_rejected() {
    let bench = Bench::new();
    let run = "run small.yaml --output-dir out --allow indistinct-arms --set cluster.kv.blocks=2";
    bench.acb(run, &[]).says(1, &["none is served", "(100.0 %) end as rejected"]);
    bench.done(&format!("{run} --allow unserved-requests"), &[]);
    let summary = bench.json("out/small-base-s1/summary.json");
    assert_eq!(summary["outcomes"]["rejected"], 60);
    assert_eq!(summary["metrics"]["slo_attainment"]["value"], 0.0);
    assert!(summary["metrics"]["p50_ttft_ms"]["value"].is_null(), "no answer, no latency");
}

#[test]
fn an_outcome_table_that_is_none_is_refused_with_its_place() {
    let bench = Bench::new();
    let cases: [(&str, &str); 5] = [
        ("", "table.json"),
        ("{\"v\": 2, \"quality\": {}}", "version 2"),
        ("{\"v\": 1, \"quality\": {\"qa\": {\"base\": 0.5}}}", "no quality of"),
        ("{\"v\": 1, \"quality\": {\"qa\": {\"base\": NaN}}}", "line 1"),
        ("{\"v\": 1, \"quality\": {}, \"note\": 1}", "unknown field"),
    ];
    for (text, word) in cases {
        bench.write("table.json", text);
        let source = "quality.source={kind: table, file: table.json}";
        bench.acb("run small.yaml --output-dir out --set", &[source]).says(2, &["table.json", word]);
        assert!(!bench.path("out").exists());
    }
}

#[test]
fn a_data_set_that_is_none_is_refused_with_its_line() {
    let bench = Bench::new();
    let experiment = |workload: &str| {
        let start = SMALL.find("workload:\n").unwrap();
        let end = SMALL.find("cluster:\n").unwrap();
        format!("{}workload: {workload}\n{}", &SMALL[..start], &SMALL[end..])
    };
    let cases: [(&str, &[u8], &str); 4] = [
        ("empty.jsonl", b"", "empty.jsonl"),
        ("cut.jsonl", b"{\"prompt\": \"a", "cut.jsonl:1"),
        ("bytes.jsonl", b"\xff\xfe\n", "bytes.jsonl"),
        ("other.jsonl", b"[1, 2]\n", "other.jsonl:1"),
    ];
    for (name, bytes, word) in cases {
        bench.write(name, bytes);
        bench.write(
            "rows.yaml",
            experiment(&format!("{{kind: jsonl_eval, requests: 6, dataset_path: {name}}}")),
        );
        bench.acb("run rows.yaml --output-dir out", &[]).says(2, &[name, word]);
        assert!(!bench.path("out").exists());
    }
}

#[test]
fn a_trace_that_is_none_is_refused_with_its_line() {
    let bench = Bench::new();
    let head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    let cases = [
        ("empty.csv", String::new(), "empty.csv"),
        ("head.csv", head.to_owned(), "head.csv"),
        ("word.csv", format!("{head}2023-11-16 18:17:03.97,many,10\n"), "word.csv"),
        ("other.csv", "a,b\n1,2\n".to_owned(), "other.csv"),
        ("cut.jsonl", "{\"timestamp\": 0, \"input_le".to_owned(), "cut.jsonl:1"),
        ("rows.txt", "x".to_owned(), "--format"),
    ];
    for (name, text, word) in cases {
        bench.write(name, text);
        let ended = bench.acb(&format!("trace info {name}"), &[]);
        ended.says(2, &[name, word]);
    }
}

#[test]
fn a_sweep_name_that_leaves_its_folder_is_refused() {
    let bench = Bench::new();
    for name in ["../up", "a/b", ""] {
        bench.acb("run small.yaml --output-dir out --sweep-name", &[name]).says(2, &["--sweep-name"]);
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn a_file_in_the_way_of_the_results_is_named_with_a_remedy() {
    let bench = Bench::new();
    bench.write("taken", "a file");
    for folder in ["taken", "taken/below"] {
        let run = bench.acb(&format!("run small.yaml --output-dir {folder}"), &[]);
        run.says(2, &["taken", "Not a directory", "choose another --output-dir"]);
        assert_eq!(run.err.matches("Not a directory").count(), 1, "said once: {}", run.err);
        bench
            .acb(&format!("doctor small.yaml --output-dir {folder}"), &[])
            .says(1, &["taken", "choose another --output-dir"]);
    }
    assert_eq!(std::fs::read(bench.path("taken")).unwrap(), b"a file");
}

#[test]
fn a_report_of_nothing_says_what_makes_something() {
    let bench = Bench::new();
    bench.write("out/readme", "no runs here");
    bench.acb("report out", &[]).says(2, &["no complete run", "acb run"]);
    bench.acb("report absent", &[]).says(2, &["absent", "No such file"]);
}

#[test]
fn a_report_never_overwrites_a_file() {
    let bench = Bench::new();
    bench.done("run small.yaml --output-dir out", &[]);
    bench.done("report out --output report.txt", &[]);
    let before = bench.files("");
    bench.acb("report out --output report.txt", &[]).says(2, &["report.txt", "not overwritten", "--output"]);
    assert_same_files(&before, &bench.files(""));
}

#[test]
fn a_server_plan_is_planned_but_not_run_and_says_so() {
    let bench = Bench::new();
    let server = "runtime={kind: server, seconds_per_run: 3600}";
    bench.done("plan small.yaml --set", &[server]).says(0, &["30.000"]);
    bench.acb("run small.yaml --output-dir out --set", &[server]).says(2, &["servers", "--dry-run"]);
    assert!(bench.states("out").is_empty());
}

/// A file system of this size, gone when dropped; `None` where mounting is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(at))
    }

    fn resize(&self, size: &str) {
        let words = ["-o", &format!("remount,size={size}")];
        assert!(Command::new("mount").args(words).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failure to unmount leaves a folder that the temporary folder's removal reports.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_half_written_counts_later() {
    let bench = Bench::new();
    let Some(disk) = SmallDisk::mount(bench.path("out"), "1m") else {
        println!("not checked: mounting a small file system is not allowed here");
        return;
    };
    let run = "run small.yaml --output-dir out --jobs 1 --set workload.requests=400";
    let full = bench.acb(run, &[]);
    // 1 when a run failed, 2 when the sweep's own status found no room either.
    let code = full.code.filter(|code| [1, 2].contains(code)).unwrap_or_else(|| panic!("{}", full.err));
    full.says(code, &["No space left on device", "--output-dir", "--resume"]);
    assert!(bench.count("out", "complete") < CELLS);
    assert_eq!(bench.count("out", "running"), 0, "a failed run says so: its rows made room for its status");
    bench.acb(&format!("{run} --resume --continue-on-error"), &[]);
    disk.resize("64m");
    bench.done(&format!("{run} --resume"), &[]);
    bench.done(&run.replace("-dir out", "-dir whole"), &[]);
    assert_same_files(&bench.rows("whole"), &bench.rows("out"));
}

#[test]
fn a_disk_that_is_full_from_the_start_is_an_error_of_the_environment() {
    let bench = Bench::new();
    let Some(_disk) = SmallDisk::mount(bench.path("out"), "16k") else {
        println!("not checked: mounting a small file system is not allowed here");
        return;
    };
    let ended = bench.acb("run small.yaml --output-dir out", &[]);
    ended.says(2, &["No space left on device", "--output-dir"]);
    assert_eq!(ended.err.matches("No space left").count(), 1, "said once: {}", ended.err);
}
