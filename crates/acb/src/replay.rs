//! A replay of every arm over the planned workload of the first block, before anything is run in earnest: it shows
//! where arms decide alike, and how fast and how large the real runs will be.

use crate::clock::Stopwatch;
use crate::experiment::{Experiment, Level, SetUpError};
use crate::interrupt::Interrupt;
use crate::sink::{RecordNames, record};
use acb_evidence::{Divergence, DivergenceLevel, FILE_VERSION};
use acb_sim::{Cluster, Completion, Run, Sink};
use acb_types::{AdapterId, Outcome, Outcomes, ReplicaId, ServerRow, Tier};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most requests that are replayed per arm and level; the count replayed is printed with every finding.
pub const MOST_REQUESTS: u64 = 2_000;

/// Records whose size is measured per arm and level.
const SIZED: u64 = 100;

/// What the replay found.
pub struct Replay {
    /// Shares of decisions that differ, per level and pair of arms.
    pub divergence: Divergence,
    /// Requests simulated per second of one processor.
    pub requests_per_second: f64,
    /// Simulated seconds per request, averaged over arms, by level.
    pub simulated_s_per_request: Vec<f64>,
    /// Bytes written per request.
    pub bytes_per_request: f64,
    /// Requests replayed, all arms and levels together.
    pub requests: u64,
    /// Those that were not answered in full, by the word for how they ended.
    pub not_ok: BTreeMap<&'static str, u64>,
    /// Those whose admission read an adapter from disk.
    pub loads_from_disk: u64,
    /// Requests sent where they can't be served, by arm: how many, and the first of them in words.
    pub misplaced: BTreeMap<String, (u64, String)>,
}

/// What an arm chose for a request.
type Choice = (Option<AdapterId>, Option<ReplicaId>);

struct Replayed {
    choices: BTreeMap<u64, Choice>,
    end_s: f64,
    bytes: u64,
    sized: u64,
    not_ok: BTreeMap<&'static str, u64>,
    loads_from_disk: u64,
    misplaced: Option<(u64, String)>,
    server_rows: u64,
    server_row_bytes: u64,
}

/// Replays all arms at all levels.
///
/// # Errors
/// When an arm can't be set up, or the user interrupts (`Ok(None)`).
pub fn replay(experiment: &Experiment, interrupt: &Interrupt) -> Result<Option<Replay>, SetUpError> {
    let watch = Stopwatch::start();
    let (mut levels, mut per_request) = (Vec::new(), Vec::new());
    let (mut requests, mut bytes, mut sized, mut loads_from_disk, mut server_bytes) =
        (0u64, 0, 0u64, 0, 0u64);
    let (mut not_ok, mut misplaced) = (BTreeMap::new(), BTreeMap::new());
    for level in &experiment.levels {
        let mut arms = Vec::new();
        for arm in &level.arms {
            if interrupt.requested() {
                return Ok(None);
            }
            let run = replay_arm(experiment, level, arm)?;
            requests += run.choices.len() as u64;
            bytes += run.bytes;
            sized += run.sized;
            loads_from_disk += run.loads_from_disk;
            server_bytes += run.server_rows * run.server_row_bytes;
            run.not_ok.iter().for_each(|(word, count)| *not_ok.entry(*word).or_insert(0) += count);
            if let Some((count, first)) = &run.misplaced {
                misplaced.entry(arm.name.clone()).or_insert((0, first.clone())).0 += count;
            }
            arms.push(run);
        }
        let ends: f64 = arms.iter().map(|run| run.end_s / run.choices.len().max(1) as f64).sum();
        per_request.push(ends / arms.len().max(1) as f64);
        levels.push(diverge(level, &arms));
    }
    let seconds = watch.elapsed().as_secs_f64().max(1e-9);
    Ok(Some(Replay {
        divergence: Divergence {
            v: FILE_VERSION,
            arms: experiment.arms.iter().map(|arm| arm.name.clone()).collect(),
            levels,
        },
        requests,
        not_ok,
        loads_from_disk,
        misplaced,
        requests_per_second: requests as f64 / seconds,
        simulated_s_per_request: per_request,
        bytes_per_request: bytes as f64 / sized.max(1) as f64 + server_bytes as f64 / requests.max(1) as f64,
    }))
}

