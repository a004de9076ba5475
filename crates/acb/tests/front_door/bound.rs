//! The oracle's bound dominates: in no block of no experiment does any arm get more on-time quality out of the same
//! requests, nor get it faster.

use acb::execute::{CellEnd, Job, execute};
use acb::experiment::Experiment;
use acb::interrupt::Interrupt;
use acb::plan::{Cell, cells};
use acb::spec::ExperimentSpec;
use acb_evidence::{ArmRole, Records, Summary, read_json};
use acb_types::{Outcome, Seed, Stream};
use std::path::Path;

const ARMS: &str = "
arms:
  - {name: base, policy: base}
  - {name: multitask, policy: multitask}
  - {name: semantic, policy: semantic}
  - {name: sticky, policy: sticky_session}
  - {name: static, policy: cache_static}
  - {name: specialists, policy: specialists}
  - {name: misled, policy: specialists, prior: adversarial}
  - {name: random, policy: random}
  - {name: least, policy: least_in_flight}
  - {name: bounded_hash, policy: adapter_hash_bounded}
  - {name: oracle, policy: oracle}
aa: {kind: off}
";

/// An experiment drawn at random over what moves the trade: load, overlap, slots, memory, lengths, quality, limits.
fn experiment(stream: &mut Stream) -> String {
    let mut pick = |choices: &[&'static str]| choices[stream.below(choices.len() as u64) as usize];
    let arrivals = pick(&[
        "{kind: poisson, rate_rps: 2}",
        "{kind: poisson, rate_rps: 20}",
        "{kind: poisson, rate_rps: 200}",
        "{kind: gamma, rate_rps: 30, cv: 4}",
        "{kind: constant, rate_rps: 50}",
        "{kind: closed, users: 4}",
        "{kind: closed, users: 30, think_ms: 200}",
    ]);
    let workload = pick(&[
        "kind: controlled_overlap, shared_prefix_fraction: 0.25",
        "kind: controlled_overlap, shared_prefix_fraction: 0.95",
        "kind: shared_doc_qa",
        "kind: mixed_tasks_same_doc",
        "kind: low_overlap_control",
        "kind: regime_zipfian",
        "kind: regime_adversarial_churn",
    ]);
    let (document, output) = (pick(&["60", "300", "1500"]), pick(&["4", "32", "100"]));
    let (loras, cpu) = (pick(&["1", "2", "3"]), pick(&["3", "5"]));
    let (replicas, blocks) = (pick(&["1", "2", "4"]), pick(&["150", "400", "5000"]));
    let condition = pick(&["warm", "cold", "prefix_disabled"]);
    let limits = pick(&["{}", "{}", "{max_queue: 3}", "{request_timeout_ms: 1500}", "{max_sim_seconds: 4}"]);
    let quality = pick(&[
        "base: 0.3, multitask: 0.6, specialist: 0.9",
        "base: 0.6, multitask: 0.6, specialist: 0.6",
        "base: 0.8, multitask: 0.4, specialist: 0.5",
        "base: 0.0, multitask: 0.1, specialist: 1.0",
    ]);
    let slo = pick(&[
        "{ttft_ms: 60}",
        "{ttft_ms: 250}",
        "{ttft_ms: 5000}",
        "{ttft_ms: 400, tpot_ms: 40, e2e_ms: 3000}",
    ]);
    format!(
        "name: drawn
question: Does anything beat the bound?
{ARMS}
adapters:
  - {{name: qa, rank: 16}}
  - {{name: json, rank: 8}}
  - {{name: multitask, rank: 16, role: multitask}}
model: qwen2.5-1.5b
quality: {{source: {{kind: synthetic, {quality}, spread: 0.1}}}}
workload: {{{workload}, requests: 50, document_tokens: {document}, max_output_tokens: 128,
  output_tokens: {{law: lognormal, mean: {output}, cv: 0.5}}, arrivals: {arrivals}}}
cluster:
  replicas: {replicas}
  engine: {{kind: vllm, max_loras: {loras}, max_cpu_loras: {cpu}, context_tokens: 4096}}
  kv: {{blocks: {blocks}}}
  cache_condition: {condition}
  limits: {limits}
  profile: qwen2.5-1.5b-l4
seeds: [11, 12]
slo: {slo}
"
    )
}

/// What an arm got out of a block.
struct Got {
    arm: String,
    /// Sum of the qualities of answers whose first token came in time.
    quality: f64,
    /// The same over wall time; none when nothing was answered at all.
    rate: Option<f64>,
}

fn run(experiment: &Experiment, cell: &Cell, root: &Path) -> Got {
    let folder = root.join(&cell.run_id);
    let interrupt = Interrupt::default();
    let job = Job { experiment, labels: &[], registered: None, servers: None, interrupt: &interrupt };
    let end = execute(&job, cell, &folder).unwrap();
    assert!(matches!(end, CellEnd::Complete(_)));
    let bound = experiment.spec.slo.slo().ttft_ns.unwrap();
    let mut records = Records::open(&folder.join("requests.jsonl")).unwrap();
    let mut quality = 0.0;
    while let Some(record) = records.read().unwrap() {
        let in_time = record.first_token_ns.is_some_and(|first| first - record.due_ns <= bound);
        if record.outcome == Outcome::Ok && in_time {
            quality += record.quality.unwrap();
        }
    }
    let summary: Summary = read_json(&folder).unwrap();
    let rate = summary.metrics["quality_adjusted_slo_goodput"].value;
    Got { arm: experiment.arms[cell.arm].name.clone(), quality, rate }
}

fn check(text: &str) {
    let spec =
        ExperimentSpec::from_text("drawn.yaml", text).unwrap_or_else(|faults| panic!("{faults}\n{text}")).0;
    let experiment = Experiment::new(spec).unwrap();
    let root = in_memory();
    for block in &experiment.blocks {
        let cells = cells(&experiment, "drawn").into_iter().filter(|cell| cell.block == *block);
        let (bounds, others): (Vec<Cell>, Vec<Cell>) =
            cells.partition(|cell| experiment.arms[cell.arm].role == ArmRole::Bound);
        let bound = run(&experiment, &bounds[0], root.path());
        for got in others.iter().map(|cell| run(&experiment, cell, root.path())) {
            let place = format!("{} in block {block} of\n{text}", got.arm);
            assert!(bound.quality >= got.quality - 1e-9, "{} < {} of {place}", bound.quality, got.quality);
            let (most, rate) = (bound.rate.unwrap_or(0.0), got.rate.unwrap_or(0.0));
            assert!(most >= rate * (1.0 - 1e-9), "{most} < {rate} of {place}");
        }
    }
}

/// A folder in memory where there is such a thing: hundreds of runs are flushed to disk file by file otherwise.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn no_arm_gets_more_on_time_quality_than_the_bound_or_gets_it_faster() {
    let mut stream = Seed(2026).stream("bound-dominates");
    for _ in 0..24 {
        check(&experiment(&mut stream));
    }
}
