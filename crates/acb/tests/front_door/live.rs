//! Cells on servers: the same file against the simulator and against servers of the same engine model.

use crate::bench::{Bench, wait};
use acb_routing::RoutingRow;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Two arms of 40 requests on two replicas, one every 100 ms.
const LIVE: &str = include_str!("live.yaml");
const ALLOWED: [&str; 4] = ["--allow", "unit-floor", "--allow", "aliased-factors"];

/// Fake servers of the file's cluster that end with the test.
struct Fakes {
    child: Child,
    urls: Vec<String>,
}

impl Fakes {
    fn of(bench: &Bench, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_acb"))
            .args(["serve-fake", bench.path("live.yaml").to_str().unwrap()])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let urls = stdout.lines().take(2).map(Result::unwrap).collect();
        Self { child, urls }
    }

    /// `--set` for these servers.
    fn runtime(&self, more: &str) -> String {
        runtime(&self.urls, more)
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runtime(urls: &[String], more: &str) -> String {
    format!("runtime={{kind: vllm, replicas: [\"{}\"]{more}}}", urls.join("\", \""))
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("live.yaml", LIVE);
    bench
}

/// Rows of a run's file.
fn rows(bench: &Bench, name: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(bench.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Records by what was asked: the number of a request depends on when the turns before it ended.
fn records(bench: &Bench, run: &str) -> BTreeMap<u64, Json> {
    let rows = rows(bench, &format!("{run}/requests.jsonl"));
    rows.into_iter().map(|row| (row["ask"].as_u64().unwrap(), row)).collect()
}

fn trace(url: &str) -> Json {
    let addr = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET /__trace HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// The fakes' own rows of the requests of `runs`, in order of their arrival at each replica: what asked for an
/// answer in the form of token ids. (Probes are of text and have a length of their own.)
fn engine_truth(fakes: &Fakes, prompts: &BTreeSet<u64>) -> Vec<Vec<Json>> {
    let of = |url: &String| {
        let trace = trace(url);
        let rows = trace["requests"].as_array().unwrap().iter().map(|row| row["engine"].clone());
        rows.filter(|row| row["prompt_tokens"].as_u64().is_some_and(|tokens| prompts.contains(&tokens)))
            .collect()
    };
    fakes.urls.iter().map(of).collect()
}

/// Time that a request waited for its admission, ms.
fn waited(row: &Json, from: &str) -> f64 {
    (row["admitted_ns"].as_f64().unwrap() - row[from].as_f64().unwrap()) * 1e-6
}

/// Runs the file both ways, and holds every record of the one against that of the other.
fn assert_agreement(file: &str, apart_ms: f64) {
    let bench = bench();
    bench.write("live.yaml", file);
    bench.done("run live.yaml --output-dir sim", &ALLOWED);
    let fakes = Fakes::of(&bench, &[]);
    let set = fakes.runtime("");
    let ended = bench.done("run live.yaml --output-dir live", &[&ALLOWED[..], &["--set", &set]].concat());
    assert!(ended.out.contains("L0"), "{}", ended.out);
    let mut runs: Vec<(u64, String)> = ["spread", "local"]
        .into_iter()
        .map(|arm| {
            let run = format!("live-{arm}-s1");
            (bench.json(&format!("live/{run}/manifest.json"))["created_unix_ms"].as_u64().unwrap(), run)
        })
        .collect();
    runs.sort();
    let live: Vec<_> = runs.iter().map(|(_, run)| records(&bench, &format!("live/{run}"))).collect();
    let prompts = live.iter().flat_map(|run| run.values().map(|row| row["prompt_tokens"].as_u64().unwrap()));
    let mut truth =
        engine_truth(&fakes, &prompts.collect()).into_iter().map(Vec::into_iter).collect::<Vec<_>>();
    for ((_, run), live) in runs.iter().zip(&live) {
        let simulated = records(&bench, &format!("sim/{run}"));
        assert_eq!((simulated.len(), live.len()), (40, 40));
        let mut sent: Vec<(&u64, &Json)> = live.iter().collect();
        sent.sort_by_key(|(_, record)| record["sent_ns"].as_u64());
        for (ask, record) in sent {
            let replica = record["replica"].as_u64().unwrap() as usize;
            let (truth, who) = (truth[replica].next().unwrap(), format!("{run} {ask}"));
            assert_same((record, &simulated[ask]), &truth, &who);
            // Servers keep their adapters from run to run, so that only the simulator reads them again.
            if simulated[ask]["adapter_load"].is_null() {
                let (on_servers, expected) =
                    (waited(&truth, "submitted_ns"), waited(&simulated[ask], "sent_ns"));
                let apart = (on_servers - expected).abs();
                assert!(apart < apart_ms, "{who}: admitted after {on_servers} ms, simulated {expected} ms");
            }
        }
        let manifest = bench.json(&format!("live/{run}/manifest.json"));
        assert_eq!(manifest["source"], "simulated");
        for server in manifest["live"]["servers"].as_array().unwrap() {
            assert!(
                server["reset"]["before"].as_u64() > Some(0) && server["reset"]["after"] == 0,
                "{server}"
            );
        }
        assert_eq!(
            manifest["live"]["servers"][0]["canary_adapters"],
            serde_json::json!(["qa", "json", "summary"])
        );
        let seen = rows(&bench, &format!("live/{run}/server.jsonl"));
        let last = seen.iter().rev().find(|row| row["replica"] == 0).unwrap();
        assert!(last["counters"]["prefix_query_tokens"].as_u64() > Some(0), "{last}");
        assert!(
            last["source"] == "simulated" && manifest["live"]["watch_faults"] == serde_json::json!([]),
            "{manifest}"
        );
        let check = bench.json(&format!("live/{run}/client_check.json"));
        assert_eq!(check["sends"]["sends"], 40);
    }
}

/// Ids, decision, hits and admission are the same.
fn assert_same((live, simulated): (&Json, &Json), truth: &Json, who: &str) {
    for field in [
        "ask",
        "session",
        "turn",
        "adapter",
        "replica",
        "reason",
        "outcome",
        "prompt_tokens",
        "output_tokens",
        "quality",
    ] {
        assert_eq!(live[field], simulated[field], "{who} {field}");
    }
    assert_eq!((&live["source"], &live["engine"]), (&"simulated".into(), &"vllm-0.33.0 (simulated)".into()));
    assert_eq!(live["server_prefix_hit_tokens"], simulated["simulated_prefix_hit_tokens"], "{who}: hits");
    assert_eq!(truth["hit_tokens"], simulated["simulated_prefix_hit_tokens"], "{who}: the servers' own hits");
}

#[test]
fn the_same_file_decides_hits_and_admits_alike_on_the_simulator_and_on_servers() {
    assert_agreement(LIVE, 1.0);
}

#[test]
fn answers_that_come_back_in_later_turns_are_hit_alike_on_the_simulator_and_on_servers() {
    let (before, workload) = LIVE.split_once("workload:\n").unwrap();
    let after = &workload[workload.find("cluster:").unwrap()..];
    // One user: in another order, round robin would send them elsewhere.
    let turns = "workload: {kind: agent_session, requests: 40, think_ms: 10, \
                 output_tokens: {law: fixed, value: 18}, arrivals: {kind: closed, users: 1}}";
    assert_agreement(&format!("{before}{turns}\n{after}"), 1.0);
}

#[test]
fn the_log_of_a_live_run_replays_to_the_same_decisions() {
    let bench = bench();
    let fakes = Fakes::of(&bench, &[]);
    let set = fakes.runtime("");
    let fast = ["--set", "workload.arrivals.rate_rps=60", "--set", &set];
    bench.done("run live.yaml --output-dir live", &[&ALLOWED[..], &fast].concat());
    let (spec, _) =
        acb::spec::ExperimentSpec::load(None, &[bench.path("live.yaml")], &[fast[1].to_owned()]).unwrap();
    let experiment = acb::experiment::Experiment::new(spec).unwrap();
    let level = &experiment.levels[0];
    for arm in &level.arms {
        let log = rows(&bench, &format!("live/live-{}-s1/routing.jsonl", arm.name));
        let mut log = log.into_iter().map(|row| serde_json::from_value::<RoutingRow>(row).unwrap());
        let mut source = level.workload(1).unwrap();
        let mut requests = std::iter::from_fn(|| {
            acb_workload::RequestSource::take(&mut source).map(|arrival| arrival.request)
        });
        let context = level.router_context(arm, 1);
        assert_eq!(
            acb_routing::replay(&arm.policy, context, &mut requests, &mut log),
            Ok(40),
            "{}",
            arm.name
        );
    }
}

#[test]
fn one_command_starts_the_servers_runs_and_ends_them() {
    let bench = bench();
    let set = managed(&bench);
    let fast = ["--set", "workload.arrivals.rate_rps=60", "--set", &set];
    bench.done("run live.yaml --output-dir live", &[&ALLOWED[..], &fast].concat());
    let log = std::fs::read_to_string(bench.path("live/_sweeps/live/servers/replica-1.log")).unwrap();
    assert!(log.contains("SIMULATED"), "{log}");
    let url = log.lines().find_map(|line| line.strip_prefix("http://")).unwrap();
    assert!(TcpStream::connect(url).is_err(), "{url} is still served");
}

/// A runtime whose servers are fakes of one replica each.
fn managed(bench: &Bench) -> String {
    let (acb, file) = (env!("CARGO_BIN_EXE_acb"), bench.path("live.yaml"));
    format!(
        "runtime={{kind: vllm, ready_within_s: 60, stop_within_s: 5, command: [\"{acb}\", serve-fake, \"{}\", --replicas, \"1\", --ports, \"{{port}}\"]}}",
        file.display()
    )
}

#[test]
fn servers_that_are_up_serve_runs_until_they_are_told_to_end() {
    let bench = bench();
    let set = managed(&bench);
    let set = ["--set", set.as_str(), "--output-dir", "live"];
    let up = bench.done("runtime up live.yaml", &set);
    assert_eq!(up.out.lines().count(), 2, "{}", up.out);
    bench.acb("runtime up live.yaml", &set).says(2, &["up already", "acb runtime down"]);
    bench.done("runtime status live.yaml", &set);
    let fast = ["--set", "workload.arrivals.rate_rps=60", "--set", "workload.requests=10"];
    bench.done("run live.yaml", &[&ALLOWED[..], &set, &fast].concat());
    bench.done("runtime status live.yaml", &set);
    bench.done("runtime down live.yaml", &set);
    bench.acb("runtime status live.yaml", &set).says(1, &["no servers of this experiment are up"]);
    let addr = up.out.lines().next().unwrap().strip_prefix("http://").unwrap();
    assert!(TcpStream::connect(addr).is_err(), "{addr} is still served");
}

#[test]
fn servers_end_with_a_run_that_is_killed() {
    let bench = bench();
    let set = managed(&bench);
    let mut run = bench.start("run live.yaml --output-dir live", &[&ALLOWED[..], &["--set", &set]].concat());
    let first = bench.path("live/live-spread-s1/requests.jsonl.partial");
    let second = bench.path("live/live-local-s1/requests.jsonl.partial");
    crate::bench::until("the first run", || first.exists() || second.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let log = std::fs::read_to_string(bench.path("live/_sweeps/live/servers/replica-0.log")).unwrap();
    let url = log.lines().find_map(|line| line.strip_prefix("http://")).unwrap().to_owned();
    crate::bench::until("the servers' end", || TcpStream::connect(&url).is_err());
}

#[test]
fn servers_that_can_not_serve_are_refused_by_name_before_the_first_request() {
    let bench = bench();
    let run = |set: &str, words: &[&str]| {
        bench
            .acb("run live.yaml --output-dir none", &[&ALLOWED[..], &["--set", set]].concat())
            .says(2, words);
    };
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let absent = free();
    run(&runtime(&[absent.clone(), absent.clone()], ""), &[&absent, "refused"]);
    run(
        &runtime(std::slice::from_ref(&absent), ""),
        &["runtime.replicas has 1 URLs", "cluster.replicas is 2"],
    );
    let fakes = Fakes::of(&bench, &[]);
    run(&fakes.runtime(", model: llama"), &["`llama`", "`base`"]);
    run(&fakes.runtime(", api_key_env: NO_SUCH_VARIABLE"), &["NO_SUCH_VARIABLE", "export it"]);
    let html = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = format!("http://{}", html.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in html.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html></html>");
        }
    });
    run(&runtime(&[page.clone(), page.clone()], ""), &[&page, "can't be read", "vLLM"]);
    let dies = "runtime={kind: vllm, command: [sh, -c, \"echo no model here; exit 3 # {port}\"]}";
    run(dies, &["replica 0 ended before it was ready", "no model here"]);
}

#[test]
fn a_server_that_dies_leaves_a_record_of_every_request_and_a_run_that_says_why() {
    let bench = bench();
    let mut fakes = Fakes::of(&bench, &[]);
    let set = fakes.runtime(", request_timeout_s: 5, grace_s: 5");
    let run = bench.start("run live.yaml --output-dir live", &[&ALLOWED[..], &["--set", &set]].concat());
    // More than what is asked of a server before a run.
    let answered = |url: &String| {
        let trace = trace(url);
        let prompts = trace["requests"].as_array().unwrap().iter();
        prompts.filter(|row| row["engine"]["prompt_tokens"].as_u64() > Some(280)).count()
    };
    crate::bench::until("answers", || fakes.urls.iter().all(|url| answered(url) > 2));
    fakes.child.kill().unwrap();
    fakes.child.wait().unwrap();
    assert_eq!(wait(run), Some(1));
    let failed: Vec<String> =
        bench.states("live").into_iter().filter(|(_, state)| state == "failed").map(|(run, _)| run).collect();
    let [run] = failed.as_slice() else { panic!("{failed:?}") };
    let status = bench.json(&format!("live/{run}/status.json"));
    assert!(status["message"].as_str().unwrap().contains("does not answer after the run"), "{status}");
    let records = records(&bench, &format!("live/{run}"));
    assert_eq!(records.len(), 40);
    let count = |outcome: &str| records.values().filter(|record| record["outcome"] == outcome).count();
    assert!(count("ok") > 0 && count("failed") > 0, "{} ok", count("ok"));
    assert_eq!(count("ok") + count("failed"), 40);
    let observations = rows(&bench, &format!("live/{run}/observations.jsonl"));
    assert_eq!(observations.len(), 40);
}