fn replay_arm(
    experiment: &Experiment,
    level: &Level,
    arm: &crate::experiment::Arm,
) -> Result<Replayed, SetUpError> {
    let block = experiment.blocks[0];
    let routed = Arc::new(AtomicU64::new(0));
    let mut router = level.router(arm, block)?;
    if level.spec.records.routing == crate::spec::rule::RoutingRecords::All {
        let routed = Arc::clone(&routed);
        router = router.with_log(Box::new(move |row| {
            let size = serde_json::to_vec(row).map_or(0, |row| row.len() as u64 + 1);
            routed.fetch_add(size, Ordering::Relaxed);
        }));
    }
    let outcomes = level.outcomes(block);
    let mut sink = Choices {
        names: &level.names,
        outcomes: &outcomes,
        cluster: &level.cluster,
        run: Replayed {
            choices: BTreeMap::new(),
            end_s: 0.0,
            bytes: 0,
            sized: 0,
            not_ok: BTreeMap::new(),
            loads_from_disk: 0,
            misplaced: None,
            server_rows: 0,
            server_row_bytes: 0,
        },
    };
    let mut source = level.workload_of(block, MOST_REQUESTS)?;
    let run = Run {
        cluster: &level.cluster,
        source: &mut source,
        router: &mut router,
        sink: &mut sink,
        mode: arm.service(),
    };
    let totals = run.run()?;
    let mut run = sink.run;
    run.end_s = totals.end.as_secs_f64();
    // Routing rows are sized over the whole run: they are spread over the sized records' share of it.
    let share = run.sized as f64 / run.choices.len().max(1) as f64;
    run.bytes += (routed.load(Ordering::Relaxed) as f64 * share) as u64;
    Ok(run)
}

/// Keeps every choice, and the size of the first records.
struct Choices<'a> {
    names: &'a RecordNames,
    outcomes: &'a Outcomes,
    cluster: &'a Cluster,
    run: Replayed,
}

impl Sink for Choices<'_> {
    fn completed(&mut self, done: &Completion<'_>) -> ControlFlow<()> {
        self.run.choices.insert(done.request.id.0, (done.decision.adapter, done.replica));
        if let Some(word) = not_ok(done.outcome) {
            *self.run.not_ok.entry(word).or_insert(0) += 1;
        }
        self.note_place(done);
        let from_disk = done.adapter_load.is_some_and(|load| load.from >= Tier::Disk);
        self.run.loads_from_disk += u64::from(from_disk);
        if self.run.sized < SIZED {
            let row = serde_json::to_vec(&record(self.names, self.outcomes, done));
            self.run.bytes += row.map_or(0, |row| row.len() as u64 + 1);
            self.run.sized += 1;
        }
        ControlFlow::Continue(())
    }

    fn server(&mut self, row: &ServerRow) {
        if self.run.server_rows == 0 {
            self.run.server_row_bytes = serde_json::to_vec(row).map_or(0, |row| row.len() as u64 + 1);
        }
        self.run.server_rows += 1;
    }
}

impl Choices<'_> {
    /// Notes a request that was sent to a replica which can't serve it.
    fn note_place(&mut self, done: &Completion<'_>) {
        let Some(replica) = done.replica else { return };
        let (Some(merged), adapter) = (self.cluster.merged_into(replica), done.decision.adapter) else {
            return;
        };
        if !self.cluster.serves(replica, adapter) {
            let name = |id| self.names.adapters.label(id);
            let first = format!(
                "request {} for {} to replica {replica}, which serves {} only",
                done.request.id,
                name(adapter),
                name(Some(merged))
            );
            self.run.misplaced.get_or_insert((0, first)).0 += 1;
        }
    }
}

/// The word for an outcome other than a full answer.
fn not_ok(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Rejected => Some("rejected"),
        Outcome::Shed => Some("shed"),
        Outcome::TimedOut => Some("timed out"),
        Outcome::Failed => Some("failed"),
        Outcome::Unfinished => Some("unfinished"),
    }
}

fn diverge(level: &Level, arms: &[Replayed]) -> DivergenceLevel {
    let share = |differs: fn(&Choice, &Choice) -> Option<bool>| -> Vec<Vec<Option<f64>>> {
        let between = |a: &Replayed, b: &Replayed| {
            let both = a.choices.iter().filter_map(|(id, one)| b.choices.get(id).map(|other| (one, other)));
            let (mut count, mut differing) = (0u64, 0u64);
            for differs in both.filter_map(|(one, other)| differs(one, other)) {
                count += 1;
                differing += u64::from(differs);
            }
            (count > 0).then(|| differing as f64 / count as f64)
        };
        arms.iter().map(|a| arms.iter().map(|b| between(a, b)).collect()).collect()
    };
    DivergenceLevel {
        levels: level.values.clone(),
        requests: arms.iter().map(|run| run.choices.len() as u64).min().unwrap_or(0),
        adapter: share(|a, b| Some(a.0 != b.0)),
        // The oracle's bound has no place, so it can't be compared in where.
        replica: share(|a, b| Some(a.1? != b.1?)),
    }
}
