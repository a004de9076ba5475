//! Cells on servers: the same file against the simulator and against servers of the same engine model.

use crate::bench::{Bench, wait};
use acb_routing::RoutingRow;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Two arms of 40 requests on two replicas, one every 100 ms.
const LIVE: &str = include_str!("live.yaml");
const ALLOWED: [&str; 2] = ["--allow", "unit-floor"];

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

/// Records by request.
fn records(bench: &Bench, run: &str) -> BTreeMap<u64, Json> {
    let rows = rows(bench, &format!("{run}/requests.jsonl"));
    rows.into_iter().map(|row| (row["request"].as_u64().unwrap(), row)).collect()
}

fn trace(url: &str) -> Json {
    let addr = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET /__trace HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// Time between two stamps of a record or a trace, ms.
fn ms(row: &Json, from: &str, to: &str) -> f64 {
    (row[to].as_f64().unwrap() - row[from].as_f64().unwrap()) * 1e-6
}

#[test]
fn the_same_file_decides_hits_and_admits_alike_on_the_simulator_and_on_servers() {
    let bench = bench();
    bench.done("run live.yaml --output-dir sim", &ALLOWED);
    let fakes = Fakes::of(&bench, &[]);
    let ended = bench
        .done("run live.yaml --output-dir live", &[&ALLOWED[..], &["--set", &fakes.runtime("")]].concat());
    assert!(ended.out.contains("L0"), "{}", ended.out);
    for arm in ["spread", "local"] {
        let simulated = records(&bench, &format!("sim/live-{arm}-s1"));
        let live = records(&bench, &format!("live/live-{arm}-s1"));
        assert_eq!((simulated.len(), live.len()), (40, 40));
        for (id, record) in &live {
            let other = &simulated[id];
            for field in [
                "ask",
                "adapter",
                "replica",
                "reason",
                "outcome",
                "prompt_tokens",
                "output_tokens",
                "quality",
            ] {
                assert_eq!(record[field], other[field], "{arm} {id} {field}");
            }
            let (hits, simulated) =
                (&record["server_prefix_hit_tokens"], &other["simulated_prefix_hit_tokens"]);
            assert_eq!(hits, simulated, "{arm} {id}");
            assert_eq!(
                (record["source"].as_str(), record["engine"].as_str()),
                (Some("simulated"), Some("vllm-0.33.0 (simulated)"))
            );
        }
        let manifest = bench.json(&format!("live/live-{arm}-s1/manifest.json"));
        assert_eq!(manifest["source"], "simulated");
        for server in manifest["live"]["servers"].as_array().unwrap() {
            assert!(
                server["reset"]["before"].as_u64() > Some(0) && server["reset"]["after"] == 0,
                "{server}"
            );
        }
        let check = bench.json(&format!("live/live-{arm}-s1/client_check.json"));
        assert_eq!(check["sends"]["sends"], 40);
    }
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
    run(&runtime(&[absent.clone()], ""), &["runtime.replicas has 1 URLs", "cluster.replicas is 2"]);
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
    let answered = || fakes.urls.iter().all(|url| trace(url)["requests"].as_array().unwrap().len() > 8);
    crate::bench::until("answers", answered);
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
